//! What there is to publish: the changefeed of one table in a window of snapshots, one snapshot after the other.

use super::lease::Claim;
use crate::hydration::PendingColumn;
use crate::{Catalog, Result, tables};
use chrono::{DateTime, Utc};
use hoglake_model::SnapshotId;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use uuid::Uuid;

/// Files, and vectors, that one window reads at most; the rest is for the next one.
const WINDOW_ROWS: i64 = 256;

/// Where a publication stands.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Standing {
    /// Everything up to here is acknowledged.
    pub committed_snapshot: i64,
    /// The newest snapshot.
    pub head_snapshot: i64,
    /// The floor.
    pub earliest_snapshot: i64,
    /// Where the table ended, if it did.
    pub dropped_snapshot: Option<i64>,
    /// Its namespace.
    pub last_namespace: String,
    /// Its name, the last one if it was dropped.
    pub last_name: String,
    /// Another table that has the name of this one, which was dropped.
    pub successor: Option<Uuid>,
}

/// The changes of one snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotChanges {
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// When it was made.
    pub time: Option<DateTime<Utc>>,
    /// The columns as of the snapshot, in order; empty when nothing was appended.
    pub columns: Arc<Vec<PendingColumn>>,
    /// Files that came, by first row id.
    pub appended: Vec<AppendedFile>,
    /// Vectors that came.
    pub deleted: Vec<DeletedRows>,
}

/// A window of a table's history. It is whole: up to `to` there is nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The last snapshot that it covers.
    pub to: SnapshotId,
    /// Snapshots that changed rows, ascending.
    pub snapshots: Vec<SnapshotChanges>,
}

/// A file of rows.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct AppendedFile {
    /// The file.
    pub data_file_id: i64,
    /// When it came.
    pub begin_snapshot: i64,
    /// The object.
    pub path: String,
    /// Rows.
    pub record_count: i64,
    /// Bytes.
    pub file_size_bytes: i64,
    /// Bytes of the footer, as registered.
    pub footer_size: Option<i64>,
    /// The first of its row ids.
    pub row_id_start: i64,
    /// Whether it carries its row ids in a column.
    pub explicit_row_ids: bool,
    /// The vector that it came with: its object,
    pub vector_path: Option<String>,
    /// and its deleted rows.
    pub delete_count: Option<i64>,
}

/// A deletion vector, what it replaced, and its file.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct DeletedRows {
    /// The vector.
    pub delete_file_id: i64,
    /// When it came.
    pub begin_snapshot: i64,
    /// Its object.
    pub vector_path: String,
    /// Rows that it deletes.
    pub delete_count: i64,
    /// The vector before it: its object,
    pub before_path: Option<String>,
    /// and its deleted rows.
    pub before_count: Option<i64>,
    /// The file.
    pub data_file_id: i64,
    /// Its object.
    pub path: String,
    /// Its rows.
    pub record_count: i64,
    /// Its bytes.
    pub file_size_bytes: i64,
    /// Bytes of its footer, as registered.
    pub footer_size: Option<i64>,
    /// The first of its row ids.
    pub row_id_start: i64,
    /// Whether it carries its row ids in a column.
    pub explicit_row_ids: bool,
}

impl Catalog {
    /// Where a publication stands; `None` when it is gone.
    ///
    /// # Errors
    /// Any database error.
    pub async fn publication_standing(&self, claim: &Claim) -> Result<Option<Standing>> {
        Ok(sqlx::query_as(include_str!("../../sql/publication/window.sql"))
            .bind(claim.catalog.0)
            .bind(claim.id)
            .fetch_optional(self.background_pool())
            .await?)
    }

    /// What the table got in `(from, to]`, or in as much of that as one window holds. What compaction did is no change.
    ///
    /// # Ordering
    /// By snapshot; in each, files by first row id, vectors by file.
    ///
    /// # Errors
    /// Any database error.
    pub async fn publication_window(&self, claim: &Claim, from: SnapshotId, to: SnapshotId) -> Result<Window> {
        self.publication_window_of(claim, from, to, WINDOW_ROWS).await
    }

    async fn publication_window_of(
        &self,
        claim: &Claim,
        from: SnapshotId,
        to: SnapshotId,
        limit: i64,
    ) -> Result<Window> {
        let begin = "begin isolation level repeatable read read only";
        let mut transaction = self.background_pool().begin_with(begin).await?;
        let (catalog, table) = (claim.catalog.0, claim.table.0);
        let compactions: Vec<i64> = sqlx::query_scalar(include_str!("../../sql/scan/compactions.sql"))
            .bind(catalog)
            .bind(table)
            .bind(from.0)
            .bind(to.0)
            .fetch_all(&mut *transaction)
            .await?;
        let mut appended: Vec<AppendedFile> = sqlx::query_as(include_str!("../../sql/publication/appended.sql"))
            .bind(catalog)
            .bind(table)
            .bind(from.0)
            .bind(to.0)
            .bind(&compactions)
            .bind(limit)
            .fetch_all(&mut *transaction)
            .await?;
        let mut deleted: Vec<DeletedRows> = sqlx::query_as(include_str!("../../sql/publication/deleted.sql"))
            .bind(catalog)
            .bind(table)
            .bind(from.0)
            .bind(to.0)
            .bind(limit)
            .fetch_all(&mut *transaction)
            .await?;
        let full = |rows: usize| i64::try_from(rows).is_ok_and(|rows| rows == limit);
        let mut end = to.0;
        for (last, full) in [
            (appended.last().map(|file| file.begin_snapshot), full(appended.len())),
            (deleted.last().map(|rows| rows.begin_snapshot), full(deleted.len())),
        ] {
            if let Some(last) = last.filter(|_| full) {
                // the last snapshot of a full answer may lack rows: it is left to the next window
                end = end.min(last - 1);
            }
        }
        appended.retain(|file| file.begin_snapshot <= end);
        deleted.retain(|rows| rows.begin_snapshot <= end);
        if appended.is_empty() && deleted.is_empty() && end < to.0 {
            // one snapshot alone fills the answer: it is read whole. It has as many files as one commit may have
            transaction.rollback().await?;
            return Box::pin(self.publication_window_of(claim, from, SnapshotId(end + 1), i64::MAX)).await;
        }
        let mut snapshots = assemble(appended, deleted);
        let ids: Vec<i64> = snapshots.iter().map(|changes| changes.snapshot.0).collect();
        let times: Vec<(i64, DateTime<Utc>)> = sqlx::query_as(include_str!("../../sql/publication/times.sql"))
            .bind(catalog)
            .bind(ids)
            .fetch_all(&mut *transaction)
            .await?;
        let times: HashMap<i64, DateTime<Utc>> = times.into_iter().collect();
        let mut known: Option<(i64, Arc<Vec<PendingColumn>>)> = None;
        for changes in &mut snapshots {
            changes.time = times.get(&changes.snapshot.0).copied();
            if changes.appended.is_empty() {
                continue;
            }
            let columns = match known.take() {
                Some((before, columns)) if !altered(&mut transaction, claim, before, changes.snapshot.0).await? => {
                    columns
                }
                _ => Arc::new(columns_at(&mut transaction, claim, changes.snapshot).await?),
            };
            changes.columns = Arc::clone(&columns);
            known = Some((changes.snapshot.0, columns));
        }
        transaction.rollback().await?;
        Ok(Window { to: SnapshotId(end), snapshots })
    }
}

fn assemble(appended: Vec<AppendedFile>, deleted: Vec<DeletedRows>) -> Vec<SnapshotChanges> {
    let mut by_snapshot: BTreeMap<i64, SnapshotChanges> = BTreeMap::new();
    let empty = |snapshot| SnapshotChanges {
        snapshot: SnapshotId(snapshot),
        time: None,
        columns: Arc::default(),
        appended: Vec::new(),
        deleted: Vec::new(),
    };
    for file in appended {
        by_snapshot.entry(file.begin_snapshot).or_insert_with(|| empty(file.begin_snapshot)).appended.push(file);
    }
    for rows in deleted {
        by_snapshot.entry(rows.begin_snapshot).or_insert_with(|| empty(rows.begin_snapshot)).deleted.push(rows);
    }
    by_snapshot.into_values().collect()
}

async fn altered(connection: &mut sqlx::PgConnection, claim: &Claim, after: i64, upto: i64) -> Result<bool> {
    Ok(sqlx::query_scalar(include_str!("../../sql/publication/altered.sql"))
        .bind(claim.catalog.0)
        .bind(claim.table.0)
        .bind(after)
        .bind(upto)
        .fetch_one(connection)
        .await?)
}

async fn columns_at(
    connection: &mut sqlx::PgConnection,
    claim: &Claim,
    snapshot: SnapshotId,
) -> Result<Vec<PendingColumn>> {
    let definition = tables::definition_at(connection, claim.catalog, claim.table, &claim.name, snapshot).await?;
    Ok(definition
        .columns
        .into_iter()
        .map(|column| PendingColumn {
            field_id: column.field_id,
            name: Some(column.name),
            ty: column.column_type,
            nullable: column.nullable,
        })
        .collect())
}
