//! POST /v1/catalogs/{catalog}/commit

use crate::api::answer::respond;
use crate::api::error::ApiError;
use crate::api::extract::{Caller, IdempotencyKey, JsonBody, Path};
use crate::app::App;
use axum::extract::State;
use axum::response::Response;
use hoglake_model::commit::CommitRequest;

/// Commits appends and deletes as one snapshot.
pub async fn commit(
    State(app): State<App>,
    Path(catalog): Path<String>,
    caller: Caller,
    key: IdempotencyKey,
    body: JsonBody<CommitRequest>,
) -> Result<Response, ApiError> {
    let key = key.of_body(&body.bytes)?;
    let _ = caller;
    Ok(respond(app.catalog.commit(&catalog, body.value, key).await?))
}
