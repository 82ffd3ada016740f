//! GET .../tables/{table}/changes

use crate::api::error::ApiError;
use crate::api::extract::{Path, Query};
use crate::api::listing;
use crate::app::App;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use hoglake_catalog::changes::ChangesRequest;
use serde::Deserialize;

/// Query parameters of [`get`].
#[derive(Debug, Deserialize)]
pub struct Parameters {
    from_snapshot: i64,
    to_snapshot: Option<i64>,
}

/// Shows what a table got in a window of snapshots.
pub async fn get(
    State(app): State<App>,
    Path((catalog, namespace, table)): Path<(String, String, String)>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let request = ChangesRequest {
        catalog,
        namespace,
        table,
        from_snapshot: parameters.from_snapshot,
        to_snapshot: parameters.to_snapshot,
        if_none_match: listing::if_none_match(&headers),
    };
    listing::respond(app.catalog.changes(request).await?)
}
