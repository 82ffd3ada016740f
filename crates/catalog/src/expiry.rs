//! Expiry: forgets old snapshots, and what only they could see.
//!
//! A sweep has two parts. The floor moves in one short transaction under the commit lock: from then on the history
//! below it answers 410. What lies below is then deleted page by page, without the lock and within a time budget; a
//! sweep that is cut short, or killed, is continued by the next one, because what is to go is told by the floor alone.

mod purge;

pub use purge::PAGE_SETTINGS;

use crate::fault;
use crate::lock::{begin_locked, move_floor};
use crate::{Catalog, Result};
use hoglake_model::retention::{Floor, History, Pin, floor};
use hoglake_model::{CatalogId, Refusal, SnapshotId};
use serde::Serialize;
use sqlx::PgConnection;
use std::time::Duration;

/// How much one sweep may do.
#[derive(Debug, Clone, Copy)]
pub struct ExpiryLimits {
    /// Snapshots that the floor may pass.
    pub batch: i64,
    /// Rows that one purge statement takes.
    pub page: i64,
    /// How long purging may go on.
    pub budget: Duration,
    /// Whether to make way for whoever commits meanwhile ([`Pace`](crate::pace::Pace)).
    pub rests: bool,
}

impl Default for ExpiryLimits {
    fn default() -> Self {
        Self { batch: 10_000, page: 10_000, budget: Duration::from_secs(30), rests: false }
    }
}

/// `ExpiryResult` of the contract.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ExpiryResult {
    /// By how much the floor rose.
    pub snapshots_expired: i64,
    /// Data files whose paths went to the removal queue.
    pub data_files_queued: i64,
    /// Deletion vectors whose paths went to the removal queue.
    pub delete_files_queued: i64,
    /// The floor now.
    pub new_earliest_snapshot_id: i64,
    /// The consumer that capped the sweep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floored_by_consumer: Option<String>,
    /// Whether the time budget ended the sweep before all was purged.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unfinished: bool,
}

impl ExpiryResult {
    /// Whether the sweep changed anything.
    pub fn did_something(&self) -> bool {
        self.snapshots_expired + self.data_files_queued + self.delete_files_queued > 0
    }
}

#[derive(sqlx::FromRow)]
struct Inspection {
    head_snapshot: i64,
    earliest_snapshot: i64,
    snapshot_retention_seconds: Option<i64>,
    consumer_floor: bool,
    first_young: Option<i64>,
    slowest_consumer: Option<String>,
    slowest_committed: Option<i64>,
    slowest_publication: Option<String>,
    publication_committed: Option<i64>,
}

impl Inspection {
    async fn read(connection: &mut PgConnection, catalog: CatalogId) -> Result<Self, sqlx::Error> {
        sqlx::query_as(include_str!("../sql/expiry/inspect.sql")).bind(catalog.0).fetch_one(connection).await
    }

    /// Where the floor goes; nowhere without a retention.
    fn floor(&self, batch: i64) -> Floor {
        let earliest = SnapshotId(self.earliest_snapshot);
        if self.snapshot_retention_seconds.is_none() {
            return Floor { snapshot: earliest, floored_by: None };
        }
        let history =
            History { earliest, head: SnapshotId(self.head_snapshot), first_young: self.first_young.map(SnapshotId) };
        floor(history, batch, &self.pins(), self.consumer_floor)
    }

    fn pins(&self) -> Vec<Pin> {
        let pin = |consumer: &Option<String>, committed: Option<i64>| {
            Some(Pin {
                protected: consumer.as_deref()?.starts_with("publication:"),
                consumer: consumer.clone()?,
                committed: SnapshotId(committed?),
            })
        };
        [
            pin(&self.slowest_consumer, self.slowest_committed),
            pin(&self.slowest_publication, self.publication_committed),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Checks a `batch` parameter of a maintenance request.
///
/// # Errors
/// 422 below 1.
pub fn check_batch(batch: i64) -> Result<i64, Refusal> {
    if batch < 1 {
        return Err(Refusal::validation(format!("batch {batch} must be at least 1")));
    }
    Ok(batch)
}

impl Catalog {
    /// Runs one expiry sweep.
    ///
    /// # Locks
    /// The commit lock and the floor lock of the catalog while the floor moves (three statements); never while rows are
    /// purged. Pages of one catalog are purged one at a time, whoever purges.
    ///
    /// # Errors
    /// Any database error. What was done until then stays done.
    ///
    /// # Source
    /// OpenAPI `runExpiry`.
    pub async fn expire(&self, catalog: CatalogId, limits: ExpiryLimits) -> Result<ExpiryResult> {
        let result = self.expire_floor(catalog, limits).await?;
        self.expire_purge(catalog, result, limits).await
    }

    /// The first half of [`Catalog::expire`]: moves the floor.
    ///
    /// # Errors
    /// Any database error.
    pub async fn expire_floor(&self, catalog: CatalogId, limits: ExpiryLimits) -> Result<ExpiryResult> {
        let result = self.advance_floor(catalog, limits.batch).await?;
        fault::point("expiry.floor_advanced");
        Ok(result)
    }

    /// Whether the second half has something to do: what lies below the floor, left by a sweep before perhaps.
    ///
    /// # Errors
    /// Any database error.
    pub async fn expire_is_due(&self, catalog: CatalogId, moved: &ExpiryResult) -> Result<bool> {
        let due = sqlx::query_scalar(include_str!("../sql/expiry/due.sql"));
        let due = due.bind(catalog.0).bind(moved.new_earliest_snapshot_id);
        Ok(moved.snapshots_expired > 0 || due.fetch_one(self.background_pool()).await?)
    }

    /// The second half: purges what lies below the floor that the first half has told of.
    ///
    /// # Errors
    /// Any database error. What was done until then stays done.
    pub async fn expire_purge(
        &self,
        catalog: CatalogId,
        moved: ExpiryResult,
        limits: ExpiryLimits,
    ) -> Result<ExpiryResult> {
        let mut result = moved;
        let purged = self.purge(catalog, SnapshotId(result.new_earliest_snapshot_id), limits).await?;
        result.data_files_queued = purged.data_files;
        result.delete_files_queued = purged.delete_files;
        result.unfinished = purged.unfinished;
        Ok(result)
    }

    /// What [`Catalog::expire`] would do, in one REPEATABLE READ READ ONLY transaction.
    ///
    /// # Errors
    /// Any database error.
    pub async fn expire_preview(&self, catalog: CatalogId, limits: ExpiryLimits) -> Result<ExpiryResult> {
        let mut transaction = self.read_in_background().await?;
        let inspection = Inspection::read(&mut transaction, catalog).await?;
        let floor = inspection.floor(limits.batch);
        let (data_files_queued, delete_files_queued) = sqlx::query_as(include_str!("../sql/expiry/preview.sql"))
            .bind(catalog.0)
            .bind(floor.snapshot.0)
            .fetch_one(&mut *transaction)
            .await?;
        Ok(ExpiryResult {
            snapshots_expired: floor.snapshot.0 - inspection.earliest_snapshot,
            data_files_queued,
            delete_files_queued,
            new_earliest_snapshot_id: floor.snapshot.0,
            floored_by_consumer: floor.floored_by,
            unfinished: false,
        })
    }

    async fn advance_floor(&self, catalog: CatalogId, batch: i64) -> Result<ExpiryResult> {
        let mut connection = self.background_pool().acquire().await?;
        // most sweeps find nothing to expire, and need no lock to see it
        let before = Inspection::read(&mut connection, catalog).await?;
        let floor = before.floor(batch);
        let mut result = ExpiryResult {
            new_earliest_snapshot_id: floor.snapshot.0,
            floored_by_consumer: floor.floored_by,
            ..ExpiryResult::default()
        };
        if floor.snapshot.0 <= before.earliest_snapshot {
            return Ok(result);
        }
        let moved = async {
            let mut transaction = begin_locked(&mut connection, catalog, self.options().commit_lock_timeout).await?;
            // offsets that were accepted are committed, and the next ones will meet the new floor
            move_floor(&mut transaction, catalog).await?;
            let inspection = Inspection::read(&mut transaction, catalog).await?;
            let floor = inspection.floor(batch);
            sqlx::query(include_str!("../sql/expiry/advance.sql"))
                .bind(catalog.0)
                .bind(floor.snapshot.0)
                .execute(&mut *transaction)
                .await?;
            fault::point("expiry.before_floor_commit");
            transaction.commit().await?;
            Ok::<_, sqlx::Error>((inspection.earliest_snapshot, floor))
        }
        .await;
        match moved {
            Ok((earliest, floor)) => {
                result.snapshots_expired = floor.snapshot.0 - earliest;
                result.new_earliest_snapshot_id = floor.snapshot.0;
                result.floored_by_consumer = floor.floored_by;
                Ok(result)
            }
            Err(error) => {
                connection.close_on_drop();
                Err(error.into())
            }
        }
    }
}
