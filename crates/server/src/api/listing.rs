//! Answers that are lists of files: whole or streamed, with their headers.

use crate::api::error::ApiError;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hoglake_catalog::listing::{self, Listing};

const FILES_CONSIDERED: HeaderName = HeaderName::from_static("hoglake-files-considered");
const FILES_KEPT: HeaderName = HeaderName::from_static("hoglake-files-kept");

/// All values of `If-None-Match`.
pub fn if_none_match(headers: &HeaderMap) -> Option<String> {
    let values: Vec<&str> =
        headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).collect();
    (!values.is_empty()).then(|| values.join(", "))
}

/// The HTTP form of `listing`. A fault after the first chunk breaks the connection: what was sent is no complete JSON
/// text, and the client must not take it for one.
///
/// # Errors
/// 500 when a header cannot be written.
pub fn respond(listing: Listing) -> Result<Response, ApiError> {
    let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    let mut response = match listing.body {
        None => StatusCode::NOT_MODIFIED.into_response(),
        Some(listing::Body::Whole(text)) => (json, text).into_response(),
        Some(listing::Body::Stream(chunks)) => (json, Body::from_stream(chunks)).into_response(),
    };
    let headers = response.headers_mut();
    if let Some((considered, kept)) = listing.files {
        headers.insert(FILES_CONSIDERED, considered.into());
        headers.insert(FILES_KEPT, kept.into());
    }
    let caching = match listing.etag {
        Some(etag) => {
            headers.insert(header::ETAG, HeaderValue::try_from(etag).map_err(ApiError::fault)?);
            // The files never change; that their statistics have arrived shows only by asking.
            "private, no-cache"
        }
        None => "no-store",
    };
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    Ok(response)
}
