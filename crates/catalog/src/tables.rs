//! Tables: find one as of a snapshot, create, list, get, alter, drop.

mod alter;
mod columns;
mod create;
mod definition;
mod drop;
mod get;
mod list;

pub use create::CreateTable;
pub use definition::definition_at;
pub use get::Table;
pub use list::TableSummary;

use crate::Result;
use crate::snapshots::ResolvedSnapshot;
use hoglake_model::definition::TableDefinition;
use hoglake_model::name::is_identifier;
use hoglake_model::{CatalogId, NamespaceId, Refusal, SnapshotId, TableId};
use sqlx::PgConnection;
use uuid::Uuid;

/// A table that is visible at a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableRef {
    /// Its namespace.
    pub namespace_id: NamespaceId,
    /// This incarnation.
    pub id: TableId,
    /// This incarnation, as clients know it.
    pub uuid: Uuid,
}

/// Finds the table that was called `namespace`.`table` at `snapshot`, in the caller's transaction.
///
/// # Errors
/// 404 for a namespace or table that did not exist then, in that order.
pub async fn locate(
    connection: &mut PgConnection,
    catalog: CatalogId,
    namespace: &str,
    table: &str,
    snapshot: SnapshotId,
) -> Result<TableRef> {
    // what cannot be a name cannot exist; NUL would not even reach Postgres
    if !is_identifier(namespace) {
        return Err(Refusal::not_found("namespace", namespace).into());
    }
    let asked = if is_identifier(table) { table } else { "" };
    let row: Option<(i64, Option<i64>, Option<Uuid>)> = sqlx::query_as(include_str!("../sql/table/find_at.sql"))
        .bind(catalog.0)
        .bind(namespace)
        .bind(asked)
        .bind(snapshot.0)
        .fetch_optional(connection)
        .await?;
    match row {
        None => Err(Refusal::not_found("namespace", namespace).into()),
        Some((namespace, Some(id), Some(uuid))) => {
            Ok(TableRef { namespace_id: NamespaceId(namespace), id: TableId(id), uuid })
        }
        Some(_) => Err(Refusal::not_found("table", format!("{namespace}.{table}")).into()),
    }
}

/// [`locate`], with the columns and specs that the table had at `snapshot`.
///
/// # Errors
/// As [`locate`].
pub async fn find_at(
    connection: &mut PgConnection,
    catalog: CatalogId,
    namespace: &str,
    table: &str,
    snapshot: &ResolvedSnapshot,
) -> Result<(TableRef, TableDefinition)> {
    let found = locate(connection, catalog, namespace, table, snapshot.id).await?;
    let definition = definition_at(connection, catalog, found.id, table, snapshot.id).await?;
    Ok((found, definition))
}
