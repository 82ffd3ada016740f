//! Live files by partition: folded totals, and the report that ranks partitions by what compaction could merge.
//!
//! Commits do not maintain the totals. A fold takes them from one snapshot to a later one by what changed between, which
//! the change rows and two indexes tell; a report adds the few snapshots since the last fold by the same function.
//! Neither reads the manifest.

use crate::pace::Pace;
use crate::{Catalog, Result};
use hoglake_model::name::is_identifier;
use hoglake_model::{CatalogId, Refusal, SnapshotId};
use serde::Serialize;
use sqlx::PgPool;
use std::time::Instant;
use uuid::Uuid;

/// Snapshots that one fold takes in.
const FOLD_SNAPSHOTS: i64 = 2_000;
/// Snapshots that a report may add by itself before it folds first.
const TAIL_SNAPSHOTS: i64 = 500;
/// Groups in a report: most that may be asked for.
const MAX_LIMIT: i64 = 500;

/// One partition field and its value, `PartitionValue` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartitionValue {
    /// Name of the field: the column's, with the transform unless it is the identity.
    pub field: String,
    /// The value as the writer spelled it; null is a value.
    pub value: Option<String>,
}

/// `PartitionDebt` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the contract")]
pub struct PartitionDebt {
    pub namespace: String,
    pub table: String,
    pub table_uuid: Uuid,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec_id: Option<i64>,
    pub partition_values: Vec<PartitionValue>,
    pub file_count: i64,
    pub small_file_count: i64,
    pub total_bytes: i64,
    pub small_file_bytes: i64,
    pub avg_file_bytes: i64,
    pub dv_count: i64,
    pub debt_score: i64,
}

/// `PartitionStatsReport` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartitionReport {
    /// Most small files first.
    pub partitions: Vec<PartitionDebt>,
    /// Whether there are more partitions than the limit.
    pub truncated: bool,
    /// Partitions, beyond the limit too, that do not follow their table's current spec.
    pub stale_spec_groups: i64,
}

#[derive(sqlx::FromRow)]
struct Row {
    namespace: String,
    table_name: String,
    table_uuid: Uuid,
    spec_id: Option<i64>,
    partition_values: Option<Vec<Option<String>>>,
    file_count: i64,
    total_bytes: i64,
    small_file_count: i64,
    small_file_bytes: i64,
    dv_count: i64,
    groups: i64,
    stale: i64,
    labels: Option<Vec<String>>,
}

impl From<Row> for PartitionDebt {
    fn from(row: Row) -> Self {
        let labels = row.labels.unwrap_or_default();
        let partition_values = row
            .partition_values
            .unwrap_or_default()
            .into_iter()
            .enumerate()
            .map(|(index, value)| PartitionValue {
                field: labels.get(index).cloned().unwrap_or_else(|| format!("key_{index}")),
                value,
            })
            .collect();
        Self {
            namespace: row.namespace,
            table: row.table_name,
            table_uuid: row.table_uuid,
            spec_id: row.spec_id,
            partition_values,
            file_count: row.file_count,
            small_file_count: row.small_file_count,
            total_bytes: row.total_bytes,
            small_file_bytes: row.small_file_bytes,
            avg_file_bytes: row.total_bytes / row.file_count.max(1),
            dv_count: row.dv_count,
            debt_score: row.small_file_count,
        }
    }
}

impl Catalog {
    /// Folds a bounded number of snapshots into the totals; true when more remain up to `upto` (head when absent).
    ///
    /// The first fold, and the first one after the compaction target changed, counts all live files instead.
    ///
    /// # Locks
    /// The catalog's fold row. Never the commit lock.
    ///
    /// # Errors
    /// Any database error.
    pub async fn partition_totals_fold(&self, catalog: CatalogId, upto: Option<SnapshotId>) -> Result<bool> {
        let target = self.options().compaction_target_bytes;
        sqlx::query(include_str!("../sql/partition_total/declare.sql"))
            .bind(catalog.0)
            .execute(self.background_pool())
            .await?;
        let mut transaction = self.background_pool().begin().await?;
        let (folded, counted_for): (i64, i64) = sqlx::query_as(include_str!("../sql/partition_total/lock.sql"))
            .bind(catalog.0)
            .fetch_one(&mut *transaction)
            .await?;
        if counted_for != target {
            sqlx::query(include_str!("../sql/partition_total/clear.sql"))
                .bind(catalog.0)
                .execute(&mut *transaction)
                .await?;
            // the whole manifest, once
            sqlx::query("set local statement_timeout = 0").execute(&mut *transaction).await?;
            sqlx::query(include_str!("../sql/partition_total/rebuild.sql"))
                .bind(catalog.0)
                .bind(target)
                .execute(&mut *transaction)
                .await?;
            transaction.commit().await?;
            return Ok(false);
        }
        if upto.is_some_and(|upto| folded >= upto.0) {
            return Ok(false);
        }
        let (folded, head): (i64, i64) = sqlx::query_as(include_str!("../sql/partition_total/fold.sql"))
            .bind(catalog.0)
            .bind(folded)
            .bind(target)
            .bind(FOLD_SNAPSHOTS)
            .fetch_one(&mut *transaction)
            .await?;
        sqlx::query(include_str!("../sql/partition_total/sweep.sql"))
            .bind(catalog.0)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(folded < upto.map_or(head, |upto| upto.0.min(head)))
    }

    /// Folds all that was committed, once that is enough to be worth the work, and makes way for commits meanwhile.
    ///
    /// # Errors
    /// Any database error.
    pub async fn partition_totals_follow(&self, catalog: CatalogId) -> Result<()> {
        let mut pace = Pace::new(catalog, true);
        while !self.partition_totals_are_near(self.background_pool(), catalog).await? {
            let begun = Instant::now();
            self.partition_totals_fold(catalog, None).await?;
            self.rest(&mut pace, begun.elapsed()).await?;
        }
        Ok(())
    }

    /// Folds when a report would otherwise have much to add.
    async fn partition_totals_refresh(&self, catalog: CatalogId) -> Result<()> {
        while !self.partition_totals_are_near(self.pool(), catalog).await? {
            self.partition_totals_fold(catalog, None).await?;
        }
        Ok(())
    }

    /// Whether a report has little to add to the totals.
    async fn partition_totals_are_near(&self, pool: &PgPool, catalog: CatalogId) -> Result<bool> {
        let state: Option<(i64, i64, i64)> = sqlx::query_as(include_str!("../sql/partition_total/state.sql"))
            .bind(catalog.0)
            .fetch_optional(pool)
            .await?;
        Ok(state.is_some_and(|(folded, target, head)| {
            target == self.options().compaction_target_bytes && head - folded <= TAIL_SNAPSHOTS
        }))
    }

    /// Ranks the partitions of the catalog called `name` by the files that compaction could merge.
    ///
    /// # Ordering
    /// Small files descending, their bytes descending, then namespace, table, spec (none first) and values.
    ///
    /// # Errors
    /// 422 for a table without a namespace, or a limit below 1 (one above 500 counts as 500); 404 for unknown names.
    ///
    /// # Source
    /// OpenAPI `getPartitionStats`.
    pub async fn partition_report(
        &self,
        name: &str,
        namespace: Option<&str>,
        table: Option<&str>,
        limit: i64,
    ) -> Result<PartitionReport> {
        if namespace.is_none() && table.is_some() {
            return Err(Refusal::validation("`table` needs `namespace`: give both, or neither").into());
        }
        if limit < 1 {
            return Err(Refusal::validation(format!("limit {limit} must be at least 1")).into());
        }
        let limit = limit.min(MAX_LIMIT);
        let catalog = self.catalog_find(name).await?.id;
        self.partition_totals_refresh(catalog).await?;
        let mut transaction = self.read().await?;
        check_scope(&mut transaction, catalog, namespace, table).await?;
        let rows: Vec<Row> = sqlx::query_as(include_str!("../sql/partition_total/report.sql"))
            .bind(catalog.0)
            .bind(namespace)
            .bind(table)
            .bind(limit)
            .fetch_all(&mut *transaction)
            .await?;
        let (groups, stale_spec_groups) = rows.first().map_or((0, 0), |row| (row.groups, row.stale));
        Ok(PartitionReport {
            partitions: rows.into_iter().map(PartitionDebt::from).collect(),
            truncated: groups > limit,
            stale_spec_groups,
        })
    }
}

/// Makes sure that the live namespace, and the live table in it, exist.
pub(crate) async fn check_scope(
    connection: &mut sqlx::PgConnection,
    catalog: CatalogId,
    namespace: Option<&str>,
    table: Option<&str>,
) -> Result<Option<i64>> {
    let Some(namespace) = namespace else { return Ok(None) };
    let asked = table.filter(|t| is_identifier(t)).unwrap_or("");
    let found: Option<(Option<i64>,)> = if is_identifier(namespace) {
        sqlx::query_as(include_str!("../sql/partition_total/scope.sql"))
            .bind(catalog.0)
            .bind(namespace)
            .bind(asked)
            .fetch_optional(connection)
            .await?
    } else {
        None
    };
    match (found, table) {
        (None, _) => Err(Refusal::not_found("namespace", namespace).into()),
        (Some((None,)), Some(table)) => Err(Refusal::not_found("table", format!("{namespace}.{table}")).into()),
        (Some((found,)), _) => Ok(found),
    }
}
