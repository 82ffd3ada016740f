//! Replaying commits: what each did to the set of live files.
//!
//! A commit names the file groups that it wrote or replaced. For each the live file before and after is found among
//! the files that the touched partitions hold. Where a file that a commit wrote or superseded was already cleaned away,
//! or actions took commits back, the history counts as gone.

use super::commit::CommitMetadata;
use super::file_group::{BaseFile, FileGroup, FileGroups};
use super::metadata_table;
use super::partitioning::Partitioning;
use super::source::{HudiSource, Opened, READ_OPTIMISED, path, version};
use super::timeline::{self, Instant};
use crate::sync::{Error, Result};
use futures::StreamExt;
use futures::stream::BoxStream;
use hoglake_model::table::{Change, FileDelta, Operation, RemovedFile, TableState, Watermark};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

type Group = (String, String);

/// Commits to replay, oldest first, with everything that is needed to tell before from after.
pub(super) struct Replay {
    commits: Vec<(Instant, CommitMetadata)>,
    groups: FileGroups,
    /// Instants of writes that were visible at the watermark.
    known: HashSet<String>,
    /// Groups that were replaced at the watermark.
    replaced: HashSet<Group>,
}

impl Replay {
    /// Plans the way from `since` to the head; the inner error says why there is none.
    pub(super) async fn plan(
        source: &HudiSource,
        opened: &Opened,
        since: &Watermark,
    ) -> Result<std::result::Result<Self, String>> {
        let timeline = &opened.timeline;
        let gone = |reason: String| Ok(Err(reason));
        let revision = since.revision.as_ref();
        let Some(since) = since.version.as_ref().map(|v| v.0.as_str()) else {
            return gone("the watermark names no instant".to_owned());
        };
        let since = match since.strip_suffix(READ_OPTIMISED) {
            Some(instant) if source.options.read_optimised => instant,
            Some(_) => return gone("the target shows the table without its log files".to_owned()),
            None => since,
        };
        let Some(at) = timeline.completed.iter().position(|i| i.writes() && i.requested == since) else {
            return gone(format!("instant {since} is no longer in the active timeline"));
        };
        let (before, after) = timeline.completed.split_at(at + 1);
        if let (Some(revision), Some(instant)) = (revision, before.last())
            && source.root.beginning(&instant.key).await?.map(|found| found.fingerprint()).as_ref() != Some(revision)
        {
            return gone(format!(
                "instant {since} is not the commit that the target shows: the table was put back or replaced, or its \
                 timeline rewritten"
            ));
        }
        let mark = before.last().map_or(0, |i| i.modified_ms);
        if let Some(late) = before.iter().find(|i| i.writes() && i.modified_ms > mark && i.requested == i.completed) {
            return gone(format!("instant {} completed after the later instant {since}", late.requested));
        }
        if let Some(undo) = after.iter().find(|i| matches!(i.action.as_str(), "rollback" | "restore")) {
            return gone(format!("a {} at {} took commits back", undo.action, undo.requested));
        }
        let mut commits = Vec::new();
        for instant in after.iter().filter(|i| i.writes()) {
            commits.push((instant.clone(), CommitMetadata::read(&source.root, instant).await?));
        }
        if !source.options.read_optimised
            && let Some(log) = commits.iter().flat_map(|(_, m)| &m.stats).find(|s| s.path.contains(".log."))
        {
            return gone(format!("commits since wrote log files, such as {}", log.path));
        }
        let mut partitions = BTreeSet::new();
        for (_, metadata) in &commits {
            partitions.extend(metadata.stats.iter().map(|s| s.partition.clone()));
            partitions.extend(metadata.replaced.iter().map(|(partition, _)| partition.clone()));
        }
        let groups = if opened.properties.lists_files() && !source.options.ignore_metadata_table {
            metadata_table::groups(&metadata_table::read(&source.root, timeline).await?)
        } else {
            let mut groups = FileGroups::default();
            for partition in &partitions {
                for (name, size) in timeline::list_folder(&source.root, partition).await? {
                    groups.add(partition, &name, Some(size));
                }
            }
            groups
        };
        for (instant, metadata) in &commits {
            for stat in &metadata.stats {
                let mut own = FileGroups::default();
                own.add(&stat.partition, stat.path.rsplit('/').next().unwrap_or_default(), stat.size);
                let is_listed = |(key, group): (&Group, &FileGroup)| {
                    let listed = groups.0.get(key).map_or(&[][..], |g| g.bases.as_slice());
                    group.bases.iter().all(|b| listed.iter().any(|l| l.name == b.name && l.instant == b.instant))
                };
                if !own.0.iter().all(is_listed) {
                    return gone(format!("{}, which instant {} wrote, was cleaned away", stat.path, instant.requested));
                }
            }
        }
        let mut replaced = HashSet::new();
        for instant in before.iter().filter(|i| i.action == "replacecommit") {
            replaced.extend(CommitMetadata::read(&source.root, instant).await?.replaced);
        }
        let later: HashSet<&str> = after.iter().map(|i| i.requested.as_str()).collect();
        let in_timeline = before.iter().filter(|i| i.writes()).map(|i| i.requested.clone());
        let mut known: HashSet<String> = in_timeline.collect();
        let bases = groups.0.values().flat_map(|g| &g.bases).map(|b| &b.instant);
        known.extend(bases.filter(|i| timeline.is_committed(i) && !later.contains(i.as_str())).cloned());
        let replay = Self { commits, groups, known, replaced };
        match replay.cleaned() {
            Some(reason) => gone(reason),
            None => Ok(Ok(replay)),
        }
    }

    /// Why a file that some commit superseded cannot be named, if that is so.
    fn cleaned(&self) -> Option<String> {
        let bases = |partition: &str, file_id: &str| {
            self.groups.0.get(&(partition.to_owned(), file_id.to_owned())).map_or(&[][..], |g| g.bases.as_slice())
        };
        for (instant, metadata) in &self.commits {
            for stat in metadata.stats.iter().filter(|s| !s.path.contains(".log.")) {
                let Some(previous) = &stat.previous else { continue };
                if !bases(&stat.partition, &stat.file_id).iter().any(|b| b.instant == *previous) {
                    return Some(format!(
                        "the file that instant {} superseded in group {} was cleaned away",
                        instant.requested, stat.file_id
                    ));
                }
            }
            for (partition, file_id) in &metadata.replaced {
                let group = (partition.clone(), file_id.clone());
                if bases(partition, file_id).is_empty() && !self.replaced.contains(&group) {
                    return Some(format!(
                        "the files of group {file_id}, which instant {} replaced, were cleaned away",
                        instant.requested
                    ));
                }
            }
        }
        None
    }

    /// The changes, oldest first.
    pub(super) fn run<'a>(
        self,
        source: &'a HudiSource,
        opened: &'a Opened,
        head: Arc<TableState>,
    ) -> BoxStream<'a, Result<Change>> {
        let commits = self.commits.len();
        futures::stream::unfold((self, 0usize), move |(mut replay, index)| {
            let head = Arc::clone(&head);
            async move {
                if index >= commits {
                    return None;
                }
                let change = replay.step(source, opened, &head, index).await;
                // After a failure nothing sensible follows.
                let next = if change.is_ok() { index + 1 } else { commits };
                Some((change, (replay, next)))
            }
        })
        .boxed()
    }

    async fn step(
        &mut self,
        source: &HudiSource,
        opened: &Opened,
        head: &Arc<TableState>,
        index: usize,
    ) -> Result<Change> {
        let Some((instant, metadata)) = self.commits.get(index).cloned() else {
            return Err(Error::malformed("timeline", "there is no such commit"));
        };
        let (state, partitioning) = if index + 1 == self.commits.len() {
            (Arc::clone(head), opened.partitioning.clone())
        } else {
            state_at(source, opened, head, &instant, &metadata).await?
        };
        let mut touched: BTreeSet<Group> =
            metadata.stats.iter().map(|s| (s.partition.clone(), s.file_id.clone())).collect();
        touched.extend(metadata.replaced.iter().cloned());
        // Files of other engines are registered under the name of the file, not under the file id of the statistics.
        for stat in &metadata.stats {
            let mut own = FileGroups::default();
            own.add(&stat.partition, stat.path.rsplit('/').next().unwrap_or_default(), stat.size);
            touched.extend(own.0.into_keys());
        }
        let before: BTreeMap<Group, BaseFile> =
            touched.iter().filter_map(|g| Some((g.clone(), self.live(opened, g)?))).collect();
        self.known.insert(instant.requested.clone());
        self.replaced.extend(metadata.replaced.iter().cloned());
        let mut files = FileDelta::default();
        for group in &touched {
            let (old, new) = (before.get(group), self.live(opened, group));
            if old == new.as_ref() {
                continue;
            }
            if let Some(old) = old {
                let partition = partitioning.tuple(&group.0).ok().map(|tuple| (0, tuple));
                files.removed.push(RemovedFile { path: path(&group.0, &old.name), partition, size_bytes: old.size });
            }
            if let Some(new) = new {
                files.added.push(source.data_file(&state, &partitioning, &group.0, &new, &[]).await?);
            }
        }
        let operation = match metadata.operation.as_deref() {
            Some("CLUSTER" | "COMPACT" | "LOG_COMPACT") => Operation::Replace,
            _ => files.operation(),
        };
        Ok(Change { state, operation, files })
    }

    fn live(&self, opened: &Opened, group: &Group) -> Option<BaseFile> {
        if self.replaced.contains(group) {
            return None;
        }
        let (base, _) = self.groups.0.get(group)?.newest(&opened.timeline, |instant| self.known.contains(instant));
        base
    }
}

/// The table after a commit that is not the head.
async fn state_at(
    source: &HudiSource,
    opened: &Opened,
    head: &TableState,
    instant: &Instant,
    metadata: &CommitMetadata,
) -> Result<(Arc<TableState>, Partitioning)> {
    let mut schema = source.schema(&opened.properties, &opened.timeline, Some((instant, metadata))).await?;
    let (partitioning, _) = Partitioning::infer(&opened.properties, &mut schema);
    let mut version = version(Some((instant, metadata)));
    if head.version.id.0.ends_with(READ_OPTIMISED) {
        version.id.0.push_str(READ_OPTIMISED);
    }
    let state = TableState { version, schema, specs: vec![partitioning.spec.clone()], ..head.clone() };
    Ok((Arc::new(state), partitioning))
}
