//! What metrics show of every catalog. The counts are kept by the transactions that change them, so that reading them
//! costs one row a catalog.

use crate::{Catalog, Result};

/// One catalog at this moment.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct CatalogGauges {
    /// Name of the catalog.
    pub name: String,
    /// Newest snapshot.
    pub head_snapshot: i64,
    /// Oldest snapshot that can be read.
    pub earliest_snapshot: i64,
    /// Live tables.
    pub live_table_count: i64,
    /// Live data files.
    pub live_file_count: i64,
    /// Seconds since the newest snapshot.
    pub head_age_seconds: f64,
    /// Snapshots between the consumer that is furthest behind and head; none without consumers.
    pub consumer_lag: Option<i64>,
}

impl Catalog {
    /// The gauges of all catalogs.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database).
    pub async fn catalog_gauges(&self) -> Result<Vec<CatalogGauges>> {
        Ok(sqlx::query_as(include_str!("../sql/catalog/gauges.sql")).fetch_all(self.pool()).await?)
    }
}
