//! Compaction: rewrites groups of small files.

mod crowd;
mod failure;

use super::hydrate::columns;
use super::{Record, Trigger, WorkError, Worker, in_words};
use crate::audit::{Action, Outcome};
use failure::{Failed, GroupError};
use hoglake_catalog::catalogs::CatalogIdentity;
use hoglake_catalog::compaction::{ClaimedGroup, CompactionOutput, Held, PlannedInput, Verdict};
use hoglake_catalog::fault;
use hoglake_formats::parquet::footer::RegisteredFile;
use hoglake_formats::parquet::rewrite::{MakeWay, RewriteInput, RewriteOptions, RowIds, SortField, rewrite};
use hoglake_model::definition::{Direction, NullOrder};
use serde::Serialize;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use uuid::Uuid;

/// Groups that are planned beyond those asked for, in the place of groups that turn out not to be possible.
const SPARE_GROUPS: usize = 16;
/// Failed groups after which a run ends: it may be the store that fails rather than the groups.
const MAX_FAILURES: usize = 64;
/// Failures that a status tells of.
const MAX_TOLD: usize = 20;

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
    /// Files that are left alone for a while because their group failed, the first of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub put_off: Vec<FilePutOff>,
    /// Live files that others are rewriting at the end of a run that was asked for,
    #[serde(skip_serializing_if = "is_zero")]
    pub files_claimed_by_others: i64,
    /// and those that are left alone for a while, by this run or by earlier ones.
    #[serde(skip_serializing_if = "is_zero")]
    pub files_put_off: i64,
}

/// `FilePutOff` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FilePutOff {
    /// Namespace and name of its table.
    pub table: String,
    /// The file.
    pub data_file_id: i64,
    /// How often it has failed in a row.
    pub attempts: i32,
    /// For how long it is left alone.
    pub wait_seconds: i64,
    /// Why.
    pub reason: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &i64) -> bool {
    *count == 0
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
        let work = async {
            let mut status = self.compact_groups(catalog, max_groups, &record).await?;
            if trigger == Trigger::Request {
                let held = self.catalog.compaction_held(catalog.id).await?;
                say_what_is_held(catalog, held, &mut status);
            }
            Ok(status)
        };
        let status = work.await;
        record.finish(status).await
    }

    async fn compact_preview(
        &self,
        catalog: &CatalogIdentity,
        max_groups: usize,
    ) -> Result<CompactionStatus, WorkError> {
        let min = self.settings.compaction_min_input_files;
        let mut status = CompactionStatus::default();
        let (groups, held) = self.catalog.compaction_preview(catalog.id, min, max_groups).await?;
        for group in groups {
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
        say_what_is_held(catalog, held, &mut status);
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
            let before = (attempts, failures);
            for group in planned {
                if attempts == max_groups || failures == MAX_FAILURES {
                    break;
                }
                if self.is_stopping() {
                    return Err(WorkError::Stopped);
                }
                // somebody else is at it: theirs
                let Some(mut claimed) = self.catalog.compaction_claim(catalog.id, group).await? else { continue };
                record.begin().await?;
                let done = self.compact_group(catalog, &mut claimed).await;
                match &done {
                    Ok(_) | Err(Failed { error: GroupError::Lost, .. }) => attempts += 1,
                    Err(_) => failures += 1,
                }
                self.conclude(catalog, &claimed, done, &mut status).await?;
            }
            // another plan looks behind files that are put off, and takes the others of their group
            let has_failed = failures > before.1;
            if before == (attempts, failures) || (is_all && !has_failed) {
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
    ) -> Result<(Verdict, Option<i64>), Failed> {
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
        let (cancel, lost) = (Arc::new(AtomicBool::new(false)), AtomicBool::new(false));
        let crowded = Arc::new(AtomicBool::new(true));
        let rewritten = self.while_renewing(claimed, &cancel, &lost, async {
            let mut inputs = Vec::with_capacity(claimed.group.inputs.len());
            for input in &claimed.group.inputs {
                let read = self.rewrite_input(input).await;
                inputs.push(read.map_err(|error| Failed { error, input: Some(input.id) })?);
            }
            let options = RewriteOptions {
                memory_bytes: self.settings.compaction_memory_bytes,
                temp_dir: self.settings.temp_dir(),
                zstd_level: self.settings.compaction_zstd_level,
                make_way: if self.serves { MakeWay::when(Arc::clone(&crowded)) } else { MakeWay::default() },
                uploading: || fault::point("compaction.uploading"),
                cancel: Some(Arc::clone(&cancel)),
                ..RewriteOptions::default()
            };
            let columns = columns(&claimed.group.columns);
            Ok::<_, Failed>(rewrite(inputs, &columns, &order(claimed), &output, &options).await?)
        });
        let rewritten = self.while_watching(claimed.catalog, &crowded, rewritten).await;
        if lost.load(Ordering::Relaxed) {
            return Err(GroupError::Lost.into());
        }
        if rewritten.is_err() && self.is_stopping() {
            return Err(GroupError::Stopped.into());
        }
        let rewritten = rewritten?;
        let written = rewritten.as_ref().map_or(0, |r| r.record_count);
        let Some(rewritten) = rewritten.filter(|r| r.record_count == live) else {
            return Err(GroupError::Count { live, written }.into());
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

    /// Keeps the claims of a group alive until `work` is done. When they are `lost`, or it is time to stop, there is no sense
    /// in it any more: it is told by `cancel`, and waited for, so that nothing is written after the group was given back.
    async fn while_renewing<T>(
        &self,
        claimed: &ClaimedGroup,
        cancel: &AtomicBool,
        lost: &AtomicBool,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = self.stopping(), if !cancel.load(Ordering::Relaxed) => cancel.store(true, Ordering::Relaxed),
                () = tokio::time::sleep(self.catalog.options().compaction_lease / 4) => {
                    match self.catalog.compaction_renew(claimed).await {
                        Ok(true) => {}
                        Ok(false) => {
                            lost.store(true, Ordering::Relaxed);
                            cancel.store(true, Ordering::Relaxed);
                        }
                        // should it last, the commit notices
                        Err(error) => tracing::warn!(error = in_words(&error), "the claims of a group were not renewed"),
                    }
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
        done: Result<(Verdict, Option<i64>), Failed>,
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
                self.give_back(catalog, claimed).await?;
                let superseded = verdict == Verdict::VectorsSuperseded;
                status.dv_superseded += i64::from(superseded);
                status.skipped_conflicts += i64::from(!superseded);
                let reason = if superseded { "dv_superseded" } else { "conflict" };
                metrics::counter!("hoglake_compaction_skipped_total", "reason" => reason).increment(1);
                (Outcome::Conflict, reason.to_owned())
            }
            Err(Failed { error: GroupError::Lost, .. }) => {
                self.give_back(catalog, claimed).await?;
                status.skipped_conflicts += 1;
                metrics::counter!("hoglake_compaction_skipped_total", "reason" => "conflict").increment(1);
                (Outcome::Conflict, in_words(&GroupError::Lost))
            }
            Err(Failed { error: GroupError::Stopped, .. }) => {
                self.give_back(catalog, claimed).await?;
                metrics::counter!("hoglake_compaction_skipped_total", "reason" => "stopped").increment(1);
                (Outcome::Error, in_words(&GroupError::Stopped))
            }
            Err(failed) => {
                let unconvertible = failed.error.is_unconvertible();
                if unconvertible {
                    status.unconvertible_schema += 1;
                    // inputs are mapped before anything is written
                    self.catalog.compaction_discard(claimed).await?;
                }
                let reasons = self.put_off(catalog, claimed, &failed, &table, status).await?;
                for words in reasons.iter().filter(|_| !unconvertible) {
                    tell(&mut status.failures, || format!("{table}: {words}"));
                }
                self.give_back(catalog, claimed).await?;
                let reason = if unconvertible { "unconvertible_schema" } else { "failed" };
                metrics::counter!("hoglake_compaction_skipped_total", "reason" => reason).increment(1);
                let words = reasons.join("; ");
                tracing::warn!(catalog = %catalog.name, %table, error = words, "a group was not compacted");
                (Outcome::Error, words)
            }
        };
        self.audit_line(Action::Compaction, outcome, &catalog.name, Some(&table), Some(&detail));
        Ok(())
    }

    /// Ends the claims of a group that was not committed.
    async fn give_back(&self, catalog: &CatalogIdentity, claimed: &ClaimedGroup) -> Result<(), WorkError> {
        let ours = self.catalog.compaction_release(claimed).await?;
        if let Some((_, path)) = claimed.ticket.as_ref().filter(|_| !ours) {
            // a cleanup has taken the ticket and may have looked before the object was there
            self.catalog.compaction_requeue(catalog.id, path).await?;
        }
        Ok(())
    }
}

/// Says which files were left out because others rewrite them, or because they are put off.
fn say_what_is_held(catalog: &CatalogIdentity, held: Held, status: &mut CompactionStatus) {
    (status.files_claimed_by_others, status.files_put_off) = (held.claimed, held.put_off);
    if held.claimed > 0 {
        tracing::info!(catalog = %catalog.name, files = held.claimed, "others are compacting these files");
    }
}

/// Adds to a list that tells of the first few only.
fn tell<T>(list: &mut Vec<T>, what: impl FnOnce() -> T) {
    if list.len() < MAX_TOLD {
        list.push(what());
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
