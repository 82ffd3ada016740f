//! Namespaces: create, list, get.

use crate::ddl::{self, DdlTransaction};
use crate::idempotency::{Answer, IdempotencyKey};
use crate::snapshots::{ResolvedSnapshot, resolve};
use crate::{Catalog, Result};
use hoglake_model::name::is_identifier;
use hoglake_model::{CatalogId, Identifier, NamespaceId, Refusal, SnapshotId, SnapshotSelector};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

/// `CreateNamespaceRequest` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateNamespace {
    /// The name.
    pub name: String,
}

/// `Namespace` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Namespace {
    /// The name.
    pub name: String,
    /// The snapshot that created it, in the answer to that request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<SnapshotId>,
}

/// The live namespace called `name`.
///
/// # Errors
/// 404.
pub(crate) async fn live(connection: &mut PgConnection, catalog: CatalogId, name: &str) -> Result<NamespaceId> {
    match find_live(connection, catalog, name).await? {
        Some(id) => Ok(id),
        None => Err(Refusal::not_found("namespace", name).into()),
    }
}

/// The namespace that was called `name` at `snapshot`.
///
/// # Errors
/// 404.
pub(crate) async fn at(
    connection: &mut PgConnection,
    catalog: CatalogId,
    name: &str,
    snapshot: SnapshotId,
) -> Result<NamespaceId> {
    let id: Option<i64> = if is_identifier(name) {
        sqlx::query_scalar(include_str!("../sql/namespace/at.sql"))
            .bind(catalog.0)
            .bind(name)
            .bind(snapshot.0)
            .fetch_optional(connection)
            .await?
    } else {
        None
    };
    id.map(NamespaceId).ok_or_else(|| Refusal::not_found("namespace", name).into())
}

async fn find_live(connection: &mut PgConnection, catalog: CatalogId, name: &str) -> Result<Option<NamespaceId>> {
    // what cannot be a name cannot exist; NUL would not even reach Postgres
    if !is_identifier(name) {
        return Ok(None);
    }
    let id: Option<i64> = sqlx::query_scalar(include_str!("../sql/namespace/live.sql"))
        .bind(catalog.0)
        .bind(name)
        .fetch_optional(connection)
        .await?;
    Ok(id.map(NamespaceId))
}

impl Catalog {
    /// Creates a namespace: one snapshot.
    ///
    /// # Locks
    /// The catalog's commit lock.
    ///
    /// # Errors
    /// 422 for a bad name, 404 for an unknown catalog, 409 `already_exists`, 503 as [`Catalog::ddl`].
    ///
    /// # Source
    /// OpenAPI `createNamespace`.
    pub async fn namespace_create(
        &self,
        catalog: &str,
        request: CreateNamespace,
        key: Option<IdempotencyKey>,
        author: Option<String>,
    ) -> Result<Answer> {
        let name = Identifier::parse("namespace", &request.name)?;
        let catalog = self.catalog_find(catalog).await?;
        self.ddl(catalog.id, key, move |ddl| Box::pin(create(ddl, name, author))).await
    }

    /// The namespaces visible at a snapshot, ordered by name.
    ///
    /// # Errors
    /// 404 for an unknown catalog; as [`resolve`].
    ///
    /// # Source
    /// OpenAPI `listNamespaces`.
    pub async fn namespace_list(
        &self,
        catalog: &str,
        selector: SnapshotSelector,
    ) -> Result<(ResolvedSnapshot, Vec<Namespace>)> {
        let catalog = self.catalog_find(catalog).await?;
        let mut transaction = self.read().await?;
        let snapshot = resolve(&mut transaction, catalog.id, selector).await?;
        let names: Vec<String> = sqlx::query_scalar(include_str!("../sql/namespace/list.sql"))
            .bind(catalog.id.0)
            .bind(snapshot.id.0)
            .fetch_all(&mut *transaction)
            .await?;
        Ok((snapshot, names.into_iter().map(|name| Namespace { name, snapshot_id: None }).collect()))
    }

    /// One live namespace.
    ///
    /// # Errors
    /// 404 for an unknown catalog or namespace.
    ///
    /// # Source
    /// OpenAPI `getNamespace`.
    pub async fn namespace_get(&self, catalog: &str, name: &str) -> Result<Namespace> {
        let catalog = self.catalog_find(catalog).await?;
        let mut connection = self.pool().acquire().await?;
        live(&mut connection, catalog.id, name).await?;
        Ok(Namespace { name: name.to_owned(), snapshot_id: None })
    }
}

async fn create(ddl: &mut DdlTransaction<'_>, name: Identifier, author: Option<String>) -> Result<Answer> {
    let catalog = ddl.catalog();
    if find_live(ddl.connection(), catalog, name.as_str()).await?.is_some() {
        return Err(Refusal::already_exists("namespace", name).into());
    }
    let (id, snapshot) = (ddl.allocate_namespace(), ddl.snapshot());
    sqlx::query(include_str!("../sql/namespace/insert.sql"))
        .bind(catalog.0)
        .bind(id.0)
        .bind(name.as_str())
        .bind(snapshot.0)
        .execute(ddl.connection())
        .await?;
    ddl.set_author(author);
    ddl.change("namespace_created", id.0);
    ddl::answer(ddl, 201, &Namespace { name: name.to_string(), snapshot_id: Some(snapshot) })
}
