//! Hydration: files without statistics, claimed for reading their footers, and what the footers said.

use crate::commit::write::StatisticsRows;
use crate::partition_totals::check_scope;
use crate::{Catalog, Error, Result};
use hoglake_model::{CatalogId, ColumnStats, ColumnType, FieldId, FileId, Refusal, TableId};
use sqlx::PgExecutor;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// A column that a footer may describe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingColumn {
    /// Its id.
    pub field_id: FieldId,
    /// Its name when the file was registered; `None` when it came later.
    pub name: Option<String>,
    /// Its type now.
    pub ty: ColumnType,
    /// Whether it may be null.
    pub nullable: bool,
}

/// A claimed file.
#[derive(Debug, Clone)]
pub struct PendingFile {
    /// The file.
    pub id: FileId,
    /// Its table.
    pub table: TableId,
    /// The object.
    pub path: String,
    /// Rows, as registered.
    pub record_count: i64,
    /// Bytes, as registered.
    pub file_size_bytes: i64,
    /// Bytes of the footer, as registered.
    pub footer_size: Option<i64>,
    /// How often it was claimed, this time included.
    pub attempts: i32,
    /// The live columns of its table.
    pub columns: Arc<Vec<PendingColumn>>,
}

/// What reading a footer gave.
#[derive(Debug, Clone)]
pub enum Hydrated {
    /// Statistics.
    Provided {
        /// Of the columns that the file carries.
        statistics: Vec<ColumnStats>,
        /// Whether some leaf carries no field id.
        missing_field_ids: bool,
        /// Bytes of the footer as found.
        footer_size: Option<i64>,
    },
    /// The file cannot be used; why, for an operator.
    Failed(String),
    /// The store could not serve it; try again after the delay.
    Retry(String, Duration),
    /// There was no time left to ask for it; it is due again at once.
    NotBegun,
}

#[derive(sqlx::FromRow)]
struct FileRow {
    data_file_id: i64,
    table_id: i64,
    begin_snapshot: i64,
    path: String,
    record_count: i64,
    file_size_bytes: i64,
    footer_size: Option<i64>,
    attempts: i32,
}

#[derive(sqlx::FromRow)]
struct ColumnRow {
    table_id: i64,
    snapshot_id: i64,
    field_id: i64,
    name: Option<String>,
    r#type: String,
    type_params: Option<String>,
    nullable: bool,
}

/// The live columns of tables by table and snapshot, under the names that they had at the snapshot.
pub(crate) async fn columns_as_named_at(
    executor: impl PgExecutor<'_>,
    catalog: CatalogId,
    pairs: BTreeSet<(i64, i64)>,
) -> Result<HashMap<(i64, i64), Arc<Vec<PendingColumn>>>> {
    if pairs.is_empty() {
        return Ok(HashMap::new());
    }
    let (tables, snapshots): (Vec<i64>, Vec<i64>) = pairs.into_iter().unzip();
    let rows: Vec<ColumnRow> = sqlx::query_as(include_str!("../sql/hydration/columns.sql"))
        .bind(catalog.0)
        .bind(tables)
        .bind(snapshots)
        .fetch_all(executor)
        .await?;
    let mut schemas: HashMap<(i64, i64), Vec<PendingColumn>> = HashMap::new();
    for row in rows {
        schemas.entry((row.table_id, row.snapshot_id)).or_default().push(PendingColumn {
            field_id: FieldId(row.field_id),
            ty: column_type(&row.r#type, row.type_params.as_deref())?,
            name: row.name,
            nullable: row.nullable,
        });
    }
    Ok(schemas.into_iter().map(|(key, columns)| (key, Arc::new(columns))).collect())
}

/// A stored column type.
fn column_type(literal: &str, params: Option<&str>) -> Result<ColumnType> {
    let params =
        params.map(serde_json::from_str).transpose().map_err(|e| Error::Corrupt(format!("type_params: {e}")))?;
    ColumnType::parse(literal, params.as_ref()).map_err(|e| Error::Corrupt(e.to_string()))
}

impl Catalog {
    /// Claims up to `limit` live pending files for `lease`. A claim that is not settled is due again when it ends.
    ///
    /// # Errors
    /// Any database error.
    pub async fn hydration_claim(
        &self,
        catalog: CatalogId,
        claimant: Uuid,
        lease: Duration,
        limit: i64,
    ) -> Result<Vec<PendingFile>> {
        let rows: Vec<FileRow> = sqlx::query_as(include_str!("../sql/hydration/claim.sql"))
            .bind(catalog.0)
            .bind(claimant)
            .bind(lease.as_secs_f64())
            .bind(limit)
            .fetch_all(self.background_pool())
            .await?;
        let pairs: BTreeSet<(i64, i64)> = rows.iter().map(|r| (r.table_id, r.begin_snapshot)).collect();
        let schemas = columns_as_named_at(self.background_pool(), catalog, pairs).await?;
        Ok(rows
            .into_iter()
            .map(|row| PendingFile {
                id: FileId(row.data_file_id),
                table: TableId(row.table_id),
                path: row.path,
                record_count: row.record_count,
                file_size_bytes: row.file_size_bytes,
                footer_size: row.footer_size,
                attempts: row.attempts,
                columns: schemas.get(&(row.table_id, row.begin_snapshot)).cloned().unwrap_or_default(),
            })
            .collect())
    }

    /// Stores what footers said, for claims that are still `claimant`'s; returns how many files were provided and how
    /// many marked failed.
    ///
    /// # Errors
    /// Any database error.
    pub async fn hydration_settle(
        &self,
        catalog: CatalogId,
        claimant: Uuid,
        outcomes: &[(FileId, Hydrated)],
    ) -> Result<(i64, i64)> {
        let mut files: (Vec<i64>, Vec<bool>, Vec<Option<i64>>) = Default::default();
        let mut rows = StatisticsRows::default();
        let mut failed: (Vec<i64>, Vec<&str>) = Default::default();
        let mut retried: (Vec<i64>, Vec<f64>, Vec<&str>) = Default::default();
        let mut released: Vec<i64> = Vec::new();
        for (file, outcome) in outcomes {
            match outcome {
                Hydrated::Provided { statistics, missing_field_ids, footer_size } => {
                    files.0.push(file.0);
                    files.1.push(*missing_field_ids);
                    files.2.push(*footer_size);
                    if !statistics.is_empty() {
                        rows.push(*file, statistics);
                    }
                }
                Hydrated::Failed(reason) => {
                    failed.0.push(file.0);
                    failed.1.push(reason);
                }
                Hydrated::NotBegun => released.push(file.0),
                Hydrated::Retry(error, delay) => {
                    retried.0.push(file.0);
                    retried.1.push(delay.as_secs_f64());
                    retried.2.push(error);
                }
            }
        }
        let mut provided = 0;
        if !files.0.is_empty() {
            provided = sqlx::query_scalar(include_str!("../sql/hydration/settle.sql"))
                .bind(catalog.0)
                .bind(claimant)
                .bind(files.0)
                .bind(files.1)
                .bind(files.2)
                .bind(rows.file_ids)
                .bind(rows.field_ids)
                .bind(rows.value_counts)
                .bind(rows.null_counts)
                .bind(rows.nan_counts)
                .bind(rows.sizes)
                .bind(rows.lower_bounds)
                .bind(rows.upper_bounds)
                .fetch_one(self.background_pool())
                .await?;
        }
        let mut marked = 0;
        if !failed.0.is_empty() {
            marked = sqlx::query_scalar(include_str!("../sql/hydration/fail.sql"))
                .bind(catalog.0)
                .bind(claimant)
                .bind(failed.0)
                .bind(failed.1)
                .fetch_one(self.background_pool())
                .await?;
        }
        if !retried.0.is_empty() {
            sqlx::query(include_str!("../sql/hydration/retry.sql"))
                .bind(catalog.0)
                .bind(claimant)
                .bind(retried.0)
                .bind(retried.1)
                .bind(retried.2)
                .execute(self.background_pool())
                .await?;
        }
        if !released.is_empty() {
            sqlx::query(include_str!("../sql/hydration/release.sql"))
                .bind(catalog.0)
                .bind(claimant)
                .bind(released)
                .execute(self.background_pool())
                .await?;
        }
        Ok((provided, marked))
    }

    /// Queues failed files of the catalog called `name`, or of one of its tables, for hydration; returns how many.
    ///
    /// # Errors
    /// 422 for a namespace without a table or the other way round, 404 for unknown names.
    ///
    /// # Source
    /// OpenAPI `runRehydrate`.
    pub async fn rehydrate(&self, name: &str, namespace: Option<&str>, table: Option<&str>) -> Result<i64> {
        if namespace.is_some() != table.is_some() {
            return Err(Refusal::validation("`namespace` and `table` belong together: give both, or neither").into());
        }
        let catalog = self.catalog_find(name).await?.id;
        let mut transaction = self.background_pool().begin().await?;
        let table = check_scope(&mut transaction, catalog, namespace, table).await?;
        let requeued = sqlx::query_scalar(include_str!("../sql/hydration/requeue.sql"))
            .bind(catalog.0)
            .bind(table)
            .fetch_one(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(requeued)
    }

    /// Live files whose footers cannot be used, with the path and the reason.
    ///
    /// # Errors
    /// Any database error.
    pub async fn hydration_failures(
        &self,
        catalog: CatalogId,
        limit: i64,
    ) -> Result<Vec<(FileId, String, Option<String>)>> {
        let rows: Vec<(i64, String, Option<String>)> = sqlx::query_as(include_str!("../sql/hydration/failures.sql"))
            .bind(catalog.0)
            .bind(limit)
            .fetch_all(self.background_pool())
            .await?;
        Ok(rows.into_iter().map(|(id, path, reason)| (FileId(id), path, reason)).collect())
    }
}
