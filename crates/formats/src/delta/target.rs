//! A Delta table as a [`Target`]: deletion vectors first, then one commit file, put if it does not exist.

mod body;
mod commit;
mod definition;
mod known;
mod layout;
mod requirements;

use super::log::{self, Listing, Segment};
use super::source::{Definition as Current, DeltaSource, definition_of};
use super::{LOG, action, protocol};
use crate::sync::{
    BoxFuture, Commit, Committed, Error, Loaded, Result, Source, TableRoot, Target, from_properties, is_own,
};
use hoglake_model::table::{FilePath, TableFormat, TableState, Unsupported, Watermark};

/// What is read of a commit in search of its watermark.
const START_BYTES: u64 = 64 << 10;

/// How to write.
#[derive(Debug, Clone)]
pub struct DeltaTargetOptions {
    /// A checkpoint is written every so many commits.
    pub checkpoint_interval: i64,
    /// Commits that a checkpoint covers are deleted after this many milliseconds.
    pub log_retention_ms: i64,
    /// Whether tables whose older files hold narrower types say so by the feature that the protocol has for it. Readers that
    /// do not know the feature open no such table, and some of them would have found all values.
    pub type_widening: bool,
}

impl Default for DeltaTargetOptions {
    /// Ten commits and thirty days, as Delta's own writers.
    fn default() -> Self {
        Self { checkpoint_interval: 10, log_retention_ms: 30 * 86_400_000, type_widening: true }
    }
}

/// A Delta table that is written.
#[derive(Debug)]
pub struct DeltaTarget {
    root: TableRoot,
    options: DeltaTargetOptions,
    base: Option<Base>,
    /// A partition value turned up that the log cannot carry: partition by nothing instead.
    unpartitioned: bool,
}

/// The version that the next commit follows.
#[derive(Debug)]
struct Base {
    version: i64,
    segment: Segment,
    listing: Listing,
    /// Read when the first commit needs it.
    current: Option<Current>,
    /// Whether others have added or removed files since our last commit.
    is_foreign: bool,
    /// Whether the newest commit is ours.
    is_own: bool,
    /// Whether the table is a target already.
    is_followed: bool,
}

impl DeltaTarget {
    /// The table at `root`; nothing is read yet.
    pub fn new(root: TableRoot, options: DeltaTargetOptions) -> Self {
        Self { root, options, base: None, unpartitioned: false }
    }

    /// What the table asks of its writers that hoglake does not do, as far as its definition has been read.
    fn forbidden(&self, base: &Base) -> Vec<Unsupported> {
        let check = |c: &Current| {
            let place = self.root.location().to_string();
            requirements::unsupported(&place, &c.protocol, &c.metadata, base.is_followed)
        };
        base.current.as_ref().map(check).unwrap_or_default()
    }

    fn metadata_path(&self) -> String {
        self.root.uri(LOG)
    }

    /// Costs the hint, a listing, and the newest commit, which carries the watermark if it is one of ours; otherwise also
    /// the definition and the commits of others.
    async fn read(&mut self) -> Result<Loaded> {
        self.base = None;
        let (segment, listing) = match log::newest(&self.root).await {
            Ok(found) => found,
            Err(Error::NotATable { .. }) => return Ok(Loaded::default()),
            Err(other) => return Err(other),
        };
        let mut base = Base {
            version: segment.version,
            segment,
            listing,
            current: None,
            is_foreign: false,
            is_own: false,
            is_followed: false,
        };
        let newest = self.newest_watermark(&log::commit_key(base.version)).await?;
        base.is_own = matches!(newest, Some((_, true)));
        let mut watermark = newest.map(|(mark, _)| mark);
        if watermark.is_none() {
            let current = definition_of(&self.root, &base.segment).await?;
            let get = |key: &str| protocol::property(&current.metadata, key);
            watermark = from_properties(get);
            base.is_foreign = is_own(get) && self.others_changed_files(base.version).await?;
            base.current = Some(current);
        }
        base.is_followed = watermark.is_some();
        let is_foreign = base.is_foreign;
        self.base = Some(base);
        Ok(Loaded {
            exists: true,
            watermark,
            metadata_path: Some(self.metadata_path()),
            is_foreign,
            is_elsewhere: false,
        })
    }

    /// Whether a commit up to `newest` and after our last one speaks of files.
    async fn others_changed_files(&self, newest: i64) -> Result<bool> {
        for version in (0..=newest).rev() {
            let key = log::commit_key(version);
            let Some(bytes) = self.root.get_if_exists(&key).await? else {
                // Gone with the log's clean-up: nothing is known of it, unless it is the only one that is.
                return Ok(version < newest);
            };
            let place = self.root.spell(&key);
            if watermark_in(&place, &bytes)?.is_some() {
                return Ok(false);
            }
            let mut files = false;
            for (number, text) in action::lines(&place, &bytes)? {
                let line = action::parse(&place, number, text)?;
                files |= line.add.is_some() || line.remove.is_some();
            }
            if files {
                return Ok(true);
            }
        }
        Ok(true)
    }
}

impl DeltaTarget {
    /// The watermark of a commit. Ours stands at its beginning; only those of others are read whole.
    async fn newest_watermark(&self, key: &str) -> Result<Option<(Watermark, bool)>> {
        let place = self.root.spell(key);
        let start = match self.root.read(&FilePath::Under(key.into()), Some(0..START_BYTES)).await {
            Ok(start) => start,
            Err(e) if e.is_not_found() => return Ok(None),
            Err(e) => return Err(e),
        };
        if (start.len() as u64) < START_BYTES {
            return watermark_in(&place, &start);
        }
        let lines = start.iter().rposition(|b| *b == b'\n').map_or(&[][..], |end| &start[..end]);
        match watermark_in(&place, lines) {
            Ok(Some(found)) => Ok(Some(found)),
            _ => watermark_in(&place, &self.root.get(key).await?),
        }
    }
}

/// The watermark in a commit's tags, and whether it is ours; in its metadata, if that is not ours that somebody else kept.
fn watermark_in(place: &str, bytes: &[u8]) -> Result<Option<(Watermark, bool)>> {
    for (number, text) in action::lines(place, bytes)? {
        let start = text.get(..16).unwrap_or(text);
        if start.starts_with("{\"add\"") || start.starts_with("{\"remove\"") {
            continue;
        }
        let line = action::parse(place, number, text)?;
        if let Some(tags) = line.commit_info.and_then(|info| info.tags)
            && let Some(mark) = from_properties(|key| tags.get(key).map(String::as_str))
        {
            return Ok(Some((mark, is_own(|key| tags.get(key).map(String::as_str)))));
        }
        if let Some(metadata) = line.metadata {
            let get = |key: &str| protocol::property(&metadata, key);
            if let Some(mark) = from_properties(get).filter(|_| !is_own(get)) {
                return Ok(Some((mark, false)));
            }
        }
    }
    Ok(None)
}

impl Target for DeltaTarget {
    fn format(&self) -> TableFormat {
        TableFormat::Delta
    }

    fn load(&mut self) -> BoxFuture<'_, Result<Loaded>> {
        Box::pin(self.read())
    }

    fn tidy(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.root.tidy(&[(LOG, ""), ("", "deletion_vector_")]))
    }

    fn reader(&self) -> Box<dyn Source> {
        Box::new(DeltaSource::new(self.root.clone()))
    }

    fn unsupported(&self, state: &TableState) -> Vec<Unsupported> {
        let mut found = definition::unsupported(state);
        found.extend(self.base.as_ref().map(|base| self.forbidden(base)).unwrap_or_default());
        found
    }

    fn commit<'a>(&'a mut self, commit: Commit<'a>) -> BoxFuture<'a, Result<Option<Committed>>> {
        Box::pin(commit::run(self, commit))
    }
}
