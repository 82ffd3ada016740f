//! Finds groups of small files, in one moment of the database.

use super::Held;
use crate::hydration::{PendingColumn, columns_as_named_at};
use crate::tables::definition_at;
use crate::{Catalog, Error, Result};
use hoglake_model::compaction::{Candidate, Policy, partition_key, plan};
use hoglake_model::definition::{PartitionField, SortField, TableDefinition};
use hoglake_model::{CatalogId, FileId, SnapshotId, SpecId, TableId};
use sqlx::PgConnection;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

/// Partitions that one planning looks at, those with the most small files first.
const MAX_PARTITIONS: i64 = 4_096;
/// Files of one table that one planning looks at.
const MAX_CANDIDATES: i64 = 4_096;

/// Files to rewrite into one.
#[derive(Debug, Clone)]
pub struct PlannedGroup {
    /// Their table,
    pub table: TableId,
    /// its namespace,
    pub namespace: String,
    /// its name,
    pub table_name: String,
    /// and its newest DDL: another one at commit time means another schema.
    pub ddl_snapshot: SnapshotId,
    /// The live columns.
    pub columns: Arc<Vec<PendingColumn>>,
    /// The live sort order; empty: by row id.
    pub order: Arc<Vec<SortField>>,
    /// The spec of the files.
    pub spec: Option<SpecId>,
    /// Their partition values, as the first of them spells them.
    pub partition_values: Option<Vec<Option<String>>>,
    /// The files, by row id.
    pub inputs: Vec<PlannedInput>,
}

/// A file to rewrite.
#[derive(Debug, Clone)]
pub struct PlannedInput {
    /// The file.
    pub id: FileId,
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
    /// The live columns under the names that they had when the file was registered.
    pub names: Arc<Vec<PendingColumn>>,
    /// The deletion vector in force.
    pub vector: Option<PlannedVector>,
}

/// A deletion vector to apply.
#[derive(Debug, Clone)]
pub struct PlannedVector {
    /// Its id.
    pub id: FileId,
    /// The object.
    pub path: String,
    /// Deleted rows, as registered.
    pub delete_count: i64,
    /// Bytes.
    pub file_size_bytes: i64,
}

impl PlannedGroup {
    /// The ids of the inputs.
    pub fn input_ids(&self) -> Vec<i64> {
        self.inputs.iter().map(|input| input.id.0).collect()
    }

    /// Bytes of the inputs.
    pub fn bytes_in(&self) -> i64 {
        self.inputs.iter().map(|input| input.file_size_bytes).sum()
    }

    /// Rows that survive the deletion vectors.
    pub fn live_rows(&self) -> i64 {
        let live = |input: &PlannedInput| input.record_count - input.vector.as_ref().map_or(0, |v| v.delete_count);
        self.inputs.iter().map(live).sum()
    }
}

#[derive(sqlx::FromRow)]
struct DebtRow {
    table_id: i64,
    namespace: String,
    table_name: String,
    ddl_snapshot: i64,
    spec_id: Option<i64>,
    tuple: Uuid,
}

#[derive(sqlx::FromRow)]
struct CandidateRow {
    data_file_id: i64,
    begin_snapshot: i64,
    path: String,
    record_count: i64,
    file_size_bytes: i64,
    footer_size: Option<i64>,
    row_id_start: i64,
    spec_id: Option<i64>,
    partition_values: Option<Vec<Option<String>>>,
    explicit_row_ids: bool,
    delete_file_id: Option<i64>,
    vector_path: Option<String>,
    delete_count: Option<i64>,
    vector_size_bytes: Option<i64>,
}

impl Catalog {
    /// Plans up to `max_groups` groups, tables with the most small files first.
    ///
    /// # Errors
    /// Any database error.
    pub async fn compaction_plan(
        &self,
        catalog: CatalogId,
        min_input_files: usize,
        max_groups: usize,
    ) -> Result<Vec<PlannedGroup>> {
        sqlx::query(include_str!("../../sql/compaction/forget.sql"))
            .bind(catalog.0)
            .execute(self.background_pool())
            .await?;
        while self.partition_totals_fold(catalog, None).await? {}
        let mut transaction = self.read_in_background().await?;
        let debts: Vec<DebtRow> = sqlx::query_as(include_str!("../../sql/compaction/debts.sql"))
            .bind(catalog.0)
            .bind(MAX_PARTITIONS)
            .fetch_all(&mut *transaction)
            .await?;
        plan_groups(&mut transaction, catalog, debts, self.policy(min_input_files), max_groups).await
    }

    /// What [`Catalog::compaction_plan`] would plan, and what it would leave out, in one REPEATABLE READ READ ONLY
    /// transaction: what is not folded into the totals yet is added to them as it is read.
    ///
    /// # Errors
    /// Any database error.
    pub async fn compaction_preview(
        &self,
        catalog: CatalogId,
        min_input_files: usize,
        max_groups: usize,
    ) -> Result<(Vec<PlannedGroup>, Held)> {
        let mut transaction = self.read_in_background().await?;
        let policy = self.policy(min_input_files);
        let debts: Vec<DebtRow> = sqlx::query_as(include_str!("../../sql/compaction/debts_unfolded.sql"))
            .bind(catalog.0)
            .bind(MAX_PARTITIONS)
            .bind(policy.target_bytes)
            .fetch_all(&mut *transaction)
            .await?;
        let groups = plan_groups(&mut transaction, catalog, debts, policy, max_groups).await?;
        Ok((groups, Held::read(&mut *transaction, catalog).await?))
    }

    fn policy(&self, min_input_files: usize) -> Policy {
        Policy { target_bytes: self.options().compaction_target_bytes, min_input_files }
    }
}

async fn plan_groups(
    connection: &mut PgConnection,
    catalog: CatalogId,
    debts: Vec<DebtRow>,
    policy: Policy,
    max_groups: usize,
) -> Result<Vec<PlannedGroup>> {
    let head: i64 = sqlx::query_scalar(include_str!("../../sql/catalog/head.sql"))
        .bind(catalog.0)
        .fetch_one(&mut *connection)
        .await?;
    let mut order: Vec<i64> = Vec::new();
    let mut tables: HashMap<i64, Vec<DebtRow>> = HashMap::new();
    for debt in debts {
        let partitions = tables.entry(debt.table_id).or_default();
        if partitions.is_empty() {
            order.push(debt.table_id);
        }
        partitions.push(debt);
    }
    let mut groups = Vec::new();
    for table in order {
        if groups.len() >= max_groups {
            break;
        }
        let Some(debts) = tables.remove(&table) else { continue };
        groups.extend(plan_table(connection, catalog, SnapshotId(head), &debts, policy).await?);
    }
    groups.truncate(max_groups);
    Ok(groups)
}

async fn plan_table(
    connection: &mut PgConnection,
    catalog: CatalogId,
    head: SnapshotId,
    debts: &[DebtRow],
    policy: Policy,
) -> Result<Vec<PlannedGroup>> {
    let Some(table) = debts.first() else { return Ok(Vec::new()) };
    let rows: Vec<CandidateRow> = sqlx::query_as(include_str!("../../sql/compaction/candidates.sql"))
        .bind(catalog.0)
        .bind(table.table_id)
        .bind(policy.target_bytes)
        .bind(debts.iter().map(|d| d.spec_id.unwrap_or(0)).collect::<Vec<_>>())
        .bind(debts.iter().map(|d| d.tuple).collect::<Vec<_>>())
        .bind(MAX_CANDIDATES)
        .fetch_all(&mut *connection)
        .await?;
    let definition = definition_at(connection, catalog, TableId(table.table_id), &table.table_name, head).await?;
    let specs = specs(connection, catalog, table.table_id).await?;
    let candidates: Vec<Candidate> = rows.iter().map(|row| candidate(row, &specs, &definition)).collect();
    let groups = plan(&candidates, policy);
    let planned = groups.iter().flatten().filter_map(|i| rows.get(*i));
    let vintages = planned.map(|row| (table.table_id, row.begin_snapshot)).collect();
    let names = columns_as_named_at(&mut *connection, catalog, vintages).await?;
    let columns = Arc::new(live_columns(&definition)?);
    let order = Arc::new(definition.sort_spec.map(|spec| spec.fields).unwrap_or_default());
    let group = |indices: Vec<usize>| {
        let members: Vec<&CandidateRow> = indices.iter().filter_map(|i| rows.get(*i)).collect();
        let first = members.first()?;
        Some(PlannedGroup {
            table: TableId(table.table_id),
            namespace: table.namespace.clone(),
            table_name: table.table_name.clone(),
            ddl_snapshot: SnapshotId(table.ddl_snapshot),
            columns: Arc::clone(&columns),
            order: Arc::clone(&order),
            spec: first.spec_id.map(SpecId),
            partition_values: first.partition_values.clone(),
            inputs: members.into_iter().map(|row| input(row, table.table_id, &names)).collect(),
        })
    };
    Ok(groups.into_iter().filter_map(group).collect())
}

fn candidate(row: &CandidateRow, specs: &HashMap<i64, Vec<PartitionField>>, definition: &TableDefinition) -> Candidate {
    let fields = row.spec_id.and_then(|spec| specs.get(&spec)).map(Vec::as_slice).unwrap_or_default();
    let values = row.partition_values.as_deref().unwrap_or_default();
    let canonical = |(index, value): (usize, &Option<String>)| {
        let value = value.as_deref()?;
        Some(match fields.get(index) {
            Some(field) => {
                let source = definition
                    .columns
                    .iter()
                    .find(|column| column.field_id == field.source_field_id)
                    .map(|column| column.column_type);
                partition_key::canonical(field.transform, source, value)
            }
            None => value.to_owned(),
        })
    };
    Candidate {
        size_bytes: row.file_size_bytes,
        row_id_start: row.row_id_start,
        spec: row.spec_id.map(SpecId),
        partition: values.iter().enumerate().map(canonical).collect(),
    }
}

fn input(row: &CandidateRow, table: i64, names: &HashMap<(i64, i64), Arc<Vec<PendingColumn>>>) -> PlannedInput {
    let vector = match (row.delete_file_id, &row.vector_path, row.delete_count, row.vector_size_bytes) {
        (Some(id), Some(path), Some(delete_count), Some(file_size_bytes)) => {
            Some(PlannedVector { id: FileId(id), path: path.clone(), delete_count, file_size_bytes })
        }
        _ => None,
    };
    PlannedInput {
        id: FileId(row.data_file_id),
        path: row.path.clone(),
        record_count: row.record_count,
        file_size_bytes: row.file_size_bytes,
        footer_size: row.footer_size,
        row_id_start: row.row_id_start,
        explicit_row_ids: row.explicit_row_ids,
        names: names.get(&(table, row.begin_snapshot)).cloned().unwrap_or_default(),
        vector,
    }
}

fn live_columns(definition: &TableDefinition) -> Result<Vec<PendingColumn>> {
    Ok(definition
        .columns
        .iter()
        .map(|column| PendingColumn {
            field_id: column.field_id,
            name: Some(column.name.clone()),
            ty: column.column_type,
            nullable: column.nullable,
        })
        .collect())
}

/// Every retained spec of a table.
async fn specs(
    connection: &mut PgConnection,
    catalog: CatalogId,
    table: i64,
) -> Result<HashMap<i64, Vec<PartitionField>>> {
    let rows: Vec<(i64, i64, String, Option<i32>)> = sqlx::query_as(include_str!("../../sql/compaction/specs.sql"))
        .bind(catalog.0)
        .bind(table)
        .fetch_all(connection)
        .await?;
    let mut specs: HashMap<i64, Vec<PartitionField>> = HashMap::new();
    for (spec, source, transform, param) in rows {
        let transform = hoglake_model::definition::Transform::parse(&transform, param.map(i64::from))
            .map_err(|e| Error::Corrupt(e.to_string()))?;
        let field = PartitionField { source_field_id: hoglake_model::FieldId(source), transform };
        specs.entry(spec).or_default().push(field);
    }
    Ok(specs)
}
