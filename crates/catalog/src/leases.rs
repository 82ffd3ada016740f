//! Leases: which server does a task of a catalog.

use crate::{Catalog, Result};
use hoglake_model::CatalogId;
use std::time::Duration;
use uuid::Uuid;

/// A lease that was taken. It ends by itself; [`Catalog::lease_release`] ends it early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Of which catalog.
    pub catalog: CatalogId,
    /// Which task.
    pub task: &'static str,
    /// Who holds it: one run of one worker.
    pub holder: Uuid,
    /// Larger than that of every holder before.
    pub fence: i64,
}

impl Catalog {
    /// Takes the lease of `task` for `duration`; `None` when another worker holds it.
    ///
    /// # Errors
    /// Any database error.
    pub async fn lease_acquire(
        &self,
        catalog: CatalogId,
        task: &'static str,
        duration: Duration,
    ) -> Result<Option<Lease>> {
        let holder = Uuid::new_v4();
        sqlx::query(include_str!("../sql/lease/declare.sql"))
            .bind(catalog.0)
            .bind(task)
            .execute(self.background_pool())
            .await?;
        let fence: Option<i64> = sqlx::query_scalar(include_str!("../sql/lease/acquire.sql"))
            .bind(catalog.0)
            .bind(task)
            .bind(holder)
            .bind(duration.as_secs_f64())
            .fetch_optional(self.background_pool())
            .await?;
        Ok(fence.map(|fence| Lease { catalog, task, holder, fence }))
    }

    /// Prolongs a lease; false when it has passed to somebody else, who must not be disturbed.
    ///
    /// # Errors
    /// Any database error.
    pub async fn lease_renew(&self, lease: &Lease, duration: Duration) -> Result<bool> {
        let done = sqlx::query(include_str!("../sql/lease/renew.sql"))
            .bind(lease.catalog.0)
            .bind(lease.task)
            .bind(lease.holder)
            .bind(lease.fence)
            .bind(duration.as_secs_f64())
            .execute(self.background_pool())
            .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Gives a lease back, if it is still ours.
    ///
    /// # Errors
    /// Any database error.
    pub async fn lease_release(&self, lease: &Lease) -> Result<()> {
        sqlx::query(include_str!("../sql/lease/release.sql"))
            .bind(lease.catalog.0)
            .bind(lease.task)
            .bind(lease.holder)
            .bind(lease.fence)
            .execute(self.background_pool())
            .await?;
        Ok(())
    }
}
