//! What a check found.

use super::CheckError;
use chrono::{DateTime, Utc};
use hoglake_model::timestamp;
use serde::Serialize;
use std::io::Write;

/// The outcome in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Everything that the catalog needs is there, and the store has nothing that the catalog does not know.
    Whole,
    /// Everything that the catalog needs is there; the store has more besides.
    Orphans,
    /// Something that the catalog needs is missing or has another size.
    Damaged,
}

/// What is wrong with an object, or why it is not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A live object is not in the store.
    Missing,
    /// A live object has another size than registered.
    SizeMismatch,
    /// An object of retained history is not in the store.
    HistoryMissing,
    /// An object of retained history has another size than registered.
    HistorySizeMismatch,
    /// Not live, but of a retained snapshot or of a dropped table that has not expired.
    Retained,
    /// Waits for removal.
    Queued,
    /// Output of a compaction that has not ended, or died.
    Staged,
    /// Unknown to the catalog.
    Orphan,
}

/// One object that a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What about it.
    pub finding: Kind,
    /// The object.
    pub path: String,
    /// `data` or `delete`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// The live table that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// `data_file_id` or `delete_file_id`, of live ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<i64>,
    /// Bytes as registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registered_bytes: Option<i64>,
    /// Bytes in the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_bytes: Option<u64>,
    /// When it was written.
    #[serde(serialize_with = "timestamp::serialize_option", skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<DateTime<Utc>>,
}

/// Objects and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// How many.
    pub objects: u64,
    /// How large together: in the store, or as registered where they are missing.
    pub bytes: u64,
}

/// Findings of a kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Found {
    /// All of them.
    #[serde(flatten)]
    pub count: Count,
    /// The first, in order of their paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Finding>,
}

/// Objects that the catalog does not list at head.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Unlisted {
    /// See [`Kind::Retained`].
    pub retained: Found,
    /// See [`Kind::Queued`].
    pub queued: Found,
    /// See [`Kind::Staged`].
    pub staged: Found,
    /// See [`Kind::Orphan`].
    pub orphans: Found,
    /// Those of the orphans that were written after the head snapshot was made: of commits that the restore lost, or on
    /// their way to one.
    pub orphans_after_head: Count,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The catalog.
    pub catalog: String,
    /// Where its files live.
    pub data_path: String,
    /// The outcome.
    pub status: Status,
    /// The snapshot that was compared.
    pub head_snapshot_id: i64,
    /// When it was made.
    #[serde(serialize_with = "timestamp::serialize_option")]
    pub head_snapshot_time: Option<DateTime<Utc>>,
    /// The floor.
    pub earliest_snapshot_id: i64,
    /// Head when the check was over, if it had moved meanwhile: then findings may be of things that changed under it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_moved_to: Option<i64>,
    /// Live tables.
    pub tables: u64,
    /// Offsets of consumers.
    pub consumer_offsets: u64,
    /// Live objects that are there as registered.
    pub listed: Count,
    /// See [`Kind::Missing`].
    pub missing: Found,
    /// See [`Kind::SizeMismatch`].
    pub size_mismatch: Found,
    /// See [`Kind::HistoryMissing`].
    pub history_missing: Found,
    /// See [`Kind::HistorySizeMismatch`].
    pub history_size_mismatch: Found,
    /// What is in the store besides.
    pub unlisted: Unlisted,
    /// Queued and staged objects that are gone already; clean-up takes note of it.
    pub already_removed: u64,
    /// Registered paths that do not lie below the data path and were not looked for.
    pub outside_data_path: u64,
}

impl Report {
    /// The findings of `kind`.
    pub fn found(&self, kind: Kind) -> &Found {
        match kind {
            Kind::Missing => &self.missing,
            Kind::SizeMismatch => &self.size_mismatch,
            Kind::HistoryMissing => &self.history_missing,
            Kind::HistorySizeMismatch => &self.history_size_mismatch,
            Kind::Retained => &self.unlisted.retained,
            Kind::Queued => &self.unlisted.queued,
            Kind::Staged => &self.unlisted.staged,
            Kind::Orphan => &self.unlisted.orphans,
        }
    }

    fn found_mut(&mut self, kind: Kind) -> &mut Found {
        match kind {
            Kind::Missing => &mut self.missing,
            Kind::SizeMismatch => &mut self.size_mismatch,
            Kind::HistoryMissing => &mut self.history_missing,
            Kind::HistorySizeMismatch => &mut self.history_size_mismatch,
            Kind::Retained => &mut self.unlisted.retained,
            Kind::Queued => &mut self.unlisted.queued,
            Kind::Staged => &mut self.unlisted.staged,
            Kind::Orphan => &mut self.unlisted.orphans,
        }
    }

    /// Sets the outcome by what was found.
    pub(super) fn conclude(&mut self) {
        let damage = [Kind::Missing, Kind::SizeMismatch, Kind::HistoryMissing, Kind::HistorySizeMismatch];
        self.status = if damage.into_iter().any(|kind| self.found(kind).count.objects > 0) {
            Status::Damaged
        } else if self.unlisted.orphans.count.objects > 0 {
            Status::Orphans
        } else {
            Status::Whole
        };
    }
}

/// Takes findings: counts them, keeps the first of each kind, and writes every one to a file if there is one.
pub(super) struct Recorder<'w> {
    pub(super) report: Report,
    pub(super) samples: usize,
    pub(super) every: Option<&'w mut (dyn Write + Send)>,
}

impl Recorder<'_> {
    pub(super) fn record(&mut self, finding: Finding) -> Result<(), CheckError> {
        let registered = finding.registered_bytes.and_then(|bytes| u64::try_from(bytes).ok());
        let bytes = finding.stored_bytes.or(registered).unwrap_or(0);
        if let Some(file) = &mut self.every {
            serde_json::to_writer(&mut *file, &finding).map_err(|error| CheckError::Findings(error.into()))?;
            file.write_all(b"\n").map_err(CheckError::Findings)?;
        }
        let after_head = finding.last_modified.zip(self.report.head_snapshot_time).is_some_and(|(at, head)| at > head);
        if finding.finding == Kind::Orphan && after_head {
            add(&mut self.report.unlisted.orphans_after_head, bytes);
        }
        let found = self.report.found_mut(finding.finding);
        add(&mut found.count, bytes);
        if found.samples.len() < self.samples {
            found.samples.push(finding);
        }
        Ok(())
    }
}

/// Counts one more object.
pub(super) fn add(count: &mut Count, bytes: u64) {
    count.objects += 1;
    count.bytes = count.bytes.saturating_add(bytes);
}
