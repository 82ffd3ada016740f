//! `/v1/catalogs/{catalog}/maintenance`: the tasks that background work also does, on demand, and their ledgers.

use crate::api::answer::respond;
use crate::api::error::ApiError;
use crate::api::extract::{Caller, IdempotencyKey, Path, Query};
use crate::app::App;
use crate::audit::Action;
use crate::worker::{Trigger, WorkError, Worker};
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use hoglake_catalog::catalogs::CatalogIdentity;
use hoglake_catalog::expiry::check_batch;
use hoglake_catalog::idempotency::Answer;
use hoglake_catalog::removals::RemovalPage;
use hoglake_catalog::runs::RunPage;
use hoglake_catalog::verify::{Report, Status};
use hoglake_model::Refusal;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Entries of a page unless the request says otherwise.
const PAGE: i64 = 100;

/// What a task may be told.
#[derive(Debug, Deserialize)]
pub struct Bounds {
    batch: Option<i64>,
    #[serde(default)]
    dry_run: bool,
}

/// How deep to look.
#[derive(Debug, Deserialize)]
pub struct Depth {
    #[serde(default)]
    deep: bool,
}

/// A table, or everything.
#[derive(Debug, Deserialize)]
pub struct Scope {
    namespace: Option<String>,
    table: Option<String>,
}

/// A page of a ledger.
#[derive(Debug, Deserialize)]
pub struct Page {
    before: Option<i64>,
    limit: Option<i64>,
    state: Option<String>,
}

/// A task of one request: who asked, for what, under which key.
struct Asked {
    app: App,
    caller: Caller,
    key: IdempotencyKey,
    action: Action,
    dry_run: bool,
}

impl Asked {
    /// Does `work` on a catalog once for its key, with its line in the audit trail. A dry run changes nothing, so that it
    /// needs neither. Work that has begun is finished, even for a client that has gone.
    async fn answer<T, F>(
        self,
        catalog: &str,
        work: impl FnOnce(Worker, Arc<CatalogIdentity>) -> F,
    ) -> Result<Response, ApiError>
    where
        T: Serialize + Send + 'static,
        F: Future<Output = Result<T, WorkError>> + Send + 'static,
    {
        let Self { app, caller, key, action, dry_run } = self;
        let catalog = app.catalog.catalog_find(catalog).await?;
        let key = key.of_body(&[])?.filter(|_| !dry_run);
        if let Some(key) = &key
            && let Some(stored) = app.catalog.answer_find(catalog.id, key).await?
        {
            return Ok(respond(stored));
        }
        let work = work(app.worker.clone(), Arc::clone(&catalog));
        let result = tokio::spawn(work).await.map_err(ApiError::fault)?.map_err(ApiError::from);
        let body = match &result {
            Ok(result) => Some(serde_json::to_string(result).map_err(ApiError::fault)?),
            Err(_) => None,
        };
        if !dry_run {
            app.audit.record_result(&caller, action, &catalog.name, None, body.as_deref(), &result);
        }
        result?;
        let answer = Answer { status: 200, body, snapshot: None, replayed: false };
        if let Some(key) = &key {
            app.catalog.answer_store(catalog.id, key, &answer).await?;
        }
        Ok(respond(answer))
    }
}

/// Expires old snapshots.
pub async fn expire(
    State(app): State<App>,
    Path(catalog): Path<String>,
    Query(bounds): Query<Bounds>,
    caller: Caller,
    key: IdempotencyKey,
) -> Result<Response, ApiError> {
    let batch = check_batch(bounds.batch.unwrap_or(app.worker.settings.expiry_batch))?;
    let work = async move |worker: Worker, catalog: Arc<CatalogIdentity>| {
        worker.expire(&catalog, batch, bounds.dry_run, Trigger::Request).await
    };
    Asked { app, caller, key, action: Action::Expiry, dry_run: bounds.dry_run }.answer(&catalog, work).await
}

/// Merges small files.
pub async fn compact(
    State(app): State<App>,
    Path(catalog): Path<String>,
    Query(bounds): Query<Bounds>,
    caller: Caller,
    key: IdempotencyKey,
) -> Result<Response, ApiError> {
    let groups = match bounds.batch {
        Some(batch) => usize::try_from(check_batch(batch)?).unwrap_or(usize::MAX),
        None => app.worker.settings.compaction_max_groups_per_run,
    };
    let work = async move |worker: Worker, catalog: Arc<CatalogIdentity>| {
        worker.compact(&catalog, groups, bounds.dry_run, Trigger::Request).await
    };
    Asked { app, caller, key, action: Action::Compaction, dry_run: bounds.dry_run }.answer(&catalog, work).await
}

/// Deletes files that nothing refers to.
pub async fn cleanup(
    State(app): State<App>,
    Path(catalog): Path<String>,
    Query(bounds): Query<Bounds>,
    caller: Caller,
    key: IdempotencyKey,
) -> Result<Response, ApiError> {
    let batch = check_batch(bounds.batch.unwrap_or(app.worker.settings.cleanup_batch))?;
    let work = async move |worker: Worker, catalog: Arc<CatalogIdentity>| {
        worker.clean(&catalog, batch, bounds.dry_run, Trigger::Request).await
    };
    Asked { app, caller, key, action: Action::Cleanup, dry_run: bounds.dry_run }.answer(&catalog, work).await
}

/// Checks the invariants.
pub async fn verify(
    State(app): State<App>,
    Path(catalog): Path<String>,
    Query(depth): Query<Depth>,
    caller: Caller,
) -> Result<Json<Report>, ApiError> {
    let catalog = app.catalog.catalog_find(&catalog).await?;
    let result = app.worker.verify(&catalog, depth.deep).await.map_err(ApiError::from);
    let detail = match &result {
        Ok(report) if report.status == Status::Pass => Some("pass"),
        Ok(_) => Some("fail"),
        Err(_) => None,
    };
    app.audit.record_result(&caller, Action::Verify, &catalog.name, None, detail, &result);
    result.map(Json)
}

/// `RehydrateResult` of the contract.
#[derive(Debug, Serialize)]
struct Requeued {
    requeued: i64,
}

/// Queues failed files for hydration.
pub async fn rehydrate(
    State(app): State<App>,
    Path(catalog): Path<String>,
    Query(scope): Query<Scope>,
    caller: Caller,
    key: IdempotencyKey,
) -> Result<Response, ApiError> {
    if scope.namespace.is_some() != scope.table.is_some() {
        return Err(Refusal::validation("`namespace` and `table` belong together: give both, or neither").into());
    }
    let work = async move |worker: Worker, catalog: Arc<CatalogIdentity>| {
        let (namespace, table) = (scope.namespace.as_deref(), scope.table.as_deref());
        let requeued = worker.catalog.rehydrate(&catalog.name, namespace, table).await?;
        Ok::<_, WorkError>(Requeued { requeued })
    };
    Asked { app, caller, key, action: Action::Rehydrate, dry_run: false }.answer(&catalog, work).await
}

/// Lists the removal ledger.
pub async fn removals(
    State(app): State<App>,
    Path(catalog): Path<String>,
    Query(page): Query<Page>,
) -> Result<Json<RemovalPage>, ApiError> {
    const STATES: [&str; 4] = ["queued", "removed", "missing", "still_referenced"];
    if let Some(state) = page.state.as_deref().filter(|state| !STATES.contains(state)) {
        let state = hoglake_model::name::quoted(state);
        return Err(Refusal::validation(format!("state {state} must be one of {}", STATES.join(", "))).into());
    }
    let limit = page.limit.unwrap_or(PAGE);
    Ok(Json(app.catalog.removals_list(&catalog, page.state.as_deref(), page.before, limit).await?))
}

/// Lists the ledger of runs.
pub async fn runs(
    State(app): State<App>,
    Path(catalog): Path<String>,
    Query(page): Query<Page>,
) -> Result<Json<RunPage>, ApiError> {
    Ok(Json(app.catalog.runs_list(&catalog, page.before, page.limit.unwrap_or(PAGE)).await?))
}
