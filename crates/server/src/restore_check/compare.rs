//! Walks the catalog's objects and the store's side by side.

use super::listing::StoredObject;
use super::manifest::{KnownObject, Standing};
use super::report::{Recorder, add};
use super::{CheckError, Count, Finding, Found, Kind, Listing, Manifest, Report, Status, Unlisted};
use chrono::DateTime;
use std::cmp::Ordering;
use std::io::Write;

/// Compares `manifest` with `listing`. Of each kind of finding, the first `samples` are in the report; `every` one is
/// written as a line of JSON, too, if asked for.
///
/// # Errors
/// [`CheckError::Temporary`], [`CheckError::Findings`].
pub fn compare(
    manifest: Manifest,
    listing: Listing,
    samples: usize,
    every: Option<&mut (dyn Write + Send)>,
) -> Result<Report, CheckError> {
    let report = Report {
        status: Status::Whole,
        head_snapshot_id: manifest.head_snapshot_id,
        head_snapshot_time: manifest.head_snapshot_time,
        earliest_snapshot_id: manifest.earliest_snapshot_id,
        head_moved_to: None,
        tables: manifest.tables.len() as u64,
        consumer_offsets: manifest.consumer_offsets,
        listed: Count::default(),
        missing: Found::default(),
        size_mismatch: Found::default(),
        history_missing: Found::default(),
        history_size_mismatch: Found::default(),
        unlisted: Unlisted::default(),
        already_removed: 0,
        outside_data_path: manifest.outside,
        catalog: manifest.catalog,
        data_path: manifest.data_path,
    };
    let root = format!("{}/", report.data_path.trim_end_matches('/'));
    let recorder = Recorder { report, samples, every };
    let mut walk = Walk { recorder, root, tables: manifest.tables };
    let (mut known, mut stored) = (manifest.objects, listing.objects);
    loop {
        let order = match (known.peek(), stored.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(known), Some(stored)) => known.cmp(stored),
        };
        let object = match order {
            Ordering::Less => None,
            Ordering::Equal | Ordering::Greater => stored.pop().map_err(CheckError::Temporary)?,
        };
        let object = object.map(|(key, bytes)| (key, StoredObject::decode(&bytes)));
        if order == Ordering::Greater {
            if let Some((key, object)) = object {
                walk.orphan(&key, object)?;
            }
            continue;
        }
        // A path may be registered several times: what needs it most says what it is.
        let Some((key, bytes)) = known.pop().map_err(CheckError::Temporary)? else { break };
        let mut all = vec![KnownObject::decode(&bytes)];
        while known.peek() == Some(&key) {
            let again = known.pop().map_err(CheckError::Temporary)?;
            all.extend(again.map(|(_, bytes)| KnownObject::decode(&bytes)));
        }
        walk.known(&key, &all, object.map(|(_, object)| object))?;
    }
    let mut report = walk.recorder.report;
    report.conclude();
    Ok(report)
}

struct Walk<'w> {
    recorder: Recorder<'w>,
    root: String,
    tables: Vec<Box<str>>,
}

impl Walk<'_> {
    fn orphan(&mut self, key: &[u8], stored: StoredObject) -> Result<(), CheckError> {
        let finding = self.finding(Kind::Orphan, key, None, Some(stored));
        self.recorder.record(finding)
    }

    /// An object that the catalog knows in one or more ways, the most needed one first.
    fn known(&mut self, key: &[u8], all: &[KnownObject], stored: Option<StoredObject>) -> Result<(), CheckError> {
        let Some(first) = all.first() else { return Ok(()) };
        let needed = matches!(first.standing, Standing::Live | Standing::Retained);
        let is_live = first.standing == Standing::Live;
        let Some(object) = stored else {
            if !needed {
                self.recorder.report.already_removed += 1;
                return Ok(());
            }
            let kind = if is_live { Kind::Missing } else { Kind::HistoryMissing };
            let finding = self.finding(kind, key, Some(first), None);
            return self.recorder.record(finding);
        };
        let needs = all.iter().filter(|known| matches!(known.standing, Standing::Live | Standing::Retained));
        let differs = needs.clone().find(|k| k.size.is_some_and(|size| u64::try_from(size) != Ok(object.size)));
        if let Some(differing) = differs {
            let live = differing.standing == Standing::Live;
            let kind = if live { Kind::SizeMismatch } else { Kind::HistorySizeMismatch };
            let finding = self.finding(kind, key, Some(differing), Some(object));
            return self.recorder.record(finding);
        }
        let kind = match first.standing {
            Standing::Live => {
                add(&mut self.recorder.report.listed, object.size);
                return Ok(());
            }
            Standing::Retained => Kind::Retained,
            Standing::Queued => Kind::Queued,
            Standing::Staged => Kind::Staged,
        };
        let finding = self.finding(kind, key, Some(first), Some(object));
        self.recorder.record(finding)
    }

    fn finding(&self, finding: Kind, key: &[u8], known: Option<&KnownObject>, stored: Option<StoredObject>) -> Finding {
        let table = known.and_then(|k| k.table).and_then(|table| self.tables.get(table as usize));
        Finding {
            finding,
            path: format!("{}{}", self.root, String::from_utf8_lossy(key)),
            kind: known.map(|k| if k.is_vector { "delete" } else { "data" }),
            table: table.map(|name| name.to_string()),
            id: known.filter(|k| k.table.is_some()).map(|k| k.id),
            registered_bytes: known.and_then(|k| k.size),
            stored_bytes: stored.map(|object| object.size),
            last_modified: stored.and_then(|object| DateTime::from_timestamp_millis(object.modified_ms)),
        }
    }
}
