//! Reads as of a snapshot: the query parameters `snapshot` and `at_timestamp`, and the `ETag` of what never changes.

use crate::api::error::ApiError;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hoglake_catalog::snapshots::ResolvedSnapshot;
use hoglake_model::SnapshotSelector;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The query parameters of every read that can go back in time, as they came.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct At {
    snapshot: Option<String>,
    at_timestamp: Option<String>,
}

impl At {
    /// The snapshot meant. Handlers look the catalog up first: an unknown one is 404 whatever the parameters say.
    ///
    /// # Errors
    /// As [`SnapshotSelector::parse`].
    pub fn selector(&self) -> Result<SnapshotSelector, ApiError> {
        Ok(SnapshotSelector::parse(self.snapshot.as_deref(), self.at_timestamp.as_deref())?)
    }
}

/// Answers with `value`; when the read named its snapshot, with an `ETag`, or 304 when the client has it already.
///
/// # Errors
/// 500 when `value` cannot be written as JSON.
pub fn respond<T: Serialize>(
    request: &HeaderMap,
    snapshot: &ResolvedSnapshot,
    value: &T,
) -> Result<Response, ApiError> {
    let body = serde_json::to_vec(value).map_err(ApiError::fault)?;
    let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    if !snapshot.pinned {
        return Ok((json, body).into_response());
    }
    // weak: the encoding of the body may differ from answer to answer
    let digest = Sha256::digest(&body);
    let tag: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let etag = HeaderValue::try_from(format!("W/\"{tag}\"")).map_err(ApiError::fault)?;
    let mut response =
        if matches(request, &etag) { StatusCode::NOT_MODIFIED.into_response() } else { (json, body).into_response() };
    response.headers_mut().insert(header::ETAG, etag);
    Ok(response)
}

/// Whether `If-None-Match` lists `etag` (weak comparison) or `*`.
fn matches(request: &HeaderMap, etag: &HeaderValue) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let Ok(own) = etag.to_str().map(opaque) else { return false };
    request
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|tag| tag.trim() == "*" || opaque(tag) == own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;
    use hoglake_model::SnapshotId;

    fn ask(pinned: bool, if_none_match: Option<&str>) -> Response {
        let (id, head, earliest) = (SnapshotId(2), SnapshotId(5), SnapshotId(0));
        let snapshot = ResolvedSnapshot { id, time: DateTime::UNIX_EPOCH, head, earliest, pinned };
        let mut headers = HeaderMap::new();
        if let Some(tag) = if_none_match {
            headers.insert(header::IF_NONE_MATCH, tag.parse().unwrap());
        }
        respond(&headers, &snapshot, &["a"]).unwrap()
    }

    #[test]
    fn only_pinned_reads_have_an_etag() {
        assert!(ask(false, None).headers().get(header::ETAG).is_none());
        assert_eq!(ask(false, Some("*")).status(), StatusCode::OK);
        let first = ask(true, None);
        let etag = first.headers()[header::ETAG].to_str().unwrap().to_owned();
        for tag in [etag.as_str(), "*", &format!("\"other\", {etag}"), etag.trim_start_matches("W/")] {
            let again = ask(true, Some(tag));
            assert_eq!(
                (again.status(), &again.headers()[header::ETAG]),
                (StatusCode::NOT_MODIFIED, &first.headers()[header::ETAG])
            );
        }
        assert_eq!(ask(true, Some("\"other\"")).status(), StatusCode::OK);
    }
}
