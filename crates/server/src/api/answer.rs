//! Answers of mutating requests, first or replayed.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hoglake_catalog::idempotency::Answer;

/// Tells a client that its answer is the stored one of an earlier request with the same key.
const IDEMPOTENT_REPLAYED: &str = "idempotent-replayed";

/// The HTTP form of `answer`.
pub(super) fn respond(answer: Answer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let mut response = match answer.body {
        Some(body) => (status, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        None => status.into_response(),
    };
    if answer.replayed {
        response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    response
}
