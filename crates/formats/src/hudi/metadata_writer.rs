//! Writing the `files` partition of a metadata table.
//!
//! One file group holds everything: a base file that sets the table up, and one log file a commit. A log block counts
//! for readers only once the commit that it belongs to has completed, so that writing it makes nothing visible.
//!
//! # Source
//! Hudi specification, "Metadata table" and "Log format"; `HoodieMetadata.avsc`, of which the members that other
//! partitions use are left out: readers fill in their defaults.

use super::FOLDER;
use super::avro_writer::{bytes, container, long, optional, text};
use super::hfile_writer;
use super::log;
use super::metadata_table::{ALL_PARTITIONS, FileListing, METADATA_FOLDER, ROOT_PARTITION};
use super::timeline::{self, Timeline};
use crate::sync::{Error, Result, TableRoot};
use serde_json::json;
use std::collections::BTreeMap;

/// The schema of a record. Readers in Java take strings of another class unless told, and then fail to merge records.
const SCHEMA: &str = r#"{"type":"record","name":"HoodieMetadataRecord","namespace":"org.apache.hudi.avro.model","fields":[{"name":"key","type":{"type":"string","avro.java.string":"String"}},{"name":"type","type":"int"},{"name":"filesystemMetadata","type":["null",{"type":"map","avro.java.string":"String","values":{"type":"record","name":"HoodieMetadataFileInfo","fields":[{"name":"size","type":"long"},{"name":"isDeleted","type":"boolean"}]}}],"default":null}]}"#;

/// The instant that sets the table up, before every other.
pub(super) const SETUP: &str = "00000000000000010";

/// Ends the instant of a compaction, which is otherwise that of the action it follows.
const COMPACTION: &str = "001";

/// The only file group.
const GROUP: &str = "files-0000-0";

/// Changes of the listing: registered names by partition path, with the size, or `None` for names that go.
pub(super) type Changes = BTreeMap<String, BTreeMap<String, Option<u64>>>;

/// Creates the metadata table of the table called `name`; harmless when it is there.
///
/// The only partition of an unpartitioned table is there from the beginning: Hudi 0.15 asks for it before it has files.
pub(super) async fn create(root: &TableRoot, name: &str, partitioned: bool) -> Result<()> {
    let name = format!("{name}_metadata");
    let properties = [
        ("hoodie.archivelog.folder", "archived"),
        ("hoodie.compaction.payload.class", "org.apache.hudi.metadata.HoodieMetadataPayload"),
        ("hoodie.compaction.record.merger.strategy", "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"),
        ("hoodie.datasource.write.drop.partition.columns", "false"),
        ("hoodie.populate.meta.fields", "false"),
        ("hoodie.table.base.file.format", "HFILE"),
        ("hoodie.table.keygenerator.class", "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator"),
        ("hoodie.table.name", name.as_str()),
        ("hoodie.table.recordkey.fields", "key"),
        ("hoodie.table.type", "MERGE_ON_READ"),
        ("hoodie.table.version", "6"),
        ("hoodie.timeline.layout.version", "1"),
    ];
    let text = super::properties::write(properties.into_iter(), &format!(".{name}"));
    root.put_if_absent(&format!("{METADATA_FOLDER}/{FOLDER}/hoodie.properties"), text).await?;
    let mark = format!("commitTime={SETUP}\npartitionDepth=1\n");
    root.put_if_absent(&format!("{METADATA_FOLDER}/files/.hoodie_partition_metadata"), mark).await?;
    let mut pairs = Vec::new();
    let mut partitions = BTreeMap::new();
    if !partitioned {
        partitions.insert(ROOT_PARTITION.to_owned(), Some(0));
        pairs.push((ROOT_PARTITION.as_bytes().to_vec(), record(2, &BTreeMap::new())));
    }
    pairs.push((ALL_PARTITIONS.as_bytes().to_vec(), record(1, &partitions)));
    let file = format!("{GROUP}_0-0-0_{SETUP}.hfile");
    let bytes = hfile_writer::write(&pairs, SCHEMA);
    let size = bytes.len();
    root.put_if_absent(&format!("{METADATA_FOLDER}/files/{file}"), bytes).await?;
    write_commit(root, SETUP, "deltacommit", &file, size).await
}

/// Writes the changes of the commit at `instant`, which follows those of `data`. Returns the objects written, for taking
/// them back.
pub(super) async fn append(root: &TableRoot, data: &Timeline, instant: &str, changes: &Changes) -> Result<Vec<String>> {
    let mut records: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut partitions = BTreeMap::new();
    for (partition, files) in changes {
        let key = if partition.is_empty() { ROOT_PARTITION } else { partition };
        partitions.insert(key.to_owned(), Some(0));
        records.insert(key.as_bytes().to_vec(), record(2, files));
    }
    records.insert(ALL_PARTITIONS.as_bytes().to_vec(), record(1, &partitions));
    let pairs: Vec<_> = records.into_iter().collect();
    let block = log::hfile_block(instant, SCHEMA, &hfile_writer::write(&pairs, SCHEMA));

    let folder = format!("{METADATA_FOLDER}/files");
    let (base, mut version) = newest(&timeline::list_folder(root, &folder).await?, data);
    let size = block.len();
    let block = bytes::Bytes::from(block);
    loop {
        version += 1;
        let file = format!(".{GROUP}_{base}.log.{version}_0-0-0");
        if root.put_if_absent(&format!("{folder}/{file}"), block.clone()).await? {
            write_commit(root, instant, "deltacommit", &file, size).await?;
            let mut written = vec![format!("{folder}/{file}")];
            written.extend(commit_keys(instant, "deltacommit"));
            return Ok(written);
        }
    }
}

/// A listing rewritten into one base file. Until its commit is written, no reader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Compaction {
    /// The instant of the metadata table's own timeline.
    instant: String,
    size: usize,
}

impl Compaction {
    /// The compaction that belongs to the action at `instant`, of so many bytes.
    pub(super) fn new(instant: &str, size: usize) -> Self {
        Self { instant: format!("{instant}{COMPACTION}"), size }
    }

    pub(super) const fn size(&self) -> usize {
        self.size
    }

    fn file(&self) -> String {
        format!("{GROUP}_0-0-0_{}.hfile", self.instant)
    }

    /// The base file.
    pub(super) fn key(&self) -> String {
        format!("{METADATA_FOLDER}/files/{}", self.file())
    }

    /// Writes the base file that shows `listing` as of the action at `instant`.
    pub(super) async fn prepare(root: &TableRoot, instant: &str, listing: &FileListing) -> Result<Self> {
        let mut records: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut partitions = BTreeMap::new();
        for (key, files) in listing.iter().filter(|(key, _)| *key != ALL_PARTITIONS) {
            let live: BTreeMap<String, Option<u64>> =
                files.iter().filter(|(_, size)| size.is_some()).map(|(name, size)| (name.clone(), *size)).collect();
            partitions.insert(key.clone(), Some(0));
            records.insert(key.as_bytes().to_vec(), record(2, &live));
        }
        records.insert(ALL_PARTITIONS.as_bytes().to_vec(), record(1, &partitions));
        let pairs: Vec<_> = records.into_iter().collect();
        let bytes = hfile_writer::write(&pairs, SCHEMA);
        let prepared = Self::new(instant, bytes.len());
        root.put(&prepared.key(), bytes).await?;
        Ok(prepared)
    }

    /// Lets readers see it, if they do not yet: from then on they need no older file.
    pub(super) async fn complete(&self, root: &TableRoot) -> Result<()> {
        match write_commit(root, &self.instant, "commit", &self.file(), self.size).await {
            Err(Error::Lost { .. }) => Ok(()),
            other => other,
        }
    }

    /// Deletes the generations of files before the one that it replaced, which some reader may still be at.
    pub(super) async fn remove_older(&self, root: &TableRoot, data: &Timeline) -> Result<()> {
        let folder = format!("{METADATA_FOLDER}/files");
        let mut names = timeline::list_folder(root, &folder).await?;
        let this = format!("_{}.", self.instant);
        names.retain(|(name, _)| name.contains(GROUP) && !name.contains(&this));
        let (replaced, _) = newest(&names, data);
        for (name, _) in names.iter().filter(|(name, _)| !name.contains(&format!("_{replaced}."))) {
            root.delete(&format!("{folder}/{name}")).await?;
        }
        Ok(())
    }
}

/// The objects of an action in the metadata table's timeline.
pub(super) fn commit_keys(instant: &str, action: &str) -> [String; 3] {
    let timeline = format!("{METADATA_FOLDER}/{FOLDER}");
    let pending = if action == "commit" { "compaction" } else { action };
    [
        format!("{timeline}/{instant}.{pending}.requested"),
        format!("{timeline}/{instant}.{pending}.inflight"),
        format!("{timeline}/{instant}.{action}"),
    ]
}

async fn write_commit(root: &TableRoot, instant: &str, action: &str, file: &str, size: usize) -> Result<()> {
    let [requested, inflight, completed] = commit_keys(instant, action);
    let mut stat = json!({
        "fileId": GROUP, "path": format!("files/{file}"), "partitionPath": "files", "prevCommit": "null",
        "numWrites": 1, "numInserts": 0, "numUpdateWrites": 0, "numDeletes": 0,
        "totalWriteBytes": size, "fileSizeInBytes": size, "totalWriteErrors": 0,
    });
    if file.starts_with('.') {
        stat["logFiles"] = json!([file]);
        stat["logVersion"] = json!(file.split(".log.").nth(1).and_then(|v| v.split('_').next()?.parse::<u64>().ok()));
        stat["logOffset"] = json!(0);
    }
    let metadata = json!({
        "partitionToWriteStats": {"files": [stat]},
        "compacted": action == "commit",
        "extraMetadata": {"schema": SCHEMA},
        "operationType": if action == "commit" { "COMPACT" } else { "UPSERT_PREPPED" },
    });
    let plan = if action == "commit" { compaction_plan(instant)? } else { Vec::new() };
    root.put_if_absent(&requested, plan).await?;
    root.put_if_absent(&inflight, "").await?;
    if root.put_if_absent(&completed, metadata.to_string()).await? || instant == SETUP {
        Ok(())
    } else {
        Err(Error::Lost { place: root.spell(&completed) })
    }
}

/// The plan of a compaction, without the operations that nobody will carry out: Hudi reads it when it archives.
fn compaction_plan(instant: &str) -> Result<Vec<u8>> {
    let operation = json!({"type": "record", "name": "HoodieCompactionOperation", "fields": [optional("baseInstantTime", &text()), optional("fileId", &text())]});
    let schema = json!({
        "type": "record", "name": "HoodieCompactionPlan", "namespace": "org.apache.hudi.avro.model",
        "fields": [
            optional("operations", &json!({"type": "array", "items": operation})),
            {"name": "version", "type": ["int", "null"], "default": 1},
        ],
    });
    container(&schema, &json!({"operations": [], "version": 2})).map_err(|detail| Error::malformed(instant, detail))
}

/// The instant of the newest base file of an action that `data` has, and the highest version among its log files.
fn newest(names: &[(String, u64)], data: &Timeline) -> (String, u64) {
    let counts = |instant: &&str| instant.strip_suffix(COMPACTION).is_some_and(|action| data.is_committed(action));
    let base = names
        .iter()
        .filter_map(|(name, _)| name.strip_prefix(GROUP)?.strip_suffix(".hfile")?.rsplit_once('_').map(|(_, i)| i))
        .filter(counts)
        .max()
        .unwrap_or(SETUP)
        .to_owned();
    let prefix = format!(".{GROUP}_{base}.log.");
    let version = |name: &str| name.strip_prefix(&prefix)?.split('_').next()?.parse::<u64>().ok();
    let version = names.iter().filter_map(|(name, _)| version(name)).max().unwrap_or(0);
    (base, version)
}

/// A record in Avro. Its key stands beside it in the file, and is left empty inside as Hudi does.
fn record(kind: i64, files: &BTreeMap<String, Option<u64>>) -> Vec<u8> {
    let mut out = vec![0];
    long(&mut out, kind);
    long(&mut out, 1);
    if !files.is_empty() {
        long(&mut out, i64::try_from(files.len()).unwrap_or(i64::MAX));
        for (name, size) in files {
            bytes(&mut out, name.as_bytes());
            long(&mut out, i64::try_from(size.unwrap_or(0)).unwrap_or(i64::MAX));
            out.push(u8::from(size.is_none()));
        }
    }
    out.push(0);
    out
}
