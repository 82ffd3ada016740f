//! `/v1/catalogs` and one catalog below it.

pub mod commit;
pub mod consumers;
pub mod export;
pub mod maintenance;
pub mod namespaces;
pub mod options;
pub mod publications;
pub mod snapshots;
pub mod stats;

use crate::api::answer::audited;
use crate::api::error::ApiError;
use crate::api::extract::{Caller, IdempotencyKey, JsonBody, Path};
use crate::app::App;
use crate::audit::Action;
use crate::auth::Access;
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use hoglake_catalog::catalogs::{CatalogSummary, CreateCatalog};

/// Lists the catalogs that the caller may read.
pub async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Vec<CatalogSummary>>, ApiError> {
    let mut catalogs = app.catalog.catalog_list().await?;
    catalogs.retain(|catalog| caller.identity.may(Access::Read, &catalog.name));
    Ok(Json(catalogs))
}

/// Creates a catalog.
pub async fn create(
    State(app): State<App>,
    caller: Caller,
    key: IdempotencyKey,
    body: JsonBody<CreateCatalog>,
) -> Result<Response, ApiError> {
    let key = key.of_body(&body.bytes)?;
    let name = body.value.name.clone();
    let result = app.catalog.catalog_create(body.value, key).await;
    audited(&app, &caller, Action::CatalogCreate, &name, None, result)
}

/// Shows a catalog.
pub async fn get(State(app): State<App>, Path(catalog): Path<String>) -> Result<Json<CatalogSummary>, ApiError> {
    Ok(Json(app.catalog.catalog_get(&catalog).await?))
}
