//! Writing the `files` partition of a metadata table.
//!
//! One file group holds everything: a base file that sets the table up, and one log file a commit. A log block counts
//! for readers only once the commit that it belongs to has completed, so that writing it makes nothing visible.
//!
//! # Source
//! Hudi specification, "Metadata table" and "Log format"; `HoodieMetadata.avsc`, of which the members that other
//! partitions use are left out: readers fill in their defaults.

use super::FOLDER;
use super::hfile_writer;
use super::metadata_table::{ALL_PARTITIONS, METADATA_FOLDER, ROOT_PARTITION};
use super::timeline;
use crate::sync::{Error, Result, TableRoot};
use serde_json::json;
use std::collections::BTreeMap;

/// The schema of a record. Readers in Java take strings of another class unless told, and then fail to merge records.
const SCHEMA: &str = r#"{"type":"record","name":"HoodieMetadataRecord","namespace":"org.apache.hudi.avro.model","fields":[{"name":"key","type":{"type":"string","avro.java.string":"String"}},{"name":"type","type":"int"},{"name":"filesystemMetadata","type":["null",{"type":"map","avro.java.string":"String","values":{"type":"record","name":"HoodieMetadataFileInfo","fields":[{"name":"size","type":"long"},{"name":"isDeleted","type":"boolean"}]}}],"default":null}]}"#;

/// The instant that sets the table up, before every other.
pub(super) const SETUP: &str = "00000000000000010";

/// The only file group.
const GROUP: &str = "files-0000-0";

/// Changes of the listing: registered names by partition path, with the size, or `None` for names that go.
pub(super) type Changes = BTreeMap<String, BTreeMap<String, Option<u64>>>;

/// Creates the metadata table of the table called `name`; harmless when it is there.
pub(super) async fn create(root: &TableRoot, name: &str) -> Result<()> {
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
    let pairs = vec![(ALL_PARTITIONS.as_bytes().to_vec(), record(1, &BTreeMap::new()))];
    let file = format!("{GROUP}_0-0-0_{SETUP}.hfile");
    let bytes = hfile_writer::write(&pairs, SCHEMA);
    let size = bytes.len();
    root.put_if_absent(&format!("{METADATA_FOLDER}/files/{file}"), bytes).await?;
    write_commit(root, SETUP, "deltacommit", &file, size).await
}

/// Writes the changes of the commit at `instant`. Returns the objects written, for taking them back.
pub(super) async fn append(root: &TableRoot, instant: &str, changes: &Changes) -> Result<Vec<String>> {
    let mut records: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut partitions = BTreeMap::new();
    for (partition, files) in changes {
        let key = if partition.is_empty() { ROOT_PARTITION } else { partition };
        partitions.insert(key.to_owned(), Some(0));
        records.insert(key.as_bytes().to_vec(), record(2, files));
    }
    records.insert(ALL_PARTITIONS.as_bytes().to_vec(), record(1, &partitions));
    let pairs: Vec<_> = records.into_iter().collect();
    let block = log_block(instant, &hfile_writer::write(&pairs, SCHEMA));

    let folder = format!("{METADATA_FOLDER}/files");
    let (base, mut version) = newest(&timeline::list_folder(root, &folder).await?);
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

/// Rewrites the listing into one base file, as of the newest completed commit `instant`: from then on readers need no
/// older log file. Objects of generations before the last one are deleted.
pub(super) async fn compact(
    root: &TableRoot,
    instant: &str,
    listing: &super::metadata_table::FileListing,
) -> Result<()> {
    let folder = format!("{METADATA_FOLDER}/files");
    let old = timeline::list_folder(root, &folder).await?;
    let (replaced, _) = newest(&old);
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
    let compaction = format!("{instant}001");
    let file = format!("{GROUP}_0-0-0_{compaction}.hfile");
    let bytes = hfile_writer::write(&pairs, SCHEMA);
    let size = bytes.len();
    root.put(&format!("{folder}/{file}"), bytes).await?;
    write_commit(root, &compaction, "commit", &file, size).await?;
    for (name, _) in old {
        let stale = name.contains(GROUP) && !name.contains(&format!("_{replaced}."));
        if stale {
            root.delete(&format!("{folder}/{name}")).await?;
        }
    }
    Ok(())
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
    root.put_if_absent(&requested, "").await?;
    root.put_if_absent(&inflight, "").await?;
    if root.put_if_absent(&completed, metadata.to_string()).await? || instant == SETUP {
        Ok(())
    } else {
        Err(Error::Lost { place: root.spell(&completed) })
    }
}

/// The instant of the newest base file, and the highest version among its log files.
fn newest(names: &[(String, u64)]) -> (String, u64) {
    let base = names
        .iter()
        .filter_map(|(name, _)| name.strip_prefix(GROUP)?.strip_suffix(".hfile")?.rsplit_once('_').map(|(_, i)| i))
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
            long(&mut out, i64::try_from(name.len()).unwrap_or(i64::MAX));
            out.extend(name.as_bytes());
            long(&mut out, i64::try_from(size.unwrap_or(0)).unwrap_or(i64::MAX));
            out.push(u8::from(size.is_none()));
        }
    }
    out.push(0);
    out
}

fn long(out: &mut Vec<u8>, value: i64) {
    let mut value = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A log file of one block.
fn log_block(instant: &str, hfile: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(1u32.to_be_bytes());
    body.extend(4u32.to_be_bytes());
    body.extend(2u32.to_be_bytes());
    for (key, text) in [(0u32, instant), (2, SCHEMA)] {
        body.extend(key.to_be_bytes());
        body.extend(u32::try_from(text.len()).unwrap_or_default().to_be_bytes());
        body.extend(text.as_bytes());
    }
    body.extend(u64::try_from(hfile.len()).unwrap_or_default().to_be_bytes());
    body.extend(hfile);
    body.extend(0u32.to_be_bytes());
    let whole = u64::try_from(body.len() + 8).unwrap_or_default();
    let mut out = b"#HUDI#".to_vec();
    out.extend(whole.to_be_bytes());
    out.extend(body);
    // Readers that go backwards find the start of the block from here.
    out.extend((whole + 6).to_be_bytes());
    out
}
