//! Partition values as compaction compares them.
//!
//! The catalog keeps partition values as the writer spelled them, and writers differ: `.9` and `.900000` are one
//! instant. Grouping by the spelling would split a partition; grouping by the value does not. What cannot be read as a
//! value of its column is compared as text.

use crate::ColumnType;
use crate::definition::Transform;
use base64::Engine as _;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use std::fmt::Write as _;

/// The canonical spelling of `value`, written under `transform` of a column of type `source`; `value` itself where it
/// cannot be read.
pub fn canonical(transform: Transform, source: Option<ColumnType>, value: &str) -> String {
    let read = match (transform, source) {
        (Transform::Identity, Some(ty)) => identity(ty, value),
        (Transform::Identity, None) => None,
        (Transform::Day, _) => integer(value).or_else(|| date(value).map(|days| days.to_string())),
        (Transform::Year | Transform::Month | Transform::Hour | Transform::Bucket(_), _) => integer(value),
    };
    read.unwrap_or_else(|| value.to_owned())
}

fn identity(ty: ColumnType, value: &str) -> Option<String> {
    match ty {
        ColumnType::Boolean => ["true", "false"].into_iter().find(|b| value.eq_ignore_ascii_case(b)).map(str::to_owned),
        ColumnType::Int | ColumnType::Long => integer(value),
        ColumnType::Float => value.parse::<f32>().ok().filter(|v| !v.is_nan()).map(|v| format!("{v:?}")),
        ColumnType::Double => value.parse::<f64>().ok().filter(|v| !v.is_nan()).map(|v| format!("{v:?}")),
        ColumnType::Decimal(_) => decimal(value),
        ColumnType::Date => date(value).map(|days| days.to_string()),
        ColumnType::Time => time(value).map(|micros| micros.to_string()),
        ColumnType::Timestamp => local(value).map(|t| t.and_utc().timestamp_micros().to_string()),
        ColumnType::Timestamptz => instant(value).map(|micros| micros.to_string()),
        ColumnType::String => None,
        ColumnType::Uuid => uuid::Uuid::try_parse(value).ok().map(|u| u.to_string()),
        ColumnType::Binary => {
            let engine = base64::engine::general_purpose::STANDARD;
            engine.decode(value).ok().map(|bytes| engine.encode(bytes))
        }
    }
}

fn integer(value: &str) -> Option<String> {
    value.parse::<i64>().ok().map(|v| v.to_string())
}

/// Digits without leading and trailing zeros, and a power of ten.
fn decimal(value: &str) -> Option<String> {
    let (mantissa, exponent) = match value.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (value, 0),
    };
    let (negative, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let all = format!("{whole}{fraction}");
    let significant = all.trim_start_matches('0');
    let trimmed = significant.trim_end_matches('0');
    if trimmed.is_empty() {
        return Some("0".to_owned());
    }
    let dropped = i32::try_from(significant.len() - trimmed.len()).ok()?;
    let scale = i32::try_from(fraction.len()).ok()?;
    let exponent = exponent.checked_sub(scale)?.checked_add(dropped)?;
    let mut text = String::from(if negative { "-" } else { "" });
    let _ = write!(text, "{trimmed}e{exponent}");
    Some(text)
}

/// Days since 1970-01-01.
fn date(value: &str) -> Option<i64> {
    let date = NaiveDate::parse_from_str(value, "%Y-%m-%d").ok()?;
    Some(date.signed_duration_since(NaiveDate::default()).num_days())
}

/// Microseconds since midnight; finer fractions are left to the spelling.
fn time(value: &str) -> Option<i64> {
    let time =
        ["%H:%M:%S%.f", "%H:%M"].into_iter().find_map(|spelling| NaiveTime::parse_from_str(value, spelling).ok())?;
    // a leap second is no microsecond of the day
    (time.nanosecond() < 1_000_000_000 && time.nanosecond() % 1000 == 0)
        .then(|| i64::from(time.num_seconds_from_midnight()) * 1_000_000 + i64::from(time.nanosecond() / 1000))
}

fn local(value: &str) -> Option<NaiveDateTime> {
    let (day, clock) = value.split_once(['T', ' '])?;
    let day = NaiveDate::parse_from_str(day, "%Y-%m-%d").ok()?;
    let micros = time(clock)?;
    let seconds = u32::try_from(micros / 1_000_000).ok()?;
    let nanos = u32::try_from(micros % 1_000_000 * 1000).ok()?;
    NaiveTime::from_num_seconds_from_midnight_opt(seconds, nanos).map(|time| day.and_time(time))
}

/// Microseconds since the epoch.
fn instant(value: &str) -> Option<i64> {
    let value = value.strip_suffix([' ']).unwrap_or(value).replacen(' ', "T", 1);
    let value = value.strip_suffix(" UTC").map_or_else(|| value.clone(), |local| format!("{local}Z"));
    let instant = DateTime::parse_from_rfc3339(&value)
        .ok()
        .or_else(|| DateTime::parse_from_str(&value, "%Y-%m-%dT%H:%M:%S%.f%#z").ok())?;
    let nanos = instant.timestamp_subsec_nanos();
    (nanos < 1_000_000_000 && nanos % 1000 == 0).then(|| instant.timestamp_micros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DecimalType;
    use proptest::prelude::*;

    fn same(ty: ColumnType, a: &str, b: &str) -> bool {
        canonical(Transform::Identity, Some(ty), a) == canonical(Transform::Identity, Some(ty), b)
    }

    const DECIMAL: ColumnType = ColumnType::Decimal(DecimalType { precision: 20, scale: 4 });

    #[test]
    fn spellings_of_one_value_are_one_key() {
        for (ty, a, b) in [
            (ColumnType::Boolean, "True", "true"),
            (ColumnType::Int, "+7", "7"),
            (ColumnType::Long, "007", "7"),
            (ColumnType::Float, "0.10000000149011612", "0.1"),
            (ColumnType::Double, "1e3", "1000.0"),
            (DECIMAL, "1.50", "1.5"),
            (DECIMAL, "1E+2", "100"),
            (DECIMAL, "-0.00", "0"),
            (ColumnType::Time, "01:02:03.9", "01:02:03.900000"),
            (ColumnType::Time, "01:02", "01:02:00"),
            (ColumnType::Timestamp, "2026-01-02T03:04:05.9", "2026-01-02 03:04:05.900000"),
            (ColumnType::Timestamptz, "2026-01-02T03:04:05+00:00", "2026-01-02 03:04:05Z"),
            (ColumnType::Timestamptz, "2026-01-02T05:04:05+02:00", "2026-01-02T03:04:05Z"),
            (ColumnType::Timestamptz, "2026-01-02 03:04:05.000000 UTC", "2026-01-02T03:04:05Z"),
            (ColumnType::Uuid, "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc999c0b4ef8bb6d6bb9bd380a11"),
        ] {
            assert!(same(ty, a, b), "{ty} {a} {b}");
        }
        assert_eq!(canonical(Transform::Day, None, "2026-01-01"), canonical(Transform::Day, None, "20454"));
    }

    #[test]
    fn different_values_and_unreadable_text_stay_apart() {
        for (ty, a, b) in [
            (ColumnType::String, "a", "A"),
            (ColumnType::String, "7", "07"),
            (ColumnType::Int, "seven", "7"),
            (ColumnType::Double, "-0.0", "0.0"),
            (ColumnType::Double, "nan", "NaN"),
            (DECIMAL, "1.5", "15"),
            (DECIMAL, ".", "0"),
            (ColumnType::Date, "2026-01-01", "2026-01-02"),
            (ColumnType::Timestamp, "2026-01-02T03:04:05", "2026-01-02T03:04:05Z"),
            (ColumnType::Timestamp, "2026-01-02T03:04:05.0000001", "2026-01-02T03:04:05"),
            (ColumnType::Uuid, "not-a-uuid", "a0eebc999c0b4ef8bb6d6bb9bd380a11"),
        ] {
            assert!(!same(ty, a, b), "{ty} {a} {b}");
        }
    }

    proptest! {
        #[test]
        fn canonical_spellings_are_fixed_points(value in "\\PC{0,24}", ty in 0_usize..13) {
            let params = serde_json::json!({"precision": 20, "scale": 4});
            let ty = ColumnType::parse(ColumnType::LITERALS[ty], params.as_object()).unwrap();
            let once = canonical(Transform::Identity, Some(ty), &value);
            // dates and times become numbers, which are then not read as dates again
            prop_assert_eq!(canonical(Transform::Identity, Some(ty), &once), once);
        }

        #[test]
        fn decimals_compare_by_value(unscaled in any::<i64>(), zeros in 0_usize..5) {
            let plain = unscaled.to_string();
            let padded = format!("{unscaled}.{}", "0".repeat(zeros + 1));
            prop_assert!(same(DECIMAL, &plain, &padded));
            prop_assert!(!same(DECIMAL, &plain, &unscaled.wrapping_add(1).to_string()));
        }
    }
}
