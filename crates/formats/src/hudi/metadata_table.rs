//! The `files` partition of the metadata table: which files a table has.
//!
//! # Source
//! Hudi specification, "Metadata table", "Files"; `HoodieMetadata.avsc`. Records of type 2 map the names of a
//! partition's files to size and deletion; the record `__all_partitions__` lists the partitions. Later records are laid
//! over earlier ones, name by name. The key of the partition with an empty path is `.`.

use super::FOLDER;
use super::commit::{long, map, member, string};
use super::file_group::FileGroups;
use super::hfile::HFile;
use super::log::{self, Content};
use super::properties::{Layout, Properties};
use super::timeline::{self, Timeline};
use crate::sync::{Error, Result, TableRoot};
use apache_avro::Schema;
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value as Avro;
use std::collections::{BTreeMap, HashSet};

/// The folder of the metadata table.
pub(super) const METADATA_FOLDER: &str = ".hoodie/metadata";

/// The record that lists the partitions.
pub(super) const ALL_PARTITIONS: &str = "__all_partitions__";

/// The key of the partition without a path.
pub(super) const ROOT_PARTITION: &str = ".";

/// The largest file of the metadata table that is read, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// Files by partition path and registered name; the value is the size, `None` for a deleted file.
pub(super) type FileListing = BTreeMap<String, BTreeMap<String, Option<u64>>>;

/// Reads the listing of all partitions as of the newest completed action of the table.
pub(super) async fn read(root: &TableRoot, data: &Timeline) -> Result<FileListing> {
    let place = format!("{METADATA_FOLDER}/{FOLDER}/hoodie.properties");
    let properties = Properties::parse(&place, &root.get(&place).await?)?;
    let layout = properties.check_metadata(&place)?;
    let timeline = Timeline::read(root, &format!("{METADATA_FOLDER}/{FOLDER}"), &properties, layout).await?;
    let folder = format!("{METADATA_FOLDER}/files");
    let mut groups = FileGroups::default();
    for (name, size) in timeline::list_folder(root, &folder).await? {
        if size > MAX_BYTES {
            return Err(Error::malformed(format!("{folder}/{name}"), format!("{size} bytes are too many to be read")));
        }
        groups.add("files", &name, Some(size));
    }
    let mut listing = FileListing::new();
    for slice in groups.slices(&timeline, &HashSet::new()) {
        if let Some(base) = &slice.base {
            let key = format!("{folder}/{}", base.name);
            let bytes = root.get(&key).await?;
            let file = HFile::read(&bytes).map_err(|e| Error::malformed(&key, e))?;
            lay(&key, file, None, &mut listing)?;
        }
        overlay(root, &folder, &slice.logs, &timeline, data, &mut listing).await?;
    }
    Ok(listing)
}

/// Lays the log files over the listing, without blocks that do not count.
async fn overlay(
    root: &TableRoot,
    folder: &str,
    logs: &[String],
    timeline: &Timeline,
    data: &Timeline,
    listing: &mut FileListing,
) -> Result<()> {
    let mut files = Vec::new();
    for name in logs {
        let key = format!("{folder}/{name}");
        let bytes = root.get(&key).await?;
        files.push((key, bytes));
    }
    let mut blocks: Vec<(usize, String, &[u8], Option<String>)> = Vec::new();
    for (i, (key, bytes)) in files.iter().enumerate() {
        for block in log::read(bytes).map_err(|e| Error::malformed(key, e))? {
            match block.content {
                Content::Rollback(target) => blocks.retain(|(_, instant, ..)| *instant != target),
                Content::HFile(content, schema) => blocks.push((i, block.instant, content, schema)),
                Content::Avro(..) => {
                    return Err(Error::malformed(
                        key,
                        "a block of Avro records does not belong into the metadata table",
                    ));
                }
                Content::Nothing => {}
            }
        }
    }
    for (i, instant, content, schema) in blocks {
        let key = files.get(i).map_or("", |(key, _)| key);
        // A write of the metadata table comes before the action that it belongs to completes: what failed in between
        // does not count. The writes that set the metadata table up have instants of their own.
        let own = instant.starts_with("00000000") || instant.len() > 17;
        if !timeline.is_committed(&instant) || !(own || data.is_committed(&instant)) {
            continue;
        }
        let file = HFile::read(content).map_err(|e| Error::malformed(key, e))?;
        lay(key, file, schema, listing)?;
    }
    Ok(())
}

fn lay(place: &str, file: HFile, block_schema: Option<String>, listing: &mut FileListing) -> Result<()> {
    if file.pairs.is_empty() {
        return Ok(());
    }
    let malformed = |detail: String| Error::malformed(place, detail);
    let text = file.schema.or(block_schema).ok_or_else(|| malformed("its records have no schema".to_owned()))?;
    let schema = Schema::parse_str(&text).map_err(|e| malformed(e.to_string()))?;
    let reader = GenericDatumReader::builder(&schema).build().map_err(|e| malformed(e.to_string()))?;
    for (key, value) in file.pairs {
        let key = String::from_utf8(key).map_err(|e| malformed(e.to_string()))?;
        if value.is_empty() {
            listing.remove(&key);
            continue;
        }
        let record = reader.read_value(&mut value.as_slice()).map_err(|e| malformed(e.to_string()))?;
        // The key may be left out of the value, where it would stand twice.
        let key = member(&record, "key").and_then(string).filter(|k| !k.is_empty()).unwrap_or(key);
        let files = listing.entry(key).or_default();
        for (name, info) in map(member(&record, "filesystemMetadata")) {
            let deleted = matches!(member(info, "isDeleted"), Some(Avro::Boolean(true)));
            files.insert(
                name.clone(),
                if deleted { None } else { Some(member(info, "size").and_then(long).unwrap_or(0)) },
            );
        }
    }
    Ok(())
}

/// The file groups of a listing.
pub(super) fn groups(listing: &FileListing) -> FileGroups {
    let mut groups = FileGroups::default();
    for (key, files) in listing.iter().filter(|(key, _)| *key != ALL_PARTITIONS) {
        let partition = if key == ROOT_PARTITION { "" } else { key };
        for (name, size) in files {
            if let Some(size) = size {
                groups.add(partition, name, Some(*size).filter(|s| *s > 0));
            }
        }
    }
    groups
}

impl Properties {
    /// As [`Properties::check`], for the metadata table, whose base files are HFiles.
    fn check_metadata(&self, place: &str) -> Result<Layout> {
        let mut plain = self.clone();
        plain.0.remove("hoodie.table.base.file.format");
        plain.check(place)
    }
}
