//! `/v1/catalogs/{catalog}/maintenance`: the tasks that background work also does, on demand, and their ledgers.

use crate::api::answer::{audited, respond};
use crate::api::error::{ApiError, chain};
use crate::api::extract::{Caller, IdempotencyKey, Path, Query};
use crate::app::App;
use crate::audit::Action;
use crate::worker::{HYDRATION_BITE, Trigger, WorkError};
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use hoglake_catalog::catalogs::CatalogIdentity;
use hoglake_catalog::expiry::check_batch;
use hoglake_catalog::idempotency::{self, Answer};
use hoglake_catalog::removals::RemovalPage;
use hoglake_catalog::runs::RunPage;
use hoglake_catalog::verify::{Report, Status};
use hoglake_model::Refusal;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Entries of a page unless the request says otherwise.
const PAGE: i64 = 100;

/// What a task may be told. A parameter that is misspelt must not turn a preview into the task itself.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    batch: Option<i64>,
    #[serde(default)]
    dry_run: bool,
}

/// How deep to look.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Depth {
    #[serde(default)]
    deep: bool,
}

/// A table, or everything.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
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
    catalog: Arc<CatalogIdentity>,
    action: Action,
    dry_run: bool,
}

impl Asked {
    /// Does `work` once for its key, with its line in the audit trail. A dry run changes nothing, so that it needs neither.
    /// Work that has begun is finished, answered and audited, even for a client that has gone.
    async fn answer<T: Serialize + Send + 'static>(
        self,
        work: impl Future<Output = Result<T, WorkError>> + Send + 'static,
    ) -> Result<Response, ApiError> {
        let key = self.key.of_body(&[])?.filter(|_| !self.dry_run);
        if let Some(key) = &key
            && let Some(stored) = self.app.catalog.answer_claim(self.catalog.id, key).await?
        {
            return audited(&self.app, &self.caller, self.action, &self.catalog.name, None, Ok(stored));
        }
        tokio::spawn(self.work(key, work)).await.map_err(ApiError::fault)?.map(respond)
    }

    async fn work<T: Serialize>(
        self,
        key: Option<idempotency::IdempotencyKey>,
        work: impl Future<Output = Result<T, WorkError>>,
    ) -> Result<Answer, ApiError> {
        let result = self.keep_claim(key.as_ref(), work).await.map_err(ApiError::from);
        let result = result.and_then(|done| serde_json::to_string(&done).map_err(ApiError::fault));
        let (app, catalog) = (&self.app, &self.catalog);
        if !self.dry_run {
            let body = result.as_ref().ok().map(String::as_str);
            app.audit.record_result(&self.caller, self.action, &catalog.name, None, body, &result);
        }
        match result {
            Ok(body) => {
                let answer = Answer { status: 200, body: Some(body), snapshot: None, replayed: false };
                if let Some(key) = &key {
                    app.catalog.answer_settle(catalog.id, key, &answer).await?;
                }
                Ok(answer)
            }
            Err(error) => {
                if let Some(key) = &key
                    && let Err(error) = app.catalog.answer_release(catalog.id, key).await
                {
                    tracing::warn!(error = chain(&error), "the claim of an Idempotency-Key stays until it runs out");
                }
                Err(error)
            }
        }
    }

    /// Does `work`, and renews the claim of `key` meanwhile.
    async fn keep_claim<T>(
        &self,
        key: Option<&idempotency::IdempotencyKey>,
        work: impl Future<Output = Result<T, WorkError>>,
    ) -> Result<T, WorkError> {
        let mut work = std::pin::pin!(work);
        let Some(key) = key else { return work.await };
        loop {
            tokio::select! {
                done = work.as_mut() => return done,
                () = tokio::time::sleep(idempotency::CLAIM_LEASE / 4) => {
                    if let Err(error) = self.app.catalog.answer_renew(self.catalog.id, key).await {
                        tracing::warn!(error = chain(&error), "the claim of an Idempotency-Key was not renewed");
                    }
                }
            }
        }
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
    let catalog = app.catalog.catalog_find(&catalog).await?;
    let (action, dry_run) = (Action::Expiry, bounds.dry_run);
    let (worker, target) = (app.worker.clone(), Arc::clone(&catalog));
    let work = async move { worker.expire(&target, batch, dry_run, Trigger::Request).await };
    Asked { app, caller, key, catalog, action, dry_run }.answer(work).await
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
    let catalog = app.catalog.catalog_find(&catalog).await?;
    let (action, dry_run) = (Action::Compaction, bounds.dry_run);
    let (worker, target) = (app.worker.clone(), Arc::clone(&catalog));
    let work = async move { worker.compact(&target, groups, dry_run, Trigger::Request).await };
    Asked { app, caller, key, catalog, action, dry_run }.answer(work).await
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
    let catalog = app.catalog.catalog_find(&catalog).await?;
    let (action, dry_run) = (Action::Cleanup, bounds.dry_run);
    let (worker, target) = (app.worker.clone(), Arc::clone(&catalog));
    let work = async move { worker.clean(&target, batch, dry_run, Trigger::Request).await };
    Asked { app, caller, key, catalog, action, dry_run }.answer(work).await
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

/// Reads footers of files without statistics.
pub async fn hydrate(
    State(app): State<App>,
    Path(catalog): Path<String>,
    caller: Caller,
    key: IdempotencyKey,
) -> Result<Response, ApiError> {
    let catalog = app.catalog.catalog_find(&catalog).await?;
    let (worker, target) = (app.worker.clone(), Arc::clone(&catalog));
    let work = async move { worker.hydrate(&target, HYDRATION_BITE, Trigger::Request).await };
    Asked { app, caller, key, catalog, action: Action::Hydration, dry_run: false }.answer(work).await
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
    let catalog = app.catalog.catalog_find(&catalog).await?;
    let (worker, target) = (app.worker.clone(), Arc::clone(&catalog));
    let work = async move { worker.rehydrate(&target, scope.namespace.as_deref(), scope.table.as_deref()).await };
    Asked { app, caller, key, catalog, action: Action::Rehydrate, dry_run: false }.answer(work).await
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
