//! Keeping the active timeline short: cleaning away replaced files, and archiving commits.
//!
//! A file group that was replaced is hidden from readers by the commit that replaced it, so that this commit can leave
//! the active timeline only after a clean took the group's files out of the metadata table. Data files stay: see
//! [`Clean`].
//!
//! # Source
//! Hudi specification version 6, "Timeline", "Cleaning" and "Archiving".

use super::super::FOLDER;
use super::super::archived;
use super::super::clean::Clean;
use super::super::commit::CommitMetadata;
use super::super::file_group::FileName;
use super::super::metadata_table::{self, ALL_PARTITIONS, FileListing, ROOT_PARTITION};
use super::super::metadata_writer::{self, Changes, Compaction};
use super::super::timeline::{self, Instant};
use super::plan::{Place, Plan};
use super::publish::{AFTER, after, commit_json};
use super::{Existing, HudiTarget};
use crate::sync::{Error, Result};
use hoglake_model::table::{TableFormat, Unsupported, UnsupportedKind};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Commits in the active timeline at which the oldest are archived, unless their age decides.
const MAX_ACTIVE: usize = 30;

/// Commits that then stay in the active timeline, unless a file comes back that one of them replaced.
const KEEP: usize = 20;

/// Replaced file groups, and the instant that replaced each.
pub(super) type Replaced = HashMap<(String, String), String>;

/// What the table shows.
#[derive(Default)]
pub(super) struct Live {
    /// Files registered as hoglake does, each a group of its own name.
    pub files: BTreeSet<Place>,
    /// Groups that Hudi has written to: partition and file id. One may show a file of `files` once more.
    pub groups: Vec<(String, String)>,
}

impl HudiTarget {
    /// What the table shows.
    pub(super) async fn live(&self) -> Result<Live> {
        let mut live = Live::default();
        let Some(existing) = &self.existing else { return Ok(live) };
        let listing = metadata_table::read(&self.root, &existing.timeline).await?;
        let replaced = self.read_replaced(existing).await?.into_keys().collect();
        for slice in metadata_table::groups(&listing).slices(&existing.timeline, &replaced) {
            if slice.base.is_some_and(|base| base.name == slice.file_id) && slice.logs.is_empty() {
                live.files.insert((slice.partition, slice.file_id));
            } else {
                live.groups.push((slice.partition, slice.file_id));
            }
        }
        Ok(live)
    }

    pub(super) async fn read_replaced(&self, existing: &Existing) -> Result<Replaced> {
        let mut replaced = Replaced::new();
        for instant in existing.timeline.writes().filter(|i| i.action == "replacecommit") {
            match CommitMetadata::read(&self.root, instant).await {
                Ok(commit) => replaced.extend(commit.replaced.into_iter().map(|g| (g, instant.requested.clone()))),
                // Another run archives it just now, after the files it replaced were cleaned.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(replaced)
    }

    /// A group that was replaced stays hidden while that commit is in the active timeline. When such a file comes back,
    /// that commit and all before it are archived first; the oldest are, too, when the timeline has become long.
    pub(super) async fn make_room(&mut self, plan: &Plan) -> Result<()> {
        let Some(mut existing) = self.existing.take() else { return Ok(()) };
        if existing.replaced.is_none() && !plan.added.is_empty() {
            existing.replaced = Some(self.read_replaced(&existing).await?);
        }
        let hidden = existing.replaced.as_ref().and_then(|r| plan.added.keys().filter_map(|p| r.get(p)).max().cloned());
        let long = self.outlived(&existing);
        self.existing = Some(existing);
        if let Some(until) = hidden.clone().max(long) {
            self.archive(&until).await?;
        }
        match (&hidden, &self.existing) {
            (Some(by), Some(existing)) if existing.timeline.completed.iter().any(|i| i.requested == *by) => {
                Err(Error::Unsupported(vec![Unsupported {
                    target: TableFormat::Hudi,
                    kind: UnsupportedKind::Feature,
                    place: format!("{FOLDER}/{by}"),
                    detail: "a file comes back that this commit removed, and the commit cannot be archived because an \
                             older action, such as a savepoint or a write that has not completed, keeps it; delete the \
                             savepoint, or let the write complete or be rolled back by Hudi"
                        .to_owned(),
                }]))
            }
            _ => Ok(()),
        }
    }

    /// The newest commit that has been in the active timeline for long enough, if there are enough such commits.
    fn outlived(&self, existing: &Existing) -> Option<String> {
        let writes: Vec<&Instant> = existing.timeline.writes().collect();
        let old = match self.retention_ms {
            None => writes.len().saturating_sub(KEEP),
            Some(retention) => {
                let since = chrono::Utc::now().timestamp_millis().saturating_sub(retention);
                let superseded = writes.iter().skip(1).take_while(|next| timeline::millis(&next.requested) < since);
                superseded.count()
            }
        };
        let newest = old.checked_sub(1).filter(|_| old >= MAX_ACTIVE - KEEP)?;
        Some(writes.get(newest)?.requested.clone())
    }

    /// Cleans what commits up to `until` replaced, compacts the metadata table, and archives those commits. Readers see
    /// the same rows at every moment.
    async fn archive(&mut self, until: &str) -> Result<()> {
        self.keep_one_after(until).await?;
        let Some(existing) = &self.existing else { return Ok(()) };
        let Some(earliest) = existing.timeline.writes().find(|i| *i.requested > *until) else { return Ok(()) };
        let pending = existing.timeline.oldest_pending_write();
        let can_go = |i: &&Instant| archived::can_archive(&i.action) && pending.is_none_or(|p| *i.requested < *p);
        let old = existing.timeline.completed.iter().filter(|i| *i.requested <= *until);
        let old: Vec<Instant> = old.take_while(can_go).cloned().collect();
        if old.is_empty() {
            return Ok(());
        }
        let replaced = self.read_replaced(existing).await?;
        let mut listing = metadata_table::read(&self.root, &existing.timeline).await?;
        let files = cleaned(&mut listing, |group| replaced.get(group).is_some_and(|by| **by <= *until));
        let mut clean = Clean {
            instant: String::new(),
            earliest: (earliest.requested.clone(), earliest.action.clone()),
            last: existing.timeline.writes().next_back().map_or(String::new(), |i| i.requested.clone()),
            files,
        };

        let claim = self.claim("clean", 0, |_| clean.plan()).await?;
        clean.instant.clone_from(&claim.instant);
        let changes: Changes = clean
            .files
            .iter()
            .map(|(partition, names)| (partition.clone(), names.iter().map(|name| (name.clone(), None)).collect()))
            .collect();
        let mut written = metadata_writer::append(&self.root, &claim.timeline, &claim.instant, &changes).await?;
        let compaction = Compaction::prepare(&self.root, &claim.instant, &listing).await?;
        written.push(compaction.key());
        let pointer = json!({"instant": claim.instant, "clean": clean.to_json(), "compaction": compaction.size()});
        self.win(&claim, &pointer, written).await?;
        self.finish_clean(&clean, &compaction).await?;
        self.completed(&claim);

        let Some(existing) = &self.existing else { return Ok(()) };
        compaction.remove_older(&self.root, &existing.timeline).await?;
        archived::append(&self.root, &existing.properties, &old).await?;
        self.forget(&old).await?;
        self.open().await?;
        Ok(())
    }

    /// Completes a clean that has won. The metadata table's compaction comes first: it hides nothing that the timeline
    /// does not hide, and whoever sees the clean completed writes on top of it.
    pub(super) async fn finish_clean(&self, clean: &Clean, compaction: &Compaction) -> Result<()> {
        compaction.complete(&self.root).await?;
        self.root.put(&format!("{FOLDER}/{}.clean", clean.instant), clean.outcome()?).await
    }

    /// Makes a commit that changes nothing if there is none after `until`: the active timeline must not become empty,
    /// because its newest commit has the schema and the watermark.
    async fn keep_one_after(&mut self, until: &str) -> Result<()> {
        let Some(existing) = &self.existing else { return Ok(()) };
        let Some(last) = existing.timeline.writes().next_back().filter(|i| *i.requested <= *until) else {
            return Ok(());
        };
        let bytes = self.root.get(&last.key).await?;
        let previous: Value =
            serde_json::from_slice(&bytes).map_err(|e| Error::malformed(self.root.spell(&last.key), e.to_string()))?;
        let metadata = commit_json(Map::new(), Map::new(), &previous["extraMetadata"]);
        self.publish_changes(timeline::millis(&last.requested), &Changes::new(), metadata).await?;
        Ok(())
    }

    /// Takes archived instants out of the active timeline.
    async fn forget(&self, old: &[Instant]) -> Result<()> {
        let names = timeline::names(&self.root, FOLDER).await?;
        for gone in old {
            // The completed object last: a pending action would look like one that failed.
            let mut objects: Vec<&str> = names
                .iter()
                .map(|(name, ..)| name.as_str())
                .filter(|name| name.strip_prefix(&*gone.requested).is_some_and(|rest| rest.starts_with('.')))
                .collect();
            objects.sort_by_key(|name| name.ends_with(&format!(".{}", gone.action)));
            for name in objects {
                self.root.delete(&format!("{FOLDER}/{name}")).await?;
            }
            for key in metadata_writer::commit_keys(&gone.requested, "deltacommit") {
                self.root.delete(&key).await?;
            }
        }
        // A pointer that is gone would let a writer win that still believes in the commit before it.
        let mut pointers: Vec<&str> = names.iter().filter_map(|(name, ..)| name.strip_prefix(AFTER)).collect();
        pointers.sort_unstable();
        for gone in pointers.iter().take(pointers.len().saturating_sub(MAX_ACTIVE)) {
            self.root.delete(&format!("{FOLDER}/{}", after(gone))).await?;
        }
        Ok(())
    }
}

/// Takes the files of the groups that `gone` names out of the listing; returns their registered names.
fn cleaned(listing: &mut FileListing, gone: impl Fn(&(String, String)) -> bool) -> BTreeMap<String, Vec<String>> {
    let mut cleaned: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, files) in listing.iter_mut().filter(|(key, _)| *key != ALL_PARTITIONS) {
        let partition = if key == ROOT_PARTITION { "" } else { key };
        files.retain(|name, size| {
            let FileName::Base { file_id, .. } = FileName::parse(name) else { return true };
            if size.is_none() || !gone(&(partition.to_owned(), file_id)) {
                return true;
            }
            cleaned.entry(partition.to_owned()).or_default().push(name.clone());
            false
        });
    }
    cleaned
}
