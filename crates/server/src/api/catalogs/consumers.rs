//! `/v1/catalogs/{catalog}/consumers` and the offsets below it.

use crate::api::answer::audited;
use crate::api::error::ApiError;
use crate::api::extract::{Caller, IdempotencyKey, JsonBody, Path};
use crate::app::App;
use crate::audit::Action;
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use hoglake_catalog::consumers::{CommitOffset, ConsumerList, ConsumerOffset};
use uuid::Uuid;

/// Lists every consumer with its offsets.
pub async fn list(State(app): State<App>, Path(catalog): Path<String>) -> Result<Json<ConsumerList>, ApiError> {
    Ok(Json(app.catalog.consumer_list(&catalog).await?))
}

/// Lists the offsets of one consumer.
pub async fn list_offsets(
    State(app): State<App>,
    Path((catalog, consumer)): Path<(String, String)>,
) -> Result<Json<Vec<ConsumerOffset>>, ApiError> {
    Ok(Json(app.catalog.consumer_offsets(&catalog, &consumer).await?))
}

/// Shows one offset.
pub async fn get_offset(
    State(app): State<App>,
    Path((catalog, consumer, table)): Path<(String, String, Uuid)>,
) -> Result<Json<ConsumerOffset>, ApiError> {
    Ok(Json(app.catalog.consumer_offset(&catalog, &consumer, table).await?))
}

/// Moves one offset forward.
pub async fn put_offset(
    State(app): State<App>,
    Path((catalog, consumer, table)): Path<(String, String, Uuid)>,
    caller: Caller,
    key: IdempotencyKey,
    body: JsonBody<CommitOffset>,
) -> Result<Response, ApiError> {
    let key = key.of_body(&body.bytes)?;
    let object = format!("{consumer} {table}");
    let result = app.catalog.consumer_commit_offset(&catalog, consumer, table, body.value, key).await;
    audited(&app, &caller, Action::OffsetCommit, &catalog, Some(&object), result)
}
