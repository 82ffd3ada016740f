//! Shows a table.

use super::find_at;
use crate::snapshots::{ResolvedSnapshot, resolve};
use crate::{Catalog, Result};
use hoglake_model::definition::{Column, PartitionSpec, SortSpec, TableDefinition};
use hoglake_model::{CatalogId, SnapshotId, SnapshotSelector, TableId};
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

/// `Table` of the contract; without totals its `TableDefinition`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Table {
    /// The name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// This incarnation.
    pub table_uuid: Uuid,
    /// By ordinal.
    pub columns: Vec<Column>,
    /// Totals of the visible data files.
    #[serde(flatten)]
    pub totals: Option<Totals>,
    /// Absent when unpartitioned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_spec: Option<PartitionSpec>,
    /// Absent when unsorted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sort_spec: Option<SortSpec>,
    /// The snapshot that the request made, in the answers to create and alter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<SnapshotId>,
}

/// Totals of the data files of a table; deleted rows are not subtracted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, sqlx::FromRow)]
pub struct Totals {
    /// Rows.
    pub record_count: i64,
    /// Files.
    pub file_count: i64,
    /// Bytes.
    pub file_size_bytes: i64,
}

impl Table {
    pub(super) fn new(namespace: &str, uuid: Uuid, definition: TableDefinition, totals: Option<Totals>) -> Self {
        Self {
            name: definition.name,
            namespace: namespace.to_owned(),
            table_uuid: uuid,
            columns: definition.columns,
            totals,
            partition_spec: definition.partition_spec.filter(|spec| !spec.fields.is_empty()),
            sort_spec: definition.sort_spec.filter(|spec| !spec.fields.is_empty()),
            snapshot_id: None,
        }
    }
}

/// The totals at head.
pub(super) async fn totals(connection: &mut PgConnection, catalog: CatalogId, table: TableId) -> Result<Totals> {
    let totals = sqlx::query_as(include_str!("../../sql/table/totals.sql"));
    Ok(totals.bind(catalog.0).bind(table.0).fetch_one(connection).await?)
}

impl Catalog {
    /// A table as of a snapshot, under the name that it had then; without totals unless `with_totals`.
    ///
    /// # Errors
    /// 404 for an unknown catalog; as [`resolve`]; 404 for a namespace or table that did not exist then.
    ///
    /// # Source
    /// OpenAPI `getTable`.
    pub async fn table_get(
        &self,
        catalog: &str,
        namespace: &str,
        table: &str,
        selector: SnapshotSelector,
        with_totals: bool,
    ) -> Result<(ResolvedSnapshot, Table)> {
        let catalog = self.catalog_find(catalog).await?;
        let mut transaction = self.read().await?;
        let snapshot = resolve(&mut transaction, catalog.id, selector).await?;
        let (found, definition) = find_at(&mut transaction, catalog.id, namespace, table, &snapshot).await?;
        let totals = match with_totals {
            true if snapshot.is_head() => Some(totals(&mut transaction, catalog.id, found.id).await?),
            true => Some(totals_at(&mut transaction, catalog.id, found.id, snapshot.id).await?),
            false => None,
        };
        Ok((snapshot, Table::new(namespace, found.uuid, definition, totals)))
    }
}

async fn totals_at(
    connection: &mut PgConnection,
    catalog: CatalogId,
    table: TableId,
    snapshot: SnapshotId,
) -> Result<Totals> {
    Ok(sqlx::query_as(include_str!("../../sql/table/totals_at.sql"))
        .bind(catalog.0)
        .bind(table.0)
        .bind(snapshot.0)
        .fetch_one(connection)
        .await?)
}
