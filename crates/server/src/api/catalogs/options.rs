//! `/v1/catalogs/{catalog}/options`

use crate::api::answer::audited;
use crate::api::error::ApiError;
use crate::api::extract::{Caller, IdempotencyKey, JsonBody, Path};
use crate::app::App;
use crate::audit::Action;
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use hoglake_catalog::catalogs::{CatalogOptions, PatchCatalogOptions};

/// Shows the retention options.
pub async fn get(State(app): State<App>, Path(catalog): Path<String>) -> Result<Json<CatalogOptions>, ApiError> {
    Ok(Json(app.catalog.catalog_options(&catalog).await?))
}

/// Changes the retention options.
pub async fn patch(
    State(app): State<App>,
    Path(catalog): Path<String>,
    caller: Caller,
    key: IdempotencyKey,
    body: JsonBody<PatchCatalogOptions>,
) -> Result<Response, ApiError> {
    let key = key.of_body(&body.bytes)?;
    let result = app.catalog.catalog_patch_options(&catalog, body.value, key).await;
    audited(&app, &caller, Action::OptionsPatch, &catalog, None, result)
}
