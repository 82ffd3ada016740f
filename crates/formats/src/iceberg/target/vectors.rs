//! Deletion vectors of the table: those that stay, those that go, those that are written.

use super::super::manifest::{Entry, EntryKind, ManifestWriter, VectorEntry};
use super::super::manifest_list::ManifestFile;
use super::commit::read_vector;
use super::spell;
use crate::deletion_vector::DeletionVector;
use crate::puffin;
use crate::sync::{Error, Result, TableRoot};
use hoglake_model::table::{FilePath, Value};
use std::collections::HashMap;

/// A vector that is live in the table.
#[derive(Debug)]
pub(super) struct Live {
    pub entry: Entry,
    /// Which delete manifest holds it.
    pub manifest: usize,
    pub gone: bool,
}

/// A vector that this commit writes.
#[derive(Debug)]
struct New {
    path: String,
    size_bytes: u64,
    cardinality: u64,
    length: i64,
    referenced: String,
    spec_id: i32,
    partition: Vec<Option<Value>>,
}

/// The vectors of a commit.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    pub live: HashMap<FilePath, Live>,
    new: Vec<New>,
    /// Objects written, for cleaning up after a lost commit.
    pub written: Vec<String>,
}

impl Vectors {
    /// The vector of a data file goes.
    pub fn remove(&mut self, path: &FilePath) {
        if let Some(live) = self.live.get_mut(path) {
            live.gone = true;
        }
    }

    /// Whether anything changes.
    pub fn changed(&self) -> bool {
        !self.new.is_empty() || self.live.values().any(|l| l.gone)
    }

    /// Whether the table has vectors afterwards.
    pub fn any(&self) -> bool {
        !self.new.is_empty() || self.live.values().any(|l| !l.gone)
    }

    /// Makes `wanted` the vector of the data file at `path`; true when that is a change.
    pub async fn set(
        &mut self,
        root: &TableRoot,
        path: &FilePath,
        referenced: &str,
        spec_id: i32,
        partition: &[Option<Value>],
        wanted: &DeletionVector,
    ) -> Result<bool> {
        if let Some(live) = self.live.get_mut(path) {
            let same_size = live.entry.file.record_count == Some(wanted.cardinality());
            if same_size && !live.gone && read_vector(root, &live.entry).await? == *wanted {
                return Ok(false);
            }
            live.gone = true;
        }
        if wanted.is_empty() {
            return Ok(self.live.contains_key(path));
        }
        let bytes = puffin::write(wanted, referenced).map_err(|e| Error::malformed(referenced, e.to_string()))?;
        let key = format!("metadata/{}-deletes.puffin", uuid::Uuid::new_v4());
        let size_bytes = bytes.len() as u64;
        root.put_if_absent(&key, bytes).await?;
        self.new.push(New {
            path: spell(root, &key),
            size_bytes,
            cardinality: wanted.cardinality(),
            length: i64::try_from(wanted.encode().len()).unwrap_or(0),
            referenced: referenced.to_owned(),
            spec_id,
            partition: partition.to_vec(),
        });
        self.written.push(key);
        Ok(true)
    }

    /// Writes the delete manifests of the commit: new vectors in new ones, old manifests rewritten where one goes.
    /// `start` makes a writer for a spec, `finish` stores a manifest.
    pub fn manifests(
        &self,
        base: &[ManifestFile],
        spell_file: impl Fn(&FilePath) -> String,
        start: impl Fn(i32) -> ManifestWriter,
    ) -> (Vec<ManifestFile>, Vec<ManifestWriter>) {
        let mut kept = Vec::new();
        let mut writers: Vec<(i32, ManifestWriter)> = Vec::new();
        fn writer<'w>(
            writers: &'w mut Vec<(i32, ManifestWriter)>,
            spec: i32,
            start: &dyn Fn(i32) -> ManifestWriter,
        ) -> &'w mut ManifestWriter {
            let at = writers.iter().position(|(id, _)| *id == spec).unwrap_or_else(|| {
                writers.push((spec, start(spec)));
                writers.len() - 1
            });
            &mut writers[at].1
        }
        for (index, manifest) in base.iter().enumerate() {
            let own = || self.live.iter().filter(move |(_, l)| l.manifest == index);
            if own().next().is_none() {
                continue;
            }
            if own().all(|(_, l)| !l.gone) {
                kept.push(manifest.clone());
                continue;
            }
            let mut sorted: Vec<_> = own().collect();
            sorted.sort_by(|a, b| a.0.cmp(b.0));
            for (referenced, live) in sorted {
                let e = &live.entry;
                let kind = if live.gone {
                    EntryKind::Deleted { sequence: e.sequence, file_sequence: e.file_sequence }
                } else {
                    EntryKind::Existing {
                        snapshot_id: e.snapshot_id,
                        sequence: e.sequence,
                        file_sequence: e.file_sequence,
                    }
                };
                let (path, referenced) = (spell_file(&e.file.path), spell_file(referenced));
                writer(&mut writers, manifest.spec_id, &start).vector(&VectorEntry {
                    kind,
                    path: &path,
                    size_bytes: e.file.size_bytes.unwrap_or(0),
                    cardinality: e.file.record_count.unwrap_or(0),
                    offset: e.content_offset.unwrap_or(0),
                    length: e.content_size.unwrap_or(0),
                    referenced: &referenced,
                    partition: &e.file.partition,
                });
            }
        }
        for new in &self.new {
            writer(&mut writers, new.spec_id, &start).vector(&VectorEntry {
                kind: EntryKind::Added,
                path: &new.path,
                size_bytes: new.size_bytes,
                cardinality: new.cardinality,
                offset: 4,
                length: new.length,
                referenced: &new.referenced,
                partition: &new.partition,
            });
        }
        (kept, writers.into_iter().map(|(_, w)| w).collect())
    }
}
