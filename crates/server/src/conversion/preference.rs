//! The `Prefer` header (RFC 7240): whether the client wants to wait.

use axum::http::{HeaderMap, HeaderValue, header};
use std::time::Duration;

/// The longest wait that a client is granted.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What a client prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Preferences {
    /// An answer at once, and the result later.
    pub respond_async: bool,
    /// How long it would wait for the result before that.
    pub wait: Option<Duration>,
}

impl Preferences {
    /// Reads all `Prefer` headers of a request. What is not understood is ignored, as the RFC has it; of a preference that
    /// is given twice, the first counts.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut found = Self::default();
        let mut seen: Vec<String> = Vec::new();
        for value in headers.get_all("prefer") {
            for item in split(&String::from_utf8_lossy(value.as_bytes()), ',') {
                // Parameters after `;` belong to the preference; those of ours have none.
                let preference = split(&item, ';').into_iter().next().unwrap_or_default();
                let (name, value) = match preference.split_once('=') {
                    Some((name, value)) => (name.trim(), value.trim().trim_matches('"').to_owned()),
                    None => (preference.trim(), String::new()),
                };
                let name = name.to_ascii_lowercase();
                if name.is_empty() || seen.contains(&name) {
                    continue;
                }
                match name.as_str() {
                    // An empty value is no value.
                    "respond-async" if value.is_empty() => found.respond_async = true,
                    "wait" => {
                        let seconds = Some(&value).filter(|v| v.bytes().all(|b| b.is_ascii_digit()));
                        let wait = seconds.and_then(|v| v.parse().ok()).map(Duration::from_secs);
                        found.wait = wait.map(|wait| wait.min(LONGEST_WAIT));
                    }
                    _ => {}
                }
                seen.push(name);
            }
        }
        found
    }

    /// Says in the answer that the preference was honoured.
    pub fn applied(headers: &mut HeaderMap) {
        headers.insert("preference-applied", HeaderValue::from_static("respond-async"));
        Self::varies(headers);
    }

    /// Says that the answer depends on the preference.
    pub fn varies(headers: &mut HeaderMap) {
        headers.append(header::VARY, HeaderValue::from_static("prefer"));
    }
}

/// The parts of `text` between `separator`s that are outside quotes.
fn split(text: &str, separator: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut quoted, mut escaped) = (false, false);
    for c in text.chars() {
        if c == separator && !quoted {
            parts.push(String::new());
            continue;
        }
        quoted ^= c == '"' && !escaped;
        escaped = c == '\\' && quoted && !escaped;
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Preferences {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("prefer", value.parse().unwrap());
        }
        Preferences::of(&headers)
    }

    #[test]
    fn the_grammar_of_the_rfc_is_understood() {
        for asynchronous in [
            &["respond-async"][..],
            &["Respond-Async"],
            &[" respond-async ; x=1"],
            &["wait=5, respond-async"],
            &["handling=lenient", "respond-async"],
            &["respond-async=\"\""],
            &["foo=\"a, b; c\", respond-async"],
            &["foo=\"\\\"\", respond-async"],
            &[",, respond-async,"],
        ] {
            assert!(of(asynchronous).respond_async, "{asynchronous:?}");
        }
        for synchronous in [
            &[][..],
            &[""],
            &["respond-asynchronously"],
            &["respond-async=no"],
            &["foo=\"respond-async\""],
            &["foo; respond-async"],
            &["foo=\"a, respond-async\""],
        ] {
            assert!(!of(synchronous).respond_async, "{synchronous:?}");
        }
        let seconds = |values| of(values).wait.map(|w| w.as_secs());
        assert_eq!(seconds(&["respond-async, wait=5"]), Some(5));
        assert_eq!(seconds(&["wait=\"7\"", "wait=9"]), Some(7));
        assert_eq!(seconds(&["wait=99999999"]), Some(60));
        assert_eq!(seconds(&["wait=-1"]), None);
        assert_eq!(seconds(&["wait"]), None);
    }
}
