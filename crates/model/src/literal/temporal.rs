//! Dates, times and timestamps in ISO 8601, with any number of fractional digits.

use chrono::{Datelike, NaiveDate};

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;
/// Days from 0001-01-01 to 1970-01-01, plus one, as chrono counts.
const EPOCH_FROM_CE: i32 = 719_163;

/// A timestamp as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instant {
    /// Microseconds since the epoch, floored: UTC when an offset was given, else as on the wall.
    pub micros: i64,
    /// Whether `micros` is the instant, or only the last microsecond before it.
    pub exact: bool,
    /// Seconds east of UTC.
    pub offset: Option<i32>,
}

/// Reads `YYYY-MM-DD` as days since the epoch.
pub fn parse_date(text: &str) -> Option<i32> {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let date =
        NaiveDate::from_ymd_opt(i32::try_from(digits(&text[..4])?).ok()?, digits(&text[5..7])?, digits(&text[8..])?)?;
    Some(date.num_days_from_ce() - EPOCH_FROM_CE)
}

/// Reads `HH:MM[:SS[.fraction]]` as microseconds since midnight, floored, and whether that is exact.
pub fn parse_time(text: &str) -> Option<(i64, bool)> {
    let (clock, fraction) = match text.split_once('.') {
        Some((clock, fraction)) if clock.len() == 8 => (clock, Some(fraction)),
        Some(_) => return None,
        None => (text, None),
    };
    let bytes = clock.as_bytes();
    if !clock.is_ascii()
        || !matches!(bytes.len(), 5 | 8)
        || bytes[2] != b':'
        || bytes.get(5).is_some_and(|colon| *colon != b':')
    {
        return None;
    }
    let part = |from: usize| clock.get(from..from + 2).map_or(Some(0), digits);
    let (hour, minute, second) = (digits(&clock[..2])?, digits(&clock[3..5])?, part(6)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (micros, exact) = match fraction {
        Some(fraction) => parse_fraction(fraction)?,
        None => (0, true),
    };
    Some((i64::from(hour * 3600 + minute * 60 + second) * MICROS_PER_SECOND + micros, exact))
}

/// Reads a date, optionally followed by `T` or a space and a time, optionally followed by `Z` or an offset
/// (`+HH`, `+HHMM`, `+HH:MM`, also with seconds). A date alone is its midnight.
pub fn parse_timestamp(text: &str) -> Option<Instant> {
    if !text.is_ascii() || text.len() < 10 {
        return None;
    }
    let (date, rest) = text.split_at(10);
    let midnight = i64::from(parse_date(date)?) * MICROS_PER_DAY;
    if rest.is_empty() {
        return Some(Instant { micros: midnight, exact: true, offset: None });
    }
    if !matches!(rest.as_bytes()[0], b'T' | b't' | b' ') {
        return None;
    }
    let clock = &rest[1..];
    let zone = clock.find(['Z', 'z', '+', '-']).unwrap_or(clock.len());
    let (time, exact) = parse_time(&clock[..zone])?;
    let offset = match &clock[zone..] {
        "" => None,
        offset => Some(parse_offset(offset)?),
    };
    let micros = midnight + time - i64::from(offset.unwrap_or(0)) * MICROS_PER_SECOND;
    Some(Instant { micros, exact, offset })
}

fn parse_offset(text: &str) -> Option<i32> {
    if matches!(text, "Z" | "z") {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let body = &text[1..];
    let plain: String = match body.len() {
        5 | 8 if body.bytes().skip(2).step_by(3).all(|b| b == b':') => body.split(':').collect(),
        2 | 4 | 6 => body.to_owned(),
        _ => return None,
    };
    let part = |from: usize| plain.get(from..from + 2).map_or(Some(0), digits);
    let (hours, minutes, seconds) = (part(0)?, part(2)?, part(4)?);
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    Some(sign * i32::try_from(hours * 3600 + minutes * 60 + seconds).ok()?)
}

/// Microseconds of a fraction of a second, floored, and whether nothing is left.
fn parse_fraction(text: &str) -> Option<(i64, bool)> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (kept, rest) = text.split_at(text.len().min(6));
    let micros: i64 = format!("{kept:0<6}").parse().ok()?;
    Some((micros, rest.bytes().all(|b| b == b'0')))
}

fn digits(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_count_from_the_epoch() {
        for (text, days) in [("1970-01-01", 0), ("1969-12-31", -1), ("0001-01-01", -719_162), ("2017-11-16", 17_486)] {
            assert_eq!(parse_date(text), Some(days), "{text}");
        }
        for bad in ["1970-1-1", "1970-02-30", "19700101", "1970-01-01 ", "+970-01-01", "0000-00-00", "1970-01-é"] {
            assert_eq!(parse_date(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_keep_what_does_not_fit_a_microsecond() {
        assert_eq!(parse_time("22:31:08"), Some((81_068_000_000, true)));
        assert_eq!(parse_time("22:31"), Some((81_060_000_000, true)));
        assert_eq!(parse_time("00:00:00.9"), Some((900_000, true)));
        assert_eq!(parse_time("00:00:00.9000000"), Some((900_000, true)));
        assert_eq!(parse_time("00:00:00.0000005"), Some((0, false)));
        for bad in ["24:00", "12:60", "1:00", "12", "12:00:", "12:00:00.", "12:00.5", "12:00:00.x", "12-00", "1é:00"] {
            assert_eq!(parse_time(bad), None, "{bad}");
        }
    }

    #[test]
    fn offsets_move_the_instant() {
        let instant = |micros, offset| Some(Instant { micros, exact: true, offset });
        assert_eq!(parse_timestamp("1970-01-01T01:00:00+01:00"), instant(0, Some(3600)));
        assert_eq!(parse_timestamp("1969-12-31 19:30:00-0430"), instant(0, Some(-16_200)));
        assert_eq!(parse_timestamp("1970-01-01T00:00:00Z"), instant(0, Some(0)));
        assert_eq!(parse_timestamp("1970-01-01T05:00+05"), instant(0, Some(18_000)));
        assert_eq!(parse_timestamp("1970-01-02"), instant(MICROS_PER_DAY, None));
        assert_eq!(parse_timestamp("1970-01-01T00:00:00.000001"), instant(1, None));
        for bad in ["1970-01-01T", "1970-01-01X00:00", "1970-01-01T00:00+1", "1970-01-01T00:00+99:00", "now", "é"] {
            assert_eq!(parse_timestamp(bad), None, "{bad}");
        }
    }
}
