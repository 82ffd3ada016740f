//! GET .../tables/{table}/scan

use crate::api::error::ApiError;
use crate::api::extract::{Path, Query};
use crate::api::listing;
use crate::app::App;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use hoglake_catalog::scan::ScanRequest;
use serde::Deserialize;

/// Query parameters of [`get`].
#[derive(Debug, Deserialize)]
pub struct Parameters {
    snapshot: Option<String>,
    at_timestamp: Option<String>,
    filter: Option<String>,
    stats: Option<bool>,
}

/// Plans a scan.
pub async fn get(
    State(app): State<App>,
    Path((catalog, namespace, table)): Path<(String, String, String)>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let request = ScanRequest {
        catalog,
        namespace,
        table,
        snapshot: parameters.snapshot,
        at_timestamp: parameters.at_timestamp,
        filter: parameters.filter,
        stats: parameters.stats.unwrap_or(false),
        if_none_match: listing::if_none_match(&headers),
    };
    listing::respond(app.catalog.scan(request).await?)
}
