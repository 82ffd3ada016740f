//! What the log calls the live files of a version, letter by letter: a `remove` ends what an `add` has called the same.
//!
//! Readers differ in what they take for the same: some compare the text of a path, some what it decodes to. A name is live
//! here as long as its text is, so that nothing stays live for any reader.

use super::super::action;
use super::super::checkpoint;
use super::super::log::Segment;
use super::super::log_reader::{Block, LogReader};
use super::super::replay::{KeyHasher, path};
use super::super::write::{Descriptor, uri};
use super::open_checkpoint;
use crate::sync::{Error, Result, TableRoot};
use futures::{Stream, TryStreamExt};
use hoglake_model::table::FilePath;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::mpsc;

/// A live file as the log calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::delta) struct Name {
    /// The path as it is written.
    pub uri: Box<str>,
    /// The deletion vector, which is part of the name.
    pub vector: Option<Box<Descriptor>>,
    /// Whether something newer has removed the file under another spelling: it is live for some readers only.
    pub hidden: bool,
}

impl Name {
    /// The name that hoglake gives a file without deletes.
    pub fn own(path: &FilePath) -> Self {
        Self { uri: uri(path).into(), vector: None, hidden: false }
    }
}

/// Streams the names of the live files of a segment, newest first.
///
/// # Memory
/// 32 bytes for every file action after the checkpoint, a block or a batch of names.
pub(in crate::delta) fn names(
    root: &TableRoot,
    segment: &Segment,
) -> impl Stream<Item = Result<Vec<(FilePath, Name)>>> + Send + use<> {
    let (sender, receiver) = mpsc::channel(2);
    let reader = Reader {
        root: root.clone(),
        sender,
        hasher: KeyHasher::default(),
        texts: HashSet::new(),
        gone: HashSet::new(),
    };
    let segment = segment.clone();
    // Dropping the stream ends it.
    tokio::spawn(async move {
        let sender = reader.sender.clone();
        if let Err(e) = reader.run(&segment).await {
            let _ = sender.send(Err(e)).await;
        }
    });
    futures::stream::unfold(receiver, |mut receiver| async { receiver.recv().await.map(|names| (names, receiver)) })
}

struct Reader {
    root: TableRoot,
    sender: mpsc::Sender<Result<Vec<(FilePath, Name)>>>,
    hasher: KeyHasher,
    /// Texts about which something newer has decided.
    texts: HashSet<u128>,
    /// Files that something newer has removed, whatever the spelling.
    gone: HashSet<u128>,
}

impl Reader {
    async fn run(mut self, segment: &Segment) -> Result<()> {
        let log = Arc::new(LogReader::new(self.root.clone()));
        // Compactions may have taken two spellings for one.
        let commits = segment.commits.iter().rev().map(|commit| commit.object.clone()).collect();
        self.blocks(log.blocks(commits)).await?;
        let open = open_checkpoint(&self.root, segment).await?;
        let parts = segment.checkpoint.iter().flat_map(|checkpoint| checkpoint.parts.iter().cloned());
        for part in parts.chain(open.sidecars()) {
            if part.ends_with(".json") {
                self.blocks(log.json_part(&part).await?).await?;
                continue;
            }
            let place = self.root.spell(&part);
            let opened = match open.parts.get(&part) {
                Some(opened) => opened.clone(),
                None => checkpoint::open(&self.root, &part).await?,
            };
            let mut batches = checkpoint::references(&opened).map_err(|e| Error::parquet(&place, &e))?;
            while let Some(batch) = batches.try_next().await.map_err(|e| Error::parquet(&place, &e))? {
                let mut found = Vec::with_capacity(batch.num_rows());
                checkpoint::each_reference(
                    &batch,
                    |_| true,
                    |uri, vector| {
                        found.extend(self.note(&place, uri, vector)?);
                        Ok(())
                    },
                )?;
                self.send(found).await?;
            }
        }
        Ok(())
    }

    async fn blocks(&mut self, blocks: impl Stream<Item = Result<Block>>) -> Result<()> {
        let mut removed = Vec::new();
        let mut blocks = std::pin::pin!(blocks);
        while let Some(block) = blocks.try_next().await? {
            let mut found = Vec::new();
            for (number, text) in block.lines()? {
                let line: action::References<'_> = action::parse_as(&block.place, number, text)?;
                if let Some(add) = &line.add {
                    found.extend(self.note(&block.place, &add.path, add.deletion_vector.as_ref())?);
                }
                if let Some(remove) = &line.remove {
                    let vector = remove.deletion_vector.as_ref();
                    removed.push((self.hasher.text(&remove.path, vector), self.hasher.key(&remove.path, vector)));
                }
            }
            if block.last {
                for (text, key) in removed.drain(..) {
                    self.texts.insert(text);
                    self.gone.insert(key);
                }
            }
            self.send(found).await?;
        }
        Ok(())
    }

    /// Takes the newest word about a name.
    fn note(
        &mut self,
        place: &str,
        uri: &str,
        vector: Option<&action::VectorDescriptor<'_>>,
    ) -> Result<Option<(FilePath, Name)>> {
        if !self.texts.insert(self.hasher.text(uri, vector)) {
            return Ok(None);
        }
        let hidden = !self.gone.is_empty() && self.gone.contains(&self.hasher.key(uri, vector));
        let vector = vector.map(Descriptor::written).map(Box::new);
        Ok(Some((path(&self.root, place, uri)?, Name { uri: uri.into(), vector, hidden })))
    }

    async fn send(&self, names: Vec<(FilePath, Name)>) -> Result<()> {
        if !names.is_empty() && self.sender.send(Ok(names)).await.is_err() {
            return Err(Error::malformed("log", "nobody reads any longer"));
        }
        Ok(())
    }
}
