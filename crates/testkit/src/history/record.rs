//! What the checker did and was told, in the order in which answers came.

use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// One acknowledged commit.
#[derive(Debug, Clone)]
pub(super) struct Commit {
    /// Unique; also the snapshot's message.
    pub(super) token: String,
    /// The snapshot it was told.
    pub(super) snapshot: i64,
    /// Table, path and rows of each file it registered.
    pub(super) files: Vec<(String, String, i64)>,
}

/// A read of the past, to be repeated.
#[derive(Debug, Clone)]
pub(super) struct PinnedRead {
    pub(super) path: String,
    pub(super) answer: Value,
}

/// Everything worth knowing at the end.
#[derive(Default)]
pub(super) struct Record(Mutex<Entries>);

#[derive(Default)]
pub(super) struct Entries {
    pub(super) commits: Vec<Commit>,
    /// Tokens of commits that were refused for good.
    pub(super) refused: Vec<String>,
    /// Acknowledged DDL: snapshot and what it was.
    pub(super) ddl: Vec<(i64, &'static str)>,
    pub(super) pinned: Vec<PinnedRead>,
    /// Breaches found while the load was on.
    pub(super) breaches: Vec<String>,
    pub(super) reads: usize,
    /// Requests by outcome, for the report.
    pub(super) outcomes: BTreeMap<String, usize>,
    /// Mutations that were answered at the second try or later.
    pub(super) retried: usize,
}

impl Record {
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut Entries) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn breach(&self, what: String) {
        self.with(|entries| entries.breaches.push(what));
    }

    pub(super) fn count(&self, outcome: impl Into<String>, tries: usize) {
        self.with(|entries| {
            *entries.outcomes.entry(outcome.into()).or_default() += 1;
            entries.retried += usize::from(tries > 1);
        });
    }
}
