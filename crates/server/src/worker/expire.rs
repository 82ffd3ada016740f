//! Expiry: moves the floor, purges what lies below it.

use super::{Record, Trigger, WorkError, Worker};
use crate::audit::{Action, Outcome};
use hoglake_catalog::catalogs::CatalogIdentity;
use hoglake_catalog::expiry::{ExpiryLimits, ExpiryResult};

impl Worker {
    /// Runs one expiry sweep of at most `batch` snapshots; with `dry_run` says what it would do.
    ///
    /// # Errors
    /// [`WorkError::Catalog`].
    pub async fn expire(
        &self,
        catalog: &CatalogIdentity,
        batch: i64,
        dry_run: bool,
        trigger: Trigger,
    ) -> Result<ExpiryResult, WorkError> {
        let limits = ExpiryLimits { batch, rests: trigger == Trigger::Timer, ..ExpiryLimits::default() };
        if dry_run {
            return Ok(self.catalog.expire_preview(catalog.id, limits).await?);
        }
        let record = self.record(catalog.id, "expire", trigger).await?;
        let result = self.unless_stopping(self.expire_recorded(catalog, limits, &record)).await;
        let result = record.finish(result).await?;
        let labels = [("catalog", catalog.name.clone())];
        metrics::counter!("hoglake_snapshots_expired_total", &labels)
            .increment(u64::try_from(result.snapshots_expired).unwrap_or(0));
        if result.did_something() && trigger == Trigger::Timer {
            let detail = format!(
                "{} snapshots expired, {} data files and {} deletion vectors queued, floor {}",
                result.snapshots_expired,
                result.data_files_queued,
                result.delete_files_queued,
                result.new_earliest_snapshot_id
            );
            self.audit_line(Action::Expiry, Outcome::Ok, &catalog.name, None, Some(&detail));
        }
        // old entries of the ledgers go with old snapshots
        self.catalog.runs_purge(catalog.id, self.settings.ledger_retention()).await?;
        Ok(result)
    }

    async fn expire_recorded(
        &self,
        catalog: &CatalogIdentity,
        limits: ExpiryLimits,
        record: &Record,
    ) -> Result<ExpiryResult, WorkError> {
        let moved = self.catalog.expire_floor(catalog.id, limits).await?;
        // an idle sweep of a timer leaves no trace; one that is killed does
        if self.catalog.expire_is_due(catalog.id, &moved).await? {
            record.begin().await?;
        }
        Ok(self.catalog.expire_purge(catalog.id, moved, limits).await?)
    }
}
