//! `/v1/catalogs/{catalog}/publications` and one publication below it.

use crate::api::answer::audited;
use crate::api::error::ApiError;
use crate::api::extract::{Caller, IdempotencyKey, JsonBody, Path};
use crate::app::App;
use crate::audit::Action;
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use hoglake_catalog::publications::{CreatePublication, Publication};

/// Lists the publications.
pub async fn list(State(app): State<App>, Path(catalog): Path<String>) -> Result<Json<Vec<Publication>>, ApiError> {
    Ok(Json(app.catalog.publication_list(&catalog).await?))
}

/// Creates a publication.
pub async fn create(
    State(app): State<App>,
    Path(catalog): Path<String>,
    caller: Caller,
    key: IdempotencyKey,
    body: JsonBody<CreatePublication>,
) -> Result<Response, ApiError> {
    let key = key.of_body(&body.bytes)?;
    let object = body.value.name.clone();
    let result = app.catalog.publication_create(&catalog, body.value, key).await;
    audited(&app, &caller, Action::PublicationCreate, &catalog, Some(&object), result)
}

/// Shows a publication.
pub async fn get(
    State(app): State<App>,
    Path((catalog, publication)): Path<(String, String)>,
) -> Result<Json<Publication>, ApiError> {
    Ok(Json(app.catalog.publication_get(&catalog, &publication).await?))
}

/// Drops a publication.
pub async fn drop(
    State(app): State<App>,
    Path((catalog, publication)): Path<(String, String)>,
    caller: Caller,
    key: IdempotencyKey,
) -> Result<Response, ApiError> {
    let key = key.of_body(&[])?;
    let result = app.catalog.publication_drop(&catalog, publication.clone(), key).await;
    audited(&app, &caller, Action::PublicationDrop, &catalog, Some(&publication), result)
}

/// Lets a halted publication go on.
pub async fn resume(
    State(app): State<App>,
    Path((catalog, publication)): Path<(String, String)>,
    caller: Caller,
    key: IdempotencyKey,
) -> Result<Response, ApiError> {
    let key = key.of_body(&[])?;
    let result = app.catalog.publication_resume(&catalog, publication.clone(), key).await;
    audited(&app, &caller, Action::PublicationResume, &catalog, Some(&publication), result)
}
