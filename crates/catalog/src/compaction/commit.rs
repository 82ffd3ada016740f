//! The commit of a rewrite: checks under the lock that the plan still holds, then replaces inputs by output.

use super::{ClaimedGroup, PlannedGroup};
use crate::commit::write::{StatisticsRows, text_array};
use crate::fault;
use crate::lock::begin_locked;
use crate::{Catalog, Result};
use hoglake_model::{CatalogId, ColumnStats, FileId, SnapshotId};
use sqlx::PgConnection;

/// The file that a group was rewritten into.
#[derive(Debug, Clone)]
pub struct CompactionOutput {
    /// Rows.
    pub record_count: i64,
    /// Bytes.
    pub file_size_bytes: i64,
    /// Bytes of the footer.
    pub footer_size: i64,
    /// The smallest row id in it.
    pub row_id_start: i64,
    /// Exact statistics.
    pub statistics: Vec<ColumnStats>,
}

/// What became of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The inputs are replaced.
    Committed(SnapshotId),
    /// An input is gone or was taken over, the table was altered or dropped, or the staged output was reclaimed. Nothing
    /// happened.
    Conflict,
    /// Rows of an input were deleted since the plan: the rewrite would bring them back. Nothing happened.
    VectorsSuperseded,
}

/// Whether the plan of a group still holds.
#[derive(sqlx::FromRow)]
pub(super) struct Check {
    ddl_snapshot: Option<i64>,
    live_inputs: i64,
    other_vectors: i64,
    next_file_id: i64,
}

impl Check {
    pub(super) async fn read(
        connection: &mut PgConnection,
        catalog: CatalogId,
        group: &PlannedGroup,
    ) -> Result<Self, sqlx::Error> {
        let vectors: Vec<Option<i64>> = group.inputs.iter().map(|i| i.vector.as_ref().map(|v| v.id.0)).collect();
        sqlx::query_as(include_str!("../../sql/compaction/check.sql"))
            .bind(catalog.0)
            .bind(group.table.0)
            .bind(group.input_ids())
            .bind(vectors)
            .fetch_one(connection)
            .await
    }

    /// Why the group cannot be committed, if it cannot.
    pub(super) fn verdict(&self, group: &PlannedGroup) -> Option<Verdict> {
        let same_schema = self.ddl_snapshot == Some(group.ddl_snapshot.0);
        if !same_schema || usize::try_from(self.live_inputs) != Ok(group.inputs.len()) {
            return Some(Verdict::Conflict);
        }
        (self.other_vectors > 0).then_some(Verdict::VectorsSuperseded)
    }
}

impl Catalog {
    /// Replaces the inputs of a claimed group by `output`, which is staged and written; by nothing when no row is left.
    ///
    /// # Locks
    /// The catalog's commit lock, for two statements.
    ///
    /// # Errors
    /// Any database error. Whether the commit happened is then told by the ticket: it is settled exactly when it did, so
    /// that the output may be left to cleanup in either case.
    pub async fn compaction_commit(
        &self,
        claimed: &ClaimedGroup,
        output: Option<&CompactionOutput>,
    ) -> Result<Verdict> {
        let mut connection = self.background_pool().acquire().await?;
        let verdict = self.compaction_commit_on(&mut connection, claimed, output).await;
        if verdict.is_err() {
            connection.close_on_drop();
        }
        verdict
    }

    async fn compaction_commit_on(
        &self,
        connection: &mut PgConnection,
        claimed: &ClaimedGroup,
        output: Option<&CompactionOutput>,
    ) -> Result<Verdict> {
        let group = &claimed.group;
        let inputs = group.input_ids();
        let ticket = claimed.ticket.as_ref();
        let mut transaction = begin_locked(connection, claimed.catalog, self.options().commit_lock_timeout).await?;
        let held: i64 = sqlx::query_scalar(include_str!("../../sql/compaction/hold.sql"))
            .bind(claimed.catalog.0)
            .bind(&inputs)
            .bind(claimed.claimant)
            .fetch_one(&mut *transaction)
            .await?;
        if usize::try_from(held) != Ok(inputs.len()) {
            // whoever has taken the inputs over rewrites them, too
            transaction.rollback().await?;
            return Ok(Verdict::Conflict);
        }
        if let Some((ticket, _)) = ticket {
            let ours: Option<i64> = sqlx::query_scalar(include_str!("../../sql/compaction/ticket.sql"))
                .bind(ticket)
                .bind(claimed.claimant)
                .fetch_optional(&mut *transaction)
                .await?;
            if ours.is_none() {
                transaction.rollback().await?;
                return Ok(Verdict::Conflict);
            }
        }
        let check = Check::read(&mut transaction, claimed.catalog, group).await?;
        let unstaged = output.is_some() && ticket.is_none();
        if let Some(verdict) = check.verdict(group).or(unstaged.then_some(Verdict::Conflict)) {
            transaction.rollback().await?;
            return Ok(verdict);
        }
        let mut statistics = StatisticsRows::default();
        if let Some(output) = output.filter(|o| !o.statistics.is_empty()) {
            statistics.push(FileId(check.next_file_id), &output.statistics);
        }
        let snapshot: i64 = sqlx::query_scalar(include_str!("../../sql/compaction/write.sql"))
            .bind(claimed.catalog.0)
            .bind(group.table.0)
            .bind(&inputs)
            .bind(output.map(|_| check.next_file_id))
            .bind(output.and(ticket).map(|(_, path)| path.as_str()))
            .bind(output.map(|o| o.record_count))
            .bind(output.map(|o| o.file_size_bytes))
            .bind(output.map(|o| o.footer_size))
            .bind(output.map(|o| o.row_id_start))
            .bind(group.spec.map(|spec| spec.0))
            .bind(group.partition_values.as_deref().map(text_array))
            .bind(statistics.field_ids.pop())
            .bind(statistics.value_counts.pop())
            .bind(statistics.null_counts.pop())
            .bind(statistics.nan_counts.pop())
            .bind(statistics.sizes.pop())
            .bind(statistics.lower_bounds.pop())
            .bind(statistics.upper_bounds.pop())
            .bind(ticket.map(|(id, _)| *id))
            .fetch_one(&mut *transaction)
            .await?;
        fault::point("compaction.before_commit");
        transaction.commit().await?;
        fault::point("compaction.committed");
        Ok(Verdict::Committed(SnapshotId(snapshot)))
    }
}
