//! Parsers of setting values.

use std::time::Duration;

/// Whole milliseconds, more than zero.
///
/// # Errors
/// The rule that the text breaks.
pub fn duration_ms(text: &str) -> Result<Duration, String> {
    match text.trim().parse::<u64>() {
        Ok(0) => Err("must be at least 1 ms".to_owned()),
        Ok(ms) => Ok(Duration::from_millis(ms)),
        Err(_) => Err("must be a whole number of milliseconds".to_owned()),
    }
}

/// Whole milliseconds, where 0 switches off (a zero [`Duration`]).
///
/// # Errors
/// The rule that the text breaks.
pub fn optional_duration_ms(text: &str) -> Result<Duration, String> {
    text.trim()
        .parse::<u64>()
        .map(Duration::from_millis)
        .map_err(|_| "must be a whole number of milliseconds, or 0 to switch off".to_owned())
}

/// `true`, `false`, and their usual spellings.
///
/// # Errors
/// The spellings, when the text is none of them.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}
