//! DDL: one request, one snapshot, under the commit lock, through the same queue as data commits.

use crate::commit::queue::{Job, Work};
use crate::idempotency::{Answer, IdempotencyKey};
use crate::{Catalog, Result};
use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use hoglake_model::{CatalogId, NamespaceId, SnapshotId, TableId, ViewId};
use serde::Serialize;
use sqlx::PgConnection;

/// The catalog row as read under the lock, advanced in memory, written back when the request is accepted.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct CatalogHead {
    /// The catalog.
    pub catalog_id: i64,
    /// Newest snapshot.
    pub head_snapshot: i64,
    /// Counts DDL requests.
    pub schema_version: i64,
    /// Oldest retained snapshot.
    pub earliest_snapshot: i64,
    /// Allocators.
    pub next_namespace_id: i64,
    /// Next table id.
    pub next_table_id: i64,
    /// Next view id.
    pub next_view_id: i64,
    /// Live tables.
    pub live_table_count: i64,
    /// Live data files of all live tables.
    pub live_file_count: i64,
}

/// One DDL request under way: the lock is held, the transaction is open, the next snapshot is reserved in memory.
///
/// The body checks its preconditions, writes versioned rows with [`Self::snapshot`] as begin or end, and says what it
/// did with [`Self::change`]. An error rolls everything back, allocators included.
pub struct DdlTransaction<'a> {
    connection: &'a mut PgConnection,
    head: CatalogHead,
    changes: Vec<(&'static str, i64)>,
    author: Option<String>,
}

impl<'a> DdlTransaction<'a> {
    pub(crate) fn new(connection: &'a mut PgConnection, head: CatalogHead) -> Self {
        Self { connection, head, changes: Vec::new(), author: None }
    }

    /// The connection, inside the transaction.
    pub fn connection(&mut self) -> &mut PgConnection {
        self.connection
    }

    /// The catalog.
    pub fn catalog(&self) -> CatalogId {
        CatalogId(self.head.catalog_id)
    }

    /// The newest snapshot before this request: what the request finds live is visible here.
    pub fn head(&self) -> SnapshotId {
        SnapshotId(self.head.head_snapshot)
    }

    /// The snapshot that this request makes: head + 1.
    pub fn snapshot(&self) -> SnapshotId {
        SnapshotId(self.head.head_snapshot + 1)
    }

    /// The schema version after this request.
    pub fn schema_version(&self) -> i64 {
        self.head.schema_version + 1
    }

    /// Takes a namespace id.
    pub fn allocate_namespace(&mut self) -> NamespaceId {
        self.head.next_namespace_id += 1;
        NamespaceId(self.head.next_namespace_id - 1)
    }

    /// Takes a table id.
    pub fn allocate_table(&mut self) -> TableId {
        self.head.next_table_id += 1;
        self.head.live_table_count += 1;
        TableId(self.head.next_table_id - 1)
    }

    /// Counts a dropped table and its live files out of the catalog's totals.
    pub fn count_dropped_table(&mut self, live_files: i64) {
        self.head.live_table_count -= 1;
        self.head.live_file_count -= live_files;
    }

    /// Takes a view id.
    pub fn allocate_view(&mut self) -> ViewId {
        self.head.next_view_id += 1;
        ViewId(self.head.next_view_id - 1)
    }

    /// Records that this request did `kind` (a literal of the change vocabulary) to the object `id`.
    pub fn change(&mut self, kind: &'static str, id: i64) {
        self.changes.push((kind, id));
    }

    /// The result of a request that answers with nothing else.
    pub fn result(&self) -> CommitResult {
        CommitResult { snapshot_id: self.snapshot(), schema_version: self.schema_version() }
    }

    /// Names the author of the snapshot, if one is known.
    pub fn set_author(&mut self, author: Option<String>) {
        self.author = author;
    }

    /// Writes snapshot, changes and allocators; returns the transaction's id and the snapshot's time.
    pub(crate) async fn finish(self) -> Result<(String, DateTime<Utc>), sqlx::Error> {
        let (kinds, objects): (Vec<&str>, Vec<i64>) = self.changes.into_iter().unzip();
        sqlx::query_as(include_str!("../sql/snapshot/mint_ddl.sql"))
            .bind(self.head.catalog_id)
            .bind(self.head.next_namespace_id)
            .bind(self.head.next_table_id)
            .bind(self.head.next_view_id)
            .bind(self.head.live_table_count)
            .bind(self.head.live_file_count)
            .bind(kinds)
            .bind(objects)
            .bind(self.author)
            .fetch_one(self.connection)
            .await
    }
}

/// `CommitResult` of the contract: the snapshot that a request made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CommitResult {
    /// The snapshot.
    pub snapshot_id: SnapshotId,
    /// The schema version since then.
    pub schema_version: i64,
}

/// The body of a DDL request.
pub type DdlBody = Box<dyn for<'t> FnOnce(&'t mut DdlTransaction<'_>) -> BoxFuture<'t, Result<Answer>> + Send + Sync>;

/// Makes the answer of a DDL request: `value` as JSON with `status`, and the snapshot the request makes.
///
/// # Errors
/// [`Error::Corrupt`](crate::Error::Corrupt) when `value` cannot be written as JSON.
pub fn answer(ddl: &DdlTransaction<'_>, status: u16, value: &impl Serialize) -> Result<Answer> {
    let body = serde_json::to_string(value).map_err(|e| crate::Error::Corrupt(e.to_string()))?;
    Ok(Answer { status, body: Some(body), snapshot: Some(ddl.snapshot()), replayed: false })
}

impl Catalog {
    /// Runs a DDL request under the commit lock of `catalog`, as a group of one.
    ///
    /// # Locks
    /// The catalog's commit lock, for the length of `body`.
    ///
    /// # Errors
    /// What `body` refuses; 503 `commit_queue_timeout` when queue, connection and lock took longer than the budget.
    pub async fn ddl<F>(&self, catalog: CatalogId, key: Option<IdempotencyKey>, body: F) -> Result<Answer>
    where
        F: for<'t> FnOnce(&'t mut DdlTransaction<'_>) -> BoxFuture<'t, Result<Answer>> + Send + Sync + 'static,
    {
        Job::submit(self, catalog, Work::Ddl(Box::new(body)), key).await
    }
}
