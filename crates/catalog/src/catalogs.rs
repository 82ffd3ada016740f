//! Catalogs: create, list, find.

use crate::{Catalog, Result};
use hoglake_model::{CatalogId, Refusal, name::is_identifier};
use std::sync::Arc;

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
}
