//! A Delta table as a [`Source`].

mod changes;
mod liveness;
mod snapshot;

use super::action::{self, CommitInfo, Metadata, Protocol};
use super::checkpoint::{self, Actions};
use super::log::{self, Checkpoint, Listing, LogFile, Segment};
use super::replay::{Decoder, Keys};
use super::schema::Mapping;
use super::{LOG, protocol};
use crate::deletion_vector::DeletionVector;
use crate::sync::{BoxFuture, Changes, Error, Result, Snapshot, Source, TableRoot};
use bytes::Bytes;
use changes::Replay;
use futures::{StreamExt, TryStreamExt};
use hoglake_model::table::{
    DataFile, RowDeletes, TableFormat, TableState, VectorContainer, Version, VersionId, Watermark,
};
use snapshot::SnapshotReader;
use std::collections::{HashMap, HashSet};
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

/// As [`definition_of`], with what the newest commit says of itself and the keys of the checkpoint's sidecars.
pub(super) async fn define(
    root: &TableRoot,
    segment: &Segment,
) -> Result<(Definition, Option<CommitInfo>, Vec<String>)> {
    let header = newest_header(root, segment.newest_commit_first()).await?;
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
    /// Whether one of them occurs twice.
    repeated: bool,
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
        let mut definition_changes = false;
        let mut unannounced = HashSet::new();
        {
            let mut files = std::pin::pin!(self.root.get_all(replay.iter().map(|c| c.key.clone()).collect::<Vec<_>>()));
            let mut versions = replay.iter();
            while let Some((key, bytes)) = files.try_next().await? {
                let place = self.root.spell(&key);
                let header = read_header(&place, &bytes)?;
                definition_changes |= header.protocol.is_some() || header.metadata.is_some();
                liveness::note_unannounced(&self.root, &place, &bytes, &mut unannounced)?;
                kept_bytes += bytes.len();
                if let Some(commit) = versions.next()
                    && kept_bytes <= KEPT_BYTES
                {
                    kept.insert(commit.version, bytes);
                }
            }
        }
        let mut before = (head.protocol.clone(), head.metadata.clone());
        let mut live = HashSet::new();
        if definition_changes || !unannounced.is_empty() {
            let Some(segment) = self.segment_of(since, head).await? else {
                return gone(format!("the state of version {since} is no longer in the log"));
            };
            if definition_changes {
                match self.definition_at(&segment).await? {
                    Some(found) => before = found,
                    None => return gone(format!("the schema of version {since} is no longer in the log")),
                }
            }
            live = liveness::live(&self.root, &segment, &unannounced).await?;
        }
        let (protocol, metadata) = before;
        let replay = Replay { source: self, commits: replay.into(), kept, protocol, metadata, live };
        Ok(Changes::Replay(futures::stream::try_unfold(replay, Replay::next).boxed()))
    }

    /// What it takes to rebuild an earlier version; `None` when the log no longer goes back.
    async fn segment_of(&self, version: i64, head: &Head) -> Result<Option<Segment>> {
        if head.listing.checkpoint(version).is_some() || head.listing.commits.contains_key(&0) {
            return Ok(head.listing.segment(version).ok());
        }
        Ok(Listing::read(&self.root, None).await?.segment(version).ok())
    }

    /// Protocol and metadata of a segment.
    async fn definition_at(&self, segment: &Segment) -> Result<Option<(Protocol, Metadata)>> {
        let mut header = newest_header(&self.root, segment.newest_first()).await?;
        if let Some(found) =
            segment.checkpoint.as_ref().filter(|_| header.protocol.is_none() || header.metadata.is_none())
        {
            let actions = read_actions(&self.root, found).await?;
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

/// The newest protocol and metadata in log files given newest first, and the newest commit's information.
async fn newest_header(root: &TableRoot, files: Vec<LogFile>) -> Result<Header> {
    let read = files.into_iter().map(|file| async move {
        let (key, commits) = match file {
            LogFile::Commit(key) => (key, Vec::new()),
            LogFile::Compacted(key, commits) => (key, commits),
        };
        let found = read_header(&root.spell(&key), &root.get(&key).await?)?;
        if commits.is_empty() || !found.repeated {
            return Ok::<_, Error>(found);
        }
        // Which of several is the newest only the commits tell.
        let mut header = Header::default();
        for key in commits {
            header.or(read_header(&root.spell(&key), &root.get(&key).await?)?);
        }
        Ok(header)
    });
    let mut header = Header::default();
    let mut files = std::pin::pin!(futures::stream::iter(read).buffered(16));
    while let Some(found) = files.try_next().await? {
        header.or(found);
        if header.protocol.is_some() && header.metadata.is_some() {
            break;
        }
    }
    Ok(header)
}

impl Header {
    /// Fills in from something older.
    fn or(&mut self, older: Self) {
        self.protocol = self.protocol.take().or(older.protocol);
        self.metadata = self.metadata.take().or(older.metadata);
        // Only the newest commit's own time counts.
        self.info = self.info.take().or(Some(older.info.unwrap_or_default()));
    }
}

/// Reads what a commit says besides its file actions, whose lines are skipped unparsed in the form that all writers have.
fn read_header(place: &str, bytes: &[u8]) -> Result<Header> {
    let mut header = Header::default();
    for (number, text) in action::lines(place, bytes)? {
        let start = text.get(..16).unwrap_or(text);
        if start.starts_with("{\"add\"") || start.starts_with("{\"remove\"") || start.starts_with("{\"cdc\"") {
            continue;
        }
        let line = action::parse(place, number, text)?;
        header.repeated |= line.protocol.is_some() && header.protocol.is_some();
        header.repeated |= line.metadata.is_some() && header.metadata.is_some();
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
