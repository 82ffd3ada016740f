//! Values written as text: the literals of filters and the partition values of files.
//!
//! Nothing here rounds silently. A literal that lies between two values of its column's type says so ([`Place`]), so
//! that `int_column < 1.5` and `ts >= '2026-01-01T00:00:00.0000005Z'` mean what they say.

mod number;
mod temporal;

pub use number::Number;
pub use temporal::{Instant, parse_date, parse_time, parse_timestamp};

use crate::{ColumnType, Datum};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// An owned value of one of the thirteen types; units as in [`Datum`].
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "one variant a column type, named after it")]
pub enum Constant {
    Boolean(bool),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Decimal(i128),
    Date(i32),
    Time(i64),
    Timestamp(i64),
    Timestamptz(i64),
    String(Box<str>),
    Uuid([u8; 16]),
    Binary(Box<[u8]>),
}

impl Constant {
    /// The value, borrowed.
    pub fn datum(&self) -> Datum<'_> {
        match self {
            Self::Boolean(v) => Datum::Boolean(*v),
            Self::Int(v) => Datum::Int(*v),
            Self::Long(v) => Datum::Long(*v),
            Self::Float(v) => Datum::Float(*v),
            Self::Double(v) => Datum::Double(*v),
            Self::Decimal(v) => Datum::Decimal(*v),
            Self::Date(v) => Datum::Date(*v),
            Self::Time(v) => Datum::Time(*v),
            Self::Timestamp(v) => Datum::Timestamp(*v),
            Self::Timestamptz(v) => Datum::Timestamptz(*v),
            Self::String(v) => Datum::String(v),
            Self::Uuid(v) => Datum::Uuid(*v),
            Self::Binary(v) => Datum::Binary(v),
        }
    }

    /// The bytes of a string or binary.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::String(v) => Some(v.as_bytes()),
            Self::Binary(v) => Some(v),
            _ => None,
        }
    }
}

/// Where a literal lies among the values of a column's type.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// On a value.
    On(Constant),
    /// Strictly above this value and below the next one.
    Above(Constant),
    /// Below every value of the type.
    BelowAll,
    /// Above every value of the type.
    AboveAll,
}

impl Place {
    /// The value, when the literal is one.
    pub fn exact(self) -> Option<Constant> {
        match self {
            Self::On(constant) => Some(constant),
            _ => None,
        }
    }
}

/// Places a number in an integer or decimal column; `None` for columns of other types.
pub fn place_number(ty: ColumnType, number: &Number) -> Option<Place> {
    let (scale, min, max) = match ty {
        ColumnType::Int => (0, i128::from(i32::MIN), i128::from(i32::MAX)),
        ColumnType::Long => (0, i128::from(i64::MIN), i128::from(i64::MAX)),
        ColumnType::Decimal(d) => {
            let max = 10_i128.checked_pow(u32::from(d.precision)).map_or(i128::MAX, |limit| limit - 1);
            (d.scale, -max, max)
        }
        _ => return None,
    };
    let Some((floor, exact)) = number.scaled(scale) else {
        return Some(if number.is_negative() { Place::BelowAll } else { Place::AboveAll });
    };
    let constant = match ty {
        ColumnType::Int => i32::try_from(floor).ok().map(Constant::Int),
        ColumnType::Long => i64::try_from(floor).ok().map(Constant::Long),
        _ => Some(Constant::Decimal(floor)),
    };
    Some(match constant {
        Some(constant) if (min..=max).contains(&floor) => {
            if exact {
                Place::On(constant)
            } else if floor == max {
                Place::AboveAll
            } else {
                Place::Above(constant)
            }
        }
        _ if floor < min => Place::BelowAll,
        _ => Place::AboveAll,
    })
}

/// Reads a temporal literal of type `ty`. A timestamp may carry a zero offset and a timestamptz must carry one.
///
/// # Errors
/// What is wrong with the text, as the end of a sentence.
pub fn place_temporal(ty: ColumnType, text: &str) -> Result<Place, &'static str> {
    let place = |micros: i64, exact: bool, constant: fn(i64) -> Constant| match exact {
        true => Place::On(constant(micros)),
        false => Place::Above(constant(micros)),
    };
    match ty {
        ColumnType::Date => {
            parse_date(text).map(|days| Place::On(Constant::Date(days))).ok_or("is no date; write it as '2026-01-31'")
        }
        ColumnType::Time => parse_time(text)
            .map(|(micros, exact)| place(micros, exact, Constant::Time))
            .ok_or("is no time of day; write it as '23:59:59.999999'"),
        ColumnType::Timestamp => match parse_timestamp(text) {
            Some(Instant { micros, exact, offset: None | Some(0) }) => Ok(place(micros, exact, Constant::Timestamp)),
            Some(_) => Err("has an offset, and the column is a timestamp without zone; leave the offset out"),
            None => Err("is no timestamp; write it as '2026-01-31T23:59:59.999999'"),
        },
        ColumnType::Timestamptz => match parse_timestamp(text) {
            Some(Instant { micros, exact, offset: Some(_) }) => Ok(place(micros, exact, Constant::Timestamptz)),
            Some(_) => Err("has no offset, and the column is a timestamptz; end it with 'Z' or '+00:00'"),
            None => Err("is no timestamp; write it as '2026-01-31T23:59:59.999999Z'"),
        },
        _ => Err("is no temporal value"),
    }
}

/// Reads a UUID, hyphenated or not, in any case.
pub fn parse_uuid(text: &str) -> Option<Constant> {
    uuid::Uuid::try_parse(text).ok().map(|uuid| Constant::Uuid(uuid.into_bytes()))
}

/// Reads standard base64, padded.
pub fn parse_binary(text: &str) -> Option<Constant> {
    STANDARD.decode(text).ok().map(|bytes| Constant::Binary(bytes.into()))
}
