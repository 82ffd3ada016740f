//! Views: create, list, get, drop. Their SQL is kept letter by letter and never read.

use crate::ddl::{self, DdlTransaction};
use crate::idempotency::{Answer, IdempotencyKey};
use crate::{Catalog, Result, namespaces};
use hoglake_model::name::is_identifier;
use hoglake_model::{CatalogId, Identifier, NamespaceId, Refusal, SnapshotId};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use uuid::Uuid;

/// The dialect of a view that names none.
const DEFAULT_DIALECT: &str = "trino";

/// `CreateViewRequest` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateView {
    /// The name.
    pub name: String,
    /// The query.
    pub sql: String,
    /// Whose SQL it is.
    pub dialect: Option<String>,
}

/// `View` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct View {
    /// The name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// One incarnation of the view.
    pub view_uuid: Uuid,
    /// Whose SQL it is.
    pub dialect: String,
    /// The query.
    pub sql: String,
    /// The snapshot that created it, in the answer to that request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<SnapshotId>,
}

#[derive(sqlx::FromRow)]
struct ViewRow {
    view_id: i64,
    view_uuid: Uuid,
    name: String,
    dialect: String,
    sql: String,
}

impl ViewRow {
    fn into_view(self, namespace: &str) -> View {
        View {
            name: self.name,
            namespace: namespace.to_owned(),
            view_uuid: self.view_uuid,
            dialect: self.dialect,
            sql: self.sql,
            snapshot_id: None,
        }
    }
}

impl CreateView {
    fn check(&self) -> Result<(), Refusal> {
        Identifier::parse("view", &self.name)?;
        for (field, value) in [("sql", Some(&self.sql)), ("dialect", self.dialect.as_ref())] {
            if value.is_some_and(|text| text.trim().is_empty()) {
                return Err(Refusal::validation(format!("`{field}` of a view must not be blank")));
            }
            if value.is_some_and(|text| text.contains('\0')) {
                return Err(Refusal::validation(format!("`{field}` of a view must not contain the character U+0000")));
            }
        }
        Ok(())
    }
}

impl Catalog {
    /// Creates a view: one snapshot.
    ///
    /// # Locks
    /// The catalog's commit lock.
    ///
    /// # Errors
    /// 422 for a bad name, blank SQL or blank dialect; 404 for an unknown catalog or namespace; 409 `already_exists`;
    /// 503 as [`Catalog::ddl`].
    ///
    /// # Source
    /// OpenAPI `createView`.
    pub async fn view_create(
        &self,
        catalog: &str,
        namespace: String,
        request: CreateView,
        key: Option<IdempotencyKey>,
        author: Option<String>,
    ) -> Result<Answer> {
        request.check()?;
        let catalog = self.catalog_find(catalog).await?;
        self.ddl(catalog.id, key, move |ddl| Box::pin(create(ddl, namespace, request, author))).await
    }

    /// The live views of a namespace, ordered by name.
    ///
    /// # Errors
    /// 404 for an unknown catalog or namespace.
    ///
    /// # Source
    /// OpenAPI `listViews`.
    pub async fn view_list(&self, catalog: &str, namespace: &str) -> Result<Vec<View>> {
        let catalog = self.catalog_find(catalog).await?;
        let mut transaction = self.read().await?;
        let namespace_id = namespaces::live(&mut transaction, catalog.id, namespace).await?;
        let rows: Vec<ViewRow> = sqlx::query_as(include_str!("../sql/view/list_live.sql"))
            .bind(catalog.id.0)
            .bind(namespace_id.0)
            .fetch_all(&mut *transaction)
            .await?;
        Ok(rows.into_iter().map(|row| row.into_view(namespace)).collect())
    }

    /// One live view.
    ///
    /// # Errors
    /// 404 for an unknown catalog, namespace or view.
    ///
    /// # Source
    /// OpenAPI `getView`.
    pub async fn view_get(&self, catalog: &str, namespace: &str, view: &str) -> Result<View> {
        let catalog = self.catalog_find(catalog).await?;
        let mut transaction = self.read().await?;
        let namespace_id = namespaces::live(&mut transaction, catalog.id, namespace).await?;
        match find_live(&mut transaction, catalog.id, namespace_id, view).await? {
            Some(row) => Ok(row.into_view(namespace)),
            None => Err(Refusal::not_found("view", format!("{namespace}.{view}")).into()),
        }
    }

    /// Drops a view: one snapshot.
    ///
    /// # Locks
    /// The catalog's commit lock.
    ///
    /// # Errors
    /// 404 for an unknown catalog, namespace or view; 503 as [`Catalog::ddl`].
    ///
    /// # Source
    /// OpenAPI `dropView`.
    pub async fn view_drop(
        &self,
        catalog: &str,
        namespace: String,
        view: String,
        key: Option<IdempotencyKey>,
        author: Option<String>,
    ) -> Result<Answer> {
        let catalog = self.catalog_find(catalog).await?;
        self.ddl(catalog.id, key, move |ddl| Box::pin(drop_view(ddl, namespace, view, author))).await
    }
}

async fn find_live(
    connection: &mut PgConnection,
    catalog: CatalogId,
    namespace: NamespaceId,
    name: &str,
) -> Result<Option<ViewRow>> {
    if !is_identifier(name) {
        return Ok(None);
    }
    Ok(sqlx::query_as(include_str!("../sql/view/find_live.sql"))
        .bind(catalog.0)
        .bind(namespace.0)
        .bind(name)
        .fetch_optional(connection)
        .await?)
}

async fn create(
    ddl: &mut DdlTransaction<'_>,
    namespace: String,
    request: CreateView,
    author: Option<String>,
) -> Result<Answer> {
    let catalog = ddl.catalog();
    let namespace_id = namespaces::live(ddl.connection(), catalog, &namespace).await?;
    if find_live(ddl.connection(), catalog, namespace_id, &request.name).await?.is_some() {
        return Err(Refusal::already_exists("view", format!("{namespace}.{}", request.name)).into());
    }
    let (id, snapshot) = (ddl.allocate_view(), ddl.snapshot());
    let view = View {
        name: request.name,
        namespace,
        view_uuid: Uuid::new_v4(),
        dialect: request.dialect.unwrap_or_else(|| DEFAULT_DIALECT.to_owned()),
        sql: request.sql,
        snapshot_id: Some(snapshot),
    };
    sqlx::query(include_str!("../sql/view/insert.sql"))
        .bind(catalog.0)
        .bind(id.0)
        .bind(view.view_uuid)
        .bind(namespace_id.0)
        .bind(&view.name)
        .bind(&view.dialect)
        .bind(&view.sql)
        .bind(snapshot.0)
        .execute(ddl.connection())
        .await?;
    ddl.set_author(author);
    ddl.change("view_created", id.0);
    ddl::answer(ddl, 201, &view)
}

async fn drop_view(
    ddl: &mut DdlTransaction<'_>,
    namespace: String,
    view: String,
    author: Option<String>,
) -> Result<Answer> {
    let (catalog, snapshot) = (ddl.catalog(), ddl.snapshot());
    let namespace_id = namespaces::live(ddl.connection(), catalog, &namespace).await?;
    let Some(found) = find_live(ddl.connection(), catalog, namespace_id, &view).await? else {
        return Err(Refusal::not_found("view", format!("{namespace}.{view}")).into());
    };
    sqlx::query(include_str!("../sql/view/end.sql"))
        .bind(catalog.0)
        .bind(found.view_id)
        .bind(snapshot.0)
        .execute(ddl.connection())
        .await?;
    ddl.set_author(author);
    ddl.change("view_dropped", found.view_id);
    ddl::answer(ddl, 200, &ddl.result())
}
