//! Fault points: places where a test kills this process as `kill -9` would.
//!
//! They are compiled in and do nothing, unless the environment names one: `HOGLAKE_FAULT_POINT=expiry.floor_advanced`
//! kills the process the first time that it gets there, `expiry.files_purged:3` the third time.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Every fault point, in the order of the work.
pub const POINTS: &[&str] = &[
    "expiry.before_floor_commit",
    "expiry.floor_advanced",
    "expiry.before_files_commit",
    "expiry.files_purged",
    "expiry.dropped_table_purged",
    "expiry.dropped_table_forgotten",
    "expiry.before_snapshots_commit",
    "expiry.snapshots_purged",
    "expiry.versions_purged",
    "cleanup.claimed",
    "cleanup.checked",
    "cleanup.deleted",
    "cleanup.settled",
    "compaction.claimed",
    "compaction.staged",
    "compaction.uploading",
    "compaction.uploaded",
    "compaction.before_commit",
    "compaction.committed",
    "publication.claimed",
    "publication.window_read",
    "publication.file_opened",
    "publication.batch_produced",
    "publication.snapshot_produced",
    "publication.acknowledged",
    "publication.advanced",
];

/// The point that the environment names, and how often it is to be passed before.
static ARMED: LazyLock<Option<(String, u64)>> = LazyLock::new(|| {
    let named = std::env::var("HOGLAKE_FAULT_POINT").ok().filter(|name| !name.trim().is_empty())?;
    Some(match named.split_once(':') {
        Some((name, times)) => (name.to_owned(), times.parse().unwrap_or(1)),
        None => (named, 1),
    })
});

static PASSED: AtomicU64 = AtomicU64::new(0);

/// Kills this process if the environment says so; otherwise nothing.
pub fn point(name: &'static str) {
    debug_assert!(POINTS.contains(&name), "{name} is not in the list of fault points");
    if let Some((armed, times)) = &*ARMED
        && armed == name
        && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *times
    {
        // no destructors, no flushes: what the operating system has is all that is left
        std::process::abort();
    }
}
