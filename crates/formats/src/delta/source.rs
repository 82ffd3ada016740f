//! A Delta table as a [`Source`].

use super::action::{self, CommitInfo, Line, Metadata, Protocol};
use super::checkpoint::{self, Actions};
use super::log::{self, Checkpoint, CommitFile, Listing, Segment};
use super::replay::{Decoder, Keys, path};
use super::schema::Mapping;
use super::stats::Scratch;
use super::{LOG, protocol};
use crate::deletion_vector::DeletionVector;
use crate::sync::{BoxFuture, Changes, Error, Result, Snapshot, Source, TableRoot};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use hoglake_model::table::{
    Change, DataFile, FileDelta, Operation, RemovedFile, RowDeletes, TableFormat, TableState, VectorContainer, Version,
    VersionId, Watermark,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OnceCell, mpsc};

/// Batches decoded ahead of the reader.
const AHEAD: usize = 4;

/// Commit files kept between planning and replay, in bytes.
const KEPT_BYTES: usize = 32 << 20;

/// A Delta table that is read.
///
/// # Memory
/// A row group of a checkpoint or a commit file at a time, and 16 bytes per file action after the checkpoint.
#[derive(Debug)]
pub struct DeltaSource {
    root: TableRoot,
    /// A listing that somebody else has made.
    listed: Mutex<Option<(Segment, Listing)>>,
    head: OnceCell<Head>,
}

/// Protocol and metadata of a version.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    pub protocol: Protocol,
    pub metadata: Metadata,
}

/// Finds protocol and metadata of a segment, newest first.
///
/// # Errors
/// [`Error::Malformed`] for a log without them.
pub(super) async fn definition_of(root: &TableRoot, segment: &Segment) -> Result<Definition> {
    let (definition, ..) = define(root, segment).await?;
    Ok(definition)
}

/// `schemaString` of the newest version of the table at `root`.
///
/// # Errors
/// As [`log::newest`] and [`Error::Malformed`] for a log without a definition.
pub async fn schema_text(root: &TableRoot) -> Result<String> {
    let (segment, _) = log::newest(root).await?;
    Ok(definition_of(root, &segment).await?.metadata.schema_string)
}

async fn define(root: &TableRoot, segment: &Segment) -> Result<(Definition, Option<CommitInfo>, Vec<String>)> {
    let mut header = Header::default();
    let mut files = std::pin::pin!(root.get_all(segment.newest_first()));
    while let Some((key, bytes)) = files.try_next().await? {
        let found = read_header(&root.spell(&key), &bytes)?;
        header.protocol = header.protocol.or(found.protocol);
        header.metadata = header.metadata.or(found.metadata);
        // Only the newest commit's own time counts.
        header.info = header.info.or(Some(found.info.unwrap_or_default()));
        if header.protocol.is_some() && header.metadata.is_some() {
            break;
        }
    }
    let mut actions = Actions::default();
    if let Some(found) = &segment.checkpoint {
        actions = read_actions(root, found).await?;
    }
    let place = root.spell(&log::commit_key(segment.version));
    let missing = |what: &str| Error::malformed(&place, format!("the log holds no {what} action"));
    let protocol = header.protocol.or(actions.protocol).ok_or_else(|| missing("protocol"))?;
    protocol::check(&place, &protocol)?;
    let metadata = header.metadata.or(actions.metadata).ok_or_else(|| missing("metaData"))?;
    let sidecars = actions.sidecars.iter().map(|s| sidecar_key(&s.path)).collect();
    Ok((Definition { protocol, metadata }, header.info, sidecars))
}

#[derive(Debug)]
struct Head {
    segment: Segment,
    listing: Listing,
    protocol: Protocol,
    metadata: Metadata,
    mapping: Mapping,
    /// The sidecars of the segment's checkpoint.
    sidecars: Vec<String>,
    state: Arc<TableState>,
}

/// What a commit says besides its file actions.
#[derive(Debug, Default)]
struct Header {
    protocol: Option<Protocol>,
    metadata: Option<Metadata>,
    info: Option<CommitInfo>,
}

impl DeltaSource {
    /// The table at `root`; nothing is read yet.
    pub fn new(root: TableRoot) -> Self {
        Self { root, listed: Mutex::default(), head: OnceCell::new() }
    }

    /// The table at `root` in the version of a segment that is known already.
    pub(super) fn of_segment(root: TableRoot, segment: Segment, listing: Listing) -> Self {
        Self { root, listed: Mutex::new(Some((segment, listing))), head: OnceCell::new() }
    }

    async fn loaded(&self) -> Result<&Head> {
        self.head.get_or_try_init(|| self.read_head()).await
    }

    async fn read_head(&self) -> Result<Head> {
        let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (segment, listing) = match listed {
            Some(listed) => listed,
            None => log::newest(&self.root).await?,
        };
        let (Definition { protocol, metadata }, info, sidecars) = define(&self.root, &segment).await?;
        let place = self.root.spell(&log::commit_key(segment.version));
        let modified = segment.commits.last().map(|c| c.modified_ms);
        let modified = modified.or(segment.checkpoint.as_ref().map(|c| c.modified_ms)).unwrap_or_default();
        let version = version(segment.version, &metadata, info.as_ref(), modified);
        let root = self.root.location().to_string();
        let (state, mapping) = protocol::state(&place, root, version, &protocol, &metadata)?;
        Ok(Head { segment, listing, protocol, metadata, mapping, sidecars, state: Arc::new(state) })
    }

    fn decoder(&self, state: &TableState, mapping: Mapping) -> Arc<Decoder> {
        Arc::new(Decoder::new(self.root.clone(), state, mapping))
    }

    async fn plan_changes(&self, since: Option<VersionId>) -> Result<Changes<'_>> {
        let head = self.loaded().await?;
        let gone = |reason: String| Ok(Changes::HistoryGone { reason });
        let Some(since) = since.and_then(|v| v.0.parse::<i64>().ok()) else {
            return gone("the watermark names no Delta version".to_owned());
        };
        let newest = head.segment.version;
        if since > newest {
            return gone(format!("the watermark is version {since}, the table is at {newest}"));
        }
        let listed = head.listing.commits.keys().next().copied();
        let earlier = if listed.is_none_or(|first| first > since + 1) {
            Some(Listing::read(&self.root, Some(since + 1)).await?)
        } else {
            None
        };
        let commits = &earlier.as_ref().unwrap_or(&head.listing).commits;
        let mut replay = Vec::new();
        for version in since + 1..=newest {
            match commits.get(&version) {
                Some(commit) => replay.push(commit.clone()),
                None => return gone(format!("commit {version} is no longer in the log")),
            }
        }
        // A schema that changed on the way has to be known as it was before; most backlogs change none.
        let mut kept: HashMap<i64, Bytes> = HashMap::new();
        let mut kept_bytes = 0;
        let (mut protocol_changes, mut metadata_changes) = (false, false);
        {
            let mut files = std::pin::pin!(self.root.get_all(replay.iter().map(|c| c.key.clone()).collect::<Vec<_>>()));
            let mut versions = replay.iter();
            while let Some((key, bytes)) = files.try_next().await? {
                let header = read_header(&self.root.spell(&key), &bytes)?;
                protocol_changes |= header.protocol.is_some();
                metadata_changes |= header.metadata.is_some();
                kept_bytes += bytes.len();
                if let Some(commit) = versions.next()
                    && kept_bytes <= KEPT_BYTES
                {
                    kept.insert(commit.version, bytes);
                }
            }
        }
        let before = if protocol_changes || metadata_changes {
            match self.definition_at(since, head).await? {
                Some(found) => found,
                None => return gone(format!("the schema of version {since} is no longer in the log")),
            }
        } else {
            (head.protocol.clone(), head.metadata.clone())
        };
        let replay = Replay { source: self, commits: replay.into(), kept, protocol: before.0, metadata: before.1 };
        Ok(Changes::Replay(futures::stream::try_unfold(replay, Replay::next).boxed()))
    }

    /// Protocol and metadata as of `version`, looked for backwards; `None` when the log no longer goes back.
    async fn definition_at(&self, version: i64, head: &Head) -> Result<Option<(Protocol, Metadata)>> {
        let full;
        let listing = if head.listing.checkpoint(version).is_some() || head.listing.commits.contains_key(&0) {
            &head.listing
        } else {
            full = Listing::read(&self.root, None).await?;
            &full
        };
        let Ok(segment) = listing.segment(version) else { return Ok(None) };
        let mut header = Header::default();
        let mut files = std::pin::pin!(self.root.get_all(segment.newest_first()));
        while let Some((key, bytes)) = files.try_next().await? {
            let found = read_header(&self.root.spell(&key), &bytes)?;
            header.protocol = header.protocol.or(found.protocol);
            header.metadata = header.metadata.or(found.metadata);
        }
        if let Some(found) = segment.checkpoint.filter(|_| header.protocol.is_none() || header.metadata.is_none()) {
            let actions = read_actions(&self.root, &found).await?;
            header.protocol = header.protocol.or(actions.protocol);
            header.metadata = header.metadata.or(actions.metadata);
        }
        Ok(header.protocol.zip(header.metadata))
    }
}

impl Source for DeltaSource {
    fn format(&self) -> TableFormat {
        TableFormat::Delta
    }

    fn head(&self) -> BoxFuture<'_, Result<Arc<TableState>>> {
        Box::pin(async { Ok(Arc::clone(&self.loaded().await?.state)) })
    }

    fn snapshot(&self, _: &Arc<TableState>) -> BoxFuture<'_, Result<Snapshot<'_>>> {
        Box::pin(async move {
            let head = self.loaded().await?;
            let (sender, receiver) = mpsc::channel(AHEAD);
            let reader = SnapshotReader {
                root: self.root.clone(),
                decoder: self.decoder(&head.state, head.mapping),
                keys: Keys::default(),
                sender,
            };
            let (segment, sidecars) = (head.segment.clone(), head.sidecars.clone());
            // Reading and decoding run beside the target's writing; dropping the stream ends them.
            tokio::spawn(reader.run(segment, sidecars));
            let files = futures::stream::unfold(receiver, |mut receiver| async {
                receiver.recv().await.map(|batch| (batch, receiver))
            });
            Ok(Snapshot { delete_kinds: Vec::new(), files: files.boxed() })
        })
    }

    fn changes(&self, since: &Watermark, _: &Arc<TableState>) -> BoxFuture<'_, Result<Changes<'_>>> {
        let since = since.version.clone();
        Box::pin(self.plan_changes(since))
    }

    fn deleted_rows<'a>(&'a self, file: &'a DataFile) -> BoxFuture<'a, Result<DeletionVector>> {
        Box::pin(async move {
            let mut all = DeletionVector::default();
            for deletes in &file.deletes {
                let RowDeletes::Vector(vector) = deletes else { continue };
                let bad = |e: &dyn std::fmt::Display| Error::malformed(file.path.as_str(), e.to_string());
                let found = match &vector.container {
                    VectorContainer::Inline(bytes) => DeletionVector::decode_unframed(bytes).map_err(|e| bad(&e))?,
                    VectorContainer::File { path, offset, length } => {
                        let length = length.unwrap_or_default();
                        let end = offset.checked_add(length).and_then(|n| n.checked_add(8));
                        let end = end.ok_or_else(|| bad(&"the deletion vector ends beyond any file"))?;
                        let bytes = self.root.read(path, Some(*offset..end)).await?;
                        DeletionVector::decode(&bytes).map_err(|e| bad(&e))?
                    }
                };
                if vector.cardinality.is_some_and(|n| n != found.cardinality()) {
                    return Err(bad(&"the deletion vector's cardinality disagrees with the log"));
                }
                all.extend(&found);
            }
            Ok(all)
        })
    }

    fn record_count<'a>(&'a self, file: &'a DataFile) -> BoxFuture<'a, Result<u64>> {
        Box::pin(crate::sync::footer_record_count(&self.root, file))
    }
}

/// The time of a version: its in-commit timestamp where the table keeps them ("In-Commit Timestamps"), else the time of
/// the commit file, which is also what XTable compares with.
fn version(number: i64, metadata: &Metadata, info: Option<&CommitInfo>, modified_ms: i64) -> Version {
    let enabled = protocol::property(metadata, "delta.enableInCommitTimestamps") == Some("true");
    let timestamp_ms = info.and_then(|i| i.in_commit_timestamp).filter(|_| enabled).unwrap_or(modified_ms);
    Version { id: VersionId(number.to_string()), revision: None, timestamp_ms }
}

fn sidecar_key(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    format!("{LOG}/_sidecars/{name}")
}

/// Reads the actions of a commit that are no file actions, without parsing the others.
fn read_header(place: &str, bytes: &[u8]) -> Result<Header> {
    let mut header = Header::default();
    for (number, text) in action::lines(place, bytes)? {
        let start = text.get(..16).unwrap_or(text);
        if start.starts_with("{\"add\"") || start.starts_with("{\"remove\"") || start.starts_with("{\"cdc\"") {
            continue;
        }
        let line = action::parse(place, number, text)?;
        header.protocol = line.protocol.or(header.protocol);
        header.metadata = line.metadata.or(header.metadata);
        header.info = line.commit_info.or(header.info);
    }
    Ok(header)
}

async fn read_actions(root: &TableRoot, found: &Checkpoint) -> Result<Actions> {
    let mut actions = Actions::default();
    for part in &found.parts {
        if part.ends_with(".json") {
            let bytes = root.get(part).await?;
            let place = root.spell(part);
            for (number, text) in action::lines(&place, &bytes)? {
                let line = action::parse(&place, number, text)?;
                actions.protocol = line.protocol.or(actions.protocol);
                actions.metadata = line.metadata.or(actions.metadata);
                actions.sidecars.extend(line.sidecar);
            }
        } else {
            checkpoint::actions(root, part, &mut actions).await?;
        }
    }
    Ok(actions)
}

struct SnapshotReader {
    root: TableRoot,
    decoder: Arc<Decoder>,
    keys: Keys,
    sender: mpsc::Sender<Result<Vec<DataFile>>>,
}

impl SnapshotReader {
    async fn run(mut self, segment: Segment, sidecars: Vec<String>) {
        let sender = self.sender.clone();
        if let Err(e) = self.read(segment, sidecars).await {
            let _ = sender.send(Err(e)).await;
        }
    }

    /// Newest first: whatever an action says about a logical file overrules everything older.
    async fn read(&mut self, segment: Segment, sidecars: Vec<String>) -> Result<()> {
        let root = self.root.clone();
        let decoder = Arc::clone(&self.decoder);
        let files = segment.newest_first().into_iter().map(|key| {
            let (root, decoder) = (root.clone(), Arc::clone(&decoder));
            async move {
                let bytes = root.get(&key).await?;
                // Decoding is work; it runs beside the reading of the next files.
                let parsed = tokio::task::spawn_blocking(move || parse_commit(&root, &decoder, &key, &bytes)).await;
                parsed.map_err(|e| Error::malformed("commit", e.to_string()))?
            }
        });
        let mut files = futures::stream::iter(files).buffered(8);
        while let Some(parsed) = files.try_next().await? {
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
            self.send(live).await?;
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
                    let batch = batch.map_err(|e| Error::malformed(place.as_ref(), e.to_string()))?;
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

/// The commits after a watermark, one after another.
struct Replay<'a> {
    source: &'a DeltaSource,
    commits: std::collections::VecDeque<CommitFile>,
    kept: HashMap<i64, Bytes>,
    protocol: Protocol,
    metadata: Metadata,
}

impl Replay<'_> {
    async fn next(mut self) -> Result<Option<(Change, Self)>> {
        let Some(commit) = self.commits.pop_front() else { return Ok(None) };
        let bytes = match self.kept.remove(&commit.version) {
            Some(bytes) => bytes,
            None => self.source.root.get(&commit.key).await?,
        };
        let place = self.source.root.spell(&commit.key);
        let mut header = Header::default();
        let mut lines = Vec::new();
        for (number, text) in action::lines(&place, &bytes)? {
            let mut line = action::parse(&place, number, text)?;
            header.protocol = line.protocol.take().or(header.protocol);
            header.metadata = line.metadata.take().or(header.metadata);
            header.info = line.commit_info.take().or(header.info);
            lines.push(line);
        }
        if let Some(protocol) = header.protocol {
            self.protocol = protocol;
        }
        if let Some(metadata) = header.metadata {
            self.metadata = metadata;
        }
        let version = version(commit.version, &self.metadata, header.info.as_ref(), commit.modified_ms);
        let root = self.source.root.location().to_string();
        let (state, mapping) = protocol::state(&place, root, version, &self.protocol, &self.metadata)?;
        let decoder = Decoder::new(self.source.root.clone(), &state, mapping);
        let (files, operation) = classify(&self.source.root, &decoder, &place, &lines)?;
        let change = Change { state: Arc::new(state), operation, files };
        Ok(Some((change, self)))
    }
}

/// Sorts the file actions of one commit into what becomes live, what stays live otherwise, and what goes.
///
/// An add and a remove of one path is a change of its deletion vector or of its metadata: the file stays live. An add
/// without data change and without any remove beside it restates a file that is live already ("it is legal to commit an
/// existing `path` and `dvId` combination again").
fn classify(root: &TableRoot, decoder: &Decoder, place: &str, lines: &[Line<'_>]) -> Result<(FileDelta, Operation)> {
    let mut removed = HashMap::new();
    let mut data_change = false;
    for remove in lines.iter().filter_map(|l| l.remove.as_ref()) {
        data_change |= remove.data_change;
        removed.insert(path(root, place, &remove.path)?, remove.size);
    }
    let nothing_removed = removed.is_empty();
    let mut files = FileDelta::default();
    let mut scratch = Scratch::default();
    let mut added = std::collections::HashSet::new();
    for add in lines.iter().filter_map(|l| l.add.as_ref()) {
        let file = decoder.file(place, add, &mut scratch, None)?;
        if !added.insert(file.path.clone()) {
            return Err(Error::malformed(place, format!("{} is added twice in one commit", add.path)));
        }
        data_change |= add.data_change;
        let stays = removed.remove(&file.path).is_some() || (nothing_removed && !add.data_change);
        if stays { files.redeleted.push(file) } else { files.added.push(file) }
    }
    let gone = removed.into_iter().map(|(path, size)| RemovedFile {
        path,
        partition: None,
        size_bytes: size.and_then(|n| u64::try_from(n).ok()),
    });
    files.removed.extend(gone);
    files.removed.sort_by(|a, b| a.path.cmp(&b.path));
    let operation = if data_change || files.is_empty() { files.operation() } else { Operation::Replace };
    Ok((files, operation))
}
