//! What a comparison with the object store needs to know.

use crate::hydration::{PendingColumn, columns_as_named_at};
use crate::{Catalog, Result};
use hoglake_model::CatalogId;
use std::collections::HashSet;
use std::sync::Arc;

/// A live file and its vector, as registered.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct RegisteredObject {
    /// The file.
    pub data_file_id: i64,
    /// Its table.
    pub table_id: i64,
    /// Since when it is part of it.
    pub begin_snapshot: i64,
    /// The object.
    pub path: String,
    /// Rows.
    pub record_count: i64,
    /// Bytes.
    pub file_size_bytes: i64,
    /// Bytes of the footer.
    pub footer_size: Option<i64>,
    /// Whether the catalog knows that it lacks field ids.
    pub missing_field_ids: bool,
    /// Whether its footer has not been read yet, so that what is in there is not known.
    pub is_pending: bool,
    /// Whether it carries its row ids.
    pub explicit_row_ids: bool,
    /// The first field id that its table has not given to any column yet.
    pub next_field_id: i64,
    /// The live columns of its table, under the names that they had when it was registered.
    #[sqlx(skip)]
    pub columns: Arc<Vec<PendingColumn>>,
    /// Its vector,
    pub delete_file_id: Option<i64>,
    /// the vector's object,
    pub vector_path: Option<String>,
    /// deleted rows,
    pub delete_count: Option<i64>,
    /// and bytes.
    pub vector_size_bytes: Option<i64>,
}

impl Catalog {
    /// A page of the live files, those with an id above `after`.
    ///
    /// # Errors
    /// Any database error.
    pub async fn registered_objects(
        &self,
        catalog: CatalogId,
        after: i64,
        limit: i64,
    ) -> Result<Vec<RegisteredObject>> {
        let mut page: Vec<RegisteredObject> = sqlx::query_as(include_str!("../../sql/verify/objects_page.sql"))
            .bind(catalog.0)
            .bind(after)
            .bind(limit)
            .fetch_all(self.background_pool())
            .await?;
        let vintages = page.iter().map(|object| (object.table_id, object.begin_snapshot)).collect();
        let columns = columns_as_named_at(self.background_pool(), catalog, vintages).await?;
        for object in &mut page {
            object.columns = columns.get(&(object.table_id, object.begin_snapshot)).cloned().unwrap_or_default();
        }
        Ok(page)
    }

    /// Which of `files` are still live: a file that was replaced while the store was read is no violation.
    ///
    /// # Errors
    /// Any database error.
    pub async fn still_live(&self, catalog: CatalogId, files: &[i64]) -> Result<HashSet<i64>> {
        let live: Vec<i64> = sqlx::query_scalar(include_str!("../../sql/verify/still_live.sql"))
            .bind(catalog.0)
            .bind(files)
            .fetch_all(self.background_pool())
            .await?;
        Ok(live.into_iter().collect())
    }
}
