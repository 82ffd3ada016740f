//! Row-level deletes of the table: those that stay, those that go, those that are written. Each data file has at most
//! one delete file: a position-delete file in version 2, a deletion vector in version 3.

use super::super::deletes::vector;
use super::super::manifest::{DeleteContent, DeleteEntry, Entry, EntryKind, ManifestWriter};
use super::super::manifest_list::ManifestFile;
use super::super::source::{read_positions, vector_at};
use super::commit::Writing;
use super::position_file;
use super::spelling::Spelling;
use crate::deletion_vector::DeletionVector;
use crate::puffin;
use crate::sync::{Error, Result, TableRoot};
use hoglake_model::table::{DeleteFile, FileFormat, FilePath, Value};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Delete manifests are merged when there are more than this many.
const MERGE_ABOVE: usize = 20;

/// A delete file that is live in the table.
#[derive(Debug)]
struct Live {
    entry: Entry,
    /// Which base manifest holds it.
    manifest: usize,
    gone: bool,
}

/// A delete file that this commit writes.
#[derive(Debug)]
struct New {
    path: String,
    size_bytes: u64,
    cardinality: u64,
    content: DeleteContent,
    referenced: String,
    spec_id: i32,
    partition: Vec<Option<Value>>,
}

/// A data file of the table whose rows are deleted.
pub(super) struct Referenced<'a> {
    pub own: &'a FilePath,
    /// As the table spells it.
    pub path: &'a str,
    pub spec_id: i32,
    pub partition: &'a [Option<Value>],
}

/// The deletes of a commit.
#[derive(Debug, Default)]
pub(super) struct Deletes {
    /// Whether the table's own were read; otherwise nothing about them changes.
    loaded: bool,
    live: HashMap<FilePath, Live>,
    /// Base manifests that hold deletes that are not in `live`, which go: they are written anew.
    foreign: HashSet<usize>,
    new: Vec<New>,
    /// Objects written, for cleaning up after a lost commit.
    pub written: Vec<String>,
}

impl Writing<'_> {
    /// Reads which delete files the table has.
    pub(super) async fn load_deletes(&mut self) -> Result<()> {
        self.deletes.loaded = true;
        for manifest in 0..self.base.len() {
            if !self.base[manifest].deletes || !self.base[manifest].may_be_live() {
                continue;
            }
            for entry in self.entries(manifest).await? {
                // Deletes that name no single data file are not ours, and the source knows nothing of them.
                // Neither does it of all but one of several delete files of a data file.
                let left_out = match (entry.content, entry.referenced.clone()) {
                    (1, Some(path)) => {
                        let before = self.deletes.live.insert(path, Live { entry, manifest, gone: false });
                        before.map(|live| live.manifest)
                    }
                    _ => Some(manifest),
                };
                self.deletes.foreign.extend(left_out);
            }
        }
        Ok(())
    }
}

impl Deletes {
    /// The deletes of a data file go; true when there were any.
    pub fn remove(&mut self, path: &FilePath) -> bool {
        self.live.get_mut(path).is_some_and(|live| !std::mem::replace(&mut live.gone, true))
    }

    /// Whether anything changes.
    pub fn changed(&self) -> bool {
        !self.new.is_empty() || self.drops_foreign() || self.live.values().any(|l| l.gone)
    }

    /// Whether deletes go that somebody else has written.
    pub fn drops_foreign(&self) -> bool {
        !self.foreign.is_empty()
    }

    /// Deletes the rows `wanted` of a data file and no others; true when that is a change.
    pub async fn set(
        &mut self,
        root: &TableRoot,
        spelling: &Spelling,
        version: i32,
        data: &Referenced<'_>,
        wanted: &DeletionVector,
    ) -> Result<bool> {
        let mut changed = false;
        if let Some(live) = self.live.get_mut(data.own).filter(|l| !l.gone) {
            let e = &live.entry;
            // Deletes apply within the data file's partition, and only these formats are read.
            let applies = e.file.spec_id == data.spec_id;
            let comparable = e.file.record_count == Some(wanted.cardinality()) && e.file.format == FileFormat::Parquet;
            if applies && comparable && read(root, spelling, &live.entry, data.own).await? == *wanted {
                return Ok(false);
            }
            live.gone = true;
            changed = true;
        }
        let (Some(first), Some(last)) = (wanted.iter().next(), wanted.last()) else { return Ok(changed) };
        let malformed = |e: &dyn std::fmt::Display| Error::malformed(data.path, e.to_string());
        let name = uuid::Uuid::new_v4();
        let (key, bytes, content) = if version >= 3 {
            let bytes = puffin::write(wanted, data.path).map_err(|e| malformed(&e))?;
            let length = i64::try_from(wanted.encode().len()).unwrap_or(0);
            (format!("metadata/{name}-deletes.puffin"), bytes, DeleteContent::Vector { offset: 4, length })
        } else {
            let bytes = position_file::write(data.path, wanted).map_err(|e| malformed(&e))?;
            (
                format!("metadata/{name}-deletes.parquet"),
                bytes,
                DeleteContent::Positions { format: FileFormat::Parquet, range: Some((first, last)) },
            )
        };
        let size_bytes = bytes.len() as u64;
        root.put_if_absent(&key, bytes).await?;
        self.new.push(New {
            path: root.uri(&key),
            size_bytes,
            cardinality: wanted.cardinality(),
            content,
            referenced: data.path.to_owned(),
            spec_id: data.spec_id,
            partition: data.partition.to_vec(),
        });
        self.written.push(key);
        Ok(true)
    }

    /// The delete manifests of the new snapshot: those that stay as they are, and new ones. `start` begins one of a spec.
    pub fn manifests(
        &self,
        base: &[ManifestFile],
        spelling: &Spelling,
        start: impl Fn(i32) -> ManifestWriter,
    ) -> (Vec<ManifestFile>, Vec<ManifestWriter>) {
        let mut kept = Vec::new();
        let mut writers = Writers { start, open: Vec::new() };
        let merge = base.iter().filter(|m| m.deletes).count() > MERGE_ABOVE;
        for (index, manifest) in base.iter().enumerate().filter(|(_, m)| m.deletes && m.may_be_live()) {
            if !self.loaded {
                kept.push(manifest.clone());
                continue;
            }
            let mut own: Vec<_> = self.live.iter().filter(|(_, l)| l.manifest == index).collect();
            if own.is_empty() {
                continue;
            }
            if !merge && !self.foreign.contains(&index) && own.iter().all(|(_, l)| !l.gone) {
                kept.push(manifest.clone());
                continue;
            }
            own.sort_by(|a, b| a.0.cmp(b.0));
            for (referenced, live) in own {
                let e = &live.entry;
                let kind = if live.gone {
                    EntryKind::Deleted { sequence: e.sequence, file_sequence: e.file_sequence }
                } else {
                    e.existing()
                };
                let spelled = e.spelled.as_ref().and_then(|s| s.referenced.as_deref());
                let content = match (e.content_offset, e.content_size) {
                    (Some(offset), Some(length)) if e.puffin => DeleteContent::Vector { offset, length },
                    _ => DeleteContent::Positions { format: e.file.format, range: None },
                };
                writers.of(manifest.spec_id).deletes(&DeleteEntry {
                    kind,
                    path: &spelling.of_entry(e),
                    size_bytes: e.file.size_bytes.unwrap_or(0),
                    cardinality: e.file.record_count.unwrap_or(0),
                    content,
                    referenced: &spelled.map_or_else(|| spelling.of_own(referenced).into(), Cow::Borrowed),
                    partition: &e.file.partition,
                });
            }
        }
        for new in &self.new {
            writers.of(new.spec_id).deletes(&DeleteEntry {
                kind: EntryKind::Added,
                path: &new.path,
                size_bytes: new.size_bytes,
                cardinality: new.cardinality,
                content: new.content,
                referenced: &new.referenced,
                partition: &new.partition,
            });
        }
        (kept, writers.open.into_iter().map(|(_, w)| w).collect())
    }
}

/// One open manifest a spec.
struct Writers<F> {
    start: F,
    open: Vec<(i32, ManifestWriter)>,
}

impl<F: Fn(i32) -> ManifestWriter> Writers<F> {
    fn of(&mut self, spec: i32) -> &mut ManifestWriter {
        let at = self.open.iter().position(|(id, _)| *id == spec).unwrap_or_else(|| {
            self.open.push((spec, (self.start)(spec)));
            self.open.len() - 1
        });
        &mut self.open[at].1
    }
}

/// The rows of the data file at `data` that a delete file of the table's own names.
async fn read(root: &TableRoot, spelling: &Spelling, entry: &Entry, data: &FilePath) -> Result<DeletionVector> {
    if entry.puffin {
        let vector = vector(entry).map_err(|fault| Error::malformed(entry.file.path.as_str(), fault))?;
        return vector_at(root, &vector).await;
    }
    let file = DeleteFile {
        path: entry.file.path.clone(),
        format: entry.file.format,
        size_bytes: entry.file.size_bytes.unwrap_or(0),
        record_count: entry.file.record_count.unwrap_or(0),
        equality_fields: Vec::new(),
        commit: None,
    };
    let mut found = read_positions(root, &|text| spelling.parse(text), &file).await?;
    Ok(found.remove(data).unwrap_or_default())
}
