//! Pages through snapshots.

use crate::{Catalog, Error, Result};
use chrono::{DateTime, Utc};
use hoglake_model::{Refusal, timestamp};
use serde::{Deserialize, Serialize};

/// Snapshots in one page, unless the request says otherwise.
const DEFAULT_LIMIT: i64 = 1000;

/// Most snapshots in one page.
const MAX_LIMIT: i64 = 10_000;

/// Query parameters of the listing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct SnapshotCursor {
    /// Ids above this one, ascending. Default 0, which leaves genesis out.
    pub after: Option<i64>,
    /// Ids below this one, descending.
    pub before: Option<i64>,
    /// Most snapshots in the page.
    pub limit: Option<i64>,
}

/// `SnapshotPage` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SnapshotPage {
    /// In the order of the walk.
    pub snapshots: Vec<Snapshot>,
    /// Whether the walk goes on past the last of them.
    pub has_more: bool,
}

/// `Snapshot` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// The id.
    pub snapshot_id: i64,
    /// When it was made.
    #[serde(serialize_with = "timestamp::serialize")]
    pub snapshot_time: DateTime<Utc>,
    /// DDL requests until then.
    pub schema_version: i64,
    /// Who made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What it changed; nothing in genesis.
    pub changes: Vec<SnapshotChange>,
}

/// One change of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotChange {
    /// A literal of the closed vocabulary.
    pub kind: String,
    /// The table, namespace or view.
    pub object_id: i64,
}

#[derive(sqlx::FromRow)]
struct SnapshotRow {
    snapshot_id: i64,
    snapshot_time: DateTime<Utc>,
    schema_version: i64,
    author: Option<String>,
    message: Option<String>,
    changes: Option<String>,
}

impl SnapshotCursor {
    /// # Errors
    /// 422 for two cursors, or a limit below 1.
    fn check(self) -> Result<(), Refusal> {
        if self.before.is_some() && self.after.is_some_and(|after| after != 0) {
            return Err(Refusal::validation("`after` and `before` exclude each other; walk one way at a time"));
        }
        match self.limit {
            Some(limit) if limit < 1 => Err(Refusal::validation(format!("limit {limit} must be at least 1"))),
            _ => Ok(()),
        }
    }
}

impl Catalog {
    /// A page of retained snapshots with their changes.
    ///
    /// # Ordering
    /// Ascending from `after`, descending from `before`.
    ///
    /// # Errors
    /// 404 for an unknown catalog; 422 for two cursors or a limit below 1. A limit above 10000 counts as 10000.
    ///
    /// # Source
    /// OpenAPI `listSnapshots`.
    pub async fn snapshot_list(&self, catalog: &str, cursor: SnapshotCursor) -> Result<SnapshotPage> {
        let catalog = self.catalog_find(catalog).await?;
        cursor.check()?;
        let (statement, from) = match cursor.before {
            Some(before) => (include_str!("../../sql/snapshot/list_before.sql"), before),
            None => (include_str!("../../sql/snapshot/list_after.sql"), cursor.after.unwrap_or(0)),
        };
        let limit = cursor.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
        let mut rows: Vec<SnapshotRow> =
            sqlx::query_as(statement).bind(catalog.id.0).bind(from).bind(limit + 1).fetch_all(self.pool()).await?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        Ok(SnapshotPage { snapshots: rows.into_iter().map(SnapshotRow::decode).collect::<Result<_>>()?, has_more })
    }
}

impl SnapshotRow {
    fn decode(self) -> Result<Snapshot> {
        let changes = self.changes.map(|text| serde_json::from_str(&text)).transpose();
        Ok(Snapshot {
            snapshot_id: self.snapshot_id,
            snapshot_time: self.snapshot_time,
            schema_version: self.schema_version,
            author: self.author,
            message: self.message,
            changes: changes.map_err(|e| Error::Corrupt(format!("snapshot_change: {e}")))?.unwrap_or_default(),
        })
    }
}
