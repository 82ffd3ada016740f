//! Tables written by other engines, with what other readers found in them.
//!
//! The repository holds the small ones; `HOGLAKE_CORPUS` may name a folder with more.

use futures::{StreamExt, TryStreamExt};
use hoglake_formats::store::{StoreConfig, Stores};
use hoglake_formats::sync::{Changes, Error, Result, Source, TableRoot};
use hoglake_model::Location;
use hoglake_model::table::{DataFile, FilePath, TableState, VersionId};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A table of the corpus.
pub struct Case {
    pub name: String,
    pub expected: Value,
    pub root: PathBuf,
}

/// The tables of a format, by name.
pub fn cases(format: &str) -> Vec<Case> {
    let base = std::env::var_os("HOGLAKE_CORPUS").map_or_else(|| crate::judges::data("corpus"), PathBuf::from);
    let mut cases: Vec<_> = std::fs::read_dir(base.join(format))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("expected.json").exists())
        .map(|path| Case {
            name: path.file_name().unwrap().to_string_lossy().into_owned(),
            expected: serde_json::from_slice(&std::fs::read(path.join("expected.json")).unwrap()).unwrap(),
            root: path.join("table"),
        })
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(cases.len() >= 10, "the corpus is missing");
    cases
}

/// One table of the corpus.
pub fn case(format: &str, name: &str) -> Case {
    cases(format).into_iter().find(|c| c.name == name).unwrap_or_else(|| panic!("{format} {name} is not in the corpus"))
}

/// A local folder as a table root.
pub fn root(path: &Path) -> TableRoot {
    let config = StoreConfig { local_fsync: false, ..StoreConfig::local() };
    TableRoot::open(&Arc::new(Stores::new(config)), Location::parse(path.to_str().unwrap()).unwrap()).unwrap()
}

/// All live files of the head, by path.
pub async fn live(source: &dyn Source) -> Result<(Arc<TableState>, BTreeMap<FilePath, DataFile>)> {
    let head = source.head().await?;
    let snapshot = source.snapshot(&head).await?;
    let batches: Vec<Vec<DataFile>> = snapshot.files.try_collect().await?;
    let mut files = BTreeMap::new();
    for file in batches.into_iter().flatten() {
        let path = file.path.clone();
        if files.insert(path.clone(), file).is_some() {
            return Err(Error::malformed(path.as_str(), "is live twice"));
        }
    }
    Ok((head, files))
}

/// Live rows: those of the files minus those deleted.
pub async fn rows(source: &dyn Source, files: &BTreeMap<FilePath, DataFile>) -> Result<u64> {
    let mut rows = 0;
    for file in files.values() {
        let count = match file.record_count {
            Some(count) => count,
            None => source.record_count(file).await?,
        };
        let deleted = source.deleted_rows(file).await?.cardinality();
        // Made-up counts add up to more than there are numbers.
        rows = u64::saturating_add(rows, count.saturating_sub(deleted));
    }
    Ok(rows)
}

/// Replays every commit after `since` onto `files`; `None` when the history is gone.
pub async fn replay(
    source: &dyn Source,
    since: VersionId,
    mut files: BTreeMap<FilePath, DataFile>,
) -> Result<Option<BTreeMap<FilePath, DataFile>>> {
    let head = source.head().await?;
    let mut mark = head.watermark();
    mark.version = Some(since);
    mark.revision = None;
    let Changes::Replay(mut changes) = source.changes(&mark, &head).await? else { return Ok(None) };
    let mut last = None;
    while let Some(change) = changes.next().await {
        let change = change?;
        for removed in &change.files.removed {
            files.remove(&removed.path);
        }
        for file in change.files.redeleted {
            files.insert(file.path.clone(), file);
        }
        for file in change.files.added {
            let path = file.path.clone();
            if files.insert(path.clone(), file).is_some() {
                return Err(Error::malformed(path.as_str(), "is added while live"));
            }
        }
        last = Some(change.state.version.clone());
    }
    if let Some(last) = last {
        assert_eq!(last, head.version, "the last change carries the head");
    }
    Ok(Some(files))
}

/// Checks that replaying every commit after `since`, from nothing, ends at `files`: what a read of the head found.
pub async fn replay_ends_at(
    source: &dyn Source,
    since: VersionId,
    files: &BTreeMap<FilePath, DataFile>,
) -> std::result::Result<(), String> {
    let Some(replayed) = replay(source, since, BTreeMap::new()).await.map_err(|e| e.to_string())? else {
        return Ok(());
    };
    let differing = files.iter().find(|(path, file)| {
        replayed.get(*path).is_none_or(|r| {
            r.record_count != file.record_count || r.deletes != file.deletes || r.partition != file.partition
        })
    });
    if replayed.len() != files.len() || differing.is_some() {
        return Err(format!("{} files replayed, {} in the snapshot, {differing:?}", replayed.len(), files.len()));
    }
    Ok(())
}
