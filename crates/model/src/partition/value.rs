//! What the text of a partition value proves about the rows of its file.
//!
//! The catalog keeps the text as its writer spelled it, and writers spell the same value differently. Everything here is
//! lenient in what it reads and proves nothing from what it cannot read.

use super::transform::first_day_of_month;
use crate::literal::{
    self, Constant, Instant, Number, Place, parse_date, parse_time, parse_timestamp, parse_uuid, place_number,
};
use crate::table::Transform;
use crate::{Bounds, ColumnStats, ColumnType, Datum, FieldId};

/// What is known of the source column in every row of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Evidence {
    /// Nothing.
    Nothing,
    /// Counts and bounds that hold as if the file had one row.
    Statistics(ColumnStats),
    /// Not null, and in this bucket of so many.
    Bucket {
        /// Number of buckets.
        buckets: u32,
        /// The bucket.
        bucket: u32,
    },
}

/// How Hive spells null.
const HIVE_NULL: &str = "__HIVE_DEFAULT_PARTITION__";
/// 0001 to 9999, counted from 1970: calendar years that the writers of partition values can mean.
const YEARS: std::ops::RangeInclusive<i64> = -1969..=8029;

/// Reads a partition value of a column of type `ty`. Null stands for null of the column under every transform.
pub fn evidence(ty: ColumnType, transform: Transform, value: Option<&str>) -> Evidence {
    let Some(text) = value else {
        return match transform {
            Transform::Void => Evidence::Nothing,
            _ => Evidence::Statistics(one_row(1, Bounds::UNKNOWN)),
        };
    };
    if text == HIVE_NULL {
        return Evidence::Nothing;
    }
    let bounds = match transform {
        Transform::Identity => identity_bounds(ty, text),
        Transform::Bucket(buckets) => {
            return match text.parse::<u32>() {
                Ok(bucket) if bucket < buckets => Evidence::Bucket { buckets, bucket },
                _ => Evidence::Nothing,
            };
        }
        Transform::Year => years(text).and_then(|(first, last)| months_range(ty, first * 12, last * 12 + 11)),
        Transform::Month => months(text).and_then(|month| months_range(ty, month, month)),
        Transform::Day => days(text).and_then(|day| days_range(ty, day, day)),
        Transform::Hour => hours(text).and_then(|hour| hours_range(ty, hour)),
        Transform::Truncate(_) | Transform::Void => None,
    };
    // Not even "not null" follows from a text that cannot be read.
    bounds.map_or(Evidence::Nothing, |bounds| Evidence::Statistics(one_row(0, bounds)))
}

fn one_row(null_count: i64, bounds: Bounds) -> ColumnStats {
    ColumnStats { value_count: Some(1), null_count: Some(null_count), bounds, ..ColumnStats::unknown(FieldId(0)) }
}

/// Bounds of a column whose every row holds the value that `text` spells.
fn identity_bounds(ty: ColumnType, text: &str) -> Option<Bounds> {
    let constant = match ty {
        ColumnType::Boolean if text.eq_ignore_ascii_case("true") => Constant::Boolean(true),
        ColumnType::Boolean if text.eq_ignore_ascii_case("false") => Constant::Boolean(false),
        ColumnType::Boolean => return None,
        ColumnType::Float => {
            let value = text.parse::<f32>().ok()?;
            return Some(Bounds::from_datums(Some(Datum::Float(value)), Some(Datum::Float(value))));
        }
        ColumnType::Double => {
            // A column that was promoted from float may have been spelled with the digits of the float.
            let (double, float) = (text.parse::<f64>().ok()?, f64::from(text.parse::<f32>().ok()?));
            let (lower, upper) = if float < double { (float, double) } else { (double, float) };
            return Some(Bounds::from_datums(Some(Datum::Double(lower)), Some(Datum::Double(upper))));
        }
        ColumnType::Int | ColumnType::Long | ColumnType::Decimal(_) => {
            place_number(ty, &Number::parse(text)?)?.exact()?
        }
        ColumnType::Date => Constant::Date(parse_date(text)?),
        ColumnType::Time => match parse_time(text)? {
            (micros, true) => Constant::Time(micros),
            _ => return None,
        },
        ColumnType::Timestamp => match parse_timestamp(text)? {
            Instant { micros, exact: true, offset: None } => Constant::Timestamp(micros),
            _ => return None,
        },
        ColumnType::Timestamptz => match parse_timestamp(text)? {
            Instant { micros, exact: true, offset: Some(_) } => Constant::Timestamptz(micros),
            _ => return None,
        },
        ColumnType::String => Constant::String(text.into()),
        ColumnType::Uuid => parse_uuid(text)?,
        ColumnType::Binary => literal::parse_binary(text)?,
    };
    Some(Bounds::from_datums(Some(constant.datum()), Some(constant.datum())))
}

/// First and last year that a text under `year` may mean, from 1970. Four digits may be the calendar year by mistake.
fn years(text: &str) -> Option<(i64, i64)> {
    let year = integer(text)?;
    let calendar = if text.len() == 4 && (1000..=9999).contains(&year) { year - 1970 } else { year };
    YEARS.contains(&calendar).then_some((calendar.min(year), calendar.max(year).min(*YEARS.end())))
}

/// The month of a text, from 1970-01: a number, or `YYYY-MM`.
fn months(text: &str) -> Option<i64> {
    let month = match integer(text) {
        Some(month) => month,
        None if text.len() == 7 => super::transform::month(Datum::Date(parse_date(&format!("{text}-01"))?))?,
        None => return None,
    };
    YEARS.contains(&month.div_euclid(12)).then_some(month)
}

/// The day of a text, from 1970-01-01: a number, or a date.
fn days(text: &str) -> Option<i64> {
    let day = integer(text).or_else(|| parse_date(text).map(i64::from))?;
    (first_day_of_month(YEARS.start() * 12)..first_day_of_month((YEARS.end() + 1) * 12)).contains(&day).then_some(day)
}

/// The hour of a text, from 1970-01-01T00: a number, or `YYYY-MM-DD-HH`.
fn hours(text: &str) -> Option<i64> {
    let hour = match integer(text) {
        Some(hour) => hour,
        None => {
            let (date, hour) = text.split_at_checked(10)?;
            let hour = hour.strip_prefix(['-', 'T', ' '])?.parse::<u8>().ok().filter(|hour| *hour < 24)?;
            i64::from(parse_date(date)?) * 24 + i64::from(hour)
        }
    };
    days(&hour.div_euclid(24).to_string()).map(|_| hour)
}

fn integer(text: &str) -> Option<i64> {
    match place_number(ColumnType::Long, &Number::parse(text)?)? {
        Place::On(Constant::Long(value)) => Some(value),
        _ => None,
    }
}

fn months_range(ty: ColumnType, first: i64, last: i64) -> Option<Bounds> {
    days_range(ty, first_day_of_month(first), first_day_of_month(last + 1) - 1)
}

fn days_range(ty: ColumnType, first: i64, last: i64) -> Option<Bounds> {
    const MICROS_PER_DAY: i64 = 86_400_000_000;
    match ty {
        ColumnType::Date => {
            let day = |day: i64| i32::try_from(day).ok().map(Datum::Date);
            Some(Bounds::from_datums(Some(day(first)?), Some(day(last)?)))
        }
        _ => micros_range(ty, first.checked_mul(MICROS_PER_DAY)?, (last + 1).checked_mul(MICROS_PER_DAY)?),
    }
}

fn hours_range(ty: ColumnType, hour: i64) -> Option<Bounds> {
    const MICROS_PER_HOUR: i64 = 3_600_000_000;
    micros_range(ty, hour.checked_mul(MICROS_PER_HOUR)?, (hour + 1).checked_mul(MICROS_PER_HOUR)?)
}

/// Bounds of timestamps in `[begin, end)`.
fn micros_range(ty: ColumnType, begin: i64, end: i64) -> Option<Bounds> {
    let datum: fn(i64) -> Datum<'static> = match ty {
        ColumnType::Timestamp => Datum::Timestamp,
        ColumnType::Timestamptz => Datum::Timestamptz,
        _ => return None,
    };
    Some(Bounds::from_datums(Some(datum(begin)), Some(datum(end - 1))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::transform;
    use proptest::prelude::*;

    fn bounds(ty: ColumnType, transform: Transform, text: &str) -> Option<Bounds> {
        match evidence(ty, transform, Some(text)) {
            Evidence::Statistics(stats) => Some(stats.bounds),
            _ => None,
        }
    }

    #[test]
    fn spellings_of_one_value_prove_the_same() {
        for (ty, spellings) in [
            (ColumnType::Boolean, &["true", "True", "TRUE"][..]),
            (ColumnType::Long, &["7", "+7", "07"]),
            (ColumnType::Double, &["1.5", "1.50", "15e-1"]),
            (ColumnType::Timestamp, &["2026-01-02T03:04:05.9", "2026-01-02 03:04:05.900000"]),
            (ColumnType::Timestamptz, &["2026-01-02T03:00:00+00:00", "2026-01-02T03:00:00Z", "2026-01-02 05:00+02"]),
            (ColumnType::Uuid, &["f79c3e09-677c-4bbd-a479-3f349cb785e7", "F79C3E09677C4BBDA4793F349CB785E7"]),
        ] {
            let first = bounds(ty, Transform::Identity, spellings[0]);
            assert!(first.is_some(), "{ty}");
            for other in spellings {
                assert_eq!(bounds(ty, Transform::Identity, other), first, "{other}");
            }
        }
        for (transform, spellings) in [
            (Transform::Day, ["20454", "2026-01-01"]),
            (Transform::Month, ["672", "2026-01"]),
            (Transform::Hour, ["490896", "2026-01-01-00"]),
        ] {
            let first = bounds(ColumnType::Timestamptz, transform, spellings[0]);
            assert!(first.is_some());
            assert_eq!(bounds(ColumnType::Timestamptz, transform, spellings[1]), first);
        }
    }

    #[test]
    fn what_cannot_be_read_proves_nothing() {
        for (ty, transform, text) in [
            (ColumnType::Long, Transform::Identity, "seven"),
            (ColumnType::Long, Transform::Identity, "1.5"),
            (ColumnType::Long, Transform::Identity, "99999999999999999999"),
            (ColumnType::Timestamptz, Transform::Identity, "2026-01-01T00:00:00"),
            (ColumnType::Timestamp, Transform::Identity, "2026-01-01T00:00:00.0000001"),
            (ColumnType::String, Transform::Identity, HIVE_NULL),
            (ColumnType::Date, Transform::Day, "20260101"),
            (ColumnType::Date, Transform::Month, "202601"),
            (ColumnType::Date, Transform::Hour, "5"),
            (ColumnType::Timestamp, Transform::Year, "123456"),
            (ColumnType::Timestamp, Transform::Hour, "2026-01-01-24"),
            (ColumnType::Long, Transform::Bucket(8), "8"),
            (ColumnType::Long, Transform::Bucket(8), "-1"),
            (ColumnType::Long, Transform::Truncate(10), "10"),
        ] {
            assert_eq!(evidence(ty, transform, Some(text)), Evidence::Nothing, "{ty} {transform} {text}");
        }
    }

    #[test]
    fn a_four_digit_year_may_be_either_reading() {
        let Some(both) = bounds(ColumnType::Date, Transform::Year, "2026") else { panic!("no bounds") };
        let day = |bytes: Option<&[u8]>| bytes.and_then(|b| b.try_into().ok()).map(i32::from_le_bytes);
        assert_eq!(day(both.lower()), parse_date("2026-01-01"));
        assert_eq!(day(both.upper()), parse_date("3996-12-31"));
        let Some(relative) = bounds(ColumnType::Date, Transform::Year, "56") else { panic!("no bounds") };
        assert_eq!(day(relative.lower()), parse_date("2026-01-01"));
        assert_eq!(day(relative.upper()), parse_date("2026-12-31"));
    }

    #[test]
    fn promoted_floats_keep_their_old_spelling() {
        let Some(bounds) = bounds(ColumnType::Double, Transform::Identity, "0.1") else { panic!("no bounds") };
        assert_eq!(bounds.lower(), Some(&0.1_f64.to_le_bytes()[..]));
        assert_eq!(bounds.upper(), Some(&f64::from(0.1_f32).to_le_bytes()[..]));
    }

    proptest! {
        #[test]
        fn a_timestamp_lies_within_what_its_partition_proves(micros in -62_135_596_800_000_000_i64..253_402_300_800_000_000) {
            let value = Datum::Timestamp(micros);
            for (transform, result) in [
                (Transform::Year, transform::year(value)),
                (Transform::Month, transform::month(value)),
                (Transform::Day, transform::day(value)),
                (Transform::Hour, transform::hour(value)),
            ] {
                let text = result.map(|r| r.to_string()).unwrap_or_default();
                let bounds = bounds(ColumnType::Timestamp, transform, &text);
                let bound = |bytes: Option<&[u8]>| bytes.and_then(|b| b.try_into().ok()).map(i64::from_le_bytes);
                let lower = bounds.as_ref().and_then(|b| bound(b.lower()));
                let upper = bounds.as_ref().and_then(|b| bound(b.upper()));
                prop_assert!(lower.is_some_and(|l| l <= micros) && upper.is_some_and(|u| micros <= u), "{} {}", transform, text);
            }
        }
    }
}
