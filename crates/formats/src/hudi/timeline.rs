//! The timeline: which actions happened, in which order, and which of them count.
//!
//! # Source
//! Hudi specification, "Timeline": an instant is an action, the time at which it was requested, and a state. Layout 2
//! also records when it was completed, which orders what readers see.

use super::FOLDER;
use super::properties::{Layout, Properties};
use crate::sync::{Error, Result, TableRoot};
use futures::TryStreamExt;
use hoglake_model::table::FilePath;
use object_store::ObjectStore;
use std::collections::{BTreeMap, BTreeSet};

/// A completed action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Instant {
    /// When it was requested: `yyyyMMddHHmmss` or with milliseconds; the name of the instant.
    pub(super) requested: String,
    /// When it was completed; the same as `requested` in layout 1, which does not say.
    pub(super) completed: String,
    /// `commit`, `deltacommit`, `replacecommit`, `clean`, `rollback`, ...
    pub(super) action: String,
    /// The object, relative to the table's root.
    pub(super) key: String,
    /// When the object was written, according to the store.
    pub(super) modified_ms: i64,
    /// Its size.
    pub(super) size: u64,
}

/// The active timeline of a table.
#[derive(Debug, Clone)]
pub(super) struct Timeline {
    /// Completed actions, in the order in which they became visible.
    pub(super) completed: Vec<Instant>,
    /// Actions that have not completed, by when they were requested.
    pub(super) pending: BTreeMap<String, Pending>,
    requested: BTreeSet<String>,
    /// The oldest completed write in the active timeline; what is older was archived, and only completed actions are.
    first: Option<String>,
    layout: Layout,
}

/// An action that has not completed: its writer is at work, or has died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pending {
    /// What it is about to do, such as `replacecommit` or `compaction`; empty where only `<instant>.inflight` is left.
    pub(super) action: String,
    /// Whether none of its objects says anything.
    pub(super) is_empty: bool,
}

impl Pending {
    /// Whether the action would change which rows the table shows.
    pub(super) fn writes(&self) -> bool {
        !matches!(self.action.as_str(), "clean" | "rollback" | "restore" | "savepoint" | "indexing")
    }
}

impl Instant {
    /// Whether the action can change which rows the table shows.
    pub(super) fn writes(&self) -> bool {
        matches!(self.action.as_str(), "commit" | "deltacommit" | "replacecommit")
    }
}

impl Timeline {
    /// Lists the timeline of the table whose metadata folder is `folder`.
    pub(super) async fn read(root: &TableRoot, folder: &str, properties: &Properties, layout: Layout) -> Result<Self> {
        let folder = match layout {
            Layout::One => folder.to_owned(),
            Layout::Two => format!("{folder}/{}", properties.get("hoodie.timeline.path").unwrap_or("timeline")),
        };
        Ok(Self::new(&folder, names(root, &folder).await?.into_iter(), layout))
    }

    /// The timeline that the names in its folder describe: name, time of modification, size.
    pub(super) fn new(folder: &str, names: impl Iterator<Item = (String, i64, u64)>, layout: Layout) -> Self {
        let mut completed = Vec::new();
        let mut pending: BTreeMap<String, Pending> = BTreeMap::new();
        for (name, modified_ms, size) in names {
            let Some((time, action)) = name.split_once('.') else { continue };
            let (requested, finished) = match (layout, time.split_once('_')) {
                (Layout::Two, Some((requested, finished))) => (requested, Some(finished)),
                (Layout::Two, None) => (time, None),
                (Layout::One, _) => (time, Some(time)),
            };
            let is_time = |t: &str| (14..=20).contains(&t.len()) && t.bytes().all(|b| b.is_ascii_digit());
            if !is_time(requested) {
                continue;
            }
            let open = action == "inflight" || action.ends_with(".inflight") || action.ends_with(".requested");
            match finished {
                Some(finished) if !open && is_time(finished) && !action.contains('.') => completed.push(Instant {
                    requested: requested.to_owned(),
                    completed: finished.to_owned(),
                    action: action.to_owned(),
                    key: format!("{folder}/{name}"),
                    modified_ms,
                    size,
                }),
                _ if open => {
                    let known = pending.entry(requested.to_owned());
                    let known = known.or_insert_with(|| Pending { action: String::new(), is_empty: true });
                    known.is_empty &= size == 0;
                    if let Some((action, _)) = action.rsplit_once('.') {
                        action.clone_into(&mut known.action);
                    }
                }
                _ => {}
            }
        }
        Self::of(completed, pending, layout)
    }

    fn of(mut completed: Vec<Instant>, mut pending: BTreeMap<String, Pending>, layout: Layout) -> Self {
        completed.sort_by(|a, b| (&a.completed, &a.requested).cmp(&(&b.completed, &b.requested)));
        let requested: BTreeSet<String> = completed.iter().map(|i| i.requested.clone()).collect();
        pending.retain(|i, _| !requested.contains(i));
        // A savepoint keeps its commit in the active timeline, whatever is archived around it.
        let saved: BTreeSet<&String> =
            completed.iter().filter(|i| i.action == "savepoint").map(|i| &i.requested).collect();
        let writes = || completed.iter().filter(|i| i.writes()).map(|i| &i.requested);
        let first = writes().filter(|i| !saved.contains(i)).min().or_else(|| writes().min());
        // A pending action starts the timeline only where nothing has completed: one whose writer died may stay behind
        // while commits around it are archived.
        let first = first.or_else(|| pending.keys().next()).cloned();
        Self { completed, pending, requested, first, layout }
    }

    /// The timeline once the action has completed.
    pub(super) fn with(&self, completed: Instant) -> Self {
        let all = self.completed.iter().cloned().chain([completed]).collect();
        Self::of(all, self.pending.clone(), self.layout)
    }

    /// The timeline without the pending action.
    pub(super) fn without(&self, pending: &str) -> Self {
        let mut left = self.pending.clone();
        left.remove(pending);
        Self::of(self.completed.clone(), left, self.layout)
    }

    /// Whether what was written under `instant` counts: it completed, or it is so old that it was archived.
    pub(super) fn is_committed(&self, instant: &str) -> bool {
        let is_archived = || self.first.as_deref().is_none_or(|first| instant < first);
        self.requested.contains(instant) || !self.pending.contains_key(instant) && is_archived()
    }

    /// The oldest write that has not completed. Nothing may be archived from there on: to readers that take all before
    /// the oldest completed write for committed, it would be.
    pub(super) fn oldest_pending_write(&self) -> Option<&str> {
        self.pending.iter().find(|(_, action)| action.writes()).map(|(instant, _)| instant.as_str())
    }

    /// Completed writes, in the order in which they became visible.
    pub(super) fn writes(&self) -> impl DoubleEndedIterator<Item = &Instant> {
        self.completed.iter().filter(|i| i.writes())
    }

    /// When the action requested at `instant` completed; the instant itself where nobody recorded it.
    pub(super) fn completion<'a>(&'a self, instant: &'a str) -> &'a str {
        if self.layout == Layout::One {
            return instant;
        }
        self.completed.iter().find(|i| i.requested == instant).map_or(instant, |i| i.completed.as_str())
    }

    pub(super) const fn layout(&self) -> Layout {
        self.layout
    }
}

/// Lists the objects of a timeline's folder: name, time of modification, and size.
pub(super) async fn names(root: &TableRoot, folder: &str) -> Result<Vec<(String, i64, u64)>> {
    let (store, prefix) = root.object(&FilePath::Under(folder.into()))?;
    let listed = store.list_with_delimiter(Some(&prefix)).await.map_err(|e| Error::store(root.spell(folder), e))?;
    let one = |meta: object_store::ObjectMeta| {
        Some((meta.location.filename()?.to_owned(), meta.last_modified.timestamp_millis(), meta.size))
    };
    Ok(listed.objects.into_iter().filter_map(one).collect())
}

/// Lists the objects of a folder of the table without descending: name and size.
pub(super) async fn list_folder(root: &TableRoot, folder: &str) -> Result<Vec<(String, u64)>> {
    let (store, prefix) = root.object(&FilePath::Under(folder.into()))?;
    let prefix = if prefix.as_ref().is_empty() { None } else { Some(prefix) };
    let listed = store.list_with_delimiter(prefix.as_ref()).await.map_err(|e| Error::store(root.spell(folder), e))?;
    Ok(listed.objects.into_iter().filter_map(|m| Some((m.location.filename()?.to_owned(), m.size))).collect())
}

/// Lists all objects of the table outside of hidden folders at its top: key relative to the root, and size.
pub(super) async fn list_data(root: &TableRoot) -> Result<Vec<(String, u64)>> {
    let (store, prefix) = root.object(&FilePath::Under("".into()))?;
    let fail = |e| Error::store(root.location().to_string(), e);
    let prefix = if prefix.as_ref().is_empty() { None } else { Some(prefix) };
    let base = prefix.as_ref().map_or(0, |p| p.as_ref().len() + 1);
    let top = store.list_with_delimiter(prefix.as_ref()).await.map_err(fail)?;
    let relative = |location: &object_store::path::Path| location.as_ref().get(base..).unwrap_or_default().to_owned();
    let mut found: Vec<(String, u64)> = top.objects.iter().map(|m| (relative(&m.location), m.size)).collect();
    for folder in top.common_prefixes {
        let name = folder.filename().unwrap_or_default();
        if name == FOLDER || (name.starts_with(['_', '.']) && !name.contains('=')) {
            continue;
        }
        let mut stream = store.list(Some(&folder));
        while let Some(meta) = stream.try_next().await.map_err(fail)? {
            found.push((relative(&meta.location), meta.size));
        }
    }
    found.sort();
    Ok(found)
}

/// The time of an instant in milliseconds since the epoch, its digits read as UTC.
///
/// # Units
/// Instants without milliseconds get none: which of the thousand it was is unknown.
pub(super) fn millis(instant: &str) -> i64 {
    let seconds = instant.get(..14).unwrap_or(instant);
    let Ok(time) = chrono::NaiveDateTime::parse_from_str(seconds, "%Y%m%d%H%M%S") else { return 0 };
    let fraction = instant.get(14..17).and_then(|f| f.parse::<i64>().ok()).unwrap_or(0);
    time.and_utc().timestamp_millis() + fraction
}

/// The last time that an instant can name: the end of the year 9999.
pub(super) const LAST_MILLIS: i64 = 253_402_300_799_999;

/// The instant of a time, in UTC.
pub(super) fn instant(millis: i64) -> String {
    let time = chrono::DateTime::from_timestamp_millis(millis).unwrap_or_default();
    time.format("%Y%m%d%H%M%S%3f").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(layout: Layout, names: &[&str]) -> Timeline {
        Timeline::new(".hoodie", names.iter().map(|n| ((*n).to_owned(), 0, 0)), layout)
    }

    #[test]
    fn layout_one_reads_the_action_from_the_name() {
        let found = timeline(
            Layout::One,
            &[
                "20240418173235694.commit.requested",
                "20240418173235694.inflight",
                "20240418173235694.commit",
                "20240418173200000.replacecommit",
                "20240418173300000.deltacommit.inflight",
                "20240418173100000.clean",
                "hoodie.properties",
                "notatime.commit",
            ],
        );
        let done: Vec<_> = found.completed.iter().map(|i| (i.requested.as_str(), i.action.as_str())).collect();
        assert_eq!(
            done,
            [("20240418173100000", "clean"), ("20240418173200000", "replacecommit"), ("20240418173235694", "commit")]
        );
        assert!(found.is_committed("20240418173235694") && found.is_committed("20200101000000"));
        assert!(!found.is_committed("20240418173300000") && !found.is_committed("20240418173236000"));
    }

    /// A writer died at 02; what was before it, and 03 after it, was archived. 05 has a savepoint, 06 is archived.
    #[test]
    fn what_stays_behind_does_not_start_the_timeline() {
        let left = ["20240101000000002.replacecommit.requested", "20240101000000002.replacecommit.inflight"];
        let found = timeline(Layout::One, &[left[0], left[1], "20240101000000004.replacecommit"]);
        assert!(found.is_committed("20240101000000001") && found.is_committed("20240101000000003"));
        assert!(!found.is_committed("20240101000000002") && !found.is_committed("20240101000000005"));
        assert_eq!(found.oldest_pending_write(), Some("20240101000000002"));
        let found = timeline(Layout::One, &left);
        assert!(found.is_committed("20240101000000001") && !found.is_committed("20240101000000003"));
        let saved = ["20240101000000005.commit", "20240101000000005.savepoint", "20240101000000007.commit"];
        let found = timeline(Layout::One, &saved);
        assert!(found.is_committed("20240101000000006") && !found.is_committed("20240101000000008"));
    }

    #[test]
    fn layout_two_orders_by_completion() {
        let found = timeline(
            Layout::Two,
            &[
                "20260307162434124_20260307162458653.commit",
                "20260307162440672_20260307162441724.commit",
                "20260307162434124.commit.requested",
                "20260307162434124.inflight",
                "20260307162454799.clustering.requested",
            ],
        );
        let done: Vec<_> = found.writes().map(|i| i.requested.as_str()).collect();
        assert_eq!(done, ["20260307162440672", "20260307162434124"]);
        assert_eq!(found.completion("20260307162434124"), "20260307162458653");
        assert!(!found.is_committed("20260307162454799"));
    }

    #[test]
    fn instants_are_times() {
        assert_eq!(millis("20231105172136406"), 1_699_204_896_406);
        assert_eq!(instant(1_699_204_896_406), "20231105172136406");
        assert_eq!(millis("20231105172136"), 1_699_204_896_000);
        assert_eq!(millis("00000000000000"), 0);
    }
}
