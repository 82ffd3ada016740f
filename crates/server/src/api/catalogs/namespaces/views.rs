//! `/v1/catalogs/{catalog}/namespaces/{namespace}/views` and one view below it.

use crate::api::answer::{audited, author};
use crate::api::error::ApiError;
use crate::api::extract::{Caller, IdempotencyKey, JsonBody, Path};
use crate::app::App;
use crate::audit::Action;
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use hoglake_catalog::views::{CreateView, View};

/// Lists the views.
pub async fn list(
    State(app): State<App>,
    Path((catalog, namespace)): Path<(String, String)>,
) -> Result<Json<Vec<View>>, ApiError> {
    Ok(Json(app.catalog.view_list(&catalog, &namespace).await?))
}

/// Creates a view.
pub async fn create(
    State(app): State<App>,
    Path((catalog, namespace)): Path<(String, String)>,
    caller: Caller,
    key: IdempotencyKey,
    body: JsonBody<CreateView>,
) -> Result<Response, ApiError> {
    let key = key.of_body(&body.bytes)?;
    let object = format!("{namespace}.{}", body.value.name);
    let result = app.catalog.view_create(&catalog, namespace, body.value, key, author(&caller)).await;
    audited(&app, &caller, Action::ViewCreate, &catalog, Some(&object), result)
}

/// Shows a view.
pub async fn get(
    State(app): State<App>,
    Path((catalog, namespace, view)): Path<(String, String, String)>,
) -> Result<Json<View>, ApiError> {
    Ok(Json(app.catalog.view_get(&catalog, &namespace, &view).await?))
}

/// Drops a view.
pub async fn drop(
    State(app): State<App>,
    Path((catalog, namespace, view)): Path<(String, String, String)>,
    caller: Caller,
    key: IdempotencyKey,
) -> Result<Response, ApiError> {
    let key = key.of_body(&[])?;
    let object = format!("{namespace}.{view}");
    let result = app.catalog.view_drop(&catalog, namespace, view, key, author(&caller)).await;
    audited(&app, &caller, Action::ViewDrop, &catalog, Some(&object), result)
}
