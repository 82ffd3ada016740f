//! Finding the files of a version: commits and checkpoints ("Delta Log Entries", "Checkpoints").
//!
//! Compacted commits ("Log Compaction Files") are an optional short cut: one file instead of the commits that it sums up.
//! Those commits always exist as well, and are read instead of a file that breaks the rules of reconciliation (some found
//! in the wild keep superseded actions of one logical file side by side).

use super::LOG;
use crate::sync::{Error, Listed, Result, TableRoot};
use hoglake_model::table::TableFormat;
use std::collections::BTreeMap;

/// What it takes to rebuild one version.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub version: i64,
    pub checkpoint: Option<Checkpoint>,
    /// The commits after the checkpoint, up to `version`, ascending and without a gap.
    pub commits: Vec<CommitFile>,
    /// Files that sum several of the commits up, ascending by first and last commit.
    pub compactions: Vec<Compaction>,
}

/// `begin.end.compacted.json`: what the commits `begin..=end` amount to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Compaction {
    pub begin: i64,
    pub end: i64,
    pub object: LogObject,
}

/// An object of the log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LogObject {
    pub key: String,
    pub size: u64,
}

/// A file to replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogFile {
    pub object: LogObject,
    /// For a compaction, the commits that it stands for, newest first.
    pub behind: Vec<LogObject>,
}

impl LogFile {
    /// One commit.
    pub const fn commit(object: LogObject) -> Self {
        Self { object, behind: Vec::new() }
    }
}

/// `n.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommitFile {
    pub version: i64,
    pub object: LogObject,
    pub modified_ms: i64,
}

/// A complete checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Checkpoint {
    pub version: i64,
    /// One file, or all parts in order.
    pub parts: Vec<String>,
    pub modified_ms: i64,
}

/// The files of a listing of the log, by what they are.
#[derive(Debug, Clone, Default)]
pub(super) struct Listing {
    pub commits: BTreeMap<i64, CommitFile>,
    compactions: Vec<Compaction>,
    checkpoints: BTreeMap<i64, Vec<Checkpoint>>,
    partial: BTreeMap<(i64, u32), BTreeMap<u32, Listed>>,
}

/// The key of a commit.
pub(super) fn commit_key(version: i64) -> String {
    format!("{LOG}/{version:020}.json")
}

impl Listing {
    /// Lists the log from `after` (exclusive in names, inclusive in versions).
    pub async fn read(root: &TableRoot, from: Option<i64>) -> Result<Self> {
        let after = from.map(|version| format!("{version:020}"));
        let mut listing = Self::default();
        for object in root.list(LOG, after.as_deref()).await? {
            listing.sort_in(object);
        }
        listing.complete_parts();
        Ok(listing)
    }

    fn sort_in(&mut self, object: Listed) -> Option<()> {
        let name = object.key.strip_prefix(LOG)?.strip_prefix('/')?;
        let (version, rest) = (number(name.get(..20)?)?, name.get(20..)?);
        let one = |key: &str| Checkpoint { version, parts: vec![key.to_owned()], modified_ms: object.modified_ms };
        if rest == ".json" {
            let modified_ms = object.modified_ms;
            let object = LogObject { key: object.key, size: object.size };
            let commit = CommitFile { version, object, modified_ms };
            self.commits.insert(version, commit);
        } else if let Some(end) = rest.strip_suffix(".compacted.json").and_then(|r| r.strip_prefix('.')) {
            let end = number(end).filter(|end| *end > version)?;
            let object = LogObject { key: object.key, size: object.size };
            self.compactions.push(Compaction { begin: version, end, object });
        } else if let Some(kind) = rest.strip_prefix(".checkpoint.") {
            if kind == "parquet" {
                self.checkpoints.entry(version).or_default().push(one(&object.key));
            } else if let Some((part, of)) = kind.strip_suffix(".parquet").and_then(|k| k.split_once('.')) {
                let (part, of) = (part.parse().ok()?, of.parse().ok()?);
                self.partial.entry((version, of)).or_default().insert(part, object);
            } else if kind.ends_with(".parquet") || kind.ends_with(".json") {
                self.checkpoints.entry(version).or_default().push(one(&object.key));
            }
        }
        Some(())
    }

    /// "Readers must ignore multi-part checkpoints with missing parts."
    fn complete_parts(&mut self) {
        for ((version, of), parts) in std::mem::take(&mut self.partial) {
            let complete = usize::try_from(of) == Ok(parts.len()) && parts.keys().copied().eq(1..=of);
            if complete {
                let modified_ms = parts.values().map(|p| p.modified_ms).max().unwrap_or_default();
                let parts = parts.into_values().map(|p| p.key).collect();
                self.checkpoints.entry(version).or_default().push(Checkpoint { version, parts, modified_ms });
            }
        }
    }

    /// The newest complete checkpoint not above `version`; among several of one version a classic one first.
    pub fn checkpoint(&self, version: i64) -> Option<&Checkpoint> {
        let (_, found) = self.checkpoints.range(..=version).next_back()?;
        found.iter().min_by_key(|c| (c.parts.len() != 1, c.parts.first().map(String::len)))
    }

    fn head(&self) -> Option<i64> {
        let commit = self.commits.keys().next_back().copied();
        let checkpoint = self.checkpoints.keys().next_back().copied();
        commit.max(checkpoint)
    }

    /// The segment of `version`, or the first commit that is missing.
    pub fn segment(&self, version: i64) -> Result<Segment, i64> {
        let checkpoint = self.checkpoint(version).cloned();
        let first = checkpoint.as_ref().map_or(0, |c| c.version + 1);
        let commits: Vec<_> =
            self.commits.range(first..version.saturating_add(1)).map(|(_, commit)| commit.clone()).collect();
        for (expected, commit) in (first..).zip(&commits) {
            if commit.version != expected {
                return Err(expected);
            }
        }
        if first + i64::try_from(commits.len()).unwrap_or(0) != version + 1 {
            return Err(first + i64::try_from(commits.len()).unwrap_or(0));
        }
        let mut compactions: Vec<_> =
            self.compactions.iter().filter(|c| c.begin >= first && c.end <= version).cloned().collect();
        compactions.sort_unstable();
        Ok(Segment { version, checkpoint, commits, compactions })
    }
}

impl Listing {
    /// The oldest version from which on all up to `version` can be rebuilt, and when it was made.
    pub fn oldest_before(&self, version: i64) -> (i64, Option<i64>) {
        let mut first = version + 1;
        while self.commits.contains_key(&(first - 1)) {
            first -= 1;
        }
        let checkpoint = self.checkpoints.range((first - 1)..=version).find_map(|(_, found)| found.first());
        let oldest = if first == 0 { 0 } else { checkpoint.map_or(version, |c| c.version) };
        let made = self.commits.get(&oldest).map(|commit| commit.modified_ms);
        (oldest, made.or(checkpoint.filter(|c| c.version == oldest).map(|c| c.modified_ms)))
    }
}

/// A version; one that nothing can follow is none.
fn number(text: &str) -> Option<i64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten().filter(|n| *n < i64::MAX / 2)
}

/// Lists the log from its last checkpoint and finds the segment of the newest version.
///
/// A hint that is missing, damaged or wrong costs one more listing, nothing else.
///
/// # Errors
/// [`Error::NotATable`] for a folder without a log, [`Error::Malformed`] for a log with a gap.
pub(super) async fn newest(root: &TableRoot) -> Result<(Segment, Listing)> {
    #[derive(serde::Deserialize)]
    struct Hint {
        version: i64,
    }
    let hint = root.get_if_exists(&format!("{LOG}/_last_checkpoint")).await?;
    let hint = hint.and_then(|bytes| serde_json::from_slice::<Hint>(&bytes).ok()).filter(|h| h.version >= 0);
    if let Some(hint) = hint {
        let listing = Listing::read(root, Some(hint.version)).await?;
        if let Some(version) = listing.head()
            && listing.checkpoint(version).is_some()
            && let Ok(segment) = listing.segment(version)
        {
            return Ok((segment, listing));
        }
    }
    let listing = Listing::read(root, None).await?;
    let place = || root.spell(LOG);
    let version = listing.head().ok_or_else(|| Error::NotATable {
        format: TableFormat::Delta,
        place: root.location().to_string(),
        detail: format!("{} holds neither a commit nor a checkpoint", place()),
    })?;
    let segment = listing
        .segment(version)
        .map_err(|missing| Error::malformed(place(), format!("commit {missing} is missing below version {version}")))?;
    Ok((segment, listing))
}

impl Segment {
    /// The files to replay after the checkpoint, newest first, as few as there can be.
    pub fn newest_first(&self) -> Vec<LogFile> {
        self.until(self.version)
    }

    /// As [`newest_first`](Self::newest_first), with the newest commit by itself: compactions do not say when it was made.
    pub fn newest_commit_first(&self) -> Vec<LogFile> {
        let newest = self.commits.last().map(|c| LogFile::commit(c.object.clone()));
        newest.into_iter().chain(self.until(self.version - 1)).collect()
    }

    fn until(&self, version: i64) -> Vec<LogFile> {
        let mut files = Vec::new();
        let mut rest = self.commits.iter().filter(|c| c.version <= version).collect::<std::collections::VecDeque<_>>();
        while let Some(next) = rest.pop_front() {
            let fits = |c: &&Compaction| c.begin == next.version && c.end <= version;
            match self.compactions.iter().filter(fits).max_by_key(|c| c.end) {
                None => files.push(LogFile::commit(next.object.clone())),
                Some(compaction) => {
                    let mut commits = vec![next.object.clone()];
                    while rest.front().is_some_and(|c| c.version <= compaction.end) {
                        commits.extend(rest.pop_front().map(|c| c.object.clone()));
                    }
                    commits.reverse();
                    files.push(LogFile { object: compaction.object.clone(), behind: commits });
                }
            }
        }
        files.reverse();
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(names: &[&str]) -> Listing {
        let mut listing = Listing::default();
        for name in names {
            listing.sort_in(Listed { key: format!("{LOG}/{name}"), size: 1, modified_ms: 0 });
        }
        listing.complete_parts();
        listing
    }

    fn name(version: i64, rest: &str) -> String {
        format!("{version:020}{rest}")
    }

    #[test]
    fn versions_are_kept_from_the_first_that_can_be_rebuilt() {
        let commits = |versions: std::ops::RangeInclusive<i64>| versions.map(|v| name(v, ".json"));
        let checkpoint = |v| name(v, ".checkpoint.parquet");
        let oldest = |names: Vec<String>, version| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            listing(&names).oldest_before(version)
        };
        assert_eq!(oldest(commits(0..=3).collect(), 3), (0, Some(0)));
        assert_eq!(oldest(commits(2..=5).chain([checkpoint(4)]).collect(), 5), (4, Some(0)));
        assert_eq!(oldest(commits(3..=5).chain([checkpoint(2), checkpoint(4)]).collect(), 5), (2, Some(0)));
        // A gap ends what can be read, and so does the log's clean-up.
        assert_eq!(oldest(commits(0..=1).chain(commits(3..=5)).chain([checkpoint(3)]).collect(), 5), (3, Some(0)));
        assert_eq!(oldest(vec![checkpoint(7)], 7), (7, Some(0)));
    }

    #[test]
    fn incomplete_and_foreign_files_are_ignored() {
        let names = [
            name(0, ".json"),
            name(1, ".json"),
            name(1, ".checkpoint.0000000001.0000000002.parquet"),
            name(1, ".crc"),
            name(1, ".00000000000000000001.compacted.json"),
            name(1, ".x.compacted.json"),
            name(2, ".json.tmp"),
            "_last_checkpoint".to_owned(),
            "x.json".to_owned(),
            name(1, ".checkpoint.6374b053-df23-479b-b2cf-c9c550132b49.json.crc"),
        ];
        let listing = listing(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let segment = listing.segment(1).unwrap();
        assert_eq!((&segment.checkpoint, segment.commits.len()), (&None, 2));
        assert_eq!(segment.newest_first().len(), 2);
    }

    #[test]
    fn compactions_stand_for_their_commits() {
        let compacted = |begin: i64, end: i64| format!("{begin:020}.{end:020}.compacted.json");
        let mut names: Vec<_> = (0..10).map(|v| name(v, ".json")).collect();
        names.push(name(2, ".checkpoint.parquet"));
        names.extend([compacted(0, 4), compacted(3, 5), compacted(3, 8), compacted(4, 9), compacted(3, 12)]);
        let listing = listing(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let object = |key| LogObject { key, size: 1 };
        let commit = |version| LogFile::commit(object(commit_key(version)));
        let compaction = |begin, end| {
            let behind = (begin..=end).rev().map(commit_key).map(object).collect();
            LogFile { object: object(format!("{LOG}/{}", compacted(begin, end))), behind }
        };
        let segment = listing.segment(9).unwrap();
        assert_eq!(segment.newest_first(), [commit(9), compaction(3, 8)]);
        let segment = listing.segment(8).unwrap();
        assert_eq!(segment.newest_first(), [compaction(3, 8)]);
        let alone = segment.newest_commit_first();
        assert_eq!(alone, [commit(8), commit(7), commit(6), compaction(3, 5)]);
    }

    #[test]
    fn gaps_are_found() {
        let names = [name(0, ".json"), name(2, ".json"), name(5, ".checkpoint.parquet"), name(7, ".json")];
        let listing = listing(&names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(listing.segment(2).unwrap_err(), 1);
        assert_eq!(listing.segment(7).unwrap_err(), 6);
        assert_eq!(listing.segment(5).unwrap().commits.len(), 0);
    }
}
