//! Which delete files apply to which data file ("Scan Planning").

use super::manifest::Entry;
use hoglake_model::FieldId;
use hoglake_model::table::{DataFile, DeleteFile, FilePath, RowDeletes, Value, VectorContainer, VectorRef, VersionId};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::sync::Arc;

/// All live delete files of a snapshot, by what they apply to.
#[derive(Debug, Default)]
pub(super) struct DeleteIndex {
    /// Deletion vectors and position deletes about one data file.
    by_file: HashMap<FilePath, Vec<Sequenced>>,
    /// Position and equality deletes of a partition.
    by_partition: HashMap<String, Vec<Sequenced>>,
    /// Equality deletes of unpartitioned specs apply everywhere.
    everywhere: Vec<Sequenced>,
}

#[derive(Debug, Clone, PartialEq)]
struct Sequenced {
    sequence: i64,
    deletes: RowDeletes,
}

/// A partition as a key.
pub(super) fn partition_key(spec_id: i32, partition: &[Option<Value>]) -> String {
    let mut key = format!("{spec_id}");
    for value in partition {
        // Debug keeps types and bits apart; -0.0 and 0.0 are different partitions, as in the specification.
        let _ = write!(key, "|{value:?}");
    }
    key
}

/// The vector that an entry describes.
pub(super) fn vector(entry: &Entry) -> Result<VectorRef, String> {
    let (Some(offset), Some(length)) = (entry.content_offset, entry.content_size) else {
        return Err("a deletion vector needs its offset and length".to_owned());
    };
    let offset = u64::try_from(offset).map_err(|_| "a deletion vector has a negative offset")?;
    // The blob is length, magic, bitmap and CRC.
    let length = u64::try_from(length).ok().and_then(|n| n.checked_sub(8));
    let length = length.ok_or("a deletion vector is shorter than its frame")?;
    let container = VectorContainer::File { path: entry.file.path.clone(), offset, length: Some(length) };
    Ok(VectorRef { container, cardinality: entry.file.record_count })
}

impl DeleteIndex {
    /// Adds a live delete file.
    ///
    /// # Errors
    /// The rule that the entry breaks.
    pub fn add(&mut self, entry: Entry) -> Result<(), String> {
        let sequence = entry.sequence;
        if entry.puffin {
            let deletes = RowDeletes::Vector(vector(&entry)?);
            let path = entry.referenced.ok_or("a deletion vector needs its data file")?;
            self.by_file.entry(path).or_default().push(Sequenced { sequence, deletes });
            return Ok(());
        }
        let key = partition_key(entry.file.spec_id, &entry.file.partition);
        let unpartitioned = entry.file.partition.is_empty();
        let file = Arc::new(DeleteFile {
            path: entry.file.path,
            format: entry.file.format,
            size_bytes: entry.file.size_bytes.unwrap_or(0),
            record_count: entry.file.record_count.unwrap_or(0),
            equality_fields: entry.equality_ids.into_iter().map(FieldId).collect(),
            commit: Some(VersionId(entry.snapshot_id.to_string())),
        });
        if entry.content == 2 {
            let deletes = Sequenced { sequence, deletes: RowDeletes::Equality(file) };
            if unpartitioned {
                self.everywhere.push(deletes);
            } else {
                self.by_partition.entry(key).or_default().push(deletes);
            }
            return Ok(());
        }
        let deletes = Sequenced { sequence, deletes: RowDeletes::Positions(file) };
        match entry.referenced {
            Some(path) => self.by_file.entry(path).or_default().push(deletes),
            None => self.by_partition.entry(key).or_default().push(deletes),
        }
        Ok(())
    }

    /// Whether nothing is deleted.
    pub fn is_empty(&self) -> bool {
        self.by_file.is_empty() && self.by_partition.is_empty() && self.everywhere.is_empty()
    }

    /// One of each kind that occurs.
    pub fn kinds(&self) -> Vec<RowDeletes> {
        let all = self.by_file.values().chain(self.by_partition.values()).flatten().chain(&self.everywhere);
        let mut kinds: Vec<RowDeletes> = Vec::new();
        for s in all {
            if !kinds.iter().any(|k| std::mem::discriminant(k) == std::mem::discriminant(&s.deletes)) {
                kinds.push(s.deletes.clone());
            }
        }
        kinds
    }

    /// The data files whose deletes may be others than in the index `before`; `None` when the difference is not by data file.
    pub fn changed_files(&self, before: &Self) -> Option<HashSet<FilePath>> {
        if self.by_partition != before.by_partition || self.everywhere != before.everywhere {
            return None;
        }
        let differs = |path: &&FilePath| self.by_file.get(*path) != before.by_file.get(*path);
        Some(self.by_file.keys().chain(before.by_file.keys()).filter(differs).cloned().collect())
    }

    /// The deletes that apply to a data file of this data sequence number.
    ///
    /// A vector supersedes position deletes. Position deletes apply to files up to their own sequence number, equality
    /// deletes only to older ones.
    pub fn of(&self, file: &DataFile, sequence: i64) -> Vec<RowDeletes> {
        if self.is_empty() {
            return Vec::new();
        }
        let own = self.by_file.get(&file.path).into_iter().flatten();
        let shared = if self.by_partition.is_empty() {
            None
        } else {
            self.by_partition.get(&partition_key(file.spec_id, &file.partition))
        };
        let mut deletes: Vec<RowDeletes> = own
            .chain(shared.into_iter().flatten())
            .chain(&self.everywhere)
            .filter(|s| match s.deletes {
                RowDeletes::Equality(_) => sequence < s.sequence,
                _ => sequence <= s.sequence,
            })
            .map(|s| s.deletes.clone())
            .collect();
        if deletes.iter().any(|d| matches!(d, RowDeletes::Vector(_))) {
            deletes.retain(|d| !matches!(d, RowDeletes::Positions(_)));
        }
        deletes
    }
}
