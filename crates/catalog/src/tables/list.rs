//! Lists tables.

use crate::snapshots::{ResolvedSnapshot, resolve};
use crate::{Catalog, Result, namespaces};
use hoglake_model::SnapshotSelector;
use serde::Serialize;
use uuid::Uuid;

/// `TableSummary` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, sqlx::FromRow)]
pub struct TableSummary {
    /// The name.
    pub name: String,
    /// This incarnation.
    pub table_uuid: Uuid,
}

impl Catalog {
    /// The tables of a namespace at a snapshot, ordered by the names they had then.
    ///
    /// # Errors
    /// 404 for an unknown catalog; as [`resolve`]; 404 for a namespace that did not exist then.
    ///
    /// # Source
    /// OpenAPI `listTables`.
    pub async fn table_list(
        &self,
        catalog: &str,
        namespace: &str,
        selector: SnapshotSelector,
    ) -> Result<(ResolvedSnapshot, Vec<TableSummary>)> {
        let catalog = self.catalog_find(catalog).await?;
        let mut transaction = self.read().await?;
        let snapshot = resolve(&mut transaction, catalog.id, selector).await?;
        let namespace = namespaces::at(&mut transaction, catalog.id, namespace, snapshot.id).await?;
        let tables = if snapshot.is_head() {
            sqlx::query_as(include_str!("../../sql/table/list_live.sql"))
                .bind(catalog.id.0)
                .bind(namespace.0)
                .fetch_all(&mut *transaction)
                .await?
        } else {
            sqlx::query_as(include_str!("../../sql/table/list_at.sql"))
                .bind(catalog.id.0)
                .bind(namespace.0)
                .bind(snapshot.id.0)
                .fetch_all(&mut *transaction)
                .await?
        };
        Ok((snapshot, tables))
    }
}
