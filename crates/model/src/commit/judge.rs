//! The verdict on one commit.

use super::request::{CommitRequest, DeleteFileRegistration, FileRegistration};
use super::state::{CatalogState, LiveTable, LiveVector, TableName};
use crate::bounds::{ClaimedStats, ColumnStats};
use crate::name::quoted;
use crate::{FieldId, FileId, Refusal, SnapshotId, SpecId, TableId};
use std::collections::HashMap;
use uuid::Uuid;

/// An accepted commit: what to write. The state already shows its effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted<'r> {
    /// The snapshot it makes.
    pub snapshot: SnapshotId,
    /// Change kind and table, one row for each.
    pub changes: Vec<(&'static str, TableId)>,
    /// New data files.
    pub files: Vec<NewFile<'r>>,
    /// New deletion vectors.
    pub vectors: Vec<NewVector<'r>>,
}

/// A data file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile<'r> {
    /// Its id.
    pub id: FileId,
    /// Its table.
    pub table: TableId,
    /// Row ids `[row_id_start, row_id_start + record_count)`.
    pub row_id_start: i64,
    /// The partition spec in force.
    pub spec: Option<SpecId>,
    /// The writer's statistics without what is in doubt; `None` when it sent none and the footer is to be read.
    pub statistics: Option<Vec<ColumnStats>>,
    /// What the writer said.
    pub registration: &'r FileRegistration,
}

/// A deletion vector to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVector<'r> {
    /// Its id.
    pub id: FileId,
    /// Its table.
    pub table: TableId,
    /// The vector it replaces.
    pub replaces: Option<FileId>,
    /// What the writer said.
    pub registration: &'r DeleteFileRegistration,
}

/// One table's part of a request; entries for the same table are merged under the first.
struct Entry<'r> {
    name: TableName,
    expected: Vec<Uuid>,
    files: Vec<&'r FileRegistration>,
    vectors: Vec<&'r DeleteFileRegistration>,
}

/// Decides on `request` in `state`; when it is accepted, advances the state by its effect.
///
/// The request has passed [`CommitRequest::check`]. Appends conflict with DDL on their table only; deletes also with
/// whatever happened to their target files after `read_snapshot`.
///
/// # Errors
/// 410 when `read_snapshot` is below the floor; 422 for an unknown table or a shape that its schema refuses; 409 when
/// something changed since `read_snapshot`: the detail names it, and says whether repeating as is can succeed. The state
/// is untouched.
///
/// # Source
/// OpenAPI `commit`; `docs/INVARIANTS.md`.
pub fn judge<'r>(state: &mut CatalogState, request: &'r CommitRequest) -> Result<Accepted<'r>, Refusal> {
    check_read_snapshot(state, request.read_snapshot)?;
    let entries = merge(request);
    for entry in &entries {
        let table = resolve(state, entry, request.read_snapshot)?;
        check_ddl(entry, table, request.read_snapshot)?;
    }
    for entry in &entries {
        if let Some((path, queued)) = entry.paths().find_map(|path| Some((path, state.queued_for_removal.get(path)?))) {
            let cause = match queued.reason.as_str() {
                "snapshot_expiry" => "the snapshots that needed it have expired",
                "table_drop" => "its table was dropped, and the drop has expired",
                "compaction_staging" => "a compaction is writing it, or died before its commit",
                other => other,
            };
            return Err(Refusal::conflict(format!(
                "{}, registered for table {}, waits in the removal queue since {} ({}: {cause}): the object is about to be \
                 deleted. Write the data to a fresh path; repeating as is can succeed only after the removal",
                quoted(path),
                entry.shown(),
                queued.since,
                queued.reason
            )));
        }
    }
    let accepted = plan(state, request, &entries)?;
    let growth = entries.into_iter().map(|e| {
        let rows = e.files.iter().map(|f| f.record_count).sum();
        let bytes = e.files.iter().map(|f| f.file_size_bytes).sum();
        (e.name, rows, bytes)
    });
    apply(state, request, &accepted, growth);
    Ok(accepted)
}

fn check_read_snapshot(state: &CatalogState, read_snapshot: Option<i64>) -> Result<(), Refusal> {
    let Some(read) = read_snapshot else { return Ok(()) };
    if read > state.head {
        return Err(Refusal::validation(format!("read_snapshot {read} is beyond the head snapshot {}", state.head)));
    }
    if read < state.earliest {
        return Err(crate::snapshot::expired(read, state.earliest, state.earliest_time.as_deref()));
    }
    Ok(())
}

fn merge(request: &CommitRequest) -> Vec<Entry<'_>> {
    let mut entries: Vec<Entry<'_>> = Vec::with_capacity(request.appends.len() + request.deletes.len());
    let mut index: HashMap<(&str, &str), usize> = HashMap::new();
    for append in &request.appends {
        let at = *index.entry((&append.namespace, &append.table)).or_insert_with(|| {
            entries.push(Entry::new(&append.namespace, &append.table));
            entries.len() - 1
        });
        entries[at].expected.extend(append.expected_table_uuid);
        entries[at].files.extend(&append.files);
    }
    for deletes in &request.deletes {
        let at = *index.entry((&deletes.namespace, &deletes.table)).or_insert_with(|| {
            entries.push(Entry::new(&deletes.namespace, &deletes.table));
            entries.len() - 1
        });
        entries[at].expected.extend(deletes.expected_table_uuid);
        entries[at].vectors.extend(&deletes.files);
    }
    entries
}

impl Entry<'_> {
    fn new(namespace: &str, table: &str) -> Self {
        Self {
            name: (namespace.to_owned(), table.to_owned()),
            expected: Vec::new(),
            files: Vec::new(),
            vectors: Vec::new(),
        }
    }

    fn paths(&self) -> impl Iterator<Item = &str> {
        let files = self.files.iter().map(|file| file.path.as_str());
        files.chain(self.vectors.iter().map(|vector| vector.path.as_str()))
    }

    fn shown(&self) -> String {
        quoted(&format!("{}.{}", self.name.0, self.name.1))
    }
}

/// The live table that an entry means, after making sure that the name meant the same at `read_snapshot`.
fn resolve<'s>(
    state: &'s CatalogState,
    entry: &Entry<'_>,
    read_snapshot: Option<i64>,
) -> Result<&'s LiveTable, Refusal> {
    let shown = entry.shown();
    let then = read_snapshot.and_then(|read| {
        state.past.iter().find(|(name, past)| *name == entry.name && past.begin.0 <= read && read < past.end.0)
    });
    let Some(table) = state.tables.get(&entry.name) else {
        let Some((_, past)) = then else {
            return Err(Refusal::validation(format!(
                "table {shown} does not exist; create it first, or check the namespace and name"
            )));
        };
        let (kind, what) = past.ended.change();
        return Err(Refusal::conflict(format!(
            "table {shown} {what} after read_snapshot: {kind} in snapshot {} by {}. Repeating as is cannot succeed; \
             refresh and decide again",
            past.end,
            author(past.author.as_deref())
        )));
    };
    if let Some(expected) = entry.expected.iter().find(|uuid| **uuid != table.uuid) {
        // the author of the last DDL is known; whether that created the table, too
        let by = match &table.last_ddl_author {
            Some(name) if table.last_ddl == table.created => format!(" by {}", author(Some(name))),
            _ => String::new(),
        };
        return Err(Refusal::conflict(format!(
            "the table was recreated: {shown} is table_uuid {} since table_created in snapshot {}{by}, not {expected} as \
             expected. Repeating as is cannot succeed; refresh the table and plan the write again",
            table.uuid, table.created
        )));
    }
    if let Some((_, past)) = then
        && past.table != table.id
    {
        let (kind, _) = past.ended.change();
        return Err(Refusal::conflict(format!(
            "the table was recreated: since {kind} in snapshot {} by {}, {shown} is another table than at read_snapshot. \
             Repeating as is cannot succeed; refresh the table and plan the write again",
            past.end,
            author(past.author.as_deref())
        )));
    }
    Ok(table)
}

/// An alter in `(read_snapshot, head]` conflicts; the creation does not, it may be the writer's own.
fn check_ddl(entry: &Entry<'_>, table: &LiveTable, read_snapshot: Option<i64>) -> Result<(), Refusal> {
    let Some(read) = read_snapshot else { return Ok(()) };
    if table.last_ddl.0 <= read || table.last_ddl == table.created {
        return Ok(());
    }
    Err(Refusal::conflict(format!(
        "table {} was altered after read_snapshot {read}: table_altered in snapshot {} by {}. Repeating as is cannot \
         succeed; refresh the table and retry with read_snapshot {} or later",
        entry.shown(),
        table.last_ddl,
        author(table.last_ddl_author.as_deref()),
        table.last_ddl
    )))
}

fn plan<'r>(state: &CatalogState, request: &CommitRequest, entries: &[Entry<'r>]) -> Result<Accepted<'r>, Refusal> {
    let mut accepted = Accepted {
        snapshot: SnapshotId(state.head + 1),
        changes: Vec::with_capacity(entries.len()),
        files: Vec::with_capacity(entries.iter().map(|e| e.files.len()).sum()),
        vectors: Vec::with_capacity(entries.iter().map(|e| e.vectors.len()).sum()),
    };
    let mut next_id = state.next_file_id;
    let mut allocate = || {
        next_id += 1;
        FileId(next_id - 1)
    };
    for entry in entries {
        let Some(table) = state.tables.get(&entry.name) else { continue };
        let (mut row_id, mut records, mut bytes) = (table.next_row_id, table.record_count, table.file_size_bytes);
        for file in &entry.files {
            check_partition(entry, table, file)?;
            let statistics = statistics(entry, table, file)?;
            accepted.files.push(NewFile {
                id: allocate(),
                table: table.id,
                row_id_start: row_id,
                spec: table.schema.partition.map(|(spec, _)| spec),
                statistics,
                registration: file,
            });
            row_id = grow(entry, "row ids", row_id, file.record_count)?;
            records = grow(entry, "rows", records, file.record_count)?;
            bytes = grow(entry, "bytes", bytes, file.file_size_bytes)?;
        }
        if !entry.files.is_empty() {
            accepted.changes.push(("table_inserted_into", table.id));
        }
    }
    for entry in entries {
        let Some(table) = state.tables.get(&entry.name) else { continue };
        for vector in &entry.vectors {
            let replaces = check_vector(state, entry, table, request.read_snapshot.unwrap_or(state.head), vector)?;
            accepted.vectors.push(NewVector { id: allocate(), table: table.id, replaces, registration: vector });
        }
        if !entry.vectors.is_empty() {
            accepted.changes.push(("table_deleted_from", table.id));
        }
    }
    Ok(accepted)
}

fn grow(entry: &Entry<'_>, what: &str, total: i64, by: i64) -> Result<i64, Refusal> {
    total.checked_add(by).ok_or_else(|| {
        Refusal::validation(format!("table {} cannot grow by {by} {what}: it would pass 2^63 - 1", entry.shown()))
    })
}

/// What the live partition spec says about a file.
fn check_partition(entry: &Entry<'_>, table: &LiveTable, file: &FileRegistration) -> Result<(), Refusal> {
    let path = quoted(&file.path);
    match (table.schema.partition, &file.partition_values) {
        (None, None) => {}
        (None, Some(_)) => {
            return Err(Refusal::validation(format!(
                "table {} is not partitioned, so {path} must not carry partition_values",
                entry.shown()
            )));
        }
        (Some((spec, arity)), None) => {
            return Err(Refusal::validation(format!(
                "table {} is partitioned (spec {spec}), so {path} needs {arity} partition_values",
                entry.shown()
            )));
        }
        (Some((spec, arity)), Some(values)) if values.len() != arity => {
            return Err(Refusal::validation(format!(
                "{path} has {} partition_values, but spec {spec} of table {} has {arity} fields",
                values.len(),
                entry.shown()
            )));
        }
        (Some(_), Some(_)) => {}
    }
    Ok(())
}

/// The file's statistics: every field must be a live column; of what is said about it, the doubtful parts are dropped.
fn statistics(
    entry: &Entry<'_>,
    table: &LiveTable,
    file: &FileRegistration,
) -> Result<Option<Vec<ColumnStats>>, Refusal> {
    let Some(claims) = &file.column_stats else { return Ok(None) };
    let mut statistics = Vec::with_capacity(claims.len());
    for claim in claims {
        let field = FieldId(claim.field_id);
        let Some(ty) = table.schema.columns.get(&field) else {
            return Err(Refusal::validation(format!(
                "column_stats of {} name field_id {field}, which is not a live column of table {}",
                quoted(&file.path),
                entry.shown()
            )));
        };
        let claimed = ClaimedStats {
            value_count: Some(claim.value_count),
            null_count: Some(claim.null_count),
            nan_count: claim.nan_count,
            size_bytes: claim.size_bytes,
            lower_bound: claim.lower_bound.as_deref(),
            upper_bound: claim.upper_bound.as_deref(),
        };
        statistics.push(ColumnStats::sanitised(field, *ty, file.record_count, claimed));
    }
    Ok(Some(statistics))
}

/// Checks one vector against its target; returns the vector that it replaces.
fn check_vector(
    state: &CatalogState,
    entry: &Entry<'_>,
    table: &LiveTable,
    read: i64,
    vector: &DeleteFileRegistration,
) -> Result<Option<FileId>, Refusal> {
    let id = FileId(vector.data_file_id);
    let shown = entry.shown();
    let Some(target) = state.targets.get(&id).filter(|t| t.table == table.id) else {
        return Err(Refusal::validation(format!(
            "data file {id} is not a file of table {shown}; vectors target files that a scan of it returned"
        )));
    };
    if let Some(end) = target.end {
        if end.0 <= read {
            return Err(Refusal::validation(format!(
                "data file {id} of table {shown} was no longer live at read_snapshot {read}: it ended in snapshot {end}"
            )));
        }
        return Err(Refusal::conflict(format!(
            "data file {id} of table {shown} was rewritten after read_snapshot {read}: table_compacted in snapshot {end} \
             by {}. Repeating as is cannot succeed; scan again and delete from the files that replaced it",
            author(target.end_author.as_deref())
        )));
    }
    if target.begin.0 > read {
        return Err(Refusal::conflict(format!(
            "data file {id} of table {shown} appeared after read_snapshot {read}: {} in snapshot {} by {}. Repeating as is \
             cannot succeed; retry with a read_snapshot at which you have read it",
            if target.compacted { "table_compacted" } else { "table_inserted_into" },
            target.begin,
            author(target.begin_author.as_deref())
        )));
    }
    let live = target.vector.as_ref();
    if let Some(live) = live.filter(|live| live.begin.0 > read) {
        return Err(Refusal::conflict(format!(
            "rows of data file {id} of table {shown} were deleted after read_snapshot {read}: table_deleted_from in \
             snapshot {} by {}. Repeating as is cannot succeed; merge your vector with the live one and retry with \
             read_snapshot {} or later",
            live.begin,
            author(live.author.as_deref()),
            live.begin
        )));
    }
    if vector.delete_count > target.record_count {
        return Err(Refusal::validation(format!(
            "delete_count {} for data file {id} of table {shown} exceeds its {} rows",
            vector.delete_count, target.record_count
        )));
    }
    if let Some(live) = live.filter(|live| vector.delete_count < live.delete_count) {
        return Err(Refusal::validation(format!(
            "delete_count {} for data file {id} of table {shown} is less than the live vector's {}: vectors only grow",
            vector.delete_count, live.delete_count
        )));
    }
    Ok(live.map(|live| live.id))
}

fn apply(
    state: &mut CatalogState,
    request: &CommitRequest,
    accepted: &Accepted<'_>,
    growth: impl Iterator<Item = (TableName, i64, i64)>,
) {
    state.head = accepted.snapshot.0;
    let added = accepted.files.len() + accepted.vectors.len();
    state.next_file_id += i64::try_from(added).unwrap_or(i64::MAX);
    for (name, rows, bytes) in growth {
        if let Some(table) = state.tables.get_mut(&name) {
            table.next_row_id += rows;
            table.record_count += rows;
            table.file_size_bytes += bytes;
        }
    }
    for vector in &accepted.vectors {
        if let Some(target) = state.targets.get_mut(&FileId(vector.registration.data_file_id)) {
            target.vector = Some(LiveVector {
                id: vector.id,
                begin: accepted.snapshot,
                author: request.author.clone(),
                delete_count: vector.registration.delete_count,
            });
        }
    }
}

fn author(author: Option<&str>) -> String {
    author.map_or_else(|| "an unnamed author".to_owned(), quoted)
}
