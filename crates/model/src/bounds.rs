//! Column bounds: the smallest and largest value of a column in a file, in Iceberg's single-value form.
//!
//! Three users share this module. A commit sanitises what a client claims ([`Bounds::sanitised`],
//! [`ColumnStats::sanitised`]); the hydrator and compaction fold values or row groups into bounds ([`BoundsBuilder`]);
//! scan planning asks whether a file may hold a value ([`ColumnStats::may_match`]).
//!
//! **Architecture invariant:** a [`Bounds`] never holds a doubtful bound. A bound that cannot be decoded, has another
//! width, is NaN, or contradicts the other one is absent, which costs a file read and never a row.
//!
//! # Ordering
//! Numbers by value, floats by IEEE 754 total order without NaN, strings, binaries and UUIDs by unsigned bytes. Zero has
//! two signs and engines order them differently, so that a lower zero is always held as `-0.0` and an upper one as
//! `+0.0`.

mod datum;
mod decimal;
mod statistics;
#[cfg(test)]
mod tests;

pub use datum::{Datum, Undecodable};
pub use statistics::{ClaimedStats, ColumnStats, Comparison};

use crate::ColumnType;
use std::cmp::Ordering;

/// The bounds of the non-null, non-NaN values of one column in one file, as canonical single-value bytes.
///
/// Both are inclusive. Either may be absent, which means unknown, not unbounded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bounds {
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
}

impl Bounds {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { lower: None, upper: None };

    /// Keeps of two claimed bounds what is beyond doubt, and brings it into canonical form.
    ///
    /// An undecodable bound is dropped alone. A NaN, or a lower bound above the upper one, drops both: the fold that
    /// produced them compared wrongly, and the other bound came out of the same fold.
    pub fn sanitised(ty: ColumnType, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Self {
        Self::from_datums(
            lower.and_then(|bytes| Datum::decode(ty, bytes).ok()),
            upper.and_then(|bytes| Datum::decode(ty, bytes).ok()),
        )
    }

    /// As [`Bounds::sanitised`], from decoded values of one type.
    pub fn from_datums(lower: Option<Datum<'_>>, upper: Option<Datum<'_>>) -> Self {
        if lower.is_some_and(Datum::is_nan) || upper.is_some_and(Datum::is_nan) {
            return Self::UNKNOWN;
        }
        let lower = lower.map(Datum::as_lower);
        let upper = upper.map(Datum::as_upper);
        if let (Some(l), Some(u)) = (lower, upper)
            && !matches!(l.compare(u), Some(Ordering::Less | Ordering::Equal))
        {
            return Self::UNKNOWN;
        }
        Self { lower: lower.map(Datum::encode), upper: upper.map(Datum::encode) }
    }

    /// Reads bounds back that were stored when the column may still have been `int` or `float`: 4-byte bounds of a
    /// `long` or `double` column are widened, everything else is as in [`Bounds::sanitised`].
    pub fn stored(ty: ColumnType, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Self {
        Self::from_datums(
            lower.and_then(|bytes| Datum::decode_promoted(ty, bytes).ok()),
            upper.and_then(|bytes| Datum::decode_promoted(ty, bytes).ok()),
        )
    }

    /// The lower bound's bytes.
    pub fn lower(&self) -> Option<&[u8]> {
        self.lower.as_deref()
    }

    /// The upper bound's bytes.
    pub fn upper(&self) -> Option<&[u8]> {
        self.upper.as_deref()
    }

    /// Both bounds' bytes, lower first.
    pub fn into_parts(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        (self.lower, self.upper)
    }

    /// Whether neither bound is known.
    pub fn is_unknown(&self) -> bool {
        self.lower.is_none() && self.upper.is_none()
    }

    /// Shortens bounds of `string` and `binary` columns to at most `max_bytes`, keeping them valid: the lower one is cut
    /// (at a character), the upper one is cut and its last character or byte incremented, or dropped where none can be.
    /// Bounds of other types are left alone.
    pub fn truncated(self, ty: ColumnType, max_bytes: usize) -> Self {
        let Self { lower, upper } = self;
        match ty {
            ColumnType::String => Self {
                lower: lower.and_then(|b| truncate_string_lower(b, max_bytes)),
                upper: upper.and_then(|b| truncate_string_upper(b, max_bytes)),
            },
            ColumnType::Binary => Self {
                lower: lower.map(|mut b| {
                    b.truncate(max_bytes);
                    b
                }),
                upper: upper.and_then(|b| truncate_binary_upper(b, max_bytes)),
            },
            _ => Self { lower, upper },
        }
    }
}

fn truncate_string_lower(bytes: Vec<u8>, max_bytes: usize) -> Option<Vec<u8>> {
    let mut text = String::from_utf8(bytes).ok()?;
    text.truncate(text.floor_char_boundary(max_bytes));
    Some(text.into_bytes())
}

/// The smallest string of at most `max_bytes` that is above every string starting with the cut one.
fn truncate_string_upper(bytes: Vec<u8>, max_bytes: usize) -> Option<Vec<u8>> {
    if bytes.len() <= max_bytes {
        return Some(bytes);
    }
    let text = String::from_utf8(bytes).ok()?;
    let mut kept: Vec<char> = text[..text.floor_char_boundary(max_bytes)].chars().collect();
    while let Some(last) = kept.pop() {
        if let Some(next) = next_char(last) {
            // An incremented character may need one byte more than the cut one; a further character goes then.
            let length: usize = kept.iter().map(|c| c.len_utf8()).sum();
            if length + next.len_utf8() <= max_bytes {
                kept.push(next);
                return Some(kept.into_iter().collect::<String>().into_bytes());
            }
        }
    }
    None
}

/// The character whose UTF-8 bytes follow those of `c`: the next code point, surrogates skipped.
fn next_char(c: char) -> Option<char> {
    match c {
        '\u{d7ff}' => Some('\u{e000}'),
        c => char::from_u32(u32::from(c) + 1),
    }
}

fn truncate_binary_upper(mut bytes: Vec<u8>, max_bytes: usize) -> Option<Vec<u8>> {
    if bytes.len() <= max_bytes {
        return Some(bytes);
    }
    bytes.truncate(max_bytes);
    while let Some(last) = bytes.pop() {
        if let Some(next) = last.checked_add(1) {
            bytes.push(next);
            return Some(bytes);
        }
    }
    None
}

/// Folds values, or the bounds of parts (row groups, pages, files), into the bounds of the whole.
///
/// A part without a bound makes that side of the whole unknown. A part without any non-null value has nothing to bound
/// and is simply not added.
#[derive(Debug, Clone, Default)]
pub struct BoundsBuilder {
    lower: Side,
    upper: Side,
}

#[derive(Debug, Clone, Default)]
enum Side {
    #[default]
    Empty,
    Known(Vec<u8>),
    Unknown,
}

impl BoundsBuilder {
    /// Nothing folded yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Folds the bounds of a part that holds at least one non-null, non-NaN value of type `ty`.
    pub fn part(&mut self, ty: ColumnType, part: &Bounds) {
        self.lower.fold(ty, part.lower(), Ordering::Less);
        self.upper.fold(ty, part.upper(), Ordering::Greater);
    }

    /// Folds the decoded bounds of a part, after the checks of [`Bounds::from_datums`].
    pub fn part_datums(&mut self, ty: ColumnType, lower: Option<Datum<'_>>, upper: Option<Datum<'_>>) {
        self.part(ty, &Bounds::from_datums(lower, upper));
    }

    /// Folds one non-null value. NaN is skipped, since bounds are those of the other values.
    pub fn value(&mut self, ty: ColumnType, value: Datum<'_>) {
        if !value.is_nan() {
            self.part_datums(ty, Some(value), Some(value));
        }
    }

    /// Records a part of which nothing is known.
    pub fn unknown(&mut self) {
        self.lower = Side::Unknown;
        self.upper = Side::Unknown;
    }

    /// The bounds of everything folded; unknown where nothing was.
    pub fn finish(self) -> Bounds {
        Bounds { lower: self.lower.into_known(), upper: self.upper.into_known() }
    }
}

impl Side {
    /// Takes `candidate` over what is held if it compares as `wins`.
    fn fold(&mut self, ty: ColumnType, candidate: Option<&[u8]>, wins: Ordering) {
        let Some(candidate) = candidate else {
            *self = Self::Unknown;
            return;
        };
        let replaces = match self {
            Self::Unknown => return,
            Self::Empty => true,
            Self::Known(held) => match (Datum::decode(ty, candidate), Datum::decode(ty, held)) {
                (Ok(c), Ok(h)) => c.compare(h) == Some(wins),
                _ => {
                    *self = Self::Unknown;
                    return;
                }
            },
        };
        if replaces {
            *self = Self::Known(candidate.to_vec());
        }
    }

    fn into_known(self) -> Option<Vec<u8>> {
        match self {
            Self::Known(bytes) => Some(bytes),
            Self::Empty | Self::Unknown => None,
        }
    }
}
