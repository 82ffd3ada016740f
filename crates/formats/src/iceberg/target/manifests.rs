//! Manifests of the table: those of the snapshot before, read, rewritten and merged, and new ones, stored.

use super::super::manifest::{Entry, EntryKind, FileEntry, ManifestReader, ManifestWriter, Status};
use super::commit::{MANIFEST_BYTES, Writing};
use crate::sync::{Error, Result};
use futures::{Stream, StreamExt, TryStreamExt};
use hoglake_model::table::{FilePath, Primitive};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;

/// Small manifests of one spec are merged when there are more than this many.
const MERGE_ABOVE: usize = 100;

/// Objects of a commit that are on their way at the same time.
const PENDING: usize = 2;

/// Types of leaves and partition tuples, for reading manifests.
#[derive(Debug)]
pub(super) struct Types {
    pub leaves: HashMap<i64, Primitive>,
    pub tuples: HashMap<i32, Vec<(i32, Option<Primitive>)>>,
}

/// A live data file of the table.
#[derive(Debug)]
pub(super) struct Found {
    pub path: FilePath,
    /// Whether the manifest spells the path as this commit would. Deletes of a file under another spelling do not apply.
    pub as_ours: bool,
}

impl Writing<'_> {
    pub(super) fn start(&self, spec_id: i32, deletes: bool) -> ManifestWriter {
        let schema = (self.definition.schema_id, self.schema_text.as_str());
        let spec = self.definition.spec(spec_id);
        ManifestWriter::new(self.version, self.snapshot_id, deletes, &spec, &self.definition.schema, schema)
    }

    pub(super) async fn store(&mut self, writer: ManifestWriter) -> Result<()> {
        let key = format!("metadata/{}-m{}.avro", uuid::Uuid::new_v4(), self.finished.len());
        let (bytes, description) = writer.finish(self.root.uri(&key), self.sequence);
        self.put(key, bytes).await?;
        self.finished.push(description);
        Ok(())
    }

    /// Begins to write an object that nobody refers to yet; [`settle`](Self::settle) must follow.
    pub(super) async fn put(&mut self, key: String, bytes: Vec<u8>) -> Result<()> {
        while self.pending.len() >= PENDING {
            self.settle_one().await?;
        }
        self.written.push(key.clone());
        let root = self.root.clone();
        self.pending.spawn(async move { root.put_if_absent(&key, bytes).await });
        Ok(())
    }

    /// Waits until all objects are written.
    pub(super) async fn settle(&mut self) -> Result<()> {
        while !self.pending.is_empty() {
            self.settle_one().await?;
        }
        Ok(())
    }

    async fn settle_one(&mut self) -> Result<()> {
        match self.pending.join_next().await {
            Some(Ok(put)) => put.map(drop),
            Some(Err(error)) => Err(Error::malformed("manifest", error.to_string())),
            None => Ok(()),
        }
    }

    /// The live entries of one of the base manifests.
    pub(super) async fn entries(&self, index: usize) -> Result<Vec<Entry>> {
        let Some(manifest) = self.base.get(index) else { return Ok(Vec::new()) };
        let bytes = self.root.read(&self.spelling.parse(&manifest.path)?, None).await?;
        let path = |text: &str| self.spelling.parse(text);
        let reader =
            ManifestReader { types: &self.types.leaves, specs: &self.types.tuples, path: &path, spelled: true };
        let mut entries = Vec::new();
        reader.read(&manifest.path, manifest, &bytes, |entry| {
            if entry.status != Status::Deleted {
                entries.push(entry);
            }
            Ok(())
        })?;
        Ok(entries)
    }

    /// The live data files by base manifest.
    pub(super) fn paths(&self) -> impl Stream<Item = Result<(usize, Vec<Found>)>> {
        let data = self.base.iter().enumerate().filter(|(_, m)| !m.deletes && m.may_be_live());
        self.collect(data.map(|(index, _)| index).collect(), |all: &mut Vec<Found>, found| all.push(found))
    }

    /// Which of the wanted data files are in which base manifest.
    pub(super) async fn find(&mut self, wanted: Arc<HashSet<FilePath>>) -> Result<Vec<(usize, Vec<Found>)>> {
        self.contents.keep(&self.base);
        let candidates = self.contents.candidates(&self.base, &wanted);
        let hasher = self.contents.hasher();
        let take = move |(found, digests): &mut (Vec<Found>, Vec<u64>), file: Found| {
            digests.push(hasher.hash_one(&file.path));
            if wanted.contains(&file.path) {
                found.push(file);
            }
        };
        let read: Vec<_> = self.collect(candidates, take).try_collect().await?;
        let mut all = Vec::new();
        for (index, (found, digests)) in read {
            if let Some(manifest) = self.base.get(index) {
                self.contents.note(&manifest.path, digests);
            }
            if !found.is_empty() {
                all.push((index, found));
            }
        }
        Ok(all)
    }

    /// What `take` makes of the live data files of each of these base manifests.
    fn collect<T: Default + Send + 'static>(
        &self,
        manifests: Vec<usize>,
        take: impl Fn(&mut T, Found) + Clone + Send + 'static,
    ) -> impl Stream<Item = Result<(usize, T)>> {
        let places = manifests.into_iter().filter_map(|index| Some((index, self.base.get(index)?.path.clone())));
        let places: Vec<_> = places.collect();
        futures::stream::iter(places.into_iter().map(move |(index, place)| {
            let (spelling, take) = (Arc::clone(&self.spelling), take.clone());
            async move {
                let bytes = self.root.read(&spelling.parse(&place)?, None).await?;
                let work = move || {
                    let mut taken = T::default();
                    super::super::manifest::live_paths(&place, &bytes, |text| {
                        let path = spelling.parse(text)?;
                        let as_ours = spelling.is_ours(&path, text);
                        take(&mut taken, Found { path, as_ours });
                        Ok(())
                    })?;
                    Ok((index, taken))
                };
                tokio::task::spawn_blocking(work).await.map_err(|e| Error::malformed("manifest", e.to_string()))?
            }
        }))
        .buffered(4)
    }

    /// Writes a base manifest anew, what is not kept as deleted.
    pub(super) async fn rewrite(
        &mut self,
        index: usize,
        entries: Vec<Entry>,
        keep: impl Fn(&FilePath) -> bool,
    ) -> Result<()> {
        let Some(spec_id) = self.base.get(index).map(|m| m.spec_id) else { return Ok(()) };
        let mut writer = self.start(spec_id, false);
        for e in entries {
            let count = e.file.record_count.unwrap_or(0);
            let kind = if keep(&e.file.path) {
                e.existing()
            } else {
                self.counts.removed += 1;
                self.counts.removed_records = self.counts.removed_records.saturating_add(count);
                EntryKind::Deleted { sequence: e.sequence, file_sequence: e.file_sequence }
            };
            let path = self.spelling.of_entry(&e);
            writer.data(&FileEntry { kind, file: &e.file, path: &path, record_count: count }, None);
        }
        self.replaced.insert(index);
        self.store(writer).await
    }

    /// Merges small data manifests, so that thousands of small commits stay quick to plan.
    pub(super) async fn merge(&mut self) -> Result<()> {
        let mut small: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        for (index, manifest) in self.base.iter().enumerate() {
            let length = usize::try_from(manifest.length).unwrap_or(usize::MAX);
            if !manifest.deletes && !self.replaced.contains(&index) && length < MANIFEST_BYTES / 2 {
                small.entry(manifest.spec_id).or_default().push(index);
            }
        }
        for (spec_id, indexes) in small.into_iter().filter(|(_, i)| i.len() > MERGE_ABOVE) {
            let mut writer = self.start(spec_id, false);
            for index in indexes {
                for e in self.entries(index).await? {
                    let kind = e.existing();
                    let path = self.spelling.of_entry(&e);
                    let record_count = e.file.record_count.unwrap_or(0);
                    writer.data(&FileEntry { kind, file: &e.file, path: &path, record_count }, None);
                }
                self.replaced.insert(index);
                if writer.len() >= MANIFEST_BYTES {
                    let full = std::mem::replace(&mut writer, self.start(spec_id, false));
                    self.store(full).await?;
                }
            }
            if !writer.is_empty() {
                self.store(writer).await?;
            }
        }
        Ok(())
    }
}
