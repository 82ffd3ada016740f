//! How long committers keep their plans.
//!
//! A committer's statements are planned once for each connection: planning costs as much as executing. Which index is
//! taken is decided then. For tables of which the planner knows that they are empty all indexes cost the same, and it
//! takes one that reads everything of a catalog; it would see no reason to plan again before Postgres analyzes the table
//! by itself, a minute or more of commits later. So plans are thrown away after some growth, which bounds what a wrong one
//! reads.

use sqlx::PgPool;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows after which plans are made anew. A wrong plan reads up to as many, which takes some milliseconds; planning takes
/// about as long, once.
const GENERATION: u64 = 10_000;

/// Counts what this process's committers have written.
#[derive(Debug, Default)]
pub(super) struct Plans {
    written: AtomicU64,
}

impl Plans {
    /// Grows by one every [`GENERATION`] rows.
    pub(super) fn generation(&self) -> u64 {
        self.written.load(Ordering::Relaxed) / GENERATION
    }

    /// Counts `rows`. Connections that lie idle in `pool` are closed at the end of a generation: nobody else knows how old
    /// their plans are.
    pub(super) fn written(&self, rows: u64, pool: &PgPool) {
        let before = self.written.fetch_add(rows, Ordering::Relaxed);
        if before / GENERATION != (before + rows) / GENERATION {
            while let Some(mut idle) = pool.try_acquire() {
                idle.close_on_drop();
            }
        }
    }
}
