//! Compaction: which files to rewrite together, claims on them, and the commit that replaces them.
//!
//! The rewrite itself happens elsewhere, between [`Catalog::compaction_claim`] and [`Catalog::compaction_commit`], with no
//! transaction open. Its output is queued for removal before it is written, and leaves the queue in the transaction that
//! registers it: whatever is interrupted, the object is either registered or cleaned up.

mod commit;
mod plan;

use commit::Check;
pub use commit::{CompactionOutput, Verdict};
pub use plan::{PlannedGroup, PlannedInput, PlannedVector};

use crate::fault;
use crate::{Catalog, Result};
use hoglake_model::CatalogId;
use std::time::Duration;
use uuid::Uuid;

/// How long a claim on inputs and output lasts between two renewals.
pub const CLAIM_LEASE: Duration = Duration::from_secs(900);

/// A group that was claimed for rewriting.
#[derive(Debug, Clone)]
pub struct ClaimedGroup {
    /// Of which catalog.
    pub catalog: CatalogId,
    /// Who rewrites it.
    pub claimant: Uuid,
    /// What to rewrite.
    pub group: PlannedGroup,
    /// The queue entry of the output and its path, once it is staged.
    pub ticket: Option<(i64, String)>,
}

impl Catalog {
    /// Claims the inputs of `group`; `None` when somebody else has claimed one of them since it was planned, or the plan
    /// does not hold any more.
    ///
    /// # Errors
    /// Any database error.
    pub async fn compaction_claim(&self, catalog: CatalogId, group: PlannedGroup) -> Result<Option<ClaimedGroup>> {
        let claimant = Uuid::new_v4();
        let mut files = group.input_ids();
        // one order for all claimants, so that two of them cannot wait for each other
        files.sort_unstable();
        let mut transaction = self.background_pool().begin().await?;
        let claimed: i64 = sqlx::query_scalar(include_str!("../sql/compaction/claim.sql"))
            .bind(catalog.0)
            .bind(claimant)
            .bind(CLAIM_LEASE.as_secs_f64())
            .bind(&files)
            .fetch_one(&mut *transaction)
            .await?;
        // somebody else may have finished with the group, claims and all, since it was planned
        let plan_holds = usize::try_from(claimed) == Ok(files.len())
            && Check::read(&mut transaction, catalog, &group).await?.verdict(&group).is_none();
        if !plan_holds {
            transaction.rollback().await?;
            return Ok(None);
        }
        transaction.commit().await?;
        fault::point("compaction.claimed");
        Ok(Some(ClaimedGroup { catalog, claimant, group, ticket: None }))
    }

    /// Queues `path`, which the caller is about to write, for removal.
    ///
    /// # Errors
    /// Any database error: then nothing may be written.
    pub async fn compaction_stage(&self, claimed: &mut ClaimedGroup, path: &str) -> Result<()> {
        let ticket = sqlx::query_scalar(include_str!("../sql/compaction/stage.sql"))
            .bind(claimed.catalog.0)
            .bind(path)
            .bind(claimed.claimant)
            .bind(CLAIM_LEASE.as_secs_f64())
            .fetch_one(self.background_pool())
            .await?;
        claimed.ticket = Some((ticket, path.to_owned()));
        fault::point("compaction.staged");
        Ok(())
    }

    /// Prolongs the claims of a group while it is being rewritten.
    ///
    /// # Errors
    /// Any database error.
    pub async fn compaction_renew(&self, claimed: &ClaimedGroup) -> Result<()> {
        sqlx::query(include_str!("../sql/compaction/renew.sql"))
            .bind(claimed.claimant)
            .bind(CLAIM_LEASE.as_secs_f64())
            .bind(claimed.ticket.as_ref().map(|(id, _)| *id))
            .execute(self.background_pool())
            .await?;
        Ok(())
    }

    /// Gives a group up: others may plan its inputs again, and cleanup deletes what was staged. False when the ticket of
    /// the output was not ours any more.
    ///
    /// # Errors
    /// Any database error; the claims then end by themselves.
    pub async fn compaction_release(&self, claimed: &ClaimedGroup) -> Result<bool> {
        let done = sqlx::query(include_str!("../sql/compaction/release.sql"))
            .bind(claimed.claimant)
            .bind(claimed.ticket.as_ref().map(|(id, _)| *id))
            .execute(self.background_pool())
            .await?;
        Ok(done.rows_affected() == 1 || claimed.ticket.is_none())
    }

    /// Gives a group up as [`Catalog::compaction_release`] does, but keeps its inputs out of every plan for `wait`: what
    /// has failed would fail again, and stand before groups that can be rewritten.
    ///
    /// # Errors
    /// Any database error; the claims then end by themselves.
    pub async fn compaction_put_off(&self, claimed: &ClaimedGroup, wait: Duration) -> Result<()> {
        sqlx::query(include_str!("../sql/compaction/put_off.sql"))
            .bind(claimed.claimant)
            .bind(claimed.ticket.as_ref().map(|(id, _)| *id))
            .bind(wait.as_secs_f64())
            .execute(self.background_pool())
            .await?;
        Ok(())
    }

    /// Settles the ticket of an output that was certainly never written.
    ///
    /// # Errors
    /// Any database error; the ticket is then left to cleanup.
    pub async fn compaction_discard(&self, claimed: &ClaimedGroup) -> Result<()> {
        let Some((ticket, _)) = &claimed.ticket else { return Ok(()) };
        sqlx::query(include_str!("../sql/compaction/discard.sql"))
            .bind(ticket)
            .bind(claimed.claimant)
            .execute(self.background_pool())
            .await?;
        Ok(())
    }

    /// Queues the output of a group whose ticket was taken by a cleanup while the output was being written.
    ///
    /// # Errors
    /// Any database error.
    pub async fn compaction_requeue(&self, catalog: CatalogId, path: &str) -> Result<()> {
        sqlx::query(include_str!("../sql/compaction/requeue.sql"))
            .bind(catalog.0)
            .bind(path)
            .execute(self.background_pool())
            .await?;
        Ok(())
    }
}
