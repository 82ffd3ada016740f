//! The step from one version of a table to the next.

use super::{DataFile, FilePath, TableState, Value};
use std::sync::Arc;

/// One commit of the source.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The table after the commit.
    pub state: Arc<TableState>,
    /// What the commit did, as the source names it.
    pub operation: Operation,
    /// What changed among the files.
    pub files: FileDelta,
}

/// What kind of commit it was; a target may show it, none relies on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Operation {
    /// Files were only added.
    Append,
    /// Rows changed.
    #[default]
    Overwrite,
    /// Rows were only removed.
    Delete,
    /// The same rows in other files.
    Replace,
}

/// How the set of live files changes. **Invariant:** no path occurs twice, neither in one list nor in two.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FileDelta {
    /// Files that become live, with their deletes.
    pub added: Vec<DataFile>,
    /// Files that stay live while their row-level deletes or their description change: the new description, with all
    /// deletes that apply.
    pub redeleted: Vec<DataFile>,
    /// Files that are no longer live.
    pub removed: Vec<RemovedFile>,
}

/// A file that is no longer live.
#[derive(Debug, Clone, PartialEq)]
pub struct RemovedFile {
    /// Where it lies.
    pub path: FilePath,
    /// Its spec and partition tuple where the source says so; lets a target look in fewer places.
    pub partition: Option<(i32, Vec<Option<Value>>)>,
    /// Its size, where the source says so.
    pub size_bytes: Option<u64>,
}

impl FileDelta {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.redeleted.is_empty() && self.removed.is_empty()
    }

    /// The kind of commit that these lists amount to.
    pub fn operation(&self) -> Operation {
        match (self.added.is_empty(), self.removed.is_empty() && self.redeleted.is_empty()) {
            (_, true) => Operation::Append,
            (true, false) => Operation::Delete,
            (false, false) => Operation::Overwrite,
        }
    }
}

impl RemovedFile {
    /// A file of which only the path is known.
    pub const fn new(path: FilePath) -> Self {
        Self { path, partition: None, size_bytes: None }
    }
}
