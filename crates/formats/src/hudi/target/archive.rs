//! Keeping the active timeline short: what the table shows, and forgetting how it came to that.

use super::super::FOLDER;
use super::super::commit::CommitMetadata;
use super::super::file_group::FileName;
use super::super::metadata_table;
use super::super::metadata_writer::{self, Changes};
use super::super::timeline;
use super::plan::{Place, Plan};
use super::publish::{after, commit_json};
use super::{Existing, HudiTarget};
use crate::sync::{Error, Result};
use serde_json::{Map, Value};
use std::collections::{BTreeSet, HashSet};

/// Commits in the active timeline at which the older ones are archived.
const MAX_ACTIVE: usize = 30;

impl HudiTarget {
    /// The files that the table shows.
    pub(super) async fn live(&self) -> Result<BTreeSet<Place>> {
        let Some(existing) = &self.existing else { return Ok(BTreeSet::new()) };
        let listing = metadata_table::read(&self.root, &existing.timeline).await?;
        let replaced = self.read_replaced(existing).await?;
        let slices = metadata_table::groups(&listing).slices(&existing.timeline, &replaced);
        Ok(slices.into_iter().filter_map(|s| Some((s.partition, s.base?.name))).collect())
    }

    pub(super) async fn read_replaced(&self, existing: &Existing) -> Result<HashSet<(String, String)>> {
        let mut replaced = HashSet::new();
        for instant in existing.timeline.writes().filter(|i| i.action == "replacecommit") {
            replaced.extend(CommitMetadata::read(&self.root, instant).await?.replaced);
        }
        Ok(replaced)
    }

    /// A group that was replaced stays hidden while that commit is in the active timeline. When such a file comes
    /// back, or the timeline has become long, everything so far is archived first.
    pub(super) async fn make_room(&mut self, plan: &Plan) -> Result<()> {
        let Some(mut existing) = self.existing.take() else { return Ok(()) };
        if existing.replaced.is_none() && !plan.added.is_empty() {
            existing.replaced = Some(self.read_replaced(&existing).await?);
        }
        let hidden = existing.replaced.as_ref().is_some_and(|replaced| plan.added.keys().any(|p| replaced.contains(p)));
        let long = existing.timeline.writes().count() >= MAX_ACTIVE;
        self.existing = Some(existing);
        if hidden || long { self.archive().await } else { Ok(()) }
    }

    /// Makes a commit that changes nothing but forgets replaced files, compacts the metadata table, and takes all older
    /// commits out of the active timeline. Readers see the same rows at every moment.
    pub(super) async fn archive(&mut self) -> Result<()> {
        let Some(existing) = &self.existing else { return Ok(()) };
        let (Some(last), Some(watermark)) =
            (existing.timeline.writes().next_back().cloned(), existing.watermark.clone())
        else {
            return Ok(());
        };
        let replaced = self.read_replaced(existing).await?;
        let listing = metadata_table::read(&self.root, &existing.timeline).await?;
        let mut changes = Changes::new();
        for (key, files) in listing.iter().filter(|(key, _)| *key != metadata_table::ALL_PARTITIONS) {
            let partition = if key == metadata_table::ROOT_PARTITION { "" } else { key };
            for name in files.iter().filter(|(_, size)| size.is_some()).map(|(name, _)| name) {
                let FileName::Base { file_id, .. } = FileName::parse(name) else { continue };
                if replaced.contains(&(partition.to_owned(), file_id)) {
                    changes.entry(partition.to_owned()).or_default().insert(name.clone(), None);
                }
            }
        }
        let bytes = self.root.get(&last.key).await?;
        let previous: Value =
            serde_json::from_slice(&bytes).map_err(|e| Error::malformed(self.root.spell(&last.key), e.to_string()))?;
        let metadata = commit_json(Map::new(), Map::new(), &previous["extraMetadata"]);
        let old: Vec<String> = existing.timeline.completed.iter().map(|i| i.requested.clone()).collect();
        let instant = self.publish_changes(timeline::millis(&last.requested), &changes, metadata, watermark).await?;
        let Some(existing) = &self.existing else { return Ok(()) };
        let listing = metadata_table::read(&self.root, &existing.timeline).await?;
        metadata_writer::compact(&self.root, &instant, &listing).await?;
        let names = timeline::names(&self.root, FOLDER).await?;
        for gone in old {
            // Oldest first, the completed instant before its pending ones: what is left is always a whole timeline.
            for (name, ..) in names.iter().filter(|(name, ..)| name.starts_with(&format!("{gone}."))) {
                self.root.delete(&format!("{FOLDER}/{name}")).await?;
            }
            if gone != last.requested {
                self.root.delete(&format!("{FOLDER}/{}", after(&gone))).await?;
            }
            for key in metadata_writer::commit_keys(&gone, "deltacommit") {
                self.root.delete(&key).await?;
            }
        }
        self.open().await?;
        Ok(())
    }
}
