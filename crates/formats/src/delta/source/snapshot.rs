//! The live files of a version ("Action Reconciliation").

use super::super::action;
use super::super::checkpoint;
use super::super::log::{LogObject, Segment};
use super::super::log_reader::{Block, LogReader};
use super::super::replay::{Decoder, KeyHasher, Keys};
use super::super::stats::Scratch;
use crate::sync::{Error, Result, TableRoot};
use futures::{Stream, StreamExt, TryStreamExt};
use hoglake_model::table::DataFile;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Blocks and batches decoded at the same time.
const DECODING: usize = 2;

/// Reads the live files of a segment, newest actions first, beside whoever consumes them.
pub(super) struct SnapshotReader {
    pub root: TableRoot,
    pub log: Arc<LogReader>,
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
        let files = self.log.resolve_all(segment.newest_first()).await?;
        let mut removed = Vec::new();
        let mut actions = std::pin::pin!(self.actions(files));
        while let Some(found) = actions.try_next().await? {
            // Within one commit an add and a remove of one key do not both occur; of two different vectors, both stay.
            removed.extend(found.removes);
            let adds = found.adds.into_iter().filter(|(key, _)| self.keys.insert(*key));
            let live = adds.map(|(_, file)| file).collect();
            self.send(live).await?;
            if found.last {
                for key in removed.drain(..) {
                    self.keys.insert(key);
                }
            }
        }
        let Some(found) = segment.checkpoint else { return Ok(()) };
        for part in found.parts.iter().chain(&sidecars) {
            if part.ends_with(".json") {
                self.json_checkpoint(part).await?;
            } else {
                let keys = Arc::new(std::mem::take(&mut self.keys));
                let read = self.parquet_checkpoint(part, &keys).await;
                self.keys = Arc::into_inner(keys).ok_or_else(gone)?;
                read?;
            }
        }
        Ok(())
    }

    /// Decodes log files beside the reading of what follows.
    fn actions(&self, files: Vec<LogObject>) -> impl Stream<Item = Result<Actions>> + Send + use<> {
        self.decoded(self.log.blocks(files))
    }

    fn decoded<S: Stream<Item = Result<Block>> + Send>(
        &self,
        blocks: S,
    ) -> impl Stream<Item = Result<Actions>> + Send + use<S> {
        let (decoder, hasher) = (Arc::clone(&self.decoder), self.keys.hasher());
        let decoded = blocks.map(move |block| {
            let (decoder, hasher) = (Arc::clone(&decoder), hasher.clone());
            async move {
                let block = block?;
                let decoded = tokio::task::spawn_blocking(move || decode(&decoder, &hasher, &block)).await;
                decoded.map_err(|e| Error::malformed("commit", e.to_string()))?
            }
        });
        decoded.buffered(DECODING)
    }

    async fn json_checkpoint(&self, part: &str) -> Result<()> {
        let blocks = self.log.json_part(part).await?;
        let mut actions = std::pin::pin!(self.decoded(blocks));
        while let Some(found) = actions.try_next().await? {
            let adds = found.adds.into_iter().filter(|(key, _)| !self.keys.contains(*key));
            self.send(adds.map(|(_, file)| file).collect()).await?;
        }
        Ok(())
    }

    async fn parquet_checkpoint(&self, part: &str, keys: &Arc<Keys>) -> Result<()> {
        let place: Arc<str> = self.root.spell(part).into();
        let (batches, typed_only) = checkpoint::adds(&self.root, part, false).await?;
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
            .buffered(DECODING);
        while let Some(files) = decoded.try_next().await? {
            self.send(files).await?;
        }
        Ok(())
    }

    async fn send(&self, files: Vec<DataFile>) -> Result<()> {
        if !files.is_empty() && self.sender.send(Ok(files)).await.is_err() {
            return Err(gone());
        }
        Ok(())
    }
}

fn gone() -> Error {
    Error::malformed("snapshot", "nobody reads any longer")
}

/// The file actions of a block, detached from its bytes.
struct Actions {
    adds: Vec<(u128, DataFile)>,
    removes: Vec<u128>,
    /// Whether the log file ends with them.
    last: bool,
}

fn decode(decoder: &Decoder, hasher: &KeyHasher, block: &Block) -> Result<Actions> {
    let mut scratch = Scratch::default();
    let mut out = Actions { adds: Vec::new(), removes: Vec::new(), last: block.last };
    for (number, text) in block.lines()? {
        let line = action::parse(&block.place, number, text)?;
        if let Some(add) = line.add {
            let file = decoder.file(&block.place, &add, &mut scratch, None)?;
            out.adds.push((hasher.key(&add.path, add.deletion_vector.as_ref()), file));
        }
        if let Some(remove) = line.remove {
            out.removes.push(hasher.key(&remove.path, remove.deletion_vector.as_ref()));
        }
    }
    Ok(out)
}
