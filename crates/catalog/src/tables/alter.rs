//! Alters a table: reads its definition, lets the rules of the model evolve it in memory, writes the difference.

use super::columns::ColumnArrays;
use super::get::{Table, totals};
use super::{TableRef, definition_at, locate};
use crate::ddl::{self, DdlTransaction};
use crate::idempotency::{Answer, IdempotencyKey};
use crate::{Catalog, Result};
use hoglake_model::alter::{self, AlterOp, AlterRequest, ColumnDifference, Surroundings};
use hoglake_model::definition::{Direction, NullOrder, PartitionSpec, SortSpec, TableDefinition};

impl Catalog {
    /// Applies operations in order, all or none: one snapshot, one `table_altered` change.
    ///
    /// # Locks
    /// The catalog's commit lock.
    ///
    /// # Errors
    /// 404 for an unknown catalog, namespace or table; 422 and 409 as [`alter::apply`]; 503 as [`Catalog::ddl`].
    ///
    /// # Source
    /// OpenAPI `alterTable`.
    pub async fn table_alter(
        &self,
        catalog: &str,
        namespace: String,
        table: String,
        request: AlterRequest,
        key: Option<IdempotencyKey>,
        author: Option<String>,
    ) -> Result<Answer> {
        let catalog = self.catalog_find(catalog).await?;
        self.ddl(catalog.id, key, move |ddl| Box::pin(alter_table(ddl, namespace, table, request.ops, author))).await
    }
}

async fn alter_table(
    ddl: &mut DdlTransaction<'_>,
    namespace: String,
    table: String,
    ops: Vec<AlterOp>,
    author: Option<String>,
) -> Result<Answer> {
    let (catalog, head, snapshot) = (ddl.catalog(), ddl.head(), ddl.snapshot());
    let found = locate(ddl.connection(), catalog, &namespace, &table, head).await?;
    let before = definition_at(ddl.connection(), catalog, found.id, &table, head).await?;
    let surroundings = surroundings(ddl, &found, &ops).await?;
    let after = alter::apply(&before, &ops, &surroundings)?;
    write_difference(ddl, &found, &before, &after).await?;
    ddl.set_author(author);
    ddl.change("table_altered", found.id.0);
    let totals = totals(ddl.connection(), catalog, found.id).await?;
    let table = Table::new(&namespace, found.uuid, after, Some(totals));
    ddl::answer(ddl, 200, &Table { snapshot_id: Some(snapshot), ..table })
}

#[derive(sqlx::FromRow)]
struct SurroundingsRow {
    idless_files: i64,
    pending_files: i64,
    former_columns: Vec<String>,
    taken_tables: Vec<String>,
}

async fn surroundings(ddl: &mut DdlTransaction<'_>, found: &TableRef, ops: &[AlterOp]) -> Result<Surroundings> {
    let wanted: Vec<&str> = ops
        .iter()
        .filter_map(|op| match op {
            // NUL would not reach Postgres, and no table has such a name
            AlterOp::RenameTable { new_name } if !new_name.contains('\0') => Some(new_name.as_str()),
            _ => None,
        })
        .collect();
    let names_matter = ops.iter().any(|op| matches!(op, AlterOp::AddColumn(_) | AlterOp::RenameColumn { .. }));
    let row: SurroundingsRow = sqlx::query_as(include_str!("../../sql/table/surroundings.sql"))
        .bind(ddl.catalog().0)
        .bind(found.id.0)
        .bind(found.namespace_id.0)
        .bind(wanted)
        .bind(names_matter)
        .fetch_one(ddl.connection())
        .await?;
    Ok(Surroundings {
        idless_files: row.idless_files,
        pending_files: row.pending_files,
        former_columns: row.former_columns.into_iter().collect(),
        taken_tables: row.taken_tables.into_iter().collect(),
    })
}

async fn write_difference(
    ddl: &mut DdlTransaction<'_>,
    found: &TableRef,
    before: &TableDefinition,
    after: &TableDefinition,
) -> Result<()> {
    write_columns(ddl, found, before, after).await?;
    if before.name != after.name {
        end(ddl, found, include_str!("../../sql/table/end_version.sql")).await?;
        sqlx::query(include_str!("../../sql/table/insert_version.sql"))
            .bind(ddl.catalog().0)
            .bind(found.id.0)
            .bind(ddl.snapshot().0)
            .bind(found.namespace_id.0)
            .bind(&after.name)
            .execute(ddl.connection())
            .await?;
    }
    if let Some(spec) = &after.partition_spec
        && before.partition_spec.as_ref().is_none_or(|b| b.spec_id != spec.spec_id)
    {
        end(ddl, found, include_str!("../../sql/table/end_partition_spec.sql")).await?;
        insert_partition_spec(ddl, found, spec).await?;
    }
    if let Some(spec) = &after.sort_spec
        && before.sort_spec.as_ref().is_none_or(|b| b.sort_id != spec.sort_id)
    {
        end(ddl, found, include_str!("../../sql/table/end_sort_spec.sql")).await?;
        insert_sort_spec(ddl, found, spec).await?;
    }
    sqlx::query(include_str!("../../sql/table/mark_altered.sql"))
        .bind(ddl.catalog().0)
        .bind(found.id.0)
        .bind(ddl.snapshot().0)
        .bind(&after.name)
        .bind(after.next_field_id)
        .bind(after.next_spec_id)
        .bind(after.next_sort_id)
        .execute(ddl.connection())
        .await?;
    Ok(())
}

async fn write_columns(
    ddl: &mut DdlTransaction<'_>,
    found: &TableRef,
    before: &TableDefinition,
    after: &TableDefinition,
) -> Result<()> {
    let difference = ColumnDifference::between(before, after);
    if !difference.ended.is_empty() {
        // ended before the new versions begin: names and ordinals may change hands
        let ended: Vec<i64> = difference.ended.iter().map(|id| id.0).collect();
        sqlx::query(include_str!("../../sql/table/end_columns.sql"))
            .bind(ddl.catalog().0)
            .bind(found.id.0)
            .bind(ddl.snapshot().0)
            .bind(ended)
            .execute(ddl.connection())
            .await?;
    }
    if !difference.begun.is_empty() {
        let columns = ColumnArrays::of(difference.begun);
        sqlx::query(include_str!("../../sql/table/insert_columns.sql"))
            .bind(ddl.catalog().0)
            .bind(found.id.0)
            .bind(ddl.snapshot().0)
            .bind(columns.field_ids)
            .bind(columns.names)
            .bind(columns.types)
            .bind(columns.type_params)
            .bind(columns.nullable)
            .bind(columns.ordinals)
            .execute(ddl.connection())
            .await?;
    }
    Ok(())
}

async fn end(ddl: &mut DdlTransaction<'_>, found: &TableRef, statement: &'static str) -> Result<()> {
    sqlx::query(statement)
        .bind(ddl.catalog().0)
        .bind(found.id.0)
        .bind(ddl.snapshot().0)
        .execute(ddl.connection())
        .await?;
    Ok(())
}

async fn insert_partition_spec(ddl: &mut DdlTransaction<'_>, found: &TableRef, spec: &PartitionSpec) -> Result<()> {
    sqlx::query(include_str!("../../sql/table/insert_partition_spec.sql"))
        .bind(ddl.catalog().0)
        .bind(found.id.0)
        .bind(ddl.snapshot().0)
        .bind(spec.spec_id.0)
        .bind(spec.fields.iter().map(|f| f.source_field_id.0).collect::<Vec<_>>())
        .bind(spec.fields.iter().map(|f| f.transform.name()).collect::<Vec<_>>())
        .bind(spec.fields.iter().map(|f| f.transform.param()).collect::<Vec<_>>())
        .execute(ddl.connection())
        .await?;
    Ok(())
}

async fn insert_sort_spec(ddl: &mut DdlTransaction<'_>, found: &TableRef, spec: &SortSpec) -> Result<()> {
    sqlx::query(include_str!("../../sql/table/insert_sort_spec.sql"))
        .bind(ddl.catalog().0)
        .bind(found.id.0)
        .bind(ddl.snapshot().0)
        .bind(spec.sort_id.0)
        .bind(spec.fields.iter().map(|f| f.source_field_id.0).collect::<Vec<_>>())
        .bind(spec.fields.iter().map(|f| f.direction == Direction::Desc).collect::<Vec<_>>())
        .bind(spec.fields.iter().map(|f| f.null_order == NullOrder::NullsFirst).collect::<Vec<_>>())
        .execute(ddl.connection())
        .await?;
    Ok(())
}
