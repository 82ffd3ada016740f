//! Which of some paths are live in a version, without decoding what else the log says about files.
//!
//! A commit may add a path that is live already. Whether that path is new to the targets is only known from the state
//! before the commits that are replayed: its log files, and the path columns of its checkpoint.

use super::super::action::{self, VectorDescriptor};
use super::super::checkpoint;
use super::super::checkpoint_names::may_name;
use super::super::log::Segment;
use super::super::log_reader::{Block, LogReader};
use super::super::replay::{Keys, Paths, path};
use super::{OpenCheckpoint, sidecar_key};
use crate::sync::{Error, OpenParquet, Result, TableRoot};
use futures::TryStreamExt;
use hoglake_model::table::FilePath;
use memchr::{memchr, memchr_iter, memmem, memrchr};
use parquet::errors::ParquetError;
use percent_encoding::percent_decode;
use std::collections::HashSet;
use std::sync::Arc;

/// More names than this are looked for by parsing, not by searching.
const SEARCHED: usize = 8;

/// The paths that commits add without removing them.
#[derive(Debug, Default)]
pub(super) struct Unannounced {
    paths: Paths,
    /// Last components of the paths.
    names: Arc<Names>,
    /// Those of the commit that is being read.
    added: Vec<FilePath>,
    removed: HashSet<FilePath>,
}

impl Unannounced {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Takes in a block of a commit.
    pub fn note(&mut self, root: &TableRoot, block: &Block) -> Result<()> {
        let place = &block.place;
        for (number, text) in block.lines()? {
            let line: action::References<'_> = action::parse_as(place, number, text)?;
            self.added.extend(line.add.map(|add| path(root, place, &add.path)).transpose()?);
            self.removed.extend(line.remove.map(|remove| path(root, place, &remove.path)).transpose()?);
        }
        if block.last {
            let removed = std::mem::take(&mut self.removed);
            for path in self.added.drain(..).filter(|path| !removed.contains(path)) {
                self.paths.insert(&path);
                Arc::make_mut(&mut self.names).insert(path.as_str().rsplit('/').next().unwrap_or_default());
            }
        }
        Ok(())
    }
}

/// The paths among `wanted` that are live in the version of `segment`, whose checkpoint is `open`.
///
/// # Memory
/// The few blocks of the log that are read ahead, then a batch of a checkpoint at a time.
pub(super) async fn live(
    root: &TableRoot,
    log: &Arc<LogReader>,
    segment: &Segment,
    open: &OpenCheckpoint,
    wanted: &Unannounced,
) -> Result<Paths> {
    let live = Paths::like(&wanted.paths);
    if wanted.is_empty() {
        return Ok(live);
    }
    let mut search = Search { root, wanted, decided: Keys::default(), live };
    let files = log.resolve_all(segment.newest_first()).await?;
    let mut blocks = std::pin::pin!(log.blocks(files));
    let mut removed = Vec::new();
    while let Some(block) = blocks.try_next().await? {
        search.block(&block, &mut removed)?;
    }
    let Some(found) = &segment.checkpoint else { return Ok(search.live) };
    let sidecars = open.actions.sidecars.iter().map(|s| sidecar_key(&s.path));
    for part in found.parts.iter().cloned().chain(sidecars) {
        if part.ends_with(".json") {
            let mut blocks = std::pin::pin!(log.json_part(&part).await?);
            while let Some(block) = blocks.try_next().await? {
                search.block(&block, &mut removed)?;
            }
            continue;
        }
        let place = root.spell(&part);
        let opened = match open.parts.get(&part) {
            Some(opened) => opened.clone(),
            None => checkpoint::open(root, &part).await?,
        };
        if !may_hold(&opened, &wanted.names).await.map_err(|e| Error::parquet(&place, &e))? {
            continue;
        }
        let mut batches = checkpoint::references(&opened).map_err(|e| Error::parquet(&place, &e))?;
        while let Some(batch) = batches.try_next().await.map_err(|e| Error::parquet(&place, &e))? {
            let may_be = |uri: &str| wanted.names.may_end(uri.as_bytes());
            checkpoint::each_reference(&batch, may_be, |uri, vector| {
                let key = search.decided.key(uri, vector);
                search.note(&place, uri, key, true)
            })?;
        }
    }
    Ok(search.live)
}

/// Whether a part of a checkpoint may have a path that ends with one of the names.
async fn may_hold(part: &OpenParquet, names: &Arc<Names>) -> Result<bool, ParquetError> {
    let Some(leaf) = checkpoint::leaf(part, "add.path") else { return Ok(false) };
    let names = Arc::clone(names);
    may_name(part, leaf, checkpoint::REFERENCE_REQUESTS, move |uri| names.may_end(uri)).await
}

struct Search<'a> {
    root: &'a TableRoot,
    wanted: &'a Unannounced,
    decided: Keys,
    live: Paths,
}

impl Search<'_> {
    /// Searches a block of a log file; what the file removes waits in `removed` for its end.
    fn block(&mut self, block: &Block, removed: &mut Vec<(Box<str>, u128)>) -> Result<()> {
        if self.wanted.names.are_mentioned(&block.bytes) {
            for (number, text) in block.lines()? {
                let line: action::References<'_> = action::parse_as(&block.place, number, text)?;
                for (reference, added) in
                    line.add.iter().map(|a| (a, true)).chain(line.remove.iter().map(|r| (r, false)))
                {
                    let vector: Option<&VectorDescriptor<'_>> = reference.deletion_vector.as_ref();
                    if !self.wanted.names.may_end(reference.path.as_bytes()) {
                        continue;
                    }
                    let key = self.decided.key(&reference.path, vector);
                    if added {
                        self.note(&block.place, &reference.path, key, true)?;
                    } else {
                        removed.push((reference.path.as_ref().into(), key));
                    }
                }
            }
        }
        if block.last {
            for (uri, key) in removed.drain(..) {
                self.note(&block.place, &uri, key, false)?;
            }
        }
        Ok(())
    }

    /// Takes the newest word about a logical file.
    fn note(&mut self, place: &str, uri: &str, key: u128, added: bool) -> Result<()> {
        let path = path(self.root, place, uri)?;
        if self.wanted.paths.contains(&path) && self.decided.insert(key) && added {
            self.live.insert(&path);
        }
        Ok(())
    }
}

/// Last components of paths, for telling quickly that a path is none of many.
#[derive(Debug, Clone, Default)]
struct Names {
    /// A bit for each of their hashes, which most others do not hit.
    bits: Vec<u64>,
    hashes: HashSet<u64>,
    /// What a log file that speaks of one of them holds.
    needles: Vec<String>,
    /// Whether that cannot be told.
    unsearchable: bool,
}

impl Names {
    fn insert(&mut self, name: &str) {
        // Nothing in these is written in two ways, neither in a URI nor in JSON.
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        self.unsearchable |= name.is_empty() || !plain || self.needles.len() == SEARCHED;
        if !self.unsearchable {
            self.needles.push(name.to_owned());
        }
        if self.bits.is_empty() {
            self.bits = vec![0; 1 << 12];
        }
        let hash = hash(name.as_bytes());
        self.hashes.insert(hash);
        let (word, bit) = self.place(hash);
        if let Some(word) = self.bits.get_mut(word) {
            *word |= bit;
        }
    }

    fn place(&self, hash: u64) -> (usize, u64) {
        let word = usize::try_from(hash >> 6).unwrap_or(0) & (self.bits.len().max(1) - 1);
        (word, 1 << (hash & 63))
    }

    /// Whether a block may speak of one of them.
    fn are_mentioned(&self, bytes: &[u8]) -> bool {
        self.unsearchable
            || has_needless_escapes(bytes)
            || self.needles.iter().any(|needle| memmem::find(bytes, needle.as_bytes()).is_some())
    }

    /// Whether a path as written in the log may end with one of them.
    fn may_end(&self, uri: &[u8]) -> bool {
        if memchr(b'%', uri).is_some() {
            let decoded = percent_decode(uri).decode_utf8_lossy();
            return self.may_be(decoded.rsplit('/').next().unwrap_or_default().as_bytes());
        }
        let name = memrchr(b'/', uri).map_or(0, |at| at + 1);
        self.may_be(&uri[name..])
    }

    fn may_be(&self, name: &[u8]) -> bool {
        let hash = hash(name);
        let (word, bit) = self.place(hash);
        self.bits.get(word).is_some_and(|word| word & bit != 0) && self.hashes.contains(&hash)
    }
}

/// Whether something is written as an escape, of a URI or of JSON, that could stand there as it is. No writer is known that
/// does so, but each may.
fn has_needless_escapes(bytes: &[u8]) -> bool {
    let is_plain = |escape: &[u8]| {
        let byte = std::str::from_utf8(escape).ok().and_then(|digits| u8::from_str_radix(digits, 16).ok());
        byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    };
    memchr_iter(b'%', bytes).any(|at| bytes.get(at + 1..at + 3).is_some_and(is_plain))
        || memmem::find_iter(bytes, b"\\u00").any(|at| bytes.get(at + 4..at + 6).is_some_and(is_plain))
}

/// A quick hash: what it takes for equal is compared again.
fn hash(bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = bytes.as_chunks::<8>();
    let tail = rest.iter().fold(bytes.len() as u64, |tail, byte| (tail << 8) ^ u64::from(*byte));
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(ODD).rotate_left(29);
    let hash = words.iter().fold(tail, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    mix(hash, hash >> 32).wrapping_mul(ODD) >> 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_however_they_are_written() {
        let mut names = Names::default();
        names.insert("part-1.parquet");
        assert!(names.are_mentioned(br#"{"add":{"path":"p=1/part-1.parquet"}}"#));
        for other in ["p=1/part-2.parquet", "p=%C3%BC%20/part-2.parquet", r"\u0001%2"] {
            assert!(!names.are_mentioned(format!(r#"{{"add":{{"path":"{other}"}}}}"#).as_bytes()), "{other}");
        }
        for needless in ["part%2D1.parquet", "p%61rt-1.parquet", r"part\u002d1.parquet", r"part\u002D1.parquet"] {
            assert!(names.are_mentioned(format!(r#"{{"add":{{"path":"{needless}"}}}}"#).as_bytes()), "{needless}");
        }
        names.insert("ü b.parquet");
        assert!(names.are_mentioned(b"anything"));
        for uri in
            ["part-1.parquet", "a/part-1.parquet", "a%2Fpart-1.parquet", "%70art-1.parquet", "x/%C3%BC%20b.parquet"]
        {
            assert!(names.may_end(uri.as_bytes()), "{uri}");
        }
        let others = (0..1000).filter(|n| names.may_end(format!("a/part-{n:05}-c000.parquet").as_bytes())).count();
        assert_eq!(others, 0);
    }
}
