//! The ledger of maintenance runs: what each task did, when, how long, with which result.

use crate::{Catalog, Result};
use chrono::{DateTime, Utc};
use hoglake_model::{CatalogId, Refusal, timestamp};
use serde::Serialize;
use serde_json::value::RawValue;
use std::time::Duration;

/// How often a run says that it goes on,
pub const HEARTBEAT: Duration = Duration::from_secs(15);
/// and after how long a silence its server counts as dead.
pub const SILENCE: Duration = Duration::from_secs(60);

/// What the ledger says of a run whose server is not heard of any more,
const SILENT: &str = "its server is not heard of any more: it was killed, or cut off from the database. What the run had \
                      done stays done, what it had claimed is due again";
/// and of one that its server left.
const LEFT: &str = "its server stopped before the run had ended. What the run had done stays done, what it had claimed is \
                    due again";

/// A run that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunId(pub i64);

/// `MaintenanceRun` of the contract.
#[derive(Debug, Serialize)]
pub struct Run {
    /// Grows with time.
    pub run_id: i64,
    /// Such as `expire`.
    pub task: String,
    /// When it began.
    #[serde(serialize_with = "timestamp::serialize")]
    pub started_at: DateTime<Utc>,
    /// When it ended, or was last heard of when its server died; absent while it runs.
    #[serde(serialize_with = "timestamp::serialize_option", skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<DateTime<Utc>>,
    /// `running`, `done`, `failed`, or `abandoned` when its server ended first.
    pub outcome: &'static str,
    /// What the endpoint of the task answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `MaintenanceRunPage` of the contract.
#[derive(Debug, Serialize)]
pub struct RunPage {
    /// Newest first.
    pub runs: Vec<Run>,
    /// Whether older ones follow.
    pub has_more: bool,
}

/// A verification that has ended.
#[derive(Debug, sqlx::FromRow)]
pub struct Verified {
    /// Name of the catalog.
    pub catalog: String,
    /// When.
    pub finished_at: DateTime<Utc>,
    /// The report, as JSON.
    pub report: String,
}

/// Verifications that one sample takes at most.
const VERIFIED: i64 = 1_000;

#[derive(sqlx::FromRow)]
struct Row {
    run_id: i64,
    task: String,
    started_at: DateTime<Utc>,
    finished_at: Option<DateTime<Utc>>,
    result: Option<String>,
    error: Option<String>,
    abandoned: bool,
}

impl From<Row> for Run {
    fn from(row: Row) -> Self {
        let outcome = match (&row.finished_at, &row.error) {
            _ if row.abandoned => "abandoned",
            (None, _) => "running",
            (Some(_), None) => "done",
            (Some(_), Some(_)) => "failed",
        };
        let error = row.error.or_else(|| row.abandoned.then(|| SILENT.to_owned()));
        Self {
            run_id: row.run_id,
            task: row.task,
            started_at: row.started_at,
            finished_at: row.finished_at,
            outcome,
            result: row.result.and_then(|text| RawValue::from_string(text).ok()),
            error,
        }
    }
}

/// Rows that one statement deletes from a ledger.
const PURGE_PAGE: i64 = 10_000;

impl Catalog {
    /// The names of all catalogs, for work that goes through them.
    ///
    /// # Errors
    /// Any database error.
    pub async fn catalog_names(&self) -> Result<Vec<String>> {
        let names = sqlx::query_scalar("select name from catalog order by catalog_id");
        Ok(names.fetch_all(self.background_pool()).await?)
    }

    /// Opens a run in the ledger.
    ///
    /// # Errors
    /// Any database error.
    pub async fn run_begin(&self, catalog: CatalogId, task: &str) -> Result<RunId> {
        let id = sqlx::query_scalar(include_str!("../sql/maintenance_run/begin.sql"))
            .bind(catalog.0)
            .bind(task)
            .fetch_one(self.background_pool())
            .await?;
        Ok(RunId(id))
    }

    /// Says that a run goes on; to be called every [`HEARTBEAT`].
    ///
    /// # Errors
    /// Any database error.
    pub async fn run_seen(&self, run: RunId) -> Result<()> {
        let seen = sqlx::query(include_str!("../sql/maintenance_run/seen.sql"));
        seen.bind(run.0).execute(self.background_pool()).await?;
        Ok(())
    }

    /// Closes a run that this server leaves before its end.
    ///
    /// # Errors
    /// Any database error.
    pub async fn run_leave(&self, run: RunId) -> Result<()> {
        let leave = sqlx::query(include_str!("../sql/maintenance_run/give_up.sql"));
        leave.bind(run.0).bind(LEFT).execute(self.background_pool()).await?;
        Ok(())
    }

    /// Closes runs of a catalog whose servers have not been heard of for [`SILENCE`]. Which tasks they did.
    ///
    /// # Errors
    /// Any database error.
    pub async fn runs_close_abandoned(&self, catalog: CatalogId) -> Result<Vec<String>> {
        Ok(sqlx::query_scalar(include_str!("../sql/maintenance_run/abandon.sql"))
            .bind(catalog.0)
            .bind(SILENCE.as_secs_f64())
            .bind(SILENT)
            .fetch_all(self.background_pool())
            .await?)
    }

    /// Whether a run of `task` that came to a result has begun within this time, on whichever server.
    ///
    /// # Errors
    /// Any database error.
    pub async fn run_is_recent(&self, catalog: CatalogId, task: &str, within: Duration) -> Result<bool> {
        Ok(sqlx::query_scalar(include_str!("../sql/maintenance_run/recent.sql"))
            .bind(catalog.0)
            .bind(task)
            .bind(within.as_secs_f64())
            .fetch_one(self.background_pool())
            .await?)
    }

    /// Verifications that ended after `moment`, whichever server made them.
    ///
    /// # Ordering
    /// Oldest first; of many the newest thousand.
    ///
    /// # Errors
    /// Any database error.
    pub async fn verified_since(&self, moment: DateTime<Utc>) -> Result<Vec<Verified>> {
        let mut verified: Vec<Verified> = sqlx::query_as(include_str!("../sql/maintenance_run/verified.sql"))
            .bind(moment)
            .bind(VERIFIED)
            .fetch_all(self.pool())
            .await?;
        verified.reverse();
        Ok(verified)
    }

    /// Closes a run with its result as JSON, or with why it failed.
    ///
    /// # Errors
    /// Any database error.
    pub async fn run_finish(&self, run: RunId, outcome: std::result::Result<&str, &str>) -> Result<()> {
        sqlx::query(include_str!("../sql/maintenance_run/finish.sql"))
            .bind(run.0)
            .bind(outcome.ok())
            .bind(outcome.err())
            .execute(self.background_pool())
            .await?;
        Ok(())
    }

    /// Forgets a run that found nothing to do, so that idle loops do not fill the ledger.
    ///
    /// # Errors
    /// Any database error.
    pub async fn run_discard(&self, run: RunId) -> Result<()> {
        sqlx::query(include_str!("../sql/maintenance_run/discard.sql"))
            .bind(run.0)
            .execute(self.background_pool())
            .await?;
        Ok(())
    }

    /// Forgets runs that are older than `retention`, at most a page of them.
    ///
    /// # Errors
    /// Any database error.
    pub async fn runs_purge(&self, catalog: CatalogId, retention: Duration) -> Result<u64> {
        let done = sqlx::query(include_str!("../sql/maintenance_run/purge.sql"))
            .bind(catalog.0)
            .bind(retention.as_secs_f64())
            .bind(PURGE_PAGE)
            .execute(self.background_pool())
            .await?;
        Ok(done.rows_affected())
    }

    /// A page of the ledger, newest first: runs with an id below `before`.
    ///
    /// # Errors
    /// 404 for an unknown catalog, 422 for a limit below 1 (one above 1000 counts as 1000).
    ///
    /// # Source
    /// OpenAPI `listMaintenanceRuns`.
    pub async fn runs_list(&self, name: &str, before: Option<i64>, limit: i64) -> Result<RunPage> {
        let limit = page_limit(limit)?;
        let catalog = self.catalog_find(name).await?;
        let mut rows: Vec<Row> = sqlx::query_as(include_str!("../sql/maintenance_run/list.sql"))
            .bind(catalog.id.0)
            .bind(before)
            .bind(limit + 1)
            .bind(SILENCE.as_secs_f64())
            .fetch_all(self.pool())
            .await?;
        let page = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = rows.len() > page;
        rows.truncate(page);
        Ok(RunPage { runs: rows.into_iter().map(Run::from).collect(), has_more })
    }
}

/// The rows of one page of a ledger.
pub(crate) fn page_limit(limit: i64) -> Result<i64, Refusal> {
    if limit < 1 {
        return Err(Refusal::validation(format!("limit {limit} must be at least 1")));
    }
    Ok(limit.min(1000))
}
