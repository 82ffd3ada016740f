//! `/v1/catalogs/{catalog}/namespaces/{namespace}/tables` and one table below it.

pub mod changes;
pub mod files;
pub mod scan;

use crate::api::answer::{audited, author};
use crate::api::at::{self, At};
use crate::api::error::ApiError;
use crate::api::extract::{Caller, IdempotencyKey, JsonBody, Path, Query};
use crate::app::App;
use crate::audit::Action;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use hoglake_catalog::tables::CreateTable;
use hoglake_model::alter::AlterRequest;
use serde::Deserialize;

/// Lists the tables as of a snapshot.
pub async fn list(
    State(app): State<App>,
    Path((catalog, namespace)): Path<(String, String)>,
    Query(at): Query<At>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    app.catalog.catalog_find(&catalog).await?;
    let (snapshot, tables) = app.catalog.table_list(&catalog, &namespace, at.selector()?).await?;
    at::respond(&headers, &snapshot, &tables)
}

/// Creates a table.
pub async fn create(
    State(app): State<App>,
    Path((catalog, namespace)): Path<(String, String)>,
    caller: Caller,
    key: IdempotencyKey,
    body: JsonBody<CreateTable>,
) -> Result<Response, ApiError> {
    let key = key.of_body(&body.bytes)?;
    let object = format!("{namespace}.{}", body.value.name);
    let result = app.catalog.table_create(&catalog, namespace, body.value, key, author(&caller)).await;
    audited(&app, &caller, Action::TableCreate, &catalog, Some(&object), result)
}

/// Query parameters of [`get`] beside those of [`At`].
#[derive(Debug, Deserialize)]
pub struct WithTotals {
    totals: Option<bool>,
}

/// Shows a table as of a snapshot.
pub async fn get(
    State(app): State<App>,
    Path((catalog, namespace, table)): Path<(String, String, String)>,
    Query(at): Query<At>,
    Query(with): Query<WithTotals>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    app.catalog.catalog_find(&catalog).await?;
    let totals = with.totals.unwrap_or(true);
    let (snapshot, table) = app.catalog.table_get(&catalog, &namespace, &table, at.selector()?, totals).await?;
    at::respond(&headers, &snapshot, &table)
}

/// Drops a table.
pub async fn drop(
    State(app): State<App>,
    Path((catalog, namespace, table)): Path<(String, String, String)>,
    caller: Caller,
    key: IdempotencyKey,
) -> Result<Response, ApiError> {
    let key = key.of_body(&[])?;
    let object = format!("{namespace}.{table}");
    let result = app.catalog.table_drop(&catalog, namespace, table, key, author(&caller)).await;
    audited(&app, &caller, Action::TableDrop, &catalog, Some(&object), result)
}

/// Evolves a table.
pub async fn alter(
    State(app): State<App>,
    Path((catalog, namespace, table)): Path<(String, String, String)>,
    caller: Caller,
    key: IdempotencyKey,
    body: JsonBody<AlterRequest>,
) -> Result<Response, ApiError> {
    let key = key.of_body(&body.bytes)?;
    let object = format!("{namespace}.{table}");
    let result = app.catalog.table_alter(&catalog, namespace, table, body.value, key, author(&caller)).await;
    audited(&app, &caller, Action::TableAlter, &catalog, Some(&object), result)
}
