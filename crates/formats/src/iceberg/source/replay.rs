//! The snapshots after a watermark, one change each.

use super::{DeleteManifests, EMPTY, Head, Types, delete_index, state, with_deletes};
use crate::iceberg::contents::Contents;
use crate::iceberg::deletes::DeleteIndex;
use crate::iceberg::manifest::{Entry, Status};
use crate::iceberg::manifest_list::ManifestFile;
use crate::sync::{Changes, Error, Result};
use futures::StreamExt;
use hoglake_model::table::{
    Change, FileDelta, FilePath, Operation, RemovedFile, TableState, Version, VersionId, Watermark,
};
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

/// Walks the ancestors of the current snapshot down to the watermark. The log of the metadata is no guide: it hides
/// the snapshots within a transaction, and it shows rolled back ones.
pub(super) fn plan<'a>(head: Arc<Head>, since: &Watermark) -> Result<Changes<'a>> {
    let metadata = head.metadata();
    let Some(since) = since.version.as_ref().map(|v| v.0.as_str()) else {
        return Ok(Changes::HistoryGone { reason: "the watermark names no snapshot".to_owned() });
    };
    let mut pending = VecDeque::new();
    let mut next = metadata.current_snapshot_id;
    let reached = loop {
        match next {
            None => break since == EMPTY,
            Some(id) if id.to_string() == since => break true,
            Some(id) => {
                let Some(snapshot) = metadata.snapshot(id) else {
                    return Ok(Changes::HistoryGone { reason: format!("snapshot {id} has expired") });
                };
                if snapshot.manifest_list.is_none() {
                    return Ok(Changes::HistoryGone { reason: format!("snapshot {id} has no manifest list") });
                }
                if pending.len() > metadata.snapshots.len() {
                    return Err(Error::malformed(&head.place, "the snapshots' parents form a cycle"));
                }
                pending.push_front(id);
                next = snapshot.parent_snapshot_id;
            }
        }
    };
    if !reached {
        return Ok(Changes::HistoryGone {
            reason: format!(
                "snapshot {since} is no ancestor of the current one; the table was rolled back or replaced"
            ),
        });
    }
    let replay = Replay { head, pending, started: false, last: None, read: Read::default() };
    Ok(Changes::Replay(futures::stream::try_unfold(replay, Replay::next).boxed()))
}

struct Replay {
    head: Arc<Head>,
    pending: VecDeque<i64>,
    started: bool,
    /// The manifests of the snapshot before, by its id.
    last: Option<(i64, Vec<ManifestFile>)>,
    read: Read,
}

/// What has been read for commits before, so that the next one does not read it again.
#[derive(Default)]
struct Read {
    types: Option<Arc<Types>>,
    deletes: DeleteManifests,
    contents: Contents,
}

impl Read {
    /// Prepares for a commit of a table that has these manifests and had those.
    fn prepare(&mut self, types: &Arc<Types>, (before, manifests): (&[ManifestFile], &[ManifestFile])) {
        // Partition values are compared as they were read.
        if self.types.as_ref().is_none_or(|last| last != types) {
            self.deletes.clear();
            self.types = Some(Arc::clone(types));
        }
        self.deletes.retain(|path, _| before.iter().chain(manifests).any(|m| m.path == *path));
        self.contents.keep(manifests);
    }

    /// The live delete files among these manifests.
    async fn deletes(
        &mut self,
        head: &Arc<Head>,
        types: &Arc<Types>,
        manifests: &[ManifestFile],
    ) -> Result<DeleteIndex> {
        head.read_deletes(types, manifests, &mut self.deletes).await?;
        delete_index(manifests, |path| self.deletes.get(path).cloned().unwrap_or_default())
    }

    /// Reads the live files of a data manifest.
    async fn files(&mut self, head: &Arc<Head>, types: &Arc<Types>, manifest: &ManifestFile) -> Result<Vec<Entry>> {
        let entries = head.entries(types, manifest.clone(), |e| e.status != Status::Deleted).await?;
        let hasher = self.contents.hasher();
        self.contents.note(&manifest.path, entries.iter().map(|e| hasher.hash_one(&e.file.path)).collect());
        Ok(entries)
    }
}

impl Replay {
    async fn next(mut self) -> Result<Option<(Change, Self)>> {
        let Some(id) = self.pending.pop_front() else {
            if self.started {
                return Ok(None);
            }
            // Nothing but the schema or the partitioning changed.
            self.started = true;
            let change = Change {
                state: Arc::clone(&self.head.state),
                operation: Operation::Append,
                files: FileDelta::default(),
            };
            return Ok(Some((change, self)));
        };
        self.started = true;
        let state = self.state(id)?;
        let change = self.change(id, state).await?;
        Ok(Some((change, self)))
    }

    /// The last change shows the table as it is now, earlier ones the schema of their time.
    fn state(&self, id: i64) -> Result<Arc<TableState>> {
        if self.pending.is_empty() {
            return Ok(Arc::clone(&self.head.state));
        }
        let metadata = self.head.metadata();
        let snapshot =
            metadata.snapshot(id).ok_or_else(|| Error::malformed(&self.head.place, "a snapshot vanished"))?;
        let version = Version { id: VersionId(id.to_string()), revision: None, timestamp_ms: snapshot.timestamp_ms };
        let schema = snapshot.schema_id.unwrap_or(metadata.current_schema_id);
        Ok(Arc::new(state(&self.head.root, &self.head.place, metadata, schema, version)?))
    }

    /// Compares the manifests of the snapshot with those of its parent: what is live in manifests that are new, against
    /// what was live in manifests that are gone. Status and snapshot id of entries are not asked, since writers disagree
    /// about them (rewritten files marked existing, deletions under the id of the addition).
    async fn change(&mut self, id: i64, state: Arc<TableState>) -> Result<Change> {
        let head = Arc::clone(&self.head);
        let metadata = head.metadata();
        let snapshot = metadata.snapshot(id).ok_or_else(|| Error::malformed(&head.place, "a snapshot vanished"))?;
        let types = Arc::new(head.types(&state)?);
        let before = match (self.last.take(), snapshot.parent_snapshot_id.and_then(|p| metadata.snapshot(p))) {
            (Some((last, manifests)), Some(parent)) if last == parent.snapshot_id => manifests,
            (_, Some(parent)) => head.manifests(parent).await?,
            (_, None) => Vec::new(),
        };
        let manifests = head.manifests(snapshot).await?;
        let absent = |from: &[ManifestFile], m: &ManifestFile| !from.iter().any(|other| other.path == m.path);
        self.read.prepare(&types, (&before, &manifests));
        let index = self.read.deletes(&head, &types, &manifests).await?;
        let mut gone: HashMap<FilePath, (RemovedFile, i64)> = HashMap::new();
        for manifest in before.iter().filter(|m| !m.deletes && absent(&manifests, m)) {
            for entry in head.entries(&types, manifest.clone(), |e| e.status != Status::Deleted).await? {
                let file = entry.file;
                let partition = Some((file.spec_id, file.partition));
                let removed = RemovedFile { path: file.path, partition, size_bytes: file.size_bytes };
                gone.insert(removed.path.clone(), (removed, entry.sequence));
            }
        }
        let mut files = FileDelta::default();
        // Files that were added again while live: deletes from before that no longer apply.
        let mut anew = HashMap::new();
        for manifest in manifests.iter().filter(|m| !m.deletes && absent(&before, m)) {
            for entry in self.read.files(&head, &types, manifest).await? {
                match gone.remove(&entry.file.path) {
                    None => files.added.push(with_deletes(entry, &index)),
                    Some((_, sequence)) if sequence != entry.sequence => {
                        anew.insert(entry.file.path, sequence);
                    }
                    Some(_) => {}
                }
            }
        }
        files.removed = gone.into_values().map(|(removed, _)| removed).collect();
        let deletes_changed = manifests.iter().any(|m| m.deletes && absent(&before, m))
            || before.iter().any(|m| m.deletes && absent(&manifests, m));
        if deletes_changed || (!anew.is_empty() && !index.is_empty()) {
            self.redeleted(&types, (&before, &manifests), &index, &anew, &mut files).await?;
        }
        self.last = Some((id, manifests));
        files.added.sort_by(|a, b| a.path.cmp(&b.path));
        files.redeleted.sort_by(|a, b| a.path.cmp(&b.path));
        files.removed.sort_by(|a, b| a.path.cmp(&b.path));
        let named = snapshot.summary.get("operation").and_then(|v| v.as_str());
        let operation = if named == Some("replace") { Operation::Replace } else { files.operation() };
        Ok(Change { state, operation, files })
    }

    /// Files that stay live while the deletes against them change: every data file in question is asked under both snapshots.
    /// `anew` holds the sequence numbers before of those that have others now.
    async fn redeleted(
        &mut self,
        types: &Arc<Types>,
        (before, manifests): (&[ManifestFile], &[ManifestFile]),
        index: &DeleteIndex,
        anew: &HashMap<FilePath, i64>,
        files: &mut FileDelta,
    ) -> Result<()> {
        let then = self.read.deletes(&self.head, types, before).await?;
        let known: HashSet<FilePath> = files.added.iter().map(|f| f.path.clone()).collect();
        let listing = match index.changed_files(&then) {
            Some(mut wanted) => {
                wanted.extend(anew.keys().cloned());
                self.read.contents.candidates(manifests, &wanted)
            }
            None => (0..manifests.len()).collect(),
        };
        let listing = listing.into_iter().filter_map(|at| manifests.get(at));
        for manifest in listing.filter(|m| !m.deletes && m.may_be_live()) {
            for entry in self.read.files(&self.head, types, manifest).await? {
                if known.contains(&entry.file.path) {
                    continue;
                }
                let deletes = index.of(&entry.file, entry.sequence);
                let sequence = anew.get(&entry.file.path).copied().unwrap_or(entry.sequence);
                if deletes != then.of(&entry.file, sequence) {
                    let mut file = entry.file;
                    file.deletes = deletes;
                    files.redeleted.push(file);
                }
            }
        }
        Ok(())
    }
}
