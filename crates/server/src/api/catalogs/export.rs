//! GET /v1/catalogs/{catalog}/export

use crate::api::error::ApiError;
use crate::api::extract::{Path, Query};
use crate::api::listing;
use crate::app::App;
use axum::extract::State;
use axum::response::Response;
use hoglake_catalog::listing::Listing;
use serde::Deserialize;

/// Query parameters of [`get`].
#[derive(Debug, Deserialize)]
pub struct Parameters {
    unlisted: Option<bool>,
}

/// Lists everything live at head.
pub async fn get(
    State(app): State<App>,
    Path(catalog): Path<String>,
    Query(parameters): Query<Parameters>,
) -> Result<Response, ApiError> {
    let body = app.catalog.export(&catalog, parameters.unlisted.unwrap_or(false)).await?;
    listing::respond(Listing { etag: None, files: None, body: Some(body) })
}
