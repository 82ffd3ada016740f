//! Catalogs: create, list, find.

mod create;
mod options;

pub use create::CreateCatalog;
pub use options::{CatalogOptions, PatchCatalogOptions};

use crate::{Catalog, Result};
use chrono::{DateTime, Utc};
use hoglake_model::{CatalogId, Refusal, name::is_identifier, timestamp};
use serde::Serialize;
use std::sync::Arc;

/// `Catalog` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, sqlx::FromRow)]
pub struct CatalogSummary {
    /// The name.
    pub name: String,
    /// Where its files live, as given at creation.
    pub data_path: String,
    /// Newest snapshot.
    pub head_snapshot_id: i64,
    /// Counts DDL requests.
    pub schema_version: i64,
    /// When the floor snapshot was made; absent until expiry has moved the floor.
    #[serde(serialize_with = "timestamp::serialize_option", skip_serializing_if = "Option::is_none")]
    pub earliest_snapshot_time: Option<DateTime<Utc>>,
}

/// What never changes about a catalog; cached for the life of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogIdentity {
    /// The id.
    pub id: CatalogId,
    /// The name.
    pub name: String,
    /// Where its files live, as given at creation.
    pub data_path: String,
}

impl Catalog {
    /// Finds a catalog by name. The first look-up of a name asks the database, later ones do not: catalogs are never
    /// renamed or dropped.
    ///
    /// # Errors
    /// 404 for a name that no catalog has.
    pub async fn catalog_find(&self, name: &str) -> Result<Arc<CatalogIdentity>> {
        if let Some(found) = self.inner.identities.read().unwrap_or_else(|e| e.into_inner()).get(name) {
            return Ok(Arc::clone(found));
        }
        // what cannot be a name cannot exist; NUL would not even reach Postgres
        let row: Option<(i64, String)> = if is_identifier(name) {
            sqlx::query_as("select catalog_id, data_path from catalog where name = $1")
                .bind(name)
                .fetch_optional(self.pool())
                .await?
        } else {
            None
        };
        let Some((id, data_path)) = row else {
            return Err(Refusal::not_found("catalog", name).into());
        };
        let identity = Arc::new(CatalogIdentity { id: CatalogId(id), name: name.to_owned(), data_path });
        self.inner.identities.write().unwrap_or_else(|e| e.into_inner()).insert(name.to_owned(), Arc::clone(&identity));
        Ok(identity)
    }

    /// Every catalog, ordered by name.
    ///
    /// # Errors
    /// Any database error.
    ///
    /// # Source
    /// OpenAPI `listCatalogs`.
    pub async fn catalog_list(&self) -> Result<Vec<CatalogSummary>> {
        Ok(sqlx::query_as(include_str!("../sql/catalog/list.sql")).fetch_all(self.pool()).await?)
    }

    /// One catalog.
    ///
    /// # Errors
    /// 404 for an unknown name.
    ///
    /// # Source
    /// OpenAPI `getCatalog`.
    pub async fn catalog_get(&self, name: &str) -> Result<CatalogSummary> {
        let catalog = self.catalog_find(name).await?;
        let get = sqlx::query_as(include_str!("../sql/catalog/get.sql"));
        Ok(get.bind(catalog.id.0).fetch_one(self.pool()).await?)
    }
}
