//! Scan indexes of recently filtered tables, within a budget of bytes.

use super::index::TableIndex;
use hoglake_model::{CatalogId, TableId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The index of one table; locked while it is brought up to date and asked.
pub(super) type Shared = Arc<tokio::sync::Mutex<TableIndex>>;

/// Indexes by table, the least recently used ones dropped first.
///
/// An index stands for no snapshot: it knows when each file began and ended, so that one serves every snapshot. Losing it
/// costs time, never correctness.
#[derive(Default)]
pub(crate) struct ScanCache {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tables: HashMap<(CatalogId, TableId), Entry>,
    uses: u64,
}

struct Entry {
    index: Shared,
    bytes: usize,
    last_use: u64,
}

impl ScanCache {
    /// The index of a table, empty when there was none.
    pub(super) fn table(&self, catalog: CatalogId, table: TableId) -> Shared {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.uses += 1;
        let last_use = state.uses;
        let entry = state.tables.entry((catalog, table)).or_insert_with(|| Entry {
            index: Shared::default(),
            bytes: 0,
            last_use,
        });
        entry.last_use = last_use;
        Arc::clone(&entry.index)
    }

    /// Records that a table's index takes `bytes` now, and makes room for it among `budget`.
    pub(super) fn settle(&self, catalog: CatalogId, table: TableId, bytes: usize, budget: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = state.tables.get_mut(&(catalog, table)) {
            entry.bytes = bytes;
        }
        let mut total: usize = state.tables.values().map(|entry| entry.bytes).sum();
        while total > budget {
            let oldest = state.tables.iter().min_by_key(|(_, entry)| entry.last_use).map(|(key, _)| *key);
            let Some(dropped) = oldest.and_then(|key| state.tables.remove(&key)) else { break };
            total -= dropped.bytes;
        }
        metrics::gauge!("hoglake_scan_index_bytes").set(total as f64);
    }
}
