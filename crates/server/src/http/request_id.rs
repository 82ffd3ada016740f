//! `X-Request-Id`: the client's, where it is well-formed, else a fresh one; answered, logged, and in audit lines.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use std::fmt;
use std::sync::Arc;

/// Name of the header, in and out.
pub(crate) static HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The id of one request: `[A-Za-z0-9._-]{1,128}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// The id that the client sent, or a fresh uuid.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let sent = headers.get(&HEADER).and_then(|value| value.to_str().ok()).filter(|id| is_well_formed(id));
        Self(sent.map_or_else(|| uuid::Uuid::new_v4().to_string().into(), Into::into))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn header_value(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.0).ok()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_well_formed(id: &str) -> bool {
    (1..=128).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(id: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(&HEADER, HeaderValue::from_str(id).unwrap());
        RequestId::of(&headers).to_string()
    }

    #[test]
    fn a_well_formed_id_is_kept_and_any_other_replaced() {
        let longest = "a".repeat(128);
        for good in ["1", "Trace_7.a-b", &longest] {
            assert_eq!(sent(good), good);
        }
        let too_long = "a".repeat(129);
        for bad in ["", "a b", "a\"b", "é", "{x}", &too_long] {
            assert!(uuid::Uuid::parse_str(&sent(bad)).is_ok(), "{bad}");
        }
    }
}
