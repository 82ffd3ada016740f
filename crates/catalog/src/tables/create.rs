//! Creates a table.

use super::columns::ColumnArrays;
use super::get::{Table, Totals};
use crate::ddl::{self, DdlTransaction};
use crate::idempotency::{Answer, IdempotencyKey};
use crate::{Catalog, Result, namespaces};
use hoglake_model::Refusal;
use hoglake_model::definition::{ColumnDef, TableDefinition};
use serde::Deserialize;
use uuid::Uuid;

/// `CreateTableRequest` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateTable {
    /// The name.
    pub name: String,
    /// At least one.
    pub columns: Vec<ColumnDef>,
}

impl Catalog {
    /// Creates a table: one snapshot.
    ///
    /// # Locks
    /// The catalog's commit lock.
    ///
    /// # Errors
    /// 422 as [`TableDefinition::create`]; 404 for an unknown catalog or namespace; 409 `already_exists`; 503 as
    /// [`Catalog::ddl`].
    ///
    /// # Source
    /// OpenAPI `createTable`.
    pub async fn table_create(
        &self,
        catalog: &str,
        namespace: String,
        request: CreateTable,
        key: Option<IdempotencyKey>,
        author: Option<String>,
    ) -> Result<Answer> {
        let definition = TableDefinition::create(&request.name, &request.columns)?;
        let catalog = self.catalog_find(catalog).await?;
        self.ddl(catalog.id, key, move |ddl| Box::pin(create(ddl, namespace, definition, author))).await
    }
}

async fn create(
    ddl: &mut DdlTransaction<'_>,
    namespace: String,
    definition: TableDefinition,
    author: Option<String>,
) -> Result<Answer> {
    let catalog = ddl.catalog();
    let namespace_id = namespaces::live(ddl.connection(), catalog, &namespace).await?;
    let taken: bool = sqlx::query_scalar(include_str!("../../sql/table/live_name.sql"))
        .bind(catalog.0)
        .bind(namespace_id.0)
        .bind(&definition.name)
        .fetch_one(ddl.connection())
        .await?;
    if taken {
        return Err(Refusal::already_exists("table", format!("{namespace}.{}", definition.name)).into());
    }
    let (id, uuid, snapshot) = (ddl.allocate_table(), Uuid::new_v4(), ddl.snapshot());
    let columns = ColumnArrays::of(&definition.columns);
    sqlx::query(include_str!("../../sql/table/insert.sql"))
        .bind(catalog.0)
        .bind(id.0)
        .bind(uuid)
        .bind(snapshot.0)
        .bind(namespace_id.0)
        .bind(&namespace)
        .bind(&definition.name)
        .bind(definition.next_field_id)
        .bind(columns.field_ids)
        .bind(columns.names)
        .bind(columns.types)
        .bind(columns.type_params)
        .bind(columns.nullable)
        .bind(columns.ordinals)
        .execute(ddl.connection())
        .await?;
    ddl.set_author(author);
    ddl.change("table_created", id.0);
    let table = Table::new(&namespace, uuid, definition, Some(Totals::default()));
    ddl::answer(ddl, 201, &Table { snapshot_id: Some(snapshot), ..table })
}
