//! Finding the newest metadata file of a table that no catalog points to ("File System Tables").

use super::metadata::TableMetadata;
use crate::sync::{Error, Result, TableRoot};
use hoglake_model::table::TableFormat;

/// The folder of the metadata.
pub(super) const METADATA: &str = "metadata";

/// A metadata file that was found and read.
#[derive(Debug, Clone)]
pub(super) struct Located {
    /// Its key under the table's root.
    pub key: String,
    /// Its version number.
    pub version: i64,
    /// Whether it is named `v<version>.metadata.json`, as tables without a catalog are.
    pub hadoop: bool,
    /// The version that the hint names, where it was asked and names one.
    pub hint: Option<i64>,
    pub metadata: TableMetadata,
    pub warnings: Vec<String>,
}

/// The key of a version of a table without catalog.
pub(super) fn hadoop_key(version: i64) -> String {
    format!("{METADATA}/v{version}.metadata.json")
}

pub(super) const HINT: &str = "metadata/version-hint.text";

/// Finds the newest metadata file: what the hint points to and whatever follows it, or else the highest version there
/// is. Costs three requests for a table with a true hint.
///
/// # Errors
/// [`Error::NotATable`] when there is none.
pub(super) async fn newest(root: &TableRoot) -> Result<Located> {
    let hint = root.get_if_exists(HINT).await?.map(|hint| String::from_utf8_lossy(&hint).trim().to_owned());
    let found = match &hint {
        Some(text) => hinted(root, text).await?,
        None => None,
    };
    let located = match found {
        Some(found) => found,
        None => highest(root).await?,
    };
    Ok(Located { hint: hint.and_then(|text| text.parse().ok()), ..located })
}

/// What the text of the hint points to, and whatever follows it.
async fn hinted(root: &TableRoot, text: &str) -> Result<Option<Located>> {
    if let Ok(version) = text.parse::<i64>()
        && let Some(found) = follow(root, version).await?
    {
        return Ok(Some(found));
    }
    // Some writers put the name of the file there.
    let key = format!("{METADATA}/{}.metadata.json", text.trim_end_matches(".metadata.json"));
    if version_of(&key).is_some()
        && let Some(bytes) = root.get_if_exists(&key).await?
    {
        return read(root, key, &bytes).map(Some);
    }
    Ok(None)
}

/// The highest version that the folder lists.
async fn highest(root: &TableRoot) -> Result<Located> {
    let mut found: Vec<_> = root
        .list(METADATA, None)
        .await?
        .into_iter()
        .filter(|object| {
            object.key.rsplit_once('/').is_some_and(|(folder, name)| folder == METADATA && is_metadata(name))
        })
        // Files of other names come last; somebody exported them.
        .map(|object| (version_of(&object.key).unwrap_or(-1), object.modified_ms, object.key))
        .collect();
    found.sort();
    let Some((version, _, key)) = found.pop() else {
        return Err(Error::NotATable {
            format: TableFormat::Iceberg,
            place: root.location().to_string(),
            detail: "its metadata folder holds no *.metadata.json".to_owned(),
        });
    };
    let twin = found.last().filter(|(other, ..)| *other == version).map(|(.., key)| key.clone());
    let bytes = root.get(&key).await?;
    let mut located = read(root, key, &bytes)?;
    if let Some(twin) = twin {
        // Two writers without a catalog in between: the later one is what readers see.
        let other = TableMetadata::parse(&root.spell(&twin), &root.get(&twin).await?)?;
        let warning = format!("{} and {twin} are of one version; the one updated last was read", located.key);
        if other.last_updated_ms > located.metadata.last_updated_ms {
            located = Located { key: twin, metadata: other, ..located };
        }
        located.warnings.push(warning);
    }
    Ok(located)
}

/// Reads one metadata file.
pub(super) fn read(root: &TableRoot, key: String, bytes: &[u8]) -> Result<Located> {
    let metadata = TableMetadata::parse(&root.spell(&key), bytes)?;
    let version = version_of(&key).unwrap_or(0);
    let hadoop = key.rsplit('/').next().is_some_and(|name| name.starts_with('v'));
    Ok(Located { key, version, hadoop, hint: None, metadata, warnings: Vec::new() })
}

/// The version that the hint names, and every one after it: the hint is written last and may be stale.
async fn follow(root: &TableRoot, hinted: i64) -> Result<Option<Located>> {
    let mut newest = None;
    let mut version = hinted;
    loop {
        let mut found = root.get_if_exists(&hadoop_key(version)).await?.map(|bytes| (hadoop_key(version), bytes));
        if found.is_none()
            && (newest.is_none() || newest.as_ref().is_some_and(|(key, _): &(String, _)| key.contains(".gz")))
        {
            for key in
                [format!("{METADATA}/v{version}.gz.metadata.json"), format!("{METADATA}/v{version}.metadata.json.gz")]
            {
                if let Some(bytes) = root.get_if_exists(&key).await? {
                    found = Some((key, bytes));
                    break;
                }
            }
        }
        match found {
            Some(found) => newest = Some(found),
            None => break,
        }
        version += 1;
    }
    newest.map(|(key, bytes)| read(root, key, &bytes)).transpose()
}

fn is_metadata(name: &str) -> bool {
    name.ends_with(".metadata.json") || name.ends_with(".metadata.json.gz")
}

/// The version in a metadata file's name: `v3`, `00003-uuid`, with `.gz` on either side.
pub(super) fn version_of(key: &str) -> Option<i64> {
    let (folder, name) = key.rsplit_once('/').unwrap_or(("", key));
    if folder != METADATA && !folder.is_empty() && !folder.ends_with("/metadata") {
        return None;
    }
    let stem = name.strip_suffix(".gz").unwrap_or(name).strip_suffix(".metadata.json")?;
    let stem = stem.strip_suffix(".gz").unwrap_or(stem);
    let digits = match stem.strip_prefix('v') {
        Some(version) => version,
        None => stem.split_once('-').map_or(stem, |(version, _)| version),
    };
    let number: Option<i64> = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
    // A version that nothing can follow is none.
    number.filter(|n| *n < i64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_naming_is_understood() {
        for (name, version) in [
            ("metadata/v1.metadata.json", Some(1)),
            ("metadata/00003-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json", Some(3)),
            ("metadata/v1701803553322000000.metadata.json", Some(1_701_803_553_322_000_000)),
            ("metadata/v2.gz.metadata.json", Some(2)),
            ("metadata/v2.metadata.json.gz", Some(2)),
            ("metadata/00002-legacy-bare-dv.metadata.json", Some(2)),
            ("metadata/snap-1-2.avro", None),
            ("metadata/version-hint.text", None),
            ("metadata/vx.metadata.json", None),
            ("metadata/old/v1.metadata.json", None),
        ] {
            assert_eq!(version_of(name), version, "{name}");
        }
    }
}
