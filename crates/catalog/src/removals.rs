//! The removal queue: paths that expiry, drops and compaction have set free, and the ledger of what became of them.
//!
//! A cleaner claims paths, waits until every commit that could not see the claim has ended, asks who still refers to
//! them, deletes the rest without any transaction open, and settles. Commits refuse a queued path, so that after the
//! wait nobody can come to refer to it. That order is the whole safety argument; see [`Catalog::removals_claim`].

use crate::fault;
use crate::lock::begin_locked;
use crate::runs::page_limit;
use crate::{Catalog, Result};
use chrono::{DateTime, Utc};
use hoglake_model::{CatalogId, timestamp};
use serde::Serialize;
use sqlx::PgExecutor;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use uuid::Uuid;

/// How long a claim lasts. What it covers must not be deleted later; see [`Catalog::removals_hold`].
pub const CLAIM_LEASE: Duration = Duration::from_secs(900);

/// For how long claims last at least that [`Catalog::removals_hold`] returns.
pub const HELD: Duration = Duration::from_secs(600);

/// What one claim asks for.
#[derive(Debug, Clone, Copy)]
pub struct ClaimRequest {
    /// Who claims: one sweep.
    pub claimant: Uuid,
    /// Paths younger than this stay, for readers that planned before the expiry.
    pub min_age: Duration,
    /// Most paths.
    pub limit: i64,
    /// When the sweep began ([`Catalog::database_time`]): what it has tried once it does not try again.
    pub sweep_began: DateTime<Utc>,
}

/// A claimed path.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Claimed {
    /// Its queue entry.
    pub removal_id: i64,
    /// The object.
    pub path: String,
    /// Whether it is a deletion vector rather than a data file.
    pub is_vector: bool,
    /// Whether it was queued before it was written, so that its upload may have ended half-way.
    pub is_staged: bool,
}

/// How far a preview has come in the queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueuePosition {
    last_attempt_at: Option<DateTime<Utc>>,
    removal_id: Option<i64>,
}

/// A path that would be claimed, and when it was last tried.
#[derive(sqlx::FromRow)]
struct Queued {
    #[sqlx(flatten)]
    claimed: Claimed,
    last_attempt_at: Option<DateTime<Utc>>,
}

/// What a claim yielded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    /// Objects that nothing refers to: delete them, then settle.
    pub unreferenced: Vec<Claimed>,
    /// Paths that are still referred to, and by what. They have been given back.
    pub referenced: Vec<(Claimed, String)>,
}

impl Claims {
    /// Finds out which of these paths something still refers to.
    async fn told_apart(database: impl PgExecutor<'_>, claimed: Vec<Claimed>) -> Result<Self> {
        let paths: Vec<&str> = claimed.iter().map(|c| c.path.as_str()).collect();
        let rows: Vec<(String, String)> =
            sqlx::query_as(include_str!("../sql/removal/referenced.sql")).bind(paths).fetch_all(database).await?;
        let referrers: HashMap<String, String> = rows.into_iter().collect();
        let mut claims = Self::default();
        for claimed in claimed {
            match referrers.get(&claimed.path) {
                Some(referrer) => claims.referenced.push((claimed, referrer.clone())),
                None => claims.unreferenced.push(claimed),
            }
        }
        Ok(claims)
    }
}

/// What became of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was there and is gone.
    Deleted,
    /// It was not there.
    Absent,
}

impl Outcome {
    /// Its name in the ledger.
    fn as_str(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Absent => "absent",
        }
    }
}

/// `Removal` of the contract.
#[derive(Debug, Serialize, sqlx::FromRow)]
pub struct Removal {
    /// Grows with time.
    pub removal_id: i64,
    /// The object.
    pub path: String,
    /// `data` or `delete`.
    pub kind: String,
    /// What set it free.
    pub reason: String,
    /// `queued`, `removed`, `missing` or `still_referenced`.
    pub state: String,
    /// When it was queued.
    #[serde(rename = "queued_at", serialize_with = "timestamp::serialize")]
    pub scheduled_at: DateTime<Utc>,
    /// When it was settled.
    #[serde(serialize_with = "timestamp::serialize_option", skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<DateTime<Utc>>,
    /// How often it was tried.
    pub attempts: i32,
    /// When it was last tried.
    #[serde(serialize_with = "timestamp::serialize_option", skip_serializing_if = "Option::is_none")]
    pub last_attempt_at: Option<DateTime<Utc>>,
    /// Why it is still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// `RemovalPage` of the contract.
#[derive(Debug, Serialize)]
pub struct RemovalPage {
    /// Newest first.
    pub removals: Vec<Removal>,
    /// Whether older ones follow.
    pub has_more: bool,
}

/// Claims that one statement gives back: few, since it may compare each with each.
const RELEASE_PAGE: usize = 1_000;
/// Rows that one statement deletes from the ledger.
const PURGE_PAGE: i64 = 10_000;

impl Catalog {
    /// The database's clock: when a sweep begins, by the clock that claims are stamped with.
    ///
    /// # Errors
    /// Any database error.
    pub async fn database_time(&self) -> Result<DateTime<Utc>> {
        Ok(sqlx::query_scalar("select clock_timestamp()").fetch_one(self.background_pool()).await?)
    }

    /// Claims up to `limit` queued paths and finds out which of them nothing refers to.
    ///
    /// # Locks
    /// The commit lock of the catalog for an instant, between claim and liveness check, and nothing under it: whoever
    /// committed without seeing the queue entry has ended by then, and whoever commits later is refused the path.
    ///
    /// # Errors
    /// Any database error; claims then end by themselves after [`CLAIM_LEASE`].
    pub async fn removals_claim(&self, catalog: CatalogId, request: ClaimRequest) -> Result<Claims> {
        let claimed: Vec<Claimed> = sqlx::query_as(include_str!("../sql/removal/claim.sql"))
            .bind(catalog.0)
            .bind(request.claimant)
            .bind(CLAIM_LEASE.as_secs_f64())
            .bind(request.min_age.as_secs_f64())
            .bind(request.limit)
            .bind(request.sweep_began)
            .fetch_all(self.background_pool())
            .await?;
        if claimed.is_empty() {
            return Ok(Claims::default());
        }
        fault::point("cleanup.claimed");
        self.commit_barrier(catalog).await?;
        let claims = Claims::told_apart(self.background_pool(), claimed).await?;
        let errors: Vec<(i64, String)> = claims
            .referenced
            .iter()
            .map(|(claimed, referrer)| (claimed.removal_id, format!("still referenced by {referrer}")))
            .collect();
        self.removals_release(request.claimant, &errors).await?;
        fault::point("cleanup.checked");
        Ok(claims)
    }

    /// What [`Catalog::removals_claim`] would yield after `position`, which is moved on, in one REPEATABLE READ READ ONLY
    /// transaction. Nothing once the end of the queue is reached.
    ///
    /// # Errors
    /// Any database error.
    pub async fn removals_preview(
        &self,
        catalog: CatalogId,
        request: ClaimRequest,
        position: &mut QueuePosition,
    ) -> Result<Claims> {
        let mut transaction = self.read_in_background().await?;
        let queued: Vec<Queued> = sqlx::query_as(include_str!("../sql/removal/preview.sql"))
            .bind(catalog.0)
            .bind(request.min_age.as_secs_f64())
            .bind(request.limit)
            .bind(request.sweep_began)
            .bind(position.last_attempt_at)
            .bind(position.removal_id)
            .fetch_all(&mut *transaction)
            .await?;
        if let Some(last) = queued.last() {
            *position =
                QueuePosition { last_attempt_at: last.last_attempt_at, removal_id: Some(last.claimed.removal_id) };
        }
        Claims::told_apart(&mut *transaction, queued.into_iter().map(|queued| queued.claimed).collect()).await
    }

    /// Waits until every transaction that holds the commit lock of `catalog` now has ended.
    async fn commit_barrier(&self, catalog: CatalogId) -> Result<()> {
        let mut connection = self.background_pool().acquire().await?;
        let waited = async {
            begin_locked(&mut connection, catalog, self.options().commit_lock_timeout).await?.rollback().await
        }
        .await;
        if waited.is_err() {
            connection.close_on_drop();
        }
        Ok(waited?)
    }

    /// Which of these claims are ours still, and last for [`HELD`] from now; claims that would end sooner are renewed.
    ///
    /// Whoever lost a claim must not delete: the object may be gone, its path forgotten, and committed once more.
    ///
    /// # Errors
    /// Any database error.
    pub async fn removals_hold(&self, claimant: Uuid, claims: &[i64]) -> Result<HashSet<i64>> {
        let held: Vec<i64> = sqlx::query_scalar(include_str!("../sql/removal/hold.sql"))
            .bind(claimant)
            .bind(claims)
            .bind(HELD.as_secs_f64())
            .bind(CLAIM_LEASE.as_secs_f64())
            .fetch_all(self.background_pool())
            .await?;
        Ok(held.into_iter().collect())
    }

    /// Settles claims whose objects all became `outcome`; returns those that were still ours, the only ones to count.
    ///
    /// # Errors
    /// Any database error.
    pub async fn removals_settle(&self, claimant: Uuid, settled: &[i64], outcome: Outcome) -> Result<Vec<i64>> {
        if settled.is_empty() {
            return Ok(Vec::new());
        }
        let ours = sqlx::query_scalar(include_str!("../sql/removal/settle.sql"))
            .bind(claimant)
            .bind(settled)
            .bind(outcome.as_str())
            .fetch_all(self.background_pool())
            .await?;
        fault::point("cleanup.settled");
        Ok(ours)
    }

    /// Gives claims back, each with why its object stays; the queue goes on with others first.
    ///
    /// # Errors
    /// Any database error.
    pub async fn removals_release(&self, claimant: Uuid, errors: &[(i64, String)]) -> Result<()> {
        for errors in errors.chunks(RELEASE_PAGE) {
            sqlx::query(include_str!("../sql/removal/release.sql"))
                .bind(claimant)
                .bind(errors.iter().map(|(id, _)| *id).collect::<Vec<_>>())
                .bind(errors.iter().map(|(_, error)| error.as_str()).collect::<Vec<_>>())
                .execute(self.background_pool())
                .await?;
        }
        Ok(())
    }

    /// Gives back those of these claims that are not settled, as if they had never been made.
    ///
    /// # Errors
    /// Any database error; the claims then end by themselves.
    pub async fn removals_give_back(&self, claimant: Uuid, claims: &[i64]) -> Result<()> {
        sqlx::query(include_str!("../sql/removal/give_back.sql"))
            .bind(claimant)
            .bind(claims)
            .execute(self.background_pool())
            .await?;
        Ok(())
    }

    /// Forgets removals that were settled longer ago than `retention`, at most a page of them.
    ///
    /// # Errors
    /// Any database error.
    pub async fn removals_purge(&self, catalog: CatalogId, retention: Duration) -> Result<u64> {
        let done = sqlx::query(include_str!("../sql/removal/purge.sql"))
            .bind(catalog.0)
            .bind(retention.as_secs_f64())
            .bind(PURGE_PAGE)
            .execute(self.background_pool())
            .await?;
        Ok(done.rows_affected())
    }

    /// How many paths wait for removal.
    ///
    /// # Errors
    /// Any database error.
    pub async fn removals_depth(&self, catalog: CatalogId) -> Result<i64> {
        let depth = sqlx::query_scalar(include_str!("../sql/removal/depth.sql"));
        Ok(depth.bind(catalog.0).fetch_one(self.background_pool()).await?)
    }

    /// A page of the ledger, newest first: entries with an id below `before`, in `state` if one is given.
    ///
    /// # Errors
    /// 404 for an unknown catalog, 422 for a limit below 1 (one above 1000 counts as 1000).
    ///
    /// # Source
    /// OpenAPI `listRemovals`.
    pub async fn removals_list(
        &self,
        name: &str,
        state: Option<&str>,
        before: Option<i64>,
        limit: i64,
    ) -> Result<RemovalPage> {
        let limit = page_limit(limit)?;
        let catalog = self.catalog_find(name).await?;
        let mut removals: Vec<Removal> = sqlx::query_as(include_str!("../sql/removal/list.sql"))
            .bind(catalog.id.0)
            .bind(before)
            .bind(state)
            .bind(limit + 1)
            .bind(CLAIM_LEASE.as_secs_f64())
            .fetch_all(self.pool())
            .await?;
        let page = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = removals.len() > page;
        removals.truncate(page);
        Ok(RemovalPage { removals, has_more })
    }
}
