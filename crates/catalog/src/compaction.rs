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
use hoglake_model::{CatalogId, FileId};
use sqlx::PgExecutor;
use std::time::Duration;
use uuid::Uuid;

/// How long a file is left alone that could not be compacted for the first time; twice as long each time that follows.
const FIRST_WAIT: Duration = Duration::from_secs(60);

/// What a group failed for, as far as that says how long it may last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The file itself, which somebody has to mend.
    File,
    /// What may be over at any moment, and has little to do with the file: a store that is away, a full disk.
    Passing,
}

impl Cause {
    /// The longest that a file is left alone.
    const fn longest_wait(self) -> Duration {
        match self {
            Self::File => Duration::from_secs(6 * 3_600),
            Self::Passing => Duration::from_secs(600),
        }
    }
}

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

/// A file that is left out of plans for a while.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct PutOff {
    /// The file.
    pub data_file_id: i64,
    /// How often it has failed in a row.
    pub attempts: i32,
    /// For how long it is left out.
    pub wait_seconds: f64,
}

/// Live files that no plan takes at the moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, sqlx::FromRow)]
pub struct Held {
    /// Those that somebody rewrites.
    pub claimed: i64,
    /// Those that are put off.
    pub put_off: i64,
}

impl Held {
    async fn read(database: impl PgExecutor<'_>, catalog: CatalogId) -> Result<Self> {
        let held = sqlx::query_as(include_str!("../sql/compaction/held.sql"));
        Ok(held.bind(catalog.0).fetch_one(database).await?)
    }
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
            .bind(self.options().compaction_lease.as_secs_f64())
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
            .bind(self.options().compaction_lease.as_secs_f64())
            .fetch_one(self.background_pool())
            .await?;
        claimed.ticket = Some((ticket, path.to_owned()));
        fault::point("compaction.staged");
        Ok(())
    }

    /// Prolongs the claims of a group while it is being rewritten. False when one of them has passed to somebody else, so
    /// that the group cannot be committed any more.
    ///
    /// # Errors
    /// Any database error.
    pub async fn compaction_renew(&self, claimed: &ClaimedGroup) -> Result<bool> {
        let (inputs, output): (i64, bool) = sqlx::query_as(include_str!("../sql/compaction/renew.sql"))
            .bind(claimed.claimant)
            .bind(self.options().compaction_lease.as_secs_f64())
            .bind(claimed.ticket.as_ref().map(|(id, _)| *id))
            .fetch_one(self.background_pool())
            .await?;
        Ok(usize::try_from(inputs) == Ok(claimed.group.inputs.len()) && output == claimed.ticket.is_some())
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

    /// Keeps files out of every plan for a while, each time twice as long: what has failed would fail again, and stand
    /// before what can be rewritten.
    ///
    /// # Errors
    /// Any database error.
    pub async fn compaction_fail(
        &self,
        catalog: CatalogId,
        files: &[FileId],
        cause: Cause,
        reason: &str,
    ) -> Result<Vec<PutOff>> {
        let mut files: Vec<i64> = files.iter().map(|file| file.0).collect();
        // one order for all, so that two of them cannot wait for each other
        files.sort_unstable();
        Ok(sqlx::query_as(include_str!("../sql/compaction/fail.sql"))
            .bind(catalog.0)
            .bind(&files)
            .bind(FIRST_WAIT.as_secs_f64())
            .bind(cause.longest_wait().as_secs_f64())
            .bind(reason)
            .fetch_all(self.background_pool())
            .await?)
    }

    /// What plans leave out at the moment.
    ///
    /// # Errors
    /// Any database error.
    pub async fn compaction_held(&self, catalog: CatalogId) -> Result<Held> {
        Held::read(self.background_pool(), catalog).await
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
