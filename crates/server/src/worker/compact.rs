//! Compaction: rewrites groups of small files.

use super::hydrate::columns;
use super::{Record, Trigger, VectorError, WorkError, Worker, in_words};
use crate::audit::{Action, Outcome};
use hoglake_catalog::catalogs::CatalogIdentity;
use hoglake_catalog::compaction::{CLAIM_LEASE, ClaimedGroup, CompactionOutput, PlannedInput, Verdict};
use hoglake_catalog::fault;
use hoglake_formats::parquet::footer::RegisteredFile;
use hoglake_formats::parquet::rewrite::{RewriteError, RewriteInput, RewriteOptions, RowIds, SortField, rewrite};
use hoglake_formats::store::StoreError;
use hoglake_model::definition::{Direction, NullOrder};
use serde::Serialize;
use std::future::Future;
use std::time::Duration;
use uuid::Uuid;

/// Groups that are planned beyond those asked for, in the place of groups that turn out not to be possible.
const SPARE_GROUPS: usize = 16;
/// Failed groups after which a run ends: it may be the store that fails rather than the groups.
const MAX_FAILURES: usize = 64;
/// How long a group is left alone that failed, so that others have their turn before it is tried again,
const FAILED_WAIT: Duration = Duration::from_secs(600);
/// that the database could not take, which has little to do with the group,
const UNCOMMITTED_WAIT: Duration = Duration::from_secs(60);
/// and that cannot be converted, which only another schema or other files change.
const UNCONVERTIBLE_WAIT: Duration = Duration::from_secs(3_600);

/// `CompactionResult` of the contract.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CompactionStatus {
    /// Groups that were replaced.
    pub groups_compacted: i64,
    /// Their files before,
    pub files_in: i64,
    /// and after.
    pub files_out: i64,
    /// Bytes of the files before,
    pub bytes_in: i64,
    /// and after.
    pub bytes_out: i64,
    /// Groups that somebody else changed first.
    pub skipped_conflicts: i64,
    /// Groups in which rows were deleted meanwhile.
    pub dv_superseded: i64,
    /// Groups with a file whose columns cannot be converted.
    pub unconvertible_schema: i64,
    /// Groups that failed otherwise, the first of them in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

/// Why a group was not rewritten.
#[derive(Debug, thiserror::Error)]
enum GroupError {
    #[error(transparent)]
    Rewrite(#[from] RewriteError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Vector(#[from] VectorError),
    #[error("{live} rows should survive, {written} were written; the output is left to cleanup")]
    Count { live: i64, written: i64 },
    #[error(transparent)]
    Catalog(#[from] hoglake_catalog::Error),
}

impl GroupError {
    fn is_unconvertible(&self) -> bool {
        matches!(self, Self::Rewrite(error) if error.is_unconvertible())
    }

    /// How long nobody tries the group again.
    fn wait(&self) -> Duration {
        match self {
            Self::Catalog(_) => UNCOMMITTED_WAIT,
            error if error.is_unconvertible() => UNCONVERTIBLE_WAIT,
            _ => FAILED_WAIT,
        }
    }
}

impl Worker {
    /// Compacts at most `max_groups` groups; with `dry_run` says what would be compacted.
    ///
    /// # Errors
    /// [`WorkError::Catalog`]. A group that fails is reported in the status.
    pub async fn compact(
        &self,
        catalog: &CatalogIdentity,
        max_groups: usize,
        dry_run: bool,
        trigger: Trigger,
    ) -> Result<CompactionStatus, WorkError> {
        if dry_run {
            return self.compact_preview(catalog, max_groups).await;
        }
        let record = self.record(catalog.id, "compact", trigger).await?;
        let status = self.compact_groups(catalog, max_groups, &record).await;
        record.finish(status).await
    }

    async fn compact_preview(
        &self,
        catalog: &CatalogIdentity,
        max_groups: usize,
    ) -> Result<CompactionStatus, WorkError> {
        let min = self.settings.compaction_min_input_files;
        let mut status = CompactionStatus::default();
        for group in self.catalog.compaction_plan(catalog.id, min, max_groups).await? {
            let rows: i64 = group.inputs.iter().map(|input| input.record_count).sum();
            let live = group.live_rows();
            status.groups_compacted += 1;
            status.files_in += i64::try_from(group.inputs.len()).unwrap_or(0);
            status.files_out += i64::from(live > 0);
            status.bytes_in += group.bytes_in();
            // as if bytes went with rows: what encoding and compression will make of them is not known
            let share = i128::from(group.bytes_in()) * i128::from(live) / i128::from(rows.max(1));
            status.bytes_out += i64::try_from(share).unwrap_or(0);
        }
        Ok(status)
    }

    async fn compact_groups(
        &self,
        catalog: &CatalogIdentity,
        max_groups: usize,
        record: &Record,
    ) -> Result<CompactionStatus, WorkError> {
        let mut status = CompactionStatus::default();
        let min = self.settings.compaction_min_input_files;
        let (mut attempts, mut failures) = (0, 0);
        while attempts < max_groups && failures < MAX_FAILURES {
            let wanted = (max_groups - attempts).saturating_add(SPARE_GROUPS);
            let planned = self.catalog.compaction_plan(catalog.id, min, wanted).await?;
            let is_all = planned.len() < wanted;
            let before = (attempts, failures, status.unconvertible_schema);
            for group in planned {
                if attempts == max_groups || failures == MAX_FAILURES {
                    break;
                }
                // somebody else is at it: theirs
                let Some(mut claimed) = self.catalog.compaction_claim(catalog.id, group).await? else { continue };
                record.begin().await?;
                let done = self.compact_group(catalog, &mut claimed).await;
                match &done {
                    Ok(_) => attempts += 1,
                    Err(error) if error.is_unconvertible() => {}
                    Err(_) => failures += 1,
                }
                self.conclude(catalog, &claimed, done, &mut status).await?;
            }
            // groups that cannot be rewritten are put off: another plan looks behind them
            if is_all || before == (attempts, failures, status.unconvertible_schema) {
                break;
            }
        }
        Ok(status)
    }

    /// Rewrites and commits one claimed group; the output's bytes with the verdict.
    async fn compact_group(
        &self,
        catalog: &CatalogIdentity,
        claimed: &mut ClaimedGroup,
    ) -> Result<(Verdict, Option<i64>), GroupError> {
        let live = claimed.group.live_rows();
        if live == 0 {
            return Ok((self.catalog.compaction_commit(claimed, None).await?, None));
        }
        let path = format!(
            "{}/data/{}/{}/compacted-{}.parquet",
            catalog.data_path.trim_end_matches('/'),
            claimed.group.namespace,
            claimed.group.table_name,
            Uuid::new_v4()
        );
        let output = self.object(&path)?;
        self.catalog.compaction_stage(claimed, &path).await?;
        let claimed = &*claimed;
        let rewritten = self.while_renewing(claimed, async {
            let mut inputs = Vec::with_capacity(claimed.group.inputs.len());
            for input in &claimed.group.inputs {
                inputs.push(self.rewrite_input(input).await?);
            }
            let options = RewriteOptions {
                memory_bytes: self.settings.compaction_memory_bytes,
                temp_dir: self.settings.temp_dir(),
                zstd_level: self.settings.compaction_zstd_level,
                yields: self.serves,
                ..RewriteOptions::default()
            };
            Ok::<_, GroupError>(
                rewrite(inputs, &columns(&claimed.group.columns), &order(claimed), &output, &options).await?,
            )
        });
        let rewritten = rewritten.await?;
        let written = rewritten.as_ref().map_or(0, |r| r.record_count);
        let Some(rewritten) = rewritten.filter(|r| r.record_count == live) else {
            return Err(GroupError::Count { live, written });
        };
        fault::point("compaction.uploaded");
        let output = CompactionOutput {
            record_count: rewritten.record_count,
            file_size_bytes: i64::try_from(rewritten.file_size_bytes).unwrap_or(i64::MAX),
            footer_size: i64::try_from(rewritten.footer_size).unwrap_or(i64::MAX),
            row_id_start: rewritten.min_row_id,
            statistics: rewritten.statistics,
        };
        let verdict = self.catalog.compaction_commit(claimed, Some(&output)).await?;
        Ok((verdict, Some(output.file_size_bytes)))
    }

    /// Keeps the claims of a group alive until `work` is done.
    async fn while_renewing<T>(&self, claimed: &ClaimedGroup, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(CLAIM_LEASE / 3) => {
                    // a claim that could not be renewed is noticed at the commit
                    drop(self.catalog.compaction_renew(claimed).await);
                }
            }
        }
    }

    async fn rewrite_input(&self, input: &PlannedInput) -> Result<RewriteInput, GroupError> {
        let deletions = match &input.vector {
            Some(vector) => Some(self.read_vector(&vector.path, vector.delete_count, input.record_count).await?),
            None => None,
        };
        Ok(RewriteInput {
            object: self.object(&input.path)?,
            file: RegisteredFile {
                file_size_bytes: u64::try_from(input.file_size_bytes).unwrap_or(0),
                footer_size: input.footer_size.and_then(|f| u64::try_from(f).ok()),
                record_count: Some(input.record_count),
                max_whole_object_bytes: self.settings.hydrator_max_whole_object_bytes,
            },
            row_ids: if input.explicit_row_ids { RowIds::Explicit } else { RowIds::Positional(input.row_id_start) },
            deletions,
            names: columns(&input.names),
        })
    }

    /// Counts what became of a group, and gives up what is left of it.
    async fn conclude(
        &self,
        catalog: &CatalogIdentity,
        claimed: &ClaimedGroup,
        done: Result<(Verdict, Option<i64>), GroupError>,
        status: &mut CompactionStatus,
    ) -> Result<(), WorkError> {
        let table = format!("{}.{}", claimed.group.namespace, claimed.group.table_name);
        let inputs = i64::try_from(claimed.group.inputs.len()).unwrap_or(0);
        let (outcome, detail) = match done {
            Ok((Verdict::Committed(snapshot), bytes_out)) => {
                status.groups_compacted += 1;
                status.files_in += inputs;
                status.files_out += i64::from(bytes_out.is_some());
                status.bytes_in += claimed.group.bytes_in();
                status.bytes_out += bytes_out.unwrap_or(0);
                metrics::counter!("hoglake_compaction_groups_total").increment(1);
                metrics::counter!("hoglake_compaction_files_rewritten_total").increment(inputs.unsigned_abs());
                (Outcome::Ok, format!("snapshot {snapshot}: {inputs} files"))
            }
            Ok((verdict, _)) => {
                let ours = self.catalog.compaction_release(claimed).await?;
                if let Some((_, path)) = claimed.ticket.as_ref().filter(|_| !ours) {
                    // a cleanup has taken the ticket and may have looked before the object was there
                    self.catalog.compaction_requeue(catalog.id, path).await?;
                }
                let superseded = verdict == Verdict::VectorsSuperseded;
                status.dv_superseded += i64::from(superseded);
                status.skipped_conflicts += i64::from(!superseded);
                let reason = if superseded { "dv_superseded" } else { "conflict" };
                metrics::counter!("hoglake_compaction_skipped_total", "reason" => reason).increment(1);
                (Outcome::Conflict, reason.to_owned())
            }
            Err(error) => {
                let words = in_words(&error);
                let unconvertible = error.is_unconvertible();
                if unconvertible {
                    status.unconvertible_schema += 1;
                    // inputs are mapped before anything is written
                    self.catalog.compaction_discard(claimed).await?;
                } else if status.failures.len() < 20 {
                    status.failures.push(format!("{table}: {words}"));
                }
                self.catalog.compaction_put_off(claimed, error.wait()).await?;
                let reason = if unconvertible { "unconvertible_schema" } else { "failed" };
                metrics::counter!("hoglake_compaction_skipped_total", "reason" => reason).increment(1);
                tracing::warn!(catalog = %catalog.name, %table, error = words, "a group was not compacted");
                (Outcome::Error, words)
            }
        };
        self.audit_line(Action::Compaction, outcome, &catalog.name, Some(&table), Some(&detail));
        Ok(())
    }
}

fn order(claimed: &ClaimedGroup) -> Vec<SortField> {
    claimed
        .group
        .order
        .iter()
        .map(|field| SortField {
            field_id: field.source_field_id,
            descending: field.direction == Direction::Desc,
            nulls_first: field.null_order == NullOrder::NullsFirst,
        })
        .collect()
}
