//! Reading log files in blocks of whole actions, so that memory does not depend on how large a commit is.

use super::action;
use super::log::{LogFile, LogObject};
use super::replay::Keys;
use crate::sync::{Error, Result, TableRoot, fingerprint};
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt, TryStreamExt};
use hoglake_model::table::FilePath;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// What one request reads of a log file, and about what a block holds.
pub(super) const BLOCK_BYTES: u64 = 1 << 20;

/// Requests under way.
const AHEAD: usize = 8;

/// Small log files kept, in bytes: the newest ones are asked for several times in a run.
const KEPT_BYTES: usize = 16 << 20;

/// The log of one table.
#[derive(Debug)]
pub(super) struct LogReader {
    root: TableRoot,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    files: HashMap<String, Bytes>,
    bytes: usize,
}

/// Some actions of a log file, in order.
#[derive(Debug, Clone)]
pub(super) struct Block {
    /// The file, by its position among those that were asked for.
    pub file: usize,
    pub place: Arc<str>,
    /// Lines of the file before the block.
    lines_before: usize,
    pub bytes: Bytes,
    /// Whether the file ends here.
    pub last: bool,
}

impl Block {
    /// The actions as JSON texts, with the numbers of their lines.
    ///
    /// # Errors
    /// As [`action::lines`].
    pub fn lines(&self) -> Result<impl Iterator<Item = (usize, &str)>> {
        let before = self.lines_before;
        Ok(action::lines(&self.place, &self.bytes)?.into_iter().map(move |(line, text)| (before + line, text)))
    }
}

impl LogReader {
    /// The log of the table at `root`.
    pub fn new(root: TableRoot) -> Self {
        Self { root, kept: Mutex::default() }
    }

    /// A whole file.
    pub async fn whole(&self, object: &LogObject) -> Result<Bytes> {
        let found =
            |kept: &Mutex<Kept>| kept.lock().unwrap_or_else(PoisonError::into_inner).files.get(&object.key).cloned();
        if let Some(bytes) = found(&self.kept) {
            return Ok(bytes);
        }
        let bytes = self.root.get(&object.key).await?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if object.size <= BLOCK_BYTES && kept.bytes + bytes.len() <= KEPT_BYTES {
            kept.bytes += bytes.len();
            kept.files.insert(object.key.clone(), bytes.clone());
        }
        Ok(bytes)
    }

    /// What tells a file from another one of the same name; `None` when it is not there.
    pub async fn fingerprint(&self, object: &LogObject) -> Result<Option<String>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).files.get(&object.key).cloned();
        Ok(match kept {
            Some(bytes) => Some(fingerprint(bytes.len() as u64, &bytes)),
            None => self.root.beginning(&object.key).await?.map(|found| found.fingerprint()),
        })
    }

    /// Reads files in order, a few requests ahead.
    pub fn blocks(self: &Arc<Self>, objects: Vec<LogObject>) -> impl Stream<Item = Result<Block>> + Send + use<> {
        let pieces = objects.into_iter().enumerate().flat_map(|(file, object)| {
            let object = Arc::new(object);
            ranges(object.size).map(move |range| (file, Arc::clone(&object), range))
        });
        let this = Arc::clone(self);
        let mut cutter = Cutter::default();
        let pieces = futures::stream::iter(pieces).map(move |(file, object, range)| {
            let this = Arc::clone(&this);
            async move {
                let (bytes, last) = match range {
                    None => (this.whole(&object).await?, true),
                    Some(range) => {
                        let last = range.end == object.size;
                        let path = FilePath::Under(object.key.as_str().into());
                        let (expected, bytes) = (range.end - range.start, this.root.read(&path, Some(range)).await?);
                        if bytes.len() as u64 != expected {
                            let detail = "it is no longer as long as the listing says";
                            return Err(Error::malformed(this.root.spell(&object.key), detail));
                        }
                        (bytes, last)
                    }
                };
                Ok((file, this.root.spell(&object.key), bytes, last))
            }
        });
        let blocks =
            pieces.buffered(AHEAD).map_ok(move |(file, place, bytes, last)| cutter.cut(file, place, bytes, last));
        blocks.try_filter_map(|block| std::future::ready(Ok(block)))
    }

    /// Reads a part of a checkpoint that is JSON.
    pub async fn json_part(self: &Arc<Self>, key: &str) -> Result<impl Stream<Item = Result<Block>> + Send + use<>> {
        let size = self.root.size(&FilePath::Under(key.into())).await?;
        Ok(self.blocks(vec![LogObject { key: key.to_owned(), size }]))
    }

    /// The files to replay instead of one that may be a compaction: those behind it when it keeps superseded actions.
    pub async fn resolve(self: &Arc<Self>, file: LogFile) -> Result<Vec<LogObject>> {
        let LogFile { object, behind } = file;
        if behind.is_empty() {
            return Ok(vec![object]);
        }
        let mut keys = Keys::default();
        let mut blocks = std::pin::pin!(self.blocks(vec![object.clone()]));
        while let Some(block) = blocks.try_next().await? {
            for (number, text) in block.lines()? {
                let line: action::References<'_> = action::parse_as(&block.place, number, text)?;
                for reference in line.add.iter().chain(&line.remove) {
                    if !keys.insert(keys.key(&reference.path, reference.deletion_vector.as_ref())) {
                        return Ok(behind);
                    }
                }
            }
        }
        Ok(vec![object])
    }

    /// As [`resolve`](Self::resolve), of many files.
    pub async fn resolve_all(self: &Arc<Self>, files: Vec<LogFile>) -> Result<Vec<LogObject>> {
        let resolved = futures::stream::iter(files.into_iter().map(|file| self.resolve(file))).buffered(AHEAD);
        resolved.try_concat().await
    }
}

/// The requests that read an object of this size: one for the whole of a small one.
fn ranges(size: u64) -> impl Iterator<Item = Option<Range<u64>>> {
    let pieces = size.div_ceil(BLOCK_BYTES).max(1);
    (0..pieces).map(move |n| (pieces > 1).then(|| n * BLOCK_BYTES..size.min((n + 1) * BLOCK_BYTES)))
}

/// Puts pieces of files together and cuts them between actions.
#[derive(Default)]
struct Cutter {
    rest: BytesMut,
    lines: usize,
}

impl Cutter {
    fn cut(&mut self, file: usize, place: String, piece: Bytes, last: bool) -> Option<Block> {
        let bytes = if last && self.rest.is_empty() {
            piece
        } else {
            // What was cut from has no boundary left, unless what follows it was not known.
            let searched = self.rest.trim_ascii_end().len();
            self.rest.extend_from_slice(&piece);
            let end = if last { self.rest.len() } else { boundary(&self.rest, searched)? };
            self.rest.split_to(end).freeze()
        };
        let lines_before = self.lines;
        self.lines = if last { 0 } else { lines_before + memchr::memchr_iter(b'\n', &bytes).count() };
        Some(Block { file, place: place.into(), lines_before, bytes, last })
    }
}

/// Where the last action begins whose beginning lies beyond `from`: after a line break between `}` and `{`. Inside of an
/// action a comma stands there, and none breaks a line within a string.
fn boundary(bytes: &[u8], from: usize) -> Option<usize> {
    let mut end = bytes.len();
    loop {
        let at = from + memchr::memrchr(b'\n', bytes.get(from..end)?)?;
        let (before, after) = bytes.split_at(at);
        let before = before.trim_ascii_end();
        if before.last() == Some(&b'}') && after.trim_ascii_start().first() == Some(&b'{') {
            return Some(at + 1);
        }
        end = before.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoglake_model::Location;
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;
    use object_store::path::Path;

    async fn read(files: &[String]) -> Vec<Block> {
        let store = InMemory::new();
        let mut objects = Vec::new();
        for (number, text) in files.iter().enumerate() {
            let key = format!("_delta_log/{number:020}.json");
            store.put(&Path::from(format!("t/{key}")), text.clone().into()).await.unwrap();
            objects.push(LogObject { key, size: text.len() as u64 });
        }
        let root = TableRoot::with_store(Arc::new(store), Location::parse("s3://b/t").unwrap());
        Arc::new(LogReader::new(root)).blocks(objects).try_collect().await.unwrap()
    }

    #[tokio::test]
    async fn large_files_come_in_blocks_of_whole_actions_with_their_lines() {
        let line = |n: usize| format!("{{\"add\":{{\"path\":\"é{n}\",\"stats\":\"{{\\\"a\\\":{{}}}}\"}}}}\n");
        let large: String = (1..=100_000).map(line).collect();
        let spread: String =
            (1..=60_000).map(|n| format!("{{\n \"add\": [\n {{}},\n {{\n \"n\": {n}}}]\n}}\n")).collect();
        let files = [line(1), large, String::new(), spread];
        let blocks = read(&files).await;
        let (mut texts, mut next, mut spread_next) = (vec![String::new(); files.len()], 1, 1);
        for block in &blocks {
            texts[block.file].push_str(std::str::from_utf8(&block.bytes).unwrap());
            for (number, text) in block.lines().unwrap() {
                let value: serde_json::Value = serde_json::from_str(text).unwrap();
                match block.file {
                    1 => {
                        assert_eq!((number, &value["add"]["path"]), (next, &format!("é{next}").into()));
                        next += 1;
                    }
                    3 => {
                        assert_eq!((number, &value["add"][1]["n"]), (spread_next * 6 - 5, &spread_next.into()));
                        spread_next += 1;
                    }
                    _ => {}
                }
            }
        }
        assert!(texts.iter().zip(&files).all(|(text, file)| text == file));
        let of = |file| blocks.iter().filter(|b| b.file == file).map(|b| b.last).collect::<Vec<_>>();
        assert_eq!((of(0), of(2)), (vec![true], vec![true]));
        let large = of(1);
        assert!(large.len() > 3 && large.iter().rev().skip(1).all(|last| !last) && large.last() == Some(&true));
        assert!(blocks.iter().all(|b| b.bytes.len() as u64 <= 2 * BLOCK_BYTES));
    }
}
