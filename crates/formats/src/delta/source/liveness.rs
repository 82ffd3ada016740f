//! Which of some paths are live in a version, without decoding what else the log says about files.
//!
//! A commit may add a path that is live already. Whether that path is new to the targets is only known from the state
//! before the commits that are replayed: its log files, and the path columns of its checkpoint.

use super::super::action::{self, VectorDescriptor};
use super::super::checkpoint;
use super::super::log::{LogFile, Segment};
use super::super::replay::{Keys, path};
use super::{read_actions, sidecar_key};
use crate::sync::{Error, Result, TableRoot};
use futures::{StreamExt, TryStreamExt};
use hoglake_model::table::FilePath;
use memchr::memmem;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::HashSet;

/// Log files read ahead.
const AHEAD: usize = 16;

/// More names than this are looked for by parsing, not by searching.
const SEARCHED: usize = 8;

/// A line of which only the identity of the logical file is wanted.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    add: Option<Reference<'a>>,
    #[serde(borrow)]
    remove: Option<Reference<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference<'a> {
    #[serde(borrow)]
    path: Cow<'a, str>,
    #[serde(borrow)]
    deletion_vector: Option<VectorDescriptor<'a>>,
}

fn references<'a>(place: &str, bytes: &'a [u8], mut visit: impl FnMut(Line<'a>) -> Result<()>) -> Result<()> {
    for (number, text) in action::lines(place, bytes)? {
        let line = serde_json::from_str(text).map_err(|e| action::malformed(place, number, &e.to_string()))?;
        visit(line)?;
    }
    Ok(())
}

/// Notes the paths that a commit adds without removing them.
pub(super) fn note_unannounced(
    root: &TableRoot,
    place: &str,
    bytes: &[u8],
    into: &mut HashSet<FilePath>,
) -> Result<()> {
    let (mut added, mut removed) = (Vec::new(), HashSet::new());
    references(place, bytes, |line| {
        added.extend(line.add.map(|add| path(root, place, &add.path)).transpose()?);
        removed.extend(line.remove.map(|remove| path(root, place, &remove.path)).transpose()?);
        Ok(())
    })?;
    into.extend(added.into_iter().filter(|path| !removed.contains(path)));
    Ok(())
}

/// The paths among `wanted` that are live in the version of `segment`.
///
/// # Memory
/// The few log files that are read ahead, then a batch of a checkpoint at a time.
pub(super) async fn live(root: &TableRoot, segment: &Segment, wanted: &HashSet<FilePath>) -> Result<HashSet<FilePath>> {
    if wanted.is_empty() {
        return Ok(HashSet::new());
    }
    let mut search = Search::new(root, wanted);
    let needles = search.needles.clone();
    let files = segment.newest_first().into_iter().map(|file| read(root, &needles, file));
    let mut files = std::pin::pin!(futures::stream::iter(files).buffered(AHEAD));
    while let Some(found) = files.try_next().await? {
        for (place, bytes) in found {
            search.log_file(&place, &bytes)?;
        }
    }
    let Some(found) = &segment.checkpoint else { return Ok(search.live) };
    let mut parts = found.parts.clone();
    parts.extend(read_actions(root, found).await?.sidecars.iter().map(|s| sidecar_key(&s.path)));
    for part in parts {
        let place = root.spell(&part);
        if part.ends_with(".json") {
            search.log_file(&place, &root.get(&part).await?)?;
            continue;
        }
        let mut batches = checkpoint::references(root, &part).await?;
        while let Some(batch) = batches.try_next().await.map_err(|e| Error::parquet(&place, &e))? {
            checkpoint::each_reference(&batch, |uri, vector| search.note(&place, uri, vector, true))?;
        }
    }
    Ok(search.live)
}

/// The log files that speak of a name that is looked for; those behind a compaction that is not reconciled.
async fn read(root: &TableRoot, needles: &[String], file: LogFile) -> Result<Vec<(String, bytes::Bytes)>> {
    let (key, commits) = match file {
        LogFile::Commit(key) => (key, Vec::new()),
        LogFile::Compacted(key, commits) => (key, commits),
    };
    let mentions = |bytes: &[u8]| {
        needles.is_empty() || needles.iter().any(|needle| memmem::find(bytes, needle.as_bytes()).is_some())
    };
    let bytes = root.get(&key).await?;
    if !mentions(&bytes) {
        return Ok(Vec::new());
    }
    let place = root.spell(&key);
    let mut keys = Keys::default();
    let mut reconciled = true;
    if !commits.is_empty() {
        references(&place, &bytes, |line| {
            for reference in line.add.iter().chain(&line.remove) {
                reconciled &= keys.insert(keys.key(&reference.path, reference.deletion_vector.as_ref()));
            }
            Ok(())
        })?;
    }
    if reconciled {
        return Ok(vec![(place, bytes)]);
    }
    let mut found = Vec::with_capacity(commits.len());
    for key in commits {
        found.push((root.spell(&key), root.get(&key).await?));
    }
    Ok(found)
}

struct Search<'a> {
    root: &'a TableRoot,
    wanted: &'a HashSet<FilePath>,
    /// Last components of the paths, decoded.
    names: HashSet<&'a str>,
    /// What a log file that speaks of one of the paths holds; empty when that cannot be told.
    needles: Vec<String>,
    decided: Keys,
    live: HashSet<FilePath>,
}

impl<'a> Search<'a> {
    fn new(root: &'a TableRoot, wanted: &'a HashSet<FilePath>) -> Self {
        let names: HashSet<_> = wanted.iter().map(|p| p.as_str().rsplit('/').next().unwrap_or_default()).collect();
        // Nothing in these is written in two ways, neither in a URI nor in JSON.
        let plain = |name: &&str| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        };
        let searchable = names.len() <= SEARCHED && names.iter().all(plain);
        let needles = names.iter().filter(|_| searchable).map(|name| (*name).to_owned()).collect();
        Self { root, wanted, names, needles, decided: Keys::default(), live: HashSet::new() }
    }

    fn log_file(&mut self, place: &str, bytes: &[u8]) -> Result<()> {
        let mut removed = Vec::new();
        references(place, bytes, |line| {
            if let Some(add) = line.add {
                self.note(place, &add.path, add.deletion_vector.as_ref(), true)?;
            }
            removed.extend(line.remove);
            Ok(())
        })?;
        removed.iter().try_for_each(|r| self.note(place, &r.path, r.deletion_vector.as_ref(), false))
    }

    /// Takes the newest word about a logical file.
    fn note(&mut self, place: &str, uri: &str, vector: Option<&VectorDescriptor<'_>>, added: bool) -> Result<()> {
        let name = uri.rsplit('/').next().unwrap_or(uri);
        let name = if uri.contains('%') { percent_decode_str(uri).decode_utf8_lossy() } else { name.into() };
        if !self.names.contains(name.rsplit('/').next().unwrap_or_default()) {
            return Ok(());
        }
        let path = path(self.root, place, uri)?;
        let key = self.decided.key(uri, vector);
        if self.wanted.contains(&path) && self.decided.insert(key) && added {
            self.live.insert(path);
        }
        Ok(())
    }
}
