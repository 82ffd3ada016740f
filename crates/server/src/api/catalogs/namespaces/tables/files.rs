//! GET .../tables/{table}/files

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
}

/// Lists the files of a table.
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
        if_none_match: listing::if_none_match(&headers),
        ..ScanRequest::default()
    };
    listing::respond(app.catalog.files(request).await?)
}
