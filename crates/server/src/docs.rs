//! The contracts as the server shows them: `/openapi.yaml` for programs, `/docs` for people.

mod markdown;
mod page;
mod schema;

use crate::api::error::ApiError;
use crate::contract::{CATALOG, CONVERSION};
use axum::http::header;
use axum::response::{Html, IntoResponse};
use std::sync::OnceLock;

/// The contracts only change with the server.
const CACHE: (header::HeaderName, &str) = (header::CACHE_CONTROL, "max-age=300");
const YAML: (header::HeaderName, &str) = (header::CONTENT_TYPE, "application/yaml");

/// GET /openapi.yaml
pub async fn catalog_contract() -> impl IntoResponse {
    ([YAML, CACHE], CATALOG)
}

/// GET /openapi/conversion.yaml
pub async fn conversion_contract() -> impl IntoResponse {
    ([YAML, CACHE], CONVERSION)
}

/// GET /docs: one page without scripts, made from the contracts when it is first asked for.
pub async fn page() -> Result<impl IntoResponse, ApiError> {
    static PAGE: OnceLock<Result<String, String>> = OnceLock::new();
    let page = PAGE.get_or_init(|| page::render(&[CATALOG, CONVERSION]).map_err(|error| error.to_string()));
    let policy = (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'");
    match page {
        Ok(page) => Ok(([CACHE, policy], Html(page.as_str()))),
        Err(error) => Err(ApiError::fault(error.clone())),
    }
}
