//! Which objects below a directory are data.

use crate::sync::{Error, Listed, Result, TableRoot};
use hoglake_model::table::TableFormat;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

/// The data files of a directory, ascending by key.
pub(super) struct Listing {
    pub(super) files: Vec<Listed>,
    pub(super) warnings: Vec<String>,
}

impl Listing {
    pub(super) async fn read(root: &TableRoot) -> Result<Self> {
        let all = root.list("", None).await?;
        let foreign = foreign_folders(&all);
        let mut warnings = Vec::new();
        for (folder, format) in [("_delta_log/", "Delta"), (".hoodie/", "Hudi"), ("metadata/", "Iceberg")] {
            let there = all.iter().any(|o| o.key.starts_with(folder));
            if there && (folder != "metadata/" || foreign.contains("metadata")) {
                warnings.push(format!(
                    "the directory also holds {format} metadata, which was ignored: files that the {format} table no \
                     longer lists are read as live"
                ));
            }
        }
        let files: Vec<Listed> = all.into_iter().filter(|object| is_data(&object.key, &foreign)).collect();
        if files.is_empty() {
            return Err(Error::NotATable {
                format: TableFormat::Parquet,
                place: root.location().to_string(),
                detail: "no object below it ends in .parquet or .parq".to_owned(),
            });
        }
        Ok(Self { files, warnings })
    }

    pub(super) fn newest_ms(&self) -> i64 {
        self.files.iter().map(|f| f.modified_ms).max().unwrap_or_default()
    }

    /// The name of the version; see the module above.
    pub(super) fn version(&self) -> String {
        let newest = self.newest_ms();
        name(newest, self.files.iter())
    }

    /// The files that `version` did not have, by index, if it was exactly the files up to its newest modification.
    pub(super) fn added_since(&self, version: &str) -> Option<Vec<usize>> {
        let newest: i64 = version.split('-').next()?.parse().ok()?;
        let old = self.files.iter().filter(|f| f.modified_ms <= newest);
        if name(newest, old) != version {
            return None;
        }
        Some(self.files.iter().enumerate().filter(|(_, f)| f.modified_ms > newest).map(|(i, _)| i).collect())
    }
}

fn name<'a>(newest: i64, files: impl Iterator<Item = &'a Listed>) -> String {
    let mut digest = Sha256::new();
    let mut count = 0u64;
    for file in files {
        digest.update(file.key.len().to_le_bytes());
        digest.update(file.key.as_bytes());
        digest.update(file.size.to_le_bytes());
        digest.update(file.modified_ms.to_le_bytes());
        count += 1;
    }
    let digest: String = digest.finalize().iter().take(16).map(|b| format!("{b:02x}")).collect();
    format!("{newest}-{count}-{digest}")
}

/// Folders at the top that other formats keep their metadata in, where their marks are really there: a partition or
/// folder of the user's may have the same name.
fn foreign_folders(all: &[Listed]) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    let any = |test: &dyn Fn(&str) -> bool| all.iter().any(|o| test(&o.key));
    if any(&|key| key.starts_with("metadata/") && key.ends_with(".metadata.json")) {
        found.insert("metadata");
    }
    // Paimon: snapshots, schemas and manifests beside the buckets.
    if any(&|key| key.strip_prefix("snapshot/").is_some_and(|n| n == "LATEST" || n.starts_with("snapshot-"))) {
        found.extend(["snapshot", "schema", "manifest"]);
    }
    found
}

fn is_data(key: &str, foreign: &BTreeSet<&'static str>) -> bool {
    let lower = key.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    if lower != "parquet" && lower != "parq" {
        return false;
    }
    let mut segments = key.split('/').peekable();
    let mut top = true;
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        let hidden = segment.starts_with(['_', '.']) && (last || !segment.contains('='));
        if hidden || (top && !last && foreign.contains(segment)) {
            return false;
        }
        top = false;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(key: &str, size: u64, modified_ms: i64) -> Listed {
        Listed { key: key.to_owned(), size, modified_ms }
    }

    fn listing(files: &[Listed]) -> Listing {
        Listing { files: files.to_vec(), warnings: Vec::new() }
    }

    #[test]
    fn metadata_is_no_data_and_partitions_named_like_it_are() {
        let all: Vec<Listed> = [
            "metadata/v1.metadata.json",
            "metadata/stats.parquet",
            "_delta_log/00000000000000000010.checkpoint.parquet",
            ".hoodie/metadata/files/x.parquet",
            "_temporary/x.parquet",
            "region=metadata/x.parquet",
            "_p=1/x.parquet",
            "snapshot/x.parquet",
            "_SUCCESS",
            "a.parquet.crc",
            ".a.parquet",
            "b.PARQUET",
        ]
        .map(|key| listed(key, 1, 1))
        .to_vec();
        let foreign = foreign_folders(&all);
        let data: Vec<&str> = all.iter().map(|o| o.key.as_str()).filter(|k| is_data(k, &foreign)).collect();
        assert_eq!(data, ["region=metadata/x.parquet", "_p=1/x.parquet", "snapshot/x.parquet", "b.PARQUET"]);
    }

    #[test]
    fn appends_are_told_from_everything_else() {
        let first = listing(&[listed("a", 1, 10), listed("b", 2, 20)]);
        let version = first.version();
        assert_eq!(version, listing(&[listed("a", 1, 10), listed("b", 2, 20)]).version());
        let appended = listing(&[listed("a", 1, 10), listed("a2", 9, 21), listed("b", 2, 20)]);
        assert_eq!(appended.added_since(&version), Some(vec![1]));
        for other in [
            listing(&[listed("b", 2, 20)]),
            listing(&[listed("a", 1, 10), listed("b", 3, 20)]),
            listing(&[listed("a", 1, 10), listed("b", 2, 25)]),
            // A file that came later with an older time than the newest: no append can be proven.
            listing(&[listed("a", 1, 10), listed("a2", 9, 15), listed("b", 2, 20)]),
        ] {
            assert_eq!(other.added_since(&version), None);
        }
        for bad in ["", "x", "20", "99999999999999999999-1-0"] {
            assert_eq!(first.added_since(bad), None);
        }
    }
}
