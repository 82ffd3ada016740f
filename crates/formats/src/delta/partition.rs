//! Partition values as strings ("Partition Value Serialization") and decimals as text.

use super::time;
use hoglake_model::table::{Primitive, Value};

/// Reads the value of a partition column; `Ok(None)` is null.
///
/// An empty string is null for every type, strings included ("An empty string for any type translates to a null
/// partition value").
///
/// # Errors
/// The rule that the text breaks.
pub(super) fn parse(ty: Primitive, text: Option<&str>) -> Result<Option<Value>, String> {
    let Some(text) = text.filter(|t| !t.is_empty()) else { return Ok(None) };
    let value = match ty {
        Primitive::Boolean if text.eq_ignore_ascii_case("true") => Some(Value::Boolean(true)),
        Primitive::Boolean if text.eq_ignore_ascii_case("false") => Some(Value::Boolean(false)),
        Primitive::Byte | Primitive::Short | Primitive::Int => text.parse().ok().map(Value::Int),
        Primitive::Long => text.parse().ok().map(Value::Long),
        Primitive::Float => text.parse().ok().map(Value::Float),
        Primitive::Double => text.parse().ok().map(Value::Double),
        Primitive::Decimal(d) => {
            parse_decimal(text, d.scale).map(|unscaled| Value::Decimal { unscaled, scale: d.scale })
        }
        Primitive::Date => time::parse_date(text).map(Value::Date),
        // Without a zone the writer's own is meant, which nobody knows; UTC is what all current writers use.
        Primitive::Timestamptz | Primitive::Timestamp => time::parse_stamp(text).map(|s| Value::Timestamp(s.micros)),
        Primitive::String => Some(Value::String(text.into())),
        Primitive::Binary => Some(Value::Binary(binary(text))),
        _ => None,
    };
    value.map(Some).ok_or_else(|| format!("partition value {text:?} is no {ty}"))
}

/// "Encoded as a string of escaped binary values": the characters' code points are the bytes, unless a writer put
/// UTF-8 text there.
fn binary(text: &str) -> Box<[u8]> {
    if let Some(bytes) = unescape(text) {
        return bytes;
    }
    text.chars()
        .map(|c| u8::try_from(u32::from(c)).ok())
        .collect::<Option<Box<[u8]>>>()
        .unwrap_or_else(|| text.as_bytes().into())
}

/// `\u0001\u0002` spelled out.
fn unescape(text: &str) -> Option<Box<[u8]>> {
    text.starts_with("\\u").then_some(())?;
    text.split("\\u").skip(1).map(|hex| (hex.len() == 4).then(|| u8::from_str_radix(hex, 16).ok()).flatten()).collect()
}

/// Writes the value of a partition column; `None` when the text cannot carry it.
pub(super) fn format(ty: Primitive, value: &Value) -> Option<String> {
    Some(match value {
        Value::Boolean(b) => b.to_string(),
        Value::Int(n) => n.to_string(),
        Value::Long(n) => n.to_string(),
        Value::Float(f) => float(f.to_string(), f.is_nan(), f.is_infinite(), *f > 0.0),
        Value::Double(f) => float(f.to_string(), f.is_nan(), f.is_infinite(), *f > 0.0),
        Value::Decimal { unscaled, scale } => format_decimal(*unscaled, *scale),
        Value::Date(days) => time::format_date(*days)?,
        Value::Timestamp(micros) if ty == Primitive::Timestamptz => time::format_stamp(*micros, 6, true)?,
        Value::Timestamp(micros) => time::format_stamp(*micros, 6, false)?.replacen('T', " ", 1),
        // An empty string would read back as null.
        Value::String(text) if text.is_empty() => return None,
        Value::String(text) => text.to_string(),
        Value::Binary(bytes) if bytes.is_empty() => return None,
        Value::Binary(bytes) => bytes.iter().map(|b| char::from(*b)).collect(),
        Value::Time(_) | Value::TimestampNs(_) | Value::Uuid(_) => return None,
    })
}

fn float(text: String, nan: bool, infinite: bool, positive: bool) -> String {
    match (nan, infinite, positive) {
        (true, ..) => "NaN".to_owned(),
        (_, true, true) => "Infinity".to_owned(),
        (_, true, false) => "-Infinity".to_owned(),
        _ => text,
    }
}

/// The digits of decimal text at `scale`; `None` when digits would be lost or it is no number.
pub(super) fn parse_decimal(text: &str, scale: u8) -> Option<i128> {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, digits) = match mantissa.as_bytes().first()? {
        b'-' => (true, &mantissa[1..]),
        b'+' => (false, &mantissa[1..]),
        _ => (false, mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut unscaled: i128 = 0;
    for b in whole.bytes().chain(fraction.bytes()) {
        let digit = b.is_ascii_digit().then(|| i128::from(b - b'0'))?;
        unscaled = unscaled.checked_mul(10)?.checked_add(digit)?;
    }
    let have = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    let mut shift = i32::from(scale).checked_sub(have)?;
    if unscaled == 0 {
        return Some(0);
    }
    while shift > 0 {
        unscaled = unscaled.checked_mul(10)?;
        shift -= 1;
    }
    while shift < 0 {
        if unscaled % 10 != 0 {
            return None;
        }
        unscaled /= 10;
        shift += 1;
    }
    Some(if negative { -unscaled } else { unscaled })
}

/// Plain decimal text, never with an exponent.
pub(super) fn format_decimal(unscaled: i128, scale: u8) -> String {
    let scale = usize::from(scale);
    let digits = format!("{:0width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if unscaled < 0 { "-" } else { "" };
    if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoglake_model::DecimalType;

    const DECIMAL: Primitive = Primitive::Decimal(DecimalType { precision: 10, scale: 2 });

    #[test]
    fn values_of_every_type_survive_the_round_trip() {
        for (ty, value) in [
            (Primitive::Boolean, Value::Boolean(true)),
            (Primitive::Short, Value::Int(-7)),
            (Primitive::Long, Value::Long(i64::MIN)),
            (Primitive::Float, Value::Float(1.5e-7)),
            (Primitive::Double, Value::Double(f64::NEG_INFINITY)),
            (DECIMAL, Value::Decimal { unscaled: -5, scale: 2 }),
            (Primitive::Date, Value::Date(-1)),
            (Primitive::Timestamptz, Value::Timestamp(-1)),
            (Primitive::Timestamp, Value::Timestamp(1_500_000)),
            (Primitive::String, Value::String("a/b c%é".into())),
            (Primitive::Binary, Value::Binary([1, 2, 255].into())),
        ] {
            let text = format(ty, &value).unwrap();
            assert_eq!(parse(ty, Some(&text)), Ok(Some(value)), "{text}");
        }
    }

    #[test]
    fn empty_is_null_and_nonsense_is_refused() {
        for ty in [Primitive::String, Primitive::Int, Primitive::Timestamptz] {
            assert_eq!(parse(ty, Some("")), Ok(None));
            assert_eq!(parse(ty, None), Ok(None));
        }
        assert!(parse(Primitive::Int, Some("1.5")).is_err());
        assert!(parse(Primitive::Boolean, Some("yes")).is_err());
        assert!(parse(DECIMAL, Some("1.234")).is_err());
        assert_eq!(format(Primitive::String, &Value::String("".into())), None);
    }

    #[test]
    fn decimals_never_lose_a_digit() {
        for (text, scale, unscaled) in [
            ("-8.0", 1, Some(-80)),
            ("12", 2, Some(1200)),
            ("1.2E+3", 0, Some(1200)),
            ("1e-2", 2, Some(1)),
            ("0.10", 1, Some(1)),
            (".5", 1, Some(5)),
            ("0.15", 1, None),
            ("", 0, None),
            ("-", 0, None),
            ("1_0", 0, None),
            ("99999999999999999999999999999999999999", 0, Some(10_i128.pow(38) - 1)),
            ("1e999999999", 2, None),
            ("0e999999", 2, Some(0)),
        ] {
            assert_eq!(parse_decimal(text, scale), unscaled, "{text}");
        }
        assert_eq!(format_decimal(-5, 2), "-0.05");
        assert_eq!(format_decimal(1200, 0), "1200");
        assert_eq!(parse(Primitive::Binary, Some("\\u0001\\u00ff")), Ok(Some(Value::Binary([1, 255].into()))));
    }
}
