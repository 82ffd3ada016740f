//! Instants on the wire: ISO 8601 with an offset in, UTC with `Z` and microseconds out.

use crate::Refusal;
use crate::name::quoted;
use chrono::{DateTime, SecondsFormat, Utc};

/// Spellings beyond RFC 3339 that clients send: without seconds, and offsets without a colon or minutes.
const SPELLINGS: [&str; 2] = ["%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M%#z"];

/// Reads the instant in query parameter or field `name`. The offset is required and honoured; a `+` that an URL decoder turned into a space is read as `+`.
///
/// # Errors
/// 400 for anything else, above all for a local time without an offset.
pub fn parse(name: &str, text: &str) -> Result<DateTime<Utc>, Refusal> {
    let repaired = text.rsplit_once(' ').filter(|(time, _)| time.contains(['T', 't']));
    let text = repaired.map_or_else(|| text.to_owned(), |(time, offset)| format!("{time}+{offset}"));
    parse_exact(&text).ok_or_else(|| {
        Refusal::bad_request(format!(
            "`{name}` must be an ISO 8601 date and time with an offset from UTC, such as 2026-09-05T00:00:00Z or \
             2026-09-05T02:00:00+02:00, not {}",
            quoted(&text)
        ))
    })
}

fn parse_exact(text: &str) -> Option<DateTime<Utc>> {
    // four digits of year keep every instant within what Postgres stores
    let year = text.get(..4)?;
    if !year.bytes().all(|b| b.is_ascii_digit()) || !text.get(4..)?.starts_with('-') {
        return None;
    }
    if let Ok(instant) = DateTime::parse_from_rfc3339(text) {
        return Some(instant.to_utc());
    }
    let text = text.strip_suffix(['Z', 'z']).map_or_else(|| text.to_owned(), |local| format!("{local}+00:00"));
    SPELLINGS.iter().find_map(|spelling| DateTime::parse_from_str(&text, spelling).ok()).map(|i| i.to_utc())
}

/// Writes an instant as the contract has it.
pub fn format(instant: DateTime<Utc>) -> String {
    instant.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// `#[serde(with)]`-style serializer of an instant.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: serde::Serializer>(instant: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format(*instant))
}

/// [`serialize`] for an instant that may be absent; use with `skip_serializing_if`.
///
/// # Errors
/// Those of the serializer.
pub fn serialize_option<S: serde::Serializer>(
    instant: &Option<DateTime<Utc>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match instant {
        Some(instant) => serialize(instant, serializer),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_required_and_honoured() {
        for same in [
            "2026-09-05T00:00:00Z",
            "2026-09-05T00:00:00.000000+00:00",
            "2026-09-05T02:00:00+02:00",
            "2026-09-05T02:00:00 02:00",
            "2026-09-05T00:00Z",
            "2026-09-04T19:00:00-0500",
            "2026-09-05T02:00:00+02",
            "2026-09-05T02:00+02:00",
        ] {
            assert_eq!(parse("at", same).map(format), Ok("2026-09-05T00:00:00.000000Z".to_owned()), "{same}");
        }
        for bad in [
            "",
            "2026-09-05",
            "2026-09-05T00:00:00",
            "2026-09-05 00:00:00",
            "2026-09-05T00:00:00 ",
            "yesterday",
            "1788609600",
            "2026-13-05T00:00:00Z",
            "+12026-01-05T00:00:00Z",
            "2026-09-05T00:00:00+99:00",
            "20é6-09-05T00:00:00Z",
        ] {
            assert_eq!(parse("at", bad).map_err(|r| r.code), Err(crate::ErrorCode::BadRequest), "{bad}");
        }
    }
}
