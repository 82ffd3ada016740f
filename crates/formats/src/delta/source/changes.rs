//! The commits after a watermark, one change each.

use super::super::action::{self, Line, Metadata, Protocol};
use super::super::log::CommitFile;
use super::super::protocol;
use super::super::replay::{Decoder, Paths, path};
use super::super::stats::Scratch;
use super::{DeltaSource, Header, version};
use crate::sync::{Error, Result, TableRoot, fingerprint};
use hoglake_model::table::{Change, FileDelta, Operation, RemovedFile};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The commits after a watermark, one after another.
pub(super) struct Replay<'a> {
    pub source: &'a DeltaSource,
    pub commits: VecDeque<CommitFile>,
    pub protocol: Protocol,
    pub metadata: Metadata,
    /// Paths that are live before the next commit, as far as one of the commits adds them without removing them.
    pub live: Paths,
}

impl Replay<'_> {
    pub async fn next(mut self) -> Result<Option<(Change, Self)>> {
        let Some(commit) = self.commits.pop_front() else { return Ok(None) };
        let bytes = self.source.log.whole(&commit.object).await?;
        let place = self.source.root.spell(&commit.object.key);
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
        let revision = fingerprint(bytes.len() as u64, &bytes);
        let version = version(commit.version, &self.metadata, header.info.as_ref(), commit.modified_ms, Some(revision));
        let root = self.source.root.location().to_string();
        let (state, mapping) = protocol::state(&place, root, version, &self.protocol, &self.metadata)?;
        let decoder = Decoder::new(self.source.root.clone(), &state, mapping);
        let (files, operation) = classify(&self.source.root, &decoder, &place, &lines, &mut self.live)?;
        let change = Change { state: Arc::new(state), operation, files };
        Ok(Some((change, self)))
    }
}

/// Sorts the file actions of one commit into what becomes live, what stays live otherwise, and what goes.
///
/// An add and a remove of one path is a change of its deletion vector or of its metadata, and an add of a path that is
/// live restates it ("it is legal to commit an existing `path` and `dvId` combination again"): the file stays live.
fn classify(
    root: &TableRoot,
    decoder: &Decoder,
    place: &str,
    lines: &[Line<'_>],
    live: &mut Paths,
) -> Result<(FileDelta, Operation)> {
    let mut removed = HashMap::new();
    let mut data_change = false;
    for remove in lines.iter().filter_map(|l| l.remove.as_ref()) {
        data_change |= remove.data_change;
        removed.insert(path(root, place, &remove.path)?, remove.size);
    }
    let mut files = FileDelta::default();
    let mut scratch = Scratch::default();
    let mut added = Paths::like(live);
    for add in lines.iter().filter_map(|l| l.add.as_ref()) {
        let file = decoder.file(place, add, &mut scratch, None)?;
        if !added.insert(&file.path) {
            return Err(Error::malformed(place, format!("{} is added twice in one commit", add.path)));
        }
        data_change |= add.data_change;
        let stays = removed.remove(&file.path).is_some() || live.contains(&file.path);
        if stays { files.redeleted.push(file) } else { files.added.push(file) }
    }
    live.extend(added);
    let gone = removed.into_iter().map(|(path, size)| {
        live.remove(&path);
        RemovedFile { path, partition: None, size_bytes: size.and_then(|n| u64::try_from(n).ok()) }
    });
    files.removed.extend(gone);
    files.removed.sort_by(|a, b| a.path.cmp(&b.path));
    let operation = if data_change || files.is_empty() { files.operation() } else { Operation::Replace };
    Ok((files, operation))
}
