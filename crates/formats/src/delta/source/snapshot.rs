//! The live files of a version ("Action Reconciliation").

use super::super::action;
use super::super::checkpoint;
use super::super::log::{LogFile, Segment};
use super::super::replay::{Decoder, Keys};
use super::super::stats::Scratch;
use crate::sync::{Error, Result, TableRoot};
use futures::{StreamExt, TryStreamExt};
use hoglake_model::table::DataFile;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Reads the live files of a segment, newest actions first, beside whoever consumes them.
pub(super) struct SnapshotReader {
    pub root: TableRoot,
    pub decoder: Arc<Decoder>,
    pub keys: Keys,
    pub sender: mpsc::Sender<Result<Vec<DataFile>>>,
}

impl SnapshotReader {
    pub async fn run(mut self, segment: Segment, sidecars: Vec<String>) {
        let sender = self.sender.clone();
        if let Err(e) = self.read(segment, sidecars).await {
            let _ = sender.send(Err(e)).await;
        }
    }

    /// Newest first: whatever an action says about a logical file overrules everything older.
    async fn read(&mut self, segment: Segment, sidecars: Vec<String>) -> Result<()> {
        let root = self.root.clone();
        let decoder = Arc::clone(&self.decoder);
        let files = segment.newest_first().into_iter().map(|file| parsed(root.clone(), Arc::clone(&decoder), file));
        let mut files = futures::stream::iter(files).buffered(8);
        while let Some(commits) = files.try_next().await? {
            for parsed in commits {
                self.commit(parsed).await?;
            }
        }
        drop(files);
        let Some(found) = segment.checkpoint else { return Ok(()) };
        let keys = Arc::new(std::mem::take(&mut self.keys));
        for part in found.parts.iter().chain(&sidecars) {
            if part.ends_with(".json") {
                self.json_checkpoint(part, &keys).await?;
            } else {
                self.parquet_checkpoint(part, &keys).await?;
            }
        }
        Ok(())
    }

    async fn commit(&mut self, parsed: ParsedCommit) -> Result<()> {
        let mut live = Vec::with_capacity(parsed.adds.len());
        let mut removed = Vec::with_capacity(parsed.removes.len());
        // Within one commit an add and a remove of one key do not both occur; of two different vectors, both stay.
        for (uri, vector) in &parsed.removes {
            removed.push(self.keys.key(uri, vector.as_ref().map(OwnedVector::borrow).as_ref()));
        }
        for (key, file) in parsed.adds {
            let key = self.keys.key(&key.0, key.1.as_ref().map(OwnedVector::borrow).as_ref());
            if self.keys.insert(key) {
                live.push(file);
            }
        }
        for key in removed {
            self.keys.insert(key);
        }
        self.send(live).await
    }

    async fn json_checkpoint(&mut self, part: &str, keys: &Keys) -> Result<()> {
        let bytes = self.root.get(part).await?;
        let place = self.root.spell(part);
        let (mut live, mut scratch) = (Vec::new(), Scratch::default());
        for (number, text) in action::lines(&place, &bytes)? {
            let Some(add) = action::parse(&place, number, text)?.add else { continue };
            if !keys.contains(keys.key(&add.path, add.deletion_vector.as_ref())) {
                live.push(self.decoder.file(&place, &add, &mut scratch, None)?);
            }
        }
        self.send(live).await
    }

    async fn parquet_checkpoint(&mut self, part: &str, keys: &Arc<Keys>) -> Result<()> {
        let place: Arc<str> = self.root.spell(part).into();
        let (batches, typed_only) = checkpoint::adds(&self.root, part).await?;
        let damaged = |e: &dyn std::fmt::Display| Error::malformed(place.as_ref(), e.to_string());
        let mut decoded = batches
            .map(|batch| {
                let (decoder, keys, place) = (Arc::clone(&self.decoder), Arc::clone(keys), Arc::clone(&place));
                async move {
                    let batch = batch.map_err(|e| Error::parquet(place.as_ref(), &e))?;
                    let work = move || checkpoint::decode(&decoder, &keys, &place, &batch, typed_only);
                    tokio::task::spawn_blocking(work)
                        .await
                        .map_err(|e| Error::malformed("checkpoint", e.to_string()))?
                }
            })
            .buffered(2);
        while let Some(batch) = decoded.next().await {
            let files = batch?;
            if !files.is_empty() && self.sender.send(Ok(files)).await.is_err() {
                return Err(damaged(&"nobody reads any longer"));
            }
        }
        Ok(())
    }

    async fn send(&self, files: Vec<DataFile>) -> Result<()> {
        if !files.is_empty() && self.sender.send(Ok(files)).await.is_err() {
            return Err(Error::malformed("snapshot", "nobody reads any longer"));
        }
        Ok(())
    }
}

/// The file actions of one commit, detached from its bytes.
struct ParsedCommit {
    adds: Vec<(FileKey, DataFile)>,
    removes: Vec<FileKey>,
}

/// What identifies a logical file: the path as written, and its deletion vector.
type FileKey = (Box<str>, Option<OwnedVector>);

/// What identifies a deletion vector.
struct OwnedVector {
    storage_type: Box<str>,
    path: Box<str>,
    offset: Option<i64>,
}

impl OwnedVector {
    fn new(d: &action::VectorDescriptor<'_>) -> Self {
        Self { storage_type: (*d.storage_type).into(), path: (*d.path_or_inline_dv).into(), offset: d.offset }
    }

    fn borrow(&self) -> action::VectorDescriptor<'_> {
        action::VectorDescriptor {
            storage_type: self.storage_type.as_ref().into(),
            path_or_inline_dv: self.path.as_ref().into(),
            offset: self.offset,
            size_in_bytes: 0,
            cardinality: 0,
        }
    }
}

/// The file actions of one log file; of the commits behind it, newest first, when it is a compaction that keeps
/// superseded actions.
async fn parsed(root: TableRoot, decoder: Arc<Decoder>, file: LogFile) -> Result<Vec<ParsedCommit>> {
    let one = async |key: String| {
        let bytes = root.get(&key).await?;
        let (root, decoder) = (root.clone(), Arc::clone(&decoder));
        // Decoding is work; it runs beside the reading of the next files.
        let parsed = tokio::task::spawn_blocking(move || parse_commit(&root, &decoder, &key, &bytes)).await;
        parsed.map_err(|e| Error::malformed("commit", e.to_string()))?
    };
    match file {
        LogFile::Commit(key) => Ok(vec![one(key).await?]),
        LogFile::Compacted(key, commits) => {
            let parsed = one(key).await?;
            if parsed.is_reconciled() {
                return Ok(vec![parsed]);
            }
            let mut all = Vec::with_capacity(commits.len());
            for key in commits {
                all.push(one(key).await?);
            }
            Ok(all)
        }
    }
}

impl ParsedCommit {
    /// Whether no logical file is spoken of twice.
    fn is_reconciled(&self) -> bool {
        let mut keys = Keys::default();
        let all = self.adds.iter().map(|(key, _)| key).chain(&self.removes);
        all.map(|(uri, vector)| keys.key(uri, vector.as_ref().map(OwnedVector::borrow).as_ref()))
            .collect::<Vec<_>>()
            .into_iter()
            .all(|key| keys.insert(key))
    }
}

fn parse_commit(root: &TableRoot, decoder: &Decoder, key: &str, bytes: &[u8]) -> Result<ParsedCommit> {
    let place = root.spell(key);
    let mut scratch = Scratch::default();
    let mut out = ParsedCommit { adds: Vec::new(), removes: Vec::new() };
    for (number, text) in action::lines(&place, bytes)? {
        let line = action::parse(&place, number, text)?;
        if let Some(add) = line.add {
            let file = decoder.file(&place, &add, &mut scratch, None)?;
            out.adds.push((((*add.path).into(), add.deletion_vector.as_ref().map(OwnedVector::new)), file));
        }
        if let Some(remove) = line.remove {
            out.removes.push(((*remove.path).into(), remove.deletion_vector.as_ref().map(OwnedVector::new)));
        }
    }
    Ok(out)
}
