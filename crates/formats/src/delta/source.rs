//! A Delta table as a [`Source`].

mod changes;
mod liveness;
mod names;
mod snapshot;

use super::action::{self, CommitInfo, Metadata, Protocol};
use super::checkpoint::{self, Actions};
use super::log::{self, Checkpoint, CommitFile, Listing, LogFile, Segment};
use super::log_reader::{Block, LogReader};
use super::replay::{Decoder, Keys, Paths};
use super::schema::Mapping;
use super::{LOG, protocol};
use crate::deletion_vector::DeletionVector;
use crate::sync::{BoxFuture, Changes, Error, OpenParquet, Result, Snapshot, Source, TableRoot, Versions};
use changes::Replay;
use futures::{StreamExt, TryStreamExt};
use hoglake_model::table::{
    DataFile, RowDeletes, TableFormat, TableState, VectorContainer, Version, VersionId, Watermark,
};
use liveness::Unannounced;
pub(super) use names::{Name, names};
use snapshot::SnapshotReader;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{OnceCell, mpsc};

/// Batches decoded ahead of the reader.
const AHEAD: usize = 2;

/// A larger commit is not replayed, since a change is held in memory as a whole: all files are compared instead.
const REPLAYED_BYTES: u64 = 64 << 20;

/// Parts of a checkpoint whose footers are kept.
const OPEN_PARTS: usize = 16;

/// A Delta table that is read.
///
/// # Memory
/// A few pages of a checkpoint or blocks of a commit file at a time, and 16 bytes per file action after the checkpoint; the
/// files of one commit when commits are replayed.
#[derive(Debug)]
pub struct DeltaSource {
    root: TableRoot,
    log: Arc<LogReader>,
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

/// As [`definition_of`], with what the newest commit says of itself and the keys of the checkpoint's sidecars.
pub(super) async fn define(
    root: &TableRoot,
    segment: &Segment,
) -> Result<(Definition, Option<CommitInfo>, Vec<String>)> {
    let log = Arc::new(LogReader::new(root.clone()));
    let (definition, info, checkpoint) = define_with(root, &log, segment).await?;
    Ok((definition, info, checkpoint.sidecars()))
}

async fn define_with(
    root: &TableRoot,
    log: &Arc<LogReader>,
    segment: &Segment,
) -> Result<(Definition, Option<CommitInfo>, OpenCheckpoint)> {
    let header = newest_header(log, segment.newest_commit_first());
    let (header, open) = futures::future::try_join(header, open_checkpoint(root, segment)).await?;
    let actions = open.actions.clone();
    let place = root.spell(&log::commit_key(segment.version));
    let missing = |what: &str| Error::malformed(&place, format!("the log holds no {what} action"));
    let protocol = header.protocol.or(actions.protocol).ok_or_else(|| missing("protocol"))?;
    protocol::check(&place, &protocol)?;
    let metadata = header.metadata.or(actions.metadata).ok_or_else(|| missing("metaData"))?;
    Ok((Definition { protocol, metadata }, header.info, open))
}

/// A checkpoint whose parts are open: everything but its file actions is read.
#[derive(Debug, Default)]
pub(super) struct OpenCheckpoint {
    pub actions: Actions,
    /// Parquet parts by key, as far as they are few.
    pub parts: HashMap<String, OpenParquet>,
}

impl OpenCheckpoint {
    fn sidecars(&self) -> Vec<String> {
        self.actions.sidecars.iter().map(|s| sidecar_key(&s.path)).collect()
    }
}

#[derive(Debug)]
struct Head {
    segment: Segment,
    listing: Listing,
    protocol: Protocol,
    metadata: Metadata,
    mapping: Mapping,
    /// The segment's checkpoint.
    checkpoint: OpenCheckpoint,
    state: Arc<TableState>,
}

/// What a commit says besides its file actions.
#[derive(Debug, Default)]
struct Header {
    protocol: Option<Protocol>,
    metadata: Option<Metadata>,
    info: Option<CommitInfo>,
    /// Whether one of them occurs twice.
    repeated: bool,
}

impl DeltaSource {
    /// The table at `root`; nothing is read yet.
    pub fn new(root: TableRoot) -> Self {
        Self { log: Arc::new(LogReader::new(root.clone())), root, head: OnceCell::new() }
    }

    async fn loaded(&self) -> Result<&Head> {
        self.head.get_or_try_init(|| self.read_head()).await
    }

    async fn read_head(&self) -> Result<Head> {
        let (segment, listing) = log::newest(&self.root).await?;
        let (definition, info, checkpoint) = define_with(&self.root, &self.log, &segment).await?;
        let Definition { protocol, metadata } = definition;
        let place = self.root.spell(&log::commit_key(segment.version));
        let modified = segment.commits.last().map(|c| c.modified_ms);
        let modified = modified.or(segment.checkpoint.as_ref().map(|c| c.modified_ms)).unwrap_or_default();
        let revision = match listing.commits.get(&segment.version) {
            Some(commit) => self.log.fingerprint(&commit.object).await?,
            None => None,
        };
        let version = version(segment.version, &metadata, info.as_ref(), modified, revision);
        let root = self.root.location().to_string();
        let (state, mapping) = protocol::state(&place, root, version, &protocol, &metadata)?;
        Ok(Head { segment, listing, protocol, metadata, mapping, checkpoint, state: Arc::new(state) })
    }

    fn decoder(&self, state: &TableState, mapping: Mapping) -> Arc<Decoder> {
        Arc::new(Decoder::new(self.root.clone(), state, mapping))
    }

    async fn plan_changes(&self, mark: Watermark) -> Result<Changes<'_>> {
        let head = self.loaded().await?;
        let gone = |reason: String| Ok(Changes::HistoryGone { reason });
        let Some(since) = mark.version.as_ref().and_then(|v| v.0.parse::<i64>().ok()) else {
            return gone("the watermark names no Delta version".to_owned());
        };
        let newest = head.segment.version;
        if since > newest {
            return gone(format!("the watermark is version {since}, the table is at {newest}"));
        }
        if let Some(reason) = self.differs(&mark, since).await? {
            return gone(reason);
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
        if let Some(large) = replay.iter().find(|commit| commit.object.size > REPLAYED_BYTES) {
            let (version, mib) = (large.version, large.object.size >> 20);
            return gone(format!("commit {version} is {mib} MiB large; comparing all files takes less memory"));
        }
        // A schema that changed on the way has to be known as it was before; most backlogs change none.
        let (definition_changes, unannounced) = self.survey(&replay).await?;
        let mut before = (head.protocol.clone(), head.metadata.clone());
        let mut live = Paths::default();
        if definition_changes || !unannounced.is_empty() {
            let Some(segment) = self.segment_of(since, head).await? else {
                return gone(format!("the state of version {since} is no longer in the log"));
            };
            let mut other = None;
            let open = if segment.checkpoint == head.segment.checkpoint {
                &head.checkpoint
            } else {
                other.insert(open_checkpoint(&self.root, &segment).await?)
            };
            if definition_changes {
                let header = newest_header(&self.log, segment.newest_first()).await?;
                let protocol = header.protocol.or_else(|| open.actions.protocol.clone());
                match protocol.zip(header.metadata.or_else(|| open.actions.metadata.clone())) {
                    Some(found) => before = found,
                    None => return gone(format!("the schema of version {since} is no longer in the log")),
                }
            }
            live = liveness::live(&self.root, &self.log, &segment, open, &unannounced).await?;
        }
        let (protocol, metadata) = before;
        let replay = Replay { source: self, commits: replay.into(), protocol, metadata, live };
        Ok(Changes::Replay(futures::stream::try_unfold(replay, Replay::next).boxed()))
    }

    /// Why the log's commit `since` is not the one that a target with this watermark shows, if that is so: a table that was
    /// put back from a backup gives the same numbers to other commits. One request, unless the commit is the newest.
    async fn differs(&self, mark: &Watermark, since: i64) -> Result<Option<String>> {
        let replaced = |how: &str| {
            Some(format!(
                "commit {since} of the source {how} the one that the target shows: the table was put back or replaced"
            ))
        };
        if since < 0 {
            return Ok(None);
        }
        let key = log::commit_key(since);
        let Some(found) = self.root.beginning(&key).await? else {
            return Ok(Some(format!("commit {since}, which the target shows, is no longer in the log")));
        };
        if let Some(revision) = &mark.revision {
            return Ok(replaced("is not").filter(|_| found.fingerprint() != *revision));
        }
        // Tools that know no revision note the commit's time, some stores only its seconds.
        let lines = found.bytes.iter().rposition(|b| *b == b'\n').map_or(&found.bytes[..], |end| &found.bytes[..end]);
        let stamped = action::lines(&key, lines)
            .unwrap_or_default()
            .into_iter()
            .find_map(|(number, text)| action::parse(&key, number, text).ok()?.commit_info?.in_commit_timestamp);
        let same = |time: i64| time.abs_diff(mark.timestamp_ms) < 1000;
        Ok(replaced("has another time than").filter(|_| !same(found.modified_ms) && !stamped.is_some_and(same)))
    }

    /// Whether commits change the schema or the protocol, and which paths they add without removing them.
    async fn survey(&self, commits: &[CommitFile]) -> Result<(bool, Unannounced)> {
        let (mut definition_changes, mut unannounced) = (false, Unannounced::default());
        let mut blocks = std::pin::pin!(self.log.blocks(commits.iter().map(|c| c.object.clone()).collect()));
        while let Some(block) = blocks.try_next().await? {
            let header = read_header(&block)?;
            definition_changes |= header.protocol.is_some() || header.metadata.is_some();
            unannounced.note(&self.root, &block)?;
        }
        Ok((definition_changes, unannounced))
    }

    /// What it takes to rebuild an earlier version; `None` when the log no longer goes back.
    async fn segment_of(&self, version: i64, head: &Head) -> Result<Option<Segment>> {
        if head.listing.checkpoint(version).is_some() || head.listing.commits.contains_key(&0) {
            return Ok(head.listing.segment(version).ok());
        }
        Ok(Listing::read(&self.root, None).await?.segment(version).ok())
    }
}

impl Source for DeltaSource {
    fn format(&self) -> TableFormat {
        TableFormat::Delta
    }

    fn head(&self) -> BoxFuture<'_, Result<Arc<TableState>>> {
        Box::pin(async { Ok(Arc::clone(&self.loaded().await?.state)) })
    }

    fn versions(&self) -> BoxFuture<'_, Result<Versions>> {
        Box::pin(async {
            let newest = &self.loaded().await?.state.version;
            let Ok(number) = newest.id.0.parse::<i64>() else { return Ok(Versions::only(newest)) };
            let (oldest, made) = Listing::read(&self.root, None).await?.oldest_before(number);
            if oldest == number {
                return Ok(Versions::only(newest));
            }
            let id = VersionId(oldest.to_string());
            let oldest_version = Version { id, revision: None, timestamp_ms: made.unwrap_or(newest.timestamp_ms) };
            let count = u64::try_from(number - oldest + 1).unwrap_or(1);
            Ok(Versions { count, oldest: oldest_version, newest: newest.clone() })
        })
    }

    fn snapshot(&self, _: &Arc<TableState>) -> BoxFuture<'_, Result<Snapshot<'_>>> {
        Box::pin(async move {
            let head = self.loaded().await?;
            let (sender, receiver) = mpsc::channel(AHEAD);
            let reader = SnapshotReader {
                root: self.root.clone(),
                log: Arc::clone(&self.log),
                decoder: self.decoder(&head.state, head.mapping),
                keys: Keys::default(),
                sender,
            };
            let (segment, sidecars) = (head.segment.clone(), head.checkpoint.sidecars());
            // Reading and decoding run beside the target's writing; dropping the stream ends them.
            tokio::spawn(reader.run(segment, sidecars));
            let files = futures::stream::unfold(receiver, |mut receiver| async {
                receiver.recv().await.map(|batch| (batch, receiver))
            });
            Ok(Snapshot { delete_kinds: Vec::new(), files: files.boxed() })
        })
    }

    fn changes(&self, since: &Watermark, _: &Arc<TableState>) -> BoxFuture<'_, Result<Changes<'_>>> {
        let since = since.clone();
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
fn version(
    number: i64,
    metadata: &Metadata,
    info: Option<&CommitInfo>,
    modified_ms: i64,
    revision: Option<String>,
) -> Version {
    let enabled = protocol::property(metadata, "delta.enableInCommitTimestamps") == Some("true");
    let timestamp_ms = info.and_then(|i| i.in_commit_timestamp).filter(|_| enabled).unwrap_or(modified_ms);
    Version { id: VersionId(number.to_string()), revision, timestamp_ms }
}

fn sidecar_key(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    format!("{LOG}/_sidecars/{name}")
}

/// The newest protocol and metadata in log files given newest first, and the newest commit's information.
async fn newest_header(log: &Arc<LogReader>, files: Vec<LogFile>) -> Result<Header> {
    let objects = files.iter().map(|file| file.object.clone());
    let (mut header, mut current) = (Header::default(), Header::default());
    let mut blocks = std::pin::pin!(log.blocks(objects.collect()));
    while let Some(block) = blocks.try_next().await? {
        current.then(read_header(&block)?);
        if !block.last {
            continue;
        }
        let found = std::mem::take(&mut current);
        match files.get(block.file).map(|file| &file.behind) {
            // Which of several is the newest only the commits tell.
            Some(commits) if found.repeated && !commits.is_empty() => {
                let commits = commits.iter().cloned().map(LogFile::commit).collect();
                header.or(Box::pin(newest_header(log, commits)).await?);
            }
            _ => header.or(found),
        }
        if header.protocol.is_some() && header.metadata.is_some() {
            break;
        }
    }
    Ok(header)
}

impl Header {
    /// Takes in what follows in the same log file.
    fn then(&mut self, later: Self) {
        self.repeated |= later.repeated;
        self.repeated |= later.protocol.is_some() && self.protocol.is_some();
        self.repeated |= later.metadata.is_some() && self.metadata.is_some();
        self.protocol = later.protocol.or(self.protocol.take());
        self.metadata = later.metadata.or(self.metadata.take());
        self.info = later.info.or(self.info.take());
    }

    /// Fills in from something older.
    fn or(&mut self, older: Self) {
        self.protocol = self.protocol.take().or(older.protocol);
        self.metadata = self.metadata.take().or(older.metadata);
        // Only the newest commit's own time counts.
        self.info = self.info.take().or(Some(older.info.unwrap_or_default()));
    }
}

/// Reads what a block says besides its file actions, whose lines are skipped unparsed in the form that all writers have.
fn read_header(block: &Block) -> Result<Header> {
    let mut header = Header::default();
    for (number, text) in block.lines()? {
        let start = text.get(..16).unwrap_or(text);
        if start.starts_with("{\"add\"") || start.starts_with("{\"remove\"") || start.starts_with("{\"cdc\"") {
            continue;
        }
        let line = action::parse(&block.place, number, text)?;
        header.then(Header {
            protocol: line.protocol,
            metadata: line.metadata,
            info: line.commit_info,
            repeated: false,
        });
    }
    Ok(header)
}

/// Opens the checkpoint of a segment, if it has one.
async fn open_checkpoint(root: &TableRoot, segment: &Segment) -> Result<OpenCheckpoint> {
    let mut open = OpenCheckpoint::default();
    let Some(Checkpoint { parts, .. }) = &segment.checkpoint else { return Ok(open) };
    let opened: Vec<_> = parts.iter().map(|part| open_part(root.clone(), part.clone())).collect();
    let mut opened = std::pin::pin!(futures::stream::iter(opened).buffered(4));
    while let Some((part, actions, file)) = opened.try_next().await? {
        open.actions.protocol = actions.protocol.or(open.actions.protocol);
        open.actions.metadata = actions.metadata.or(open.actions.metadata);
        open.actions.sidecars.extend(actions.sidecars);
        open.parts.extend(file.filter(|_| parts.len() <= OPEN_PARTS).map(|file| (part, file)));
    }
    Ok(open)
}

async fn open_part(root: TableRoot, part: String) -> Result<(String, Actions, Option<OpenParquet>)> {
    let mut actions = Actions::default();
    if !part.ends_with(".json") {
        let opened = checkpoint::open(&root, &part).await?;
        checkpoint::actions(&root, &part, &opened, &mut actions).await?;
        return Ok((part, actions, Some(opened)));
    }
    let mut blocks = std::pin::pin!(Arc::new(LogReader::new(root)).json_part(&part).await?);
    while let Some(block) = blocks.try_next().await? {
        for (number, text) in block.lines()? {
            let line = action::parse(&block.place, number, text)?;
            actions.protocol = line.protocol.or(actions.protocol);
            actions.metadata = line.metadata.or(actions.metadata);
            actions.sidecars.extend(line.sidecar);
        }
    }
    Ok((part, actions, None))
}
