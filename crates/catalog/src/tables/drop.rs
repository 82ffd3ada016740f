//! Drops a table. No file row is touched: the table's own interval bounds what is visible.

use super::locate;
use crate::ddl::{self, DdlTransaction};
use crate::idempotency::{Answer, IdempotencyKey};
use crate::{Catalog, Result};

impl Catalog {
    /// Drops a table: one snapshot. Costs the same whatever the number of its files.
    ///
    /// # Locks
    /// The catalog's commit lock.
    ///
    /// # Errors
    /// 404 for an unknown catalog, namespace or table; 503 as [`Catalog::ddl`].
    ///
    /// # Source
    /// OpenAPI `dropTable`.
    pub async fn table_drop(
        &self,
        catalog: &str,
        namespace: String,
        table: String,
        key: Option<IdempotencyKey>,
        author: Option<String>,
    ) -> Result<Answer> {
        let catalog = self.catalog_find(catalog).await?;
        self.ddl(catalog.id, key, move |ddl| Box::pin(drop_table(ddl, namespace, table, author))).await
    }
}

async fn drop_table(
    ddl: &mut DdlTransaction<'_>,
    namespace: String,
    table: String,
    author: Option<String>,
) -> Result<Answer> {
    let (catalog, head, snapshot) = (ddl.catalog(), ddl.head(), ddl.snapshot());
    let found = locate(ddl.connection(), catalog, &namespace, &table, head).await?;
    for end in [
        include_str!("../../sql/table/end_version.sql"),
        include_str!("../../sql/table/end_partition_spec.sql"),
        include_str!("../../sql/table/end_sort_spec.sql"),
    ] {
        sqlx::query(end).bind(catalog.0).bind(found.id.0).bind(snapshot.0).execute(ddl.connection()).await?;
    }
    sqlx::query(include_str!("../../sql/table/end_columns.sql"))
        .bind(catalog.0)
        .bind(found.id.0)
        .bind(snapshot.0)
        .bind(None::<Vec<i64>>)
        .execute(ddl.connection())
        .await?;
    let live_files: i64 = sqlx::query_scalar(include_str!("../../sql/table/mark_dropped.sql"))
        .bind(catalog.0)
        .bind(found.id.0)
        .bind(snapshot.0)
        .fetch_one(ddl.connection())
        .await?;
    ddl.count_dropped_table(live_files);
    ddl.set_author(author);
    ddl.change("table_dropped", found.id.0);
    ddl::answer(ddl, 200, &ddl.result())
}
