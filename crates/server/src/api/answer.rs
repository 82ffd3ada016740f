//! Answers of mutating requests, first or replayed.

use crate::api::error::ApiError;
use crate::api::extract::Caller;
use crate::app::App;
use crate::audit::Action;
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

/// The name under which snapshots record `caller`; nobody's when everybody may do everything.
pub(super) fn author(caller: &Caller) -> Option<String> {
    Some(caller.identity.actor.to_string()).filter(|actor| actor != "anonymous")
}

/// The HTTP form of what `caller` did to `object`, with its line in the audit trail.
pub(super) fn audited(
    app: &App,
    caller: &Caller,
    action: Action,
    catalog: &str,
    object: Option<&str>,
    result: hoglake_catalog::Result<Answer>,
) -> Result<Response, ApiError> {
    let result = result.map_err(ApiError::from);
    let detail = result.as_ref().ok().and_then(|answer| match (answer.snapshot, answer.replayed) {
        (Some(snapshot), replayed) => Some(format!("snapshot {snapshot}{}", if replayed { " (replayed)" } else { "" })),
        (None, true) => Some("replayed".to_owned()),
        (None, false) => None,
    });
    app.audit.record_result(caller, action, catalog, object, detail.as_deref(), &result);
    result.map(respond)
}
