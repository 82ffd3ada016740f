//! Values in the names of partition directories, as Hive, Spark and Hudi write them.

use hoglake_model::DecimalType;
use hoglake_model::table::{Primitive, Value};

/// What stands for null.
pub const HIVE_NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// Reads a partition value of a directory's name as a type.
pub fn parse(text: &str, ty: Primitive) -> Option<Value> {
    Some(match ty {
        Primitive::Boolean => Value::Boolean(text.parse().ok()?),
        Primitive::Byte | Primitive::Short | Primitive::Int => Value::Int(text.parse().ok()?),
        Primitive::Long => Value::Long(text.parse().ok()?),
        Primitive::Float => Value::Float(text.parse().ok().filter(|f: &f32| !f.is_nan())?),
        Primitive::Double => Value::Double(text.parse().ok().filter(|f: &f64| !f.is_nan())?),
        Primitive::Date => Value::Date(date(text)?),
        Primitive::Timestamp | Primitive::Timestamptz => Value::Timestamp(timestamp(text)?),
        Primitive::String => Value::String(text.into()),
        Primitive::Decimal(d) => decimal(text, d)?,
        _ => return None,
    })
}

fn date(text: &str) -> Option<i32> {
    if text.len() != 10 {
        return None;
    }
    let date = chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    i32::try_from(date.signed_duration_since(chrono::NaiveDate::default()).num_days()).ok()
}

fn timestamp(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f"]
        .iter()
        .find_map(|format| chrono::NaiveDateTime::parse_from_str(text, format).ok())
        .map(|t| t.and_utc().timestamp_micros())
}

fn decimal(text: &str, ty: DecimalType) -> Option<Value> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let scale = usize::from(ty.scale);
    if fraction.len() > scale || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits = format!("{whole}{fraction:0<scale$}");
    Some(Value::Decimal { unscaled: digits.parse().ok()?, scale: ty.scale })
}
