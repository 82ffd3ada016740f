//! `/v1/catalogs/{catalog}/namespaces` and one namespace below it.

pub mod tables;
pub mod views;

use crate::api::answer::{audited, author};
use crate::api::at::{self, At};
use crate::api::error::ApiError;
use crate::api::extract::{Caller, IdempotencyKey, JsonBody, Path, Query};
use crate::app::App;
use crate::audit::Action;
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use hoglake_catalog::namespaces::{CreateNamespace, Namespace};

/// Lists the namespaces as of a snapshot.
pub async fn list(
    State(app): State<App>,
    Path(catalog): Path<String>,
    Query(at): Query<At>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    app.catalog.catalog_find(&catalog).await?;
    let (snapshot, namespaces) = app.catalog.namespace_list(&catalog, at.selector()?).await?;
    at::respond(&headers, &snapshot, &namespaces)
}

/// Creates a namespace.
pub async fn create(
    State(app): State<App>,
    Path(catalog): Path<String>,
    caller: Caller,
    key: IdempotencyKey,
    body: JsonBody<CreateNamespace>,
) -> Result<Response, ApiError> {
    let key = key.of_body(&body.bytes)?;
    let name = body.value.name.clone();
    let result = app.catalog.namespace_create(&catalog, body.value, key, author(&caller)).await;
    audited(&app, &caller, Action::NamespaceCreate, &catalog, Some(&name), result)
}

/// Shows a namespace.
pub async fn get(
    State(app): State<App>,
    Path((catalog, namespace)): Path<(String, String)>,
) -> Result<Json<Namespace>, ApiError> {
    Ok(Json(app.catalog.namespace_get(&catalog, &namespace).await?))
}
