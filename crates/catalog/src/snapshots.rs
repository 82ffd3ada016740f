//! Snapshots: resolve what a read means, list what happened.

mod list;

pub use list::{Snapshot, SnapshotChange, SnapshotCursor, SnapshotPage};

use crate::{Catalog, Error, Result};
use chrono::{DateTime, Utc};
use hoglake_model::{CatalogId, Refusal, SnapshotId, SnapshotSelector, snapshot, timestamp};
use serde::Serialize;
use sqlx::PgConnection;

/// A snapshot that can be read, and the catalog's range as of the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResolvedSnapshot {
    /// The snapshot to read at, in `[earliest, head]`.
    pub id: SnapshotId,
    /// When it was made.
    pub time: DateTime<Utc>,
    /// The newest snapshot.
    pub head: SnapshotId,
    /// The floor.
    pub earliest: SnapshotId,
    /// Whether the read named the snapshot by its id, so that its answer never changes.
    pub pinned: bool,
}

impl ResolvedSnapshot {
    /// Whether the newest snapshot is read: live rows are those without an end.
    pub fn is_head(&self) -> bool {
        self.id == self.head
    }

    /// The snapshot as an entity tag knows it: after a restore to an earlier moment its id is given again.
    pub(crate) fn stamp(&self) -> String {
        stamp(self.id, Some(self.time))
    }
}

#[derive(sqlx::FromRow)]
struct ResolveRow {
    head_snapshot: i64,
    earliest_snapshot: i64,
    earliest_snapshot_time: Option<DateTime<Utc>>,
    snapshot_id: Option<i64>,
    snapshot_time: Option<DateTime<Utc>>,
}

/// A snapshot by its id and time, which together never come again.
pub(crate) fn stamp(id: SnapshotId, time: Option<DateTime<Utc>>) -> String {
    format!("{id}@{}", time.map_or(0, |time| time.timestamp_micros()))
}

/// Finds the snapshot that `selector` means, in the caller's transaction.
///
/// # Errors
/// 422 for an id below 0 or above head; 410 for an id below the floor or a moment before it. A moment after head means
/// head.
///
/// # Source
/// OpenAPI `snapshot` and `at_timestamp`.
pub async fn resolve(
    connection: &mut PgConnection,
    catalog: CatalogId,
    selector: SnapshotSelector,
) -> Result<ResolvedSnapshot> {
    let (id, moment) = match selector {
        SnapshotSelector::Head => (None, None),
        SnapshotSelector::At(SnapshotId(id)) => (Some(id), None),
        SnapshotSelector::AtTimestamp(moment) => (None, Some(moment)),
    };
    let row: ResolveRow = sqlx::query_as(include_str!("../sql/snapshot/resolve.sql"))
        .bind(catalog.0)
        .bind(id)
        .bind(moment)
        .fetch_one(connection)
        .await?;
    let head = SnapshotId(row.head_snapshot);
    let earliest = row.earliest_snapshot;
    let reached = row.earliest_snapshot_time.map(timestamp::format);
    if let Some(id) = id {
        check_range(id, head, earliest, reached.as_deref())?;
    }
    match (row.snapshot_id, row.snapshot_time) {
        (Some(id), Some(time)) if id >= earliest => Ok(ResolvedSnapshot {
            id: SnapshotId(id),
            time,
            head,
            earliest: SnapshotId(earliest),
            pinned: matches!(selector, SnapshotSelector::At(_)),
        }),
        _ => match moment {
            Some(moment) => Err(snapshot::expired_timestamp(moment, earliest, reached.as_deref()).into()),
            None => Err(Error::Corrupt(format!("catalog {catalog}: snapshot {} has no row", id.unwrap_or(head.0)))),
        },
    }
}

/// Checks that `id` is a retained snapshot.
pub(crate) fn check_range(id: i64, head: SnapshotId, earliest: i64, reached: Option<&str>) -> Result<(), Refusal> {
    if id < 0 || id > head.0 {
        return Err(snapshot::out_of_range(id, head));
    }
    if id < earliest {
        return Err(snapshot::expired(id, earliest, reached));
    }
    Ok(())
}

/// `ResolvedSnapshot` of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SnapshotMoment {
    /// The snapshot.
    pub snapshot_id: SnapshotId,
    /// When it was made.
    #[serde(serialize_with = "timestamp::serialize")]
    pub snapshot_time: DateTime<Utc>,
}

impl Catalog {
    /// The snapshot that was head at `moment`.
    ///
    /// # Errors
    /// 404 for an unknown catalog; 410 for a moment before the floor.
    ///
    /// # Source
    /// OpenAPI `resolveSnapshot`.
    pub async fn snapshot_resolve(&self, catalog: &str, moment: DateTime<Utc>) -> Result<SnapshotMoment> {
        let catalog = self.catalog_find(catalog).await?;
        let mut transaction = self.read().await?;
        let found = resolve(&mut transaction, catalog.id, SnapshotSelector::AtTimestamp(moment)).await?;
        Ok(SnapshotMoment { snapshot_id: found.id, snapshot_time: found.time })
    }
}

/// When the floor of `catalog` was reached, as the API spells times; `None` while it has never moved.
///
/// # Errors
/// Any database error.
pub(crate) async fn floor_time(connection: &mut PgConnection, catalog: CatalogId) -> Result<Option<String>> {
    let reached: Option<DateTime<Utc>> = sqlx::query_scalar(include_str!("../sql/snapshot/floor_time.sql"))
        .bind(catalog.0)
        .fetch_one(connection)
        .await?;
    Ok(reached.map(timestamp::format))
}
