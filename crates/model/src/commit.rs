//! Commits: what a writer asks for, what the catalog knows, and the rule that decides.
//!
//! [`judge`] is the whole commit protocol as a pure function: the group committer loads a [`CatalogState`] under the
//! lock, judges its requests one after another, and writes what was accepted. A refused request leaves no trace in the
//! state.

mod judge;
mod request;
mod state;
#[cfg(test)]
mod tests;

pub use judge::{Accepted, NewFile, NewVector, judge};
pub use request::{
    ColumnStats, CommitRequest, DeleteFileRegistration, FileRegistration, MAX_FILE_SIZE_BYTES, MAX_PATH_BYTES,
    MAX_RECORD_COUNT, TableAppend, TableDeletes,
};
pub use state::{
    CatalogState, Ended, LiveTable, LiveVector, PastName, QueuedRemoval, TableName, TableSchema, TargetFile,
};
