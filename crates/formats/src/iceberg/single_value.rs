//! Single values as bytes and as JSON ("Appendix D: Single-value serialization").

use hoglake_model::table::{Primitive, Value};
use hoglake_model::{ColumnType, bounds::Datum};
use serde_json::{Value as Json, json};

/// Reads a bound of a column that is now of type `ty`; `None` for bytes that no such column can have written. A column
/// that was promoted may still carry bounds in its former width.
pub(super) fn from_bytes(ty: Primitive, bytes: &[u8]) -> Option<Value> {
    let column = match ty {
        Primitive::Boolean => ColumnType::Boolean,
        Primitive::Byte | Primitive::Short | Primitive::Int => ColumnType::Int,
        Primitive::Long => ColumnType::Long,
        Primitive::Float => ColumnType::Float,
        Primitive::Double => ColumnType::Double,
        Primitive::Decimal(decimal) => ColumnType::Decimal(decimal),
        Primitive::Date => ColumnType::Date,
        Primitive::Time => ColumnType::Time,
        // A date that became a timestamp has bounds of four bytes.
        Primitive::Timestamp | Primitive::Timestamptz if bytes.len() == 4 => {
            let days = i32::from_le_bytes(bytes.try_into().ok()?);
            return i64::from(days).checked_mul(86_400_000_000).map(Value::Timestamp);
        }
        Primitive::Timestamp | Primitive::Timestamptz => ColumnType::Timestamp,
        Primitive::TimestampNs | Primitive::TimestamptzNs => {
            return Some(Value::TimestampNs(i64::from_le_bytes(bytes.try_into().ok()?)));
        }
        Primitive::String => ColumnType::String,
        Primitive::Uuid => ColumnType::Uuid,
        Primitive::Fixed(length) => {
            return (usize::try_from(length) == Ok(bytes.len())).then(|| Value::Binary(bytes.into()));
        }
        Primitive::Binary => ColumnType::Binary,
        Primitive::Variant | Primitive::Unknown => return None,
    };
    Some(match (Datum::decode_promoted(column, bytes).ok()?, ty) {
        (Datum::Boolean(v), _) => Value::Boolean(v),
        (Datum::Int(v), _) => Value::Int(v),
        (Datum::Long(v), _) => Value::Long(v),
        (Datum::Float(v), _) => Value::Float(v),
        (Datum::Double(v), _) => Value::Double(v),
        (Datum::Decimal(unscaled), Primitive::Decimal(d)) => Value::Decimal { unscaled, scale: d.scale },
        (Datum::Date(v), _) => Value::Date(v),
        (Datum::Time(v), _) => Value::Time(v),
        (Datum::Timestamp(v) | Datum::Timestamptz(v), _) => Value::Timestamp(v),
        (Datum::String(v), _) => Value::String(v.into()),
        (Datum::Uuid(v), _) => Value::Uuid(u128::from_be_bytes(v)),
        (Datum::Binary(v), _) => Value::Binary(v.into()),
        _ => return None,
    })
}

/// Appends a value as bytes. Zeros get the sign that includes both.
pub(super) fn to_bytes(value: &Value, lower: bool, out: &mut Vec<u8>) {
    match value {
        Value::Boolean(v) => out.push(u8::from(*v)),
        Value::Int(v) | Value::Date(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Long(v) | Value::Time(v) | Value::Timestamp(v) | Value::TimestampNs(v) => {
            out.extend_from_slice(&v.to_le_bytes());
        }
        Value::Float(v) => {
            let v = if *v == 0.0 { if lower { -0.0 } else { 0.0 } } else { *v };
            out.extend_from_slice(&v.to_le_bytes());
        }
        Value::Double(v) => {
            let v = if *v == 0.0 { if lower { -0.0 } else { 0.0 } } else { *v };
            out.extend_from_slice(&v.to_le_bytes());
        }
        Value::Decimal { unscaled, .. } => {
            let bytes = unscaled.to_be_bytes();
            out.extend_from_slice(&bytes[16 - minimal_length(*unscaled)..]);
        }
        Value::String(v) => out.extend_from_slice(v.as_bytes()),
        Value::Uuid(v) => out.extend_from_slice(&v.to_be_bytes()),
        Value::Binary(v) => out.extend_from_slice(v),
    }
}

/// Bytes of the shortest two's complement form.
fn minimal_length(unscaled: i128) -> usize {
    let significant = if unscaled < 0 { !unscaled } else { unscaled };
    usize::try_from((128 - significant.leading_zeros()) / 8 + 1).unwrap_or(16).min(16)
}

/// Bytes of the fixed type that holds every decimal of this precision ("Parquet" and "Avro" appendices).
pub(super) fn decimal_fixed_length(precision: u8) -> usize {
    let largest = 10_u128.checked_pow(precision.into()).map_or(u128::MAX, |n| n - 1);
    usize::try_from((128 - largest.leading_zeros()) / 8 + 1).unwrap_or(16).min(16)
}

/// Reads a default value.
pub(super) fn from_json(ty: Primitive, json: &Json) -> Option<Value> {
    Some(match ty {
        Primitive::Boolean => Value::Boolean(json.as_bool()?),
        Primitive::Byte | Primitive::Short | Primitive::Int => Value::Int(i32::try_from(json.as_i64()?).ok()?),
        Primitive::Long => Value::Long(json.as_i64()?),
        #[expect(clippy::cast_possible_truncation, reason = "a float's default was a float when it was written")]
        Primitive::Float => Value::Float(json.as_f64()? as f32),
        Primitive::Double => Value::Double(json.as_f64()?),
        Primitive::Decimal(d) => {
            let text = json.as_str()?;
            let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
            if fraction.len() != usize::from(d.scale) {
                return None;
            }
            Value::Decimal { unscaled: format!("{whole}{fraction}").parse().ok()?, scale: d.scale }
        }
        Primitive::Date => {
            let date: chrono::NaiveDate = json.as_str()?.parse().ok()?;
            Value::Date(i32::try_from(date.signed_duration_since(chrono::NaiveDate::default()).num_days()).ok()?)
        }
        Primitive::Time => {
            let time: chrono::NaiveTime = json.as_str()?.parse().ok()?;
            Value::Time(time.signed_duration_since(chrono::NaiveTime::default()).num_microseconds()?)
        }
        Primitive::Timestamp | Primitive::Timestamptz => Value::Timestamp(instant(json.as_str()?)?.timestamp_micros()),
        Primitive::TimestampNs | Primitive::TimestamptzNs => {
            Value::TimestampNs(instant(json.as_str()?)?.timestamp_nanos_opt()?)
        }
        Primitive::String => Value::String(json.as_str()?.into()),
        Primitive::Uuid => Value::Uuid(uuid::Uuid::parse_str(json.as_str()?).ok()?.as_u128()),
        Primitive::Fixed(_) | Primitive::Binary => {
            let text = json.as_str()?.as_bytes();
            let pairs = text.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
            Value::Binary(pairs.collect::<Option<Vec<u8>>>()?.into())
        }
        Primitive::Variant | Primitive::Unknown => return None,
    })
}

fn instant(text: &str) -> Option<chrono::DateTime<chrono::Utc>> {
    if let Ok(zoned) = chrono::DateTime::parse_from_rfc3339(text) {
        return Some(zoned.to_utc());
    }
    text.parse::<chrono::NaiveDateTime>().ok().map(|naive| naive.and_utc())
}

/// Writes a default value.
pub(super) fn to_json(ty: Primitive, value: &Value) -> Json {
    let zoned = matches!(ty, Primitive::Timestamptz | Primitive::TimestamptzNs);
    let stamp = |instant: Option<chrono::DateTime<chrono::Utc>>, format: &str| {
        let text = instant.unwrap_or_default().format(format).to_string();
        json!(if zoned { format!("{text}+00:00") } else { text })
    };
    match value {
        Value::Boolean(v) => json!(v),
        Value::Int(v) => json!(v),
        Value::Long(v) => json!(v),
        Value::Float(v) => json!(v),
        Value::Double(v) => json!(v),
        Value::Decimal { unscaled, scale } => {
            let scale = usize::from(*scale);
            let digits = format!("{:0width$}", unscaled.unsigned_abs(), width = scale + 1);
            let (whole, fraction) = digits.split_at(digits.len() - scale);
            let sign = if *unscaled < 0 { "-" } else { "" };
            json!(if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") })
        }
        Value::Date(v) => {
            let date = chrono::NaiveDate::default().checked_add_signed(chrono::Duration::days((*v).into()));
            json!(date.unwrap_or_default().format("%Y-%m-%d").to_string())
        }
        Value::Time(v) => {
            let time = chrono::NaiveTime::default() + chrono::Duration::microseconds(*v);
            json!(time.format("%H:%M:%S%.6f").to_string())
        }
        Value::Timestamp(v) => stamp(chrono::DateTime::from_timestamp_micros(*v), "%Y-%m-%dT%H:%M:%S%.6f"),
        Value::TimestampNs(v) => stamp(Some(chrono::DateTime::from_timestamp_nanos(*v)), "%Y-%m-%dT%H:%M:%S%.9f"),
        Value::String(v) => json!(v),
        Value::Uuid(v) => json!(uuid::Uuid::from_u128(*v).to_string()),
        Value::Binary(v) => json!(v.iter().map(|b| format!("{b:02x}")).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoglake_model::DecimalType;

    const DECIMAL: Primitive = Primitive::Decimal(DecimalType { precision: 9, scale: 2 });

    #[test]
    fn values_survive_as_bytes_and_as_json() {
        for (ty, value) in [
            (Primitive::Boolean, Value::Boolean(true)),
            (Primitive::Int, Value::Int(-5)),
            (Primitive::Long, Value::Long(i64::MIN)),
            (Primitive::Double, Value::Double(2.5)),
            (DECIMAL, Value::Decimal { unscaled: -5, scale: 2 }),
            (DECIMAL, Value::Decimal { unscaled: 128, scale: 2 }),
            (Primitive::Date, Value::Date(-1)),
            (Primitive::Time, Value::Time(86_399_999_999)),
            (Primitive::Timestamptz, Value::Timestamp(-1)),
            (Primitive::TimestampNs, Value::TimestampNs(1_577_836_800_000_000_001)),
            (Primitive::String, Value::String("é".into())),
            (Primitive::Uuid, Value::Uuid(1)),
            (Primitive::Fixed(2), Value::Binary([0, 255].into())),
        ] {
            let mut bytes = Vec::new();
            to_bytes(&value, true, &mut bytes);
            assert_eq!(from_bytes(ty, &bytes), Some(value.clone()), "{ty}");
            assert_eq!(from_json(ty, &to_json(ty, &value)), Some(value), "{ty}");
        }
    }

    #[test]
    fn widths_are_those_of_the_specification() {
        for (unscaled, length) in [(0, 1), (127, 1), (128, 2), (-128, 1), (-129, 2), (i128::MAX, 16), (i128::MIN, 16)] {
            let mut bytes = Vec::new();
            to_bytes(&Value::Decimal { unscaled, scale: 0 }, true, &mut bytes);
            assert_eq!(bytes.len(), length, "{unscaled}");
        }
        for (precision, length) in [(1, 1), (2, 1), (3, 2), (4, 2), (9, 4), (18, 8), (19, 9), (38, 16)] {
            assert_eq!(decimal_fixed_length(precision), length, "{precision}");
        }
        assert_eq!(from_bytes(Primitive::Long, &7_i32.to_le_bytes()), Some(Value::Long(7)));
        assert_eq!(from_bytes(Primitive::Timestamp, &1_i32.to_le_bytes()), Some(Value::Timestamp(86_400_000_000)));
        assert_eq!(from_bytes(Primitive::Int, &[0; 8]), None);
    }
}
