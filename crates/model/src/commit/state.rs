//! What the catalog knows when a group of commits is judged: loaded once under the lock, advanced in memory.

use crate::{ColumnType, FieldId, FileId, SnapshotId, SpecId, TableId};
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

/// Namespace and table name.
pub type TableName = (String, String);

/// The state of one catalog, as far as a group of requests needs it.
#[derive(Debug, Clone, Default)]
pub struct CatalogState {
    /// Newest snapshot; each accepted request makes the next one.
    pub head: i64,
    /// Unchanged by data commits.
    pub schema_version: i64,
    /// Oldest retained snapshot.
    pub earliest: i64,
    /// When expiry reached `earliest`, once it has moved it.
    pub earliest_time: Option<String>,
    /// Allocator of data files and deletion vectors.
    pub next_file_id: i64,
    /// The live tables that the group names.
    pub tables: HashMap<TableName, LiveTable>,
    /// Who had these names at some snapshot since the oldest `read_snapshot` of the group and has them no longer.
    pub past: Vec<(TableName, PastName)>,
    /// The data files that the group's vectors target.
    pub targets: HashMap<FileId, TargetFile>,
    /// Paths of the group that wait in the removal queue.
    pub queued_for_removal: HashMap<String, QueuedRemoval>,
}

/// Why and since when a path waits for removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedRemoval {
    /// `snapshot_expiry`, `table_drop` or `compaction_staging`.
    pub reason: String,
    /// When it was queued.
    pub since: String,
}

/// A live table.
#[derive(Debug, Clone)]
pub struct LiveTable {
    /// This incarnation.
    pub id: TableId,
    /// This incarnation, as clients know it.
    pub uuid: Uuid,
    /// Since which snapshot the table has this name.
    pub named_since: SnapshotId,
    /// When it was created.
    pub created: SnapshotId,
    /// Its newest DDL: the creation, or the last alter.
    pub last_ddl: SnapshotId,
    /// Who made that DDL, if recorded.
    pub last_ddl_author: Option<String>,
    /// Columns and partition spec.
    pub schema: Arc<TableSchema>,
    /// Row-id allocator.
    pub next_row_id: i64,
    /// Gross rows at head.
    pub record_count: i64,
    /// Gross bytes at head.
    pub file_size_bytes: i64,
}

/// What validation needs of a table's schema; changes only with DDL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableSchema {
    /// Live columns.
    pub columns: HashMap<FieldId, ColumnType>,
    /// The live partition spec and its number of fields; `None` when unpartitioned.
    pub partition: Option<(SpecId, usize)>,
}

/// A name as it was.
#[derive(Debug, Clone)]
pub struct PastName {
    /// Who had it.
    pub table: TableId,
    /// From this snapshot on,
    pub begin: SnapshotId,
    /// before this one.
    pub end: SnapshotId,
    /// How it ended.
    pub ended: Ended,
    /// Who ended it, if recorded.
    pub author: Option<String>,
}

/// How a table lost a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The table was dropped.
    Dropped,
    /// The table goes by another name.
    Renamed,
}

impl Ended {
    /// The kind of the change, and the same in words.
    pub(super) const fn change(self) -> (&'static str, &'static str) {
        match self {
            Self::Dropped => ("table_dropped", "was dropped"),
            Self::Renamed => ("table_altered", "was renamed"),
        }
    }
}

/// A data file that a vector targets.
#[derive(Debug, Clone)]
pub struct TargetFile {
    /// Whose file.
    pub table: TableId,
    /// Visible from this snapshot on.
    pub begin: SnapshotId,
    /// Whether a compaction wrote it.
    pub compacted: bool,
    /// Who registered it, if recorded.
    pub begin_author: Option<String>,
    /// Visible before this snapshot.
    pub end: Option<SnapshotId>,
    /// Who ended it, if recorded.
    pub end_author: Option<String>,
    /// Rows.
    pub record_count: i64,
    /// The vector in force.
    pub vector: Option<LiveVector>,
}

/// A deletion vector in force.
#[derive(Debug, Clone)]
pub struct LiveVector {
    /// Its id.
    pub id: FileId,
    /// The commit that registered it.
    pub begin: SnapshotId,
    /// Who, if recorded.
    pub author: Option<String>,
    /// Deleted positions.
    pub delete_count: i64,
}
