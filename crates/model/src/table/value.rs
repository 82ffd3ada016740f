//! Typed single values: bounds, partition values, defaults.

use std::cmp::Ordering;

/// A non-null value of a leaf column or of a partition transform.
///
/// The variant follows the storage class, not the declared type: `Byte`, `Short` and `Int` columns hold
/// [`Value::Int`], both timestamp types of one unit hold the same variant. Small integers are widened where a column
/// was promoted after the value was recorded.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Boolean.
    Boolean(bool),
    /// Byte, short, int; the result of year, month, hour and bucket transforms.
    Int(i32),
    /// Long.
    Long(i64),
    /// Float.
    Float(f32),
    /// Double.
    Double(f64),
    /// `unscaled / 10^scale`.
    Decimal {
        /// The digits.
        unscaled: i128,
        /// Digits after the point.
        scale: u8,
    },
    /// Days since 1970-01-01; also the result of the day transform.
    Date(i32),
    /// Microseconds since midnight.
    Time(i64),
    /// Microseconds since the epoch, with or without zone.
    Timestamp(i64),
    /// Nanoseconds since the epoch, with or without zone.
    TimestampNs(i64),
    /// UTF-8.
    String(Box<str>),
    /// 16 bytes read as a big-endian number.
    Uuid(u128),
    /// Binary and fixed.
    Binary(Box<[u8]>),
}

impl Value {
    /// Compares two values of one storage class; `None` across classes, for NaN, and for decimals of two scales.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        Some(match (self, other) {
            (Self::Boolean(a), Self::Boolean(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b)) | (Self::Date(a), Self::Date(b)) => a.cmp(b),
            (Self::Long(a), Self::Long(b))
            | (Self::Time(a), Self::Time(b))
            | (Self::Timestamp(a), Self::Timestamp(b))
            | (Self::TimestampNs(a), Self::TimestampNs(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => return a.partial_cmp(b),
            (Self::Double(a), Self::Double(b)) => return a.partial_cmp(b),
            (Self::Decimal { unscaled: a, scale: x }, Self::Decimal { unscaled: b, scale: y }) if x == y => a.cmp(b),
            (Self::String(a), Self::String(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Self::Uuid(a), Self::Uuid(b)) => a.cmp(b),
            (Self::Binary(a), Self::Binary(b)) => a.cmp(b),
            _ => return None,
        })
    }

    /// Whether this is a NaN, which is never a bound.
    pub fn is_nan(&self) -> bool {
        matches!(self, Self::Float(f) if f.is_nan()) || matches!(self, Self::Double(d) if d.is_nan())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_compare_by_bytes_and_nan_by_nothing() {
        let string = |s: &str| Value::String(s.into());
        assert_eq!(string("a").compare(&string("\u{10000}")), Some(Ordering::Less));
        assert_eq!(string("\u{e000}").compare(&string("\u{10000}")), Some(Ordering::Less));
        assert_eq!(Value::Double(f64::NAN).compare(&Value::Double(1.0)), None);
        assert_eq!(Value::Int(1).compare(&Value::Long(1)), None);
    }
}
