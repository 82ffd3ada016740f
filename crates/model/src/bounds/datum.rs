//! One value of one of the thirteen types, and its Iceberg single-value form.

use super::decimal;
use crate::ColumnType;
use std::cmp::Ordering;

/// A non-null value. Text and bytes are borrowed from where they were decoded.
///
/// # Units
/// Dates are days since 1970-01-01, times microseconds since midnight, timestamps microseconds since the epoch, decimals
/// unscaled.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "one variant a column type, named after it")]
pub enum Datum<'a> {
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
    String(&'a str),
    Uuid([u8; 16]),
    Binary(&'a [u8]),
}

/// Bytes that are no value of the column's type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{length} bytes are no single value of type {ty}")]
pub struct Undecodable {
    /// The column's type.
    pub ty: ColumnType,
    /// How many bytes there were.
    pub length: usize,
}

const MICROS_PER_DAY: i64 = 86_400_000_000;

impl<'a> Datum<'a> {
    /// Decodes single-value bytes of exactly the width of `ty`.
    ///
    /// A non-zero boolean reads true and a decimal may carry redundant sign bytes; [`Datum::encode`] writes the
    /// canonical form. NaN decodes, its bits kept.
    ///
    /// # Errors
    /// [`Undecodable`] for another width, text that is not UTF-8, a decimal with more digits than the type, or a time
    /// outside the day.
    ///
    /// # Source
    /// Iceberg specification, "Binary single-value serialization".
    pub fn decode(ty: ColumnType, bytes: &'a [u8]) -> Result<Self, Undecodable> {
        let value = match ty {
            ColumnType::Boolean => array(bytes).map(|[b]: [u8; 1]| Self::Boolean(b != 0)),
            ColumnType::Int => array(bytes).map(|b| Self::Int(i32::from_le_bytes(b))),
            ColumnType::Long => array(bytes).map(|b| Self::Long(i64::from_le_bytes(b))),
            ColumnType::Float => array(bytes).map(|b| Self::Float(f32::from_le_bytes(b))),
            ColumnType::Double => array(bytes).map(|b| Self::Double(f64::from_le_bytes(b))),
            ColumnType::Decimal(d) => {
                decimal::decode(bytes).filter(|v| decimal::fits(*v, d.precision)).map(Self::Decimal)
            }
            ColumnType::Date => array(bytes).map(|b| Self::Date(i32::from_le_bytes(b))),
            ColumnType::Time => {
                array(bytes).map(i64::from_le_bytes).filter(|v| (0..MICROS_PER_DAY).contains(v)).map(Self::Time)
            }
            ColumnType::Timestamp => array(bytes).map(|b| Self::Timestamp(i64::from_le_bytes(b))),
            ColumnType::Timestamptz => array(bytes).map(|b| Self::Timestamptz(i64::from_le_bytes(b))),
            ColumnType::String => std::str::from_utf8(bytes).ok().map(Self::String),
            ColumnType::Uuid => array(bytes).map(Self::Uuid),
            ColumnType::Binary => Some(Self::Binary(bytes)),
        };
        value.ok_or(Undecodable { ty, length: bytes.len() })
    }

    /// As [`Datum::decode`], and 4 bytes of a `long` or `double` column read as the `int` or `float` that it was
    /// promoted from.
    ///
    /// # Errors
    /// As [`Datum::decode`].
    pub fn decode_promoted(ty: ColumnType, bytes: &'a [u8]) -> Result<Self, Undecodable> {
        let narrow = match (ty, bytes.len()) {
            (ColumnType::Long, 4) => ColumnType::Int,
            (ColumnType::Double, 4) => ColumnType::Float,
            _ => return Self::decode(ty, bytes),
        };
        let value = Self::decode(narrow, bytes)?;
        Ok(value.widened(ty).unwrap_or(value))
    }

    /// The canonical single-value bytes.
    pub fn encode(self) -> Vec<u8> {
        match self {
            Self::Boolean(v) => vec![u8::from(v)],
            Self::Int(v) | Self::Date(v) => v.to_le_bytes().to_vec(),
            Self::Long(v) | Self::Time(v) | Self::Timestamp(v) | Self::Timestamptz(v) => v.to_le_bytes().to_vec(),
            Self::Float(v) => v.to_le_bytes().to_vec(),
            Self::Double(v) => v.to_le_bytes().to_vec(),
            Self::Decimal(v) => decimal::encode(v),
            Self::String(v) => v.as_bytes().to_vec(),
            Self::Uuid(v) => v.to_vec(),
            Self::Binary(v) => v.to_vec(),
        }
    }

    /// Orders two values of one type; none for values of two types.
    ///
    /// # Ordering
    /// Floats by IEEE 754 total order (`-NaN < -inf < -0.0 < +0.0 < inf < NaN`), text and bytes by unsigned bytes.
    pub fn compare(self, other: Datum<'_>) -> Option<Ordering> {
        Some(match (self, other) {
            (Self::Boolean(a), Datum::Boolean(b)) => a.cmp(&b),
            (Self::Int(a), Datum::Int(b)) | (Self::Date(a), Datum::Date(b)) => a.cmp(&b),
            (Self::Long(a), Datum::Long(b))
            | (Self::Time(a), Datum::Time(b))
            | (Self::Timestamp(a), Datum::Timestamp(b))
            | (Self::Timestamptz(a), Datum::Timestamptz(b)) => a.cmp(&b),
            (Self::Float(a), Datum::Float(b)) => a.total_cmp(&b),
            (Self::Double(a), Datum::Double(b)) => a.total_cmp(&b),
            (Self::Decimal(a), Datum::Decimal(b)) => a.cmp(&b),
            (Self::String(a), Datum::String(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Self::Uuid(a), Datum::Uuid(b)) => a.cmp(&b),
            (Self::Binary(a), Datum::Binary(b)) => a.cmp(b),
            _ => return None,
        })
    }

    /// The same value as a promoted column holds it: `int` to `long`, `float` to `double`, both exact. None for any
    /// other pair of types.
    pub fn widened(self, to: ColumnType) -> Option<Self> {
        match (self, to) {
            (Self::Int(v), ColumnType::Long) => Some(Self::Long(i64::from(v))),
            (Self::Float(v), ColumnType::Double) => Some(Self::Double(f64::from(v))),
            _ => None,
        }
    }

    /// Whether this is a float or double NaN.
    pub fn is_nan(self) -> bool {
        match self {
            Self::Float(v) => v.is_nan(),
            Self::Double(v) => v.is_nan(),
            _ => false,
        }
    }

    /// This value as a lower bound: zero becomes `-0.0`.
    pub fn as_lower(self) -> Self {
        match self {
            Self::Float(0.0) => Self::Float(-0.0),
            Self::Double(0.0) => Self::Double(-0.0),
            other => other,
        }
    }

    /// This value as an upper bound: zero becomes `+0.0`.
    pub fn as_upper(self) -> Self {
        match self {
            Self::Float(0.0) => Self::Float(0.0),
            Self::Double(0.0) => Self::Double(0.0),
            other => other,
        }
    }

    /// Whether the value belongs to a column of type `ty` (any precision, for decimals that fit).
    pub fn is_of(self, ty: ColumnType) -> bool {
        match (self, ty) {
            (Self::Decimal(v), ColumnType::Decimal(d)) => decimal::fits(v, d.precision),
            (Self::Boolean(_), ColumnType::Boolean)
            | (Self::Int(_), ColumnType::Int)
            | (Self::Long(_), ColumnType::Long)
            | (Self::Float(_), ColumnType::Float)
            | (Self::Double(_), ColumnType::Double)
            | (Self::Date(_), ColumnType::Date)
            | (Self::Time(_), ColumnType::Time)
            | (Self::Timestamp(_), ColumnType::Timestamp)
            | (Self::Timestamptz(_), ColumnType::Timestamptz)
            | (Self::String(_), ColumnType::String)
            | (Self::Uuid(_), ColumnType::Uuid)
            | (Self::Binary(_), ColumnType::Binary) => true,
            _ => false,
        }
    }
}

fn array<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}
