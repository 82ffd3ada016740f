//! GET /v1/catalogs/{catalog}/stats/partitions

use crate::api::error::ApiError;
use crate::api::extract::{Path, Query};
use crate::app::App;
use axum::Json;
use axum::extract::State;
use hoglake_catalog::partition_totals::PartitionReport;
use serde::Deserialize;

/// Groups of a report unless the request says otherwise.
const DEFAULT_LIMIT: i64 = 50;

/// Which partitions.
#[derive(Debug, Deserialize)]
pub struct Selection {
    namespace: Option<String>,
    table: Option<String>,
    limit: Option<i64>,
}

/// Ranks partitions by the files that compaction could merge.
pub async fn list(
    State(app): State<App>,
    Path(catalog): Path<String>,
    Query(selection): Query<Selection>,
) -> Result<Json<PartitionReport>, ApiError> {
    let Selection { namespace, table, limit } = selection;
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    let report = app.catalog.partition_report(&catalog, namespace.as_deref(), table.as_deref(), limit).await?;
    Ok(Json(report))
}
