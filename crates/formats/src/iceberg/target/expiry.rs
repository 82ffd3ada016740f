//! Snapshot expiry ("Snapshot Retention Policy"): metadata only. Data files belong to the source and are never touched.

use super::super::manifest::{ManifestReader, Status};
use super::super::manifest_list::{self, ManifestFile};
use super::super::metadata::{Snapshot, TableMetadata};
use crate::sync::{Result, TableRoot};
use hoglake_model::Location;
use hoglake_model::table::{FilePath, PartitionSpec};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// How many metadata files the log remembers.
const PREVIOUS_VERSIONS: usize = 100;

/// What the new metadata no longer refers to.
#[derive(Debug, Default)]
pub(super) struct Expired {
    snapshots: Vec<Snapshot>,
    metadata_files: Vec<String>,
}

/// Takes snapshots older than `before_ms` out of the metadata, except the current one and what a ref names.
pub(super) fn expire(metadata: &mut TableMetadata, before_ms: i64) -> Expired {
    let named: HashSet<i64> = metadata
        .refs
        .values()
        .filter_map(|r| r.get("snapshot-id").and_then(Json::as_i64))
        .chain(metadata.current_snapshot_id)
        .collect();
    let (snapshots, kept) = std::mem::take(&mut metadata.snapshots)
        .into_iter()
        .partition::<Vec<_>, _>(|s| s.timestamp_ms < before_ms && !named.contains(&s.snapshot_id));
    metadata.snapshots = kept;
    let gone: HashSet<i64> = snapshots.iter().map(|s| s.snapshot_id).collect();
    let id = |entry: &Json| entry.get("snapshot-id").and_then(Json::as_i64);
    if let Some(last) = metadata.snapshot_log.iter().rposition(|e| id(e).is_some_and(|id| gone.contains(&id))) {
        metadata.snapshot_log.drain(..=last);
    }
    let excess = metadata.metadata_log.len().saturating_sub(PREVIOUS_VERSIONS);
    let metadata_files = metadata
        .metadata_log
        .drain(..excess)
        .filter_map(|e| e.get("metadata-file").and_then(Json::as_str).map(str::to_owned))
        .collect();
    Expired { snapshots, metadata_files }
}

/// The snapshots whose manifests tell which of the expired ones' are still in use. Where history is one line, that is the
/// oldest one kept; where others have made tags or branches, or have rolled back, it is all that are kept.
fn witnesses<'a>(metadata: &'a TableMetadata, expired: &[Snapshot]) -> Vec<&'a Snapshot> {
    let mut kept: Vec<_> = metadata.snapshots.iter().collect();
    kept.sort_by_key(|s| s.sequence_number);
    let follows = |pair: &[&Snapshot]| pair[1].parent_snapshot_id == Some(pair[0].snapshot_id);
    let mut line = kept.windows(2).all(follows);
    let mut next = kept.first().and_then(|oldest| oldest.parent_snapshot_id);
    for _ in expired {
        let parent = next.and_then(|id| expired.iter().find(|s| s.snapshot_id == id));
        line &= parent.is_some();
        next = parent.and_then(|s| s.parent_snapshot_id);
    }
    kept.truncate(if line { 1 } else { usize::MAX });
    kept
}

/// Deletes the objects that only expired snapshots used. Best effort: what stays behind is never read.
pub(super) async fn clean(root: &TableRoot, metadata: &TableMetadata, expired: &Expired) {
    if let Err(error) = try_clean(root, metadata, expired).await {
        tracing::warn!(%error, "expired Iceberg metadata was not cleaned up");
    }
}

/// Whether a delete file has a name of those that this target writes.
fn is_ours(key: &str) -> bool {
    let name = key.strip_prefix("metadata/").unwrap_or_default();
    let id = name.strip_suffix("-deletes.parquet").or_else(|| name.strip_suffix("-deletes.puffin"));
    id.is_some_and(|id| uuid::Uuid::parse_str(id).is_ok())
}

/// The files below the root that a delete manifest names as live.
async fn delete_files(root: &TableRoot, metadata: &TableMetadata, manifest: &ManifestFile) -> Result<Vec<String>> {
    let path = |text: &str| Ok(root.file_path(&Location::parse(text)?));
    let FilePath::Under(key) = path(&manifest.path)? else { return Ok(Vec::new()) };
    let tuple = |spec: &PartitionSpec| (spec.id, spec.fields.iter().map(|f| (f.field_id, None)).collect());
    let specs = metadata.specs(&manifest.path)?.iter().map(tuple).collect();
    let bytes = root.get(&key).await?;
    let reader = ManifestReader { types: &HashMap::new(), specs: &specs, path: &path, spelled: false };
    let mut files = Vec::new();
    reader.read(&manifest.path, manifest, &bytes, |entry| {
        if let (FilePath::Under(key), true) = (&entry.file.path, entry.status != Status::Deleted) {
            files.push(key.to_string());
        }
        Ok(())
    })?;
    Ok(files)
}

async fn try_clean(root: &TableRoot, metadata: &TableMetadata, expired: &Expired) -> Result<()> {
    let own = |text: &str| -> Option<String> {
        let location = Location::parse(text).ok()?;
        match root.file_path(&location) {
            FilePath::Under(key) if key.starts_with("metadata/") => Some(key.into()),
            _ => None,
        }
    };
    let read = async |snapshot: &Snapshot| -> Result<Vec<ManifestFile>> {
        let Some(key) = snapshot.manifest_list.as_deref().and_then(own) else { return Ok(Vec::new()) };
        let list = manifest_list::read(&key, &root.get(&key).await?)?;
        Ok(list.into_iter().filter(|m| own(&m.path).is_some()).collect())
    };
    if metadata.property("gc.enabled") == Some("false") {
        // Other tables share the files of this one.
        return Ok(());
    }
    if !expired.snapshots.is_empty() {
        let (mut used, mut deletes) = (HashSet::new(), Vec::new());
        for snapshot in witnesses(metadata, &expired.snapshots) {
            let manifests = read(snapshot).await?;
            used.extend(manifests.iter().map(|m| m.path.clone()));
            deletes.extend(manifests.into_iter().filter(|m| m.deletes));
        }
        let mut gone = BTreeMap::new();
        for snapshot in &expired.snapshots {
            let manifests = read(snapshot).await?.into_iter().filter(|m| !used.contains(&m.path));
            gone.extend(manifests.map(|m| (m.path.clone(), m)));
        }
        // Delete files are ours as well, unlike data files; those that are still named stay.
        let mut files = BTreeSet::new();
        for manifest in gone.values().filter(|m| m.deletes) {
            files.extend(delete_files(root, metadata, manifest).await?.into_iter().filter(|key| is_ours(key)));
        }
        if !files.is_empty() {
            let mut read = HashSet::new();
            for manifest in deletes.iter().filter(|m| read.insert(&m.path)) {
                for key in delete_files(root, metadata, manifest).await? {
                    files.remove(&key);
                }
            }
        }
        for key in &files {
            root.delete(key).await?;
        }
        for manifest in gone.keys().filter_map(|path| own(path)) {
            root.delete(&manifest).await?;
        }
        for snapshot in &expired.snapshots {
            if let Some(list) = snapshot.manifest_list.as_deref().and_then(own) {
                root.delete(&list).await?;
            }
        }
    }
    for file in expired.metadata_files.iter().filter_map(|f| own(f)) {
        root.delete(&file).await?;
    }
    Ok(())
}
