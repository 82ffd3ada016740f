//! `/v1/catalogs/{catalog}/snapshots`

use crate::api::error::ApiError;
use crate::api::extract::{Path, Query};
use crate::app::App;
use axum::Json;
use axum::extract::State;
use hoglake_catalog::snapshots::{SnapshotCursor, SnapshotMoment, SnapshotPage};
use hoglake_model::{Refusal, timestamp};
use serde::Deserialize;

/// Pages through the snapshots.
pub async fn list(
    State(app): State<App>,
    Path(catalog): Path<String>,
    Query(cursor): Query<SnapshotCursor>,
) -> Result<Json<SnapshotPage>, ApiError> {
    Ok(Json(app.catalog.snapshot_list(&catalog, cursor).await?))
}

/// Query parameters of [`resolve`].
#[derive(Debug, Deserialize)]
pub struct Moment {
    at_timestamp: Option<String>,
}

/// The snapshot that was head at a moment.
pub async fn resolve(
    State(app): State<App>,
    Path(catalog): Path<String>,
    Query(moment): Query<Moment>,
) -> Result<Json<SnapshotMoment>, ApiError> {
    app.catalog.catalog_find(&catalog).await?;
    let moment =
        moment.at_timestamp.ok_or_else(|| Refusal::bad_request("query parameter `at_timestamp` is missing"))?;
    let moment = timestamp::parse("at_timestamp", &moment)?;
    Ok(Json(app.catalog.snapshot_resolve(&catalog, moment).await?))
}
