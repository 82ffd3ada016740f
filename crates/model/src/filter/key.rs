//! Eight bytes that stand for a bound: small enough to keep a million of them in memory, ordered as the values are.
//!
//! A key is monotone: `a <= b` implies `key(a) <= key(b)`. For fixed-width types it is the value itself, so that a key
//! test is as good as the bounds; for strings, binaries, UUIDs and decimals it is a prefix, and a file that passes may
//! still be ruled out by its bounds ([`KeyTest::is_exact`]). An unknown lower bound is the smallest key and an unknown
//! upper bound the largest, which widens and never narrows.

use super::predicate::{Leaf, Test};
use crate::literal::Constant;
use crate::{ColumnType, Comparison, Datum};
use std::cmp::Ordering;

/// The column may hold nulls in the file.
pub const MAY_BE_NULL: u8 = 1;
/// The column may hold values in the file.
pub const MAY_BE_PRESENT: u8 = 2;
/// The column may hold NaNs in the file.
pub const MAY_BE_NAN: u8 = 4;

/// What is kept of one column in one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileKeys {
    /// Key of the lower bound.
    pub lower: u64,
    /// Key of the upper bound.
    pub upper: u64,
    /// `MAY_BE_*`.
    pub flags: u8,
}

impl FileKeys {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { lower: 0, upper: u64::MAX, flags: MAY_BE_NULL | MAY_BE_PRESENT | MAY_BE_NAN };
}

/// How values of one column become keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// Skipped where a string or binary starts with it.
    common: Box<[u8]>,
}

impl Keys {
    /// Keys of strings and binaries that mostly start with `common`, which costs no key space then. Other types ignore it.
    pub fn new(common: impl Into<Box<[u8]>>) -> Self {
        Self { common: common.into() }
    }

    /// The common start that was given.
    pub fn common(&self) -> &[u8] {
        &self.common
    }

    /// The keys of a file, from stored counts and bounds. 4-byte bounds of a promoted column are widened; a bound that
    /// cannot be decoded, and bounds that contradict each other, are unknown.
    pub fn of_file(
        &self,
        ty: ColumnType,
        value_count: Option<i64>,
        null_count: Option<i64>,
        nan_count: Option<i64>,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
    ) -> FileKeys {
        let present = match (value_count, null_count) {
            (Some(values), Some(nulls)) => values > nulls,
            (Some(values), None) => values > 0,
            (None, _) => true,
        };
        let mut flags = 0;
        if null_count != Some(0) {
            flags |= MAY_BE_NULL;
        }
        if present {
            flags |= MAY_BE_PRESENT;
        }
        if matches!(ty, ColumnType::Float | ColumnType::Double) && nan_count != Some(0) {
            flags |= MAY_BE_NAN;
        }
        fn decode(ty: ColumnType, bound: Option<&[u8]>) -> Option<Datum<'_>> {
            Datum::decode_promoted(ty, bound?).ok()
        }
        let unknown = FileKeys { lower: 0, upper: u64::MAX, flags };
        let (lower, upper) = (decode(ty, lower), decode(ty, upper));
        if lower.is_some_and(Datum::is_nan) || upper.is_some_and(Datum::is_nan) {
            return unknown;
        }
        if let (Some(l), Some(u)) = (lower, upper)
            && l.as_lower().compare(u.as_upper()).is_none_or(Ordering::is_gt)
        {
            return unknown;
        }
        FileKeys {
            lower: lower.map_or(0, |datum| self.key(datum.as_lower())),
            upper: upper.map_or(u64::MAX, |datum| self.key(datum.as_upper())),
            flags,
        }
    }

    fn key(&self, value: Datum<'_>) -> u64 {
        match value {
            Datum::Boolean(v) => u64::from(v) + 1,
            Datum::Int(v) | Datum::Date(v) => signed(i64::from(v)),
            Datum::Long(v) | Datum::Time(v) | Datum::Timestamp(v) | Datum::Timestamptz(v) => signed(v),
            Datum::Float(v) => floating(f64::from(v)),
            Datum::Double(v) => floating(v),
            Datum::Decimal(v) => signed(i64::try_from(v).unwrap_or(if v < 0 { i64::MIN } else { i64::MAX })),
            Datum::String(v) => self.prefix(v.as_bytes(), 0),
            Datum::Binary(v) => self.prefix(v, 0),
            Datum::Uuid(v) => start(&v, 0),
        }
    }

    /// The first eight bytes after the common start, filled up with `fill`.
    fn prefix(&self, bytes: &[u8], fill: u8) -> u64 {
        let shared = bytes.len().min(self.common.len());
        match bytes[..shared].cmp(&self.common[..shared]) {
            Ordering::Less => 0,
            Ordering::Greater => u64::MAX,
            Ordering::Equal if shared < self.common.len() => {
                if fill == 0 {
                    0
                } else {
                    u64::MAX
                }
            }
            Ordering::Equal => start(&bytes[shared..], fill),
        }
    }

    /// The test of a leaf against keys.
    pub fn test(&self, leaf: &Leaf) -> KeyTest {
        use Comparison::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        let exact = is_exact(leaf.ty);
        let step = u64::from(exact);
        let low = |c: &Constant| self.key(c.datum().as_lower());
        let high = |c: &Constant| self.key(c.datum().as_upper());
        let is_float = matches!(leaf.ty, ColumnType::Float | ColumnType::Double);
        let fits = |c: &Constant| c.datum().is_of(leaf.ty) && !c.datum().is_nan();
        let kind = match &leaf.test {
            Test::IsNull => return KeyTest { kind: Kind::Null, nan: false, exact: true },
            Test::NotNull => return KeyTest { kind: Kind::Present, nan: false, exact: true },
            Test::Compare { constant, .. } if !fits(constant) => Kind::Present,
            Test::In(list) | Test::NotIn(list) if !list.iter().all(fits) => Kind::Present,
            Test::Compare { comparison, constant, .. } => match comparison {
                Eq => Kind::Within(vec![(low(constant), high(constant))]),
                NotEq if exact => Kind::Outside(vec![(low(constant), high(constant))]),
                NotEq => Kind::Present,
                Lt => match high(constant).checked_sub(step) {
                    Some(end) => Kind::Within(vec![(0, end)]),
                    None => Kind::Within(Vec::new()),
                },
                LtEq => Kind::Within(vec![(0, high(constant))]),
                Gt => match low(constant).checked_add(step) {
                    Some(begin) => Kind::Within(vec![(begin, u64::MAX)]),
                    None => Kind::Within(Vec::new()),
                },
                GtEq => Kind::Within(vec![(low(constant), u64::MAX)]),
            },
            Test::In(list) => {
                let mut points: Vec<_> = list.iter().map(|c| (low(c), high(c))).collect();
                points.sort_unstable();
                points.dedup();
                Kind::Within(points)
            }
            Test::NotIn(list) if exact => Kind::Outside(list.iter().map(|c| (low(c), high(c))).collect()),
            Test::StartsWith(prefix) => match prefix.bytes() {
                Some(bytes) => Kind::Within(vec![(self.prefix(bytes, 0), self.prefix(bytes, 0xff))]),
                None => Kind::Present,
            },
            Test::NotIn(_) | Test::NotStartsWith(_) => Kind::Present,
        };
        let nan = is_float
            && match &leaf.test {
                Test::Compare { comparison, nan, .. } => *nan || matches!(comparison, NotEq | Gt | GtEq),
                Test::NotIn(_) => true,
                _ => false,
            };
        let settled = exact && !matches!(kind, Kind::Present);
        KeyTest { kind, nan, exact: settled }
    }
}

/// A leaf as a test of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyTest {
    kind: Kind,
    /// Whether a file that may hold NaN passes.
    nan: bool,
    exact: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Null,
    Present,
    /// The bounds meet one of these closed intervals, which are sorted.
    Within(Vec<(u64, u64)>),
    /// The bounds do not lie inside one of these closed intervals.
    Outside(Vec<(u64, u64)>),
}

impl KeyTest {
    /// Whether some row of a file with these keys may pass. False is a proof.
    pub fn may_match(&self, file: FileKeys) -> bool {
        let present = file.flags & MAY_BE_PRESENT != 0;
        match &self.kind {
            Kind::Null => file.flags & MAY_BE_NULL != 0,
            Kind::Present => present,
            Kind::Within(intervals) => {
                present && (self.nan && file.flags & MAY_BE_NAN != 0 || meets(intervals, file.lower, file.upper))
            }
            Kind::Outside(intervals) => {
                present
                    && (self.nan && file.flags & MAY_BE_NAN != 0
                        || !intervals.iter().any(|(begin, end)| *begin <= file.lower && file.upper <= *end))
            }
        }
    }

    /// Whether the file's bounds themselves could not rule out more.
    pub fn is_exact(&self) -> bool {
        self.exact
    }
}

/// Whether `[lower, upper]` meets one of the intervals, sorted by begin and, being points or one range, by end.
fn meets(intervals: &[(u64, u64)], lower: u64, upper: u64) -> bool {
    match intervals {
        [(begin, end)] => *begin <= upper && lower <= *end,
        _ => {
            let first = intervals.partition_point(|(_, end)| *end < lower);
            intervals.get(first).is_some_and(|(begin, _)| *begin <= upper)
        }
    }
}

/// Whether two values of the type never share a key.
const fn is_exact(ty: ColumnType) -> bool {
    !matches!(ty, ColumnType::String | ColumnType::Binary | ColumnType::Uuid | ColumnType::Decimal(_))
}

fn signed(value: i64) -> u64 {
    value.cast_unsigned() ^ (1 << 63)
}

/// IEEE 754 total order.
fn floating(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | (1 << 63) }
}

fn start(bytes: &[u8], fill: u8) -> u64 {
    let mut first = [fill; 8];
    let length = bytes.len().min(8);
    first[..length].copy_from_slice(&bytes[..length]);
    u64::from_be_bytes(first)
}
