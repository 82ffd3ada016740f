//! Dates and timestamps as Delta writes them in partition values and statistics.

use chrono::{DateTime, NaiveDate, NaiveDateTime};

/// A timestamp read from text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Microseconds since the epoch, adjusted to UTC when there was a zone.
    pub micros: i64,
    /// Whether the text named a zone.
    pub zoned: bool,
    /// Digits after the second.
    pub fraction_digits: usize,
}

/// Days since 1970-01-01 of `YYYY-MM-DD`.
pub(super) fn parse_date(text: &str) -> Option<i32> {
    let date = match fast_date(text.as_bytes()) {
        Some((date, [])) => date,
        _ => text.parse::<NaiveDate>().ok()?,
    };
    i32::try_from(date.signed_duration_since(NaiveDate::default()).num_days()).ok()
}

fn fast_date(bytes: &[u8]) -> Option<(NaiveDate, &[u8])> {
    let (date, rest) = bytes.split_at_checked(10)?;
    let number = |range: std::ops::Range<usize>| -> Option<u32> {
        date.get(range)?.iter().try_fold(0, |n, b| b.is_ascii_digit().then(|| n * 10 + u32::from(b - b'0')))
    };
    if date[4] != b'-' || date[7] != b'-' {
        return None;
    }
    Some((NaiveDate::from_ymd_opt(number(0..4)?.cast_signed(), number(5..7)?, number(8..10)?)?, rest))
}

/// `YYYY-MM-DD{T| }HH:MM:SS[.fraction][Z|offset]`; a date alone is midnight.
pub(super) fn parse_stamp(text: &str) -> Option<Stamp> {
    let fraction_digits = fraction(text);
    if let Some(days) = parse_date(text) {
        return Some(Stamp { micros: i64::from(days) * 86_400_000_000, zoned: false, fraction_digits: 0 });
    }
    let separated = if text.as_bytes().get(10) == Some(&b' ') {
        std::borrow::Cow::Owned(text.replacen(' ', "T", 1))
    } else {
        std::borrow::Cow::Borrowed(text)
    };
    if let Ok(stamp) = DateTime::parse_from_rfc3339(&separated) {
        return Some(Stamp { micros: stamp.timestamp_micros(), zoned: true, fraction_digits });
    }
    if let Ok(stamp) = DateTime::parse_from_str(&separated, "%Y-%m-%dT%H:%M:%S%.f%#z") {
        return Some(Stamp { micros: stamp.timestamp_micros(), zoned: true, fraction_digits });
    }
    let stamp: NaiveDateTime = separated.parse().ok()?;
    Some(Stamp { micros: stamp.and_utc().timestamp_micros(), zoned: false, fraction_digits })
}

fn fraction(text: &str) -> usize {
    text.find('.').map_or(0, |dot| text[dot + 1..].bytes().take_while(u8::is_ascii_digit).count())
}

/// `YYYY-MM-DD`, or `None` outside the years that text can carry (0000 to 9999).
pub(super) fn format_date(days: i32) -> Option<String> {
    let date = NaiveDate::default().checked_add_signed(chrono::Duration::days(i64::from(days)))?;
    let text = date.format("%Y-%m-%d").to_string();
    (text.len() == 10).then_some(text)
}

/// `YYYY-MM-DDTHH:MM:SS.ffffff`, followed by `Z` when `zoned`.
pub(super) fn format_stamp(micros: i64, digits: usize, zoned: bool) -> Option<String> {
    let stamp = DateTime::from_timestamp_micros(micros)?.naive_utc();
    let format = if digits == 3 { "%Y-%m-%dT%H:%M:%S%.3f" } else { "%Y-%m-%dT%H:%M:%S%.6f" };
    let mut text = stamp.format(format).to_string();
    if text.find('T') != Some(10) {
        return None;
    }
    if zoned {
        text.push('Z');
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_written_form_is_read() {
        let base = 1_577_934_245_000_000;
        for (text, micros, zoned) in [
            ("2020-01-02 03:04:05", base, false),
            ("2020-01-02T03:04:05", base, false),
            ("2020-01-02 03:04:05.123456", base + 123_456, false),
            ("2020-01-02T03:04:05.123Z", base + 123_000, true),
            ("2020-01-02T03:04:05.123456Z", base + 123_456, true),
            ("2020-01-02T03:04:05.000+00:00", base, true),
            ("2020-01-01T19:04:05.000-08:00", base, true),
            ("2020-01-01T19:04:05.000-0800", base, true),
            ("2020-01-02 03:04:05Z", base, true),
            ("2020-01-02", base - 11_045_000_000, false),
            ("1969-12-31T23:59:59.999999Z", -1, true),
        ] {
            let stamp = parse_stamp(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((stamp.micros, stamp.zoned), (micros, zoned), "{text}");
        }
        for bad in ["", "now", "2020-13-01", "2020-01-02T25:00:00Z", "20200102"] {
            assert_eq!(parse_stamp(bad), None, "{bad}");
        }
        assert_eq!(parse_date("1969-12-31"), Some(-1));
        assert_eq!(parse_date("0001-01-01"), Some(-719_162));
    }

    #[test]
    fn formatting_reverses_parsing() {
        assert_eq!(format_stamp(-1, 6, true).as_deref(), Some("1969-12-31T23:59:59.999999Z"));
        assert_eq!(format_stamp(-1, 3, false).as_deref(), Some("1969-12-31T23:59:59.999"));
        assert_eq!(format_date(-719_162).as_deref(), Some("0001-01-01"));
        assert_eq!(format_date(i32::MAX), None);
        assert_eq!(format_stamp(i64::MAX, 6, true), None);
    }
}
