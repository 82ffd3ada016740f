//! Loads what a group of commits needs, in one round trip (two when a table's schema is not cached).

use super::Fault;
use crate::idempotency::StoredAnswer;
use hoglake_model::commit::{
    CatalogState, CommitRequest, Ended, LiveTable, LiveVector, PastName, QueuedRemoval, TableName, TableSchema,
    TargetFile,
};
use hoglake_model::{CatalogId, ColumnType, FieldId, FileId, SnapshotId, SpecId, TableId};
use serde::Deserialize;
use sqlx::{PgConnection, Row};
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

/// Schemas of live tables by table id, each with the DDL snapshot that it belongs to.
#[derive(Default)]
pub(super) struct SchemaCache {
    schemas: HashMap<TableId, (SnapshotId, Arc<TableSchema>)>,
}

/// Most schemas that a committer keeps; past it the cache starts over.
const CACHED_SCHEMAS: usize = 4096;

/// What the group touches, deduplicated.
struct Wanted<'r> {
    namespaces: Vec<&'r str>,
    tables: Vec<&'r str>,
    oldest_reads: Vec<Option<i64>>,
    paths: Vec<&'r str>,
    targets: Vec<i64>,
}

#[derive(Deserialize)]
struct HeadRow {
    head_snapshot: i64,
    schema_version: i64,
    earliest_snapshot: i64,
    earliest_time: Option<String>,
    next_file_id: i64,
}

#[derive(Deserialize)]
struct TableRow {
    ordinal: usize,
    table_id: i64,
    table_uuid: Uuid,
    named_since: i64,
    created: i64,
    last_ddl: i64,
    last_ddl_author: Option<String>,
    next_row_id: i64,
    record_count: i64,
    file_size_bytes: i64,
}

#[derive(Deserialize)]
struct PastRow {
    ordinal: usize,
    table_id: i64,
    begin: i64,
    end: i64,
    dropped: bool,
    author: Option<String>,
}

#[derive(Deserialize)]
struct TargetRow {
    data_file_id: i64,
    table_id: i64,
    begin: i64,
    begin_author: Option<String>,
    compacted: bool,
    end: Option<i64>,
    end_author: Option<String>,
    record_count: i64,
    vector_id: Option<i64>,
    vector_begin: Option<i64>,
    delete_count: Option<i64>,
    vector_author: Option<String>,
}

#[derive(Deserialize)]
struct QueuedRow {
    path: String,
    reason: String,
    since: String,
}

#[derive(Deserialize)]
struct KeyRow {
    key: String,
    request_hash: String,
    status: i16,
    response: Option<String>,
    snapshot_id: Option<i64>,
}

/// What a group of appends needs.
const LOAD: &str = include_str!("../../sql/commit/load.sql");

/// What any group needs.
const LOAD_WITH_CONFLICTS: &str = concat!(
    "select * from (",
    include_str!("../../sql/commit/load.sql"),
    ") as state cross join (",
    include_str!("../../sql/commit/load_conflicts.sql"),
    ") as conflicts"
);

/// Loads the state that `requests` need, and the stored answers of `keys`.
pub(super) async fn load(
    connection: &mut PgConnection,
    catalog: CatalogId,
    requests: &[&CommitRequest],
    keys: &[&str],
    cache: &mut SchemaCache,
) -> Result<(CatalogState, Vec<StoredAnswer>), Fault> {
    let wanted = Wanted::of(requests);
    let conflicts = wanted.looks_back() || !keys.is_empty();
    let mut query = sqlx::query(if conflicts { LOAD_WITH_CONFLICTS } else { LOAD })
        .bind(catalog.0)
        .bind(&wanted.namespaces)
        .bind(&wanted.tables)
        .bind(&wanted.paths);
    if conflicts {
        query = query.bind(&wanted.oldest_reads).bind(&wanted.targets).bind(keys);
    }
    let row = query.fetch_one(&mut *connection).await?;
    let head: HeadRow =
        document(&row, "catalog")?.ok_or_else(|| Fault::Corrupt(format!("catalog {catalog} has no row")))?;
    let tables: Vec<TableRow> = document(&row, "tables")?.unwrap_or_default();
    let queued: Vec<QueuedRow> = document(&row, "queued")?.unwrap_or_default();
    let (past, targets, keys): (Vec<PastRow>, Vec<TargetRow>, Vec<KeyRow>) = if conflicts {
        let part = (document(&row, "past")?, document(&row, "targets")?, document(&row, "keys")?);
        (part.0.unwrap_or_default(), part.1.unwrap_or_default(), part.2.unwrap_or_default())
    } else {
        Default::default()
    };

    cache.fill(connection, catalog, &tables).await?;
    let mut state = CatalogState {
        head: head.head_snapshot,
        schema_version: head.schema_version,
        earliest: head.earliest_snapshot,
        earliest_time: head.earliest_time,
        next_file_id: head.next_file_id,
        queued_for_removal: queued.into_iter().map(QueuedRow::into_entry).collect(),
        ..CatalogState::default()
    };
    for table in tables {
        let schema = cache.get(&table)?;
        state.tables.insert(wanted.name(table.ordinal)?, table.into_live(schema));
    }
    for past in past {
        state.past.push((wanted.name(past.ordinal)?, past.into()));
    }
    state.targets.extend(targets.into_iter().map(|t| (FileId(t.data_file_id), t.into())));
    let keys = keys.into_iter().map(KeyRow::into_answer).collect::<Result<_, _>>()?;
    Ok((state, keys))
}

impl<'r> Wanted<'r> {
    fn of(requests: &[&'r CommitRequest]) -> Self {
        let mut names: HashMap<(&str, &str), Option<i64>> = HashMap::new();
        let mut paths = Vec::new();
        let mut targets = Vec::new();
        for request in requests {
            let named = request
                .appends
                .iter()
                .map(|a| (a.namespace.as_str(), a.table.as_str()))
                .chain(request.deletes.iter().map(|d| (d.namespace.as_str(), d.table.as_str())));
            for name in named.filter(|(namespace, table)| !namespace.contains('\0') && !table.contains('\0')) {
                let oldest = names.entry(name).or_default();
                *oldest = match (*oldest, request.read_snapshot) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
            paths.extend(request.paths());
            targets.extend(request.deletes.iter().flat_map(|d| d.files.iter().map(|f| f.data_file_id)));
        }
        targets.sort_unstable();
        targets.dedup();
        let mut wanted = Self { namespaces: Vec::new(), tables: Vec::new(), oldest_reads: Vec::new(), paths, targets };
        for ((namespace, table), oldest) in names {
            wanted.namespaces.push(namespace);
            wanted.tables.push(table);
            wanted.oldest_reads.push(oldest);
        }
        wanted
    }

    /// Whether a request of the group reads in the past or targets a file.
    fn looks_back(&self) -> bool {
        !self.targets.is_empty() || self.oldest_reads.iter().any(Option::is_some)
    }

    /// The name at SQL ordinality `ordinal`, from 1.
    fn name(&self, ordinal: usize) -> Result<TableName, Fault> {
        let at = ordinal.wrapping_sub(1);
        match (self.namespaces.get(at), self.tables.get(at)) {
            (Some(namespace), Some(table)) => Ok(((*namespace).to_owned(), (*table).to_owned())),
            _ => Err(Fault::Corrupt(format!("load answered for name {ordinal}, which was not asked for"))),
        }
    }
}

impl SchemaCache {
    async fn fill(
        &mut self,
        connection: &mut PgConnection,
        catalog: CatalogId,
        tables: &[TableRow],
    ) -> Result<(), Fault> {
        let missing: Vec<&TableRow> = tables
            .iter()
            .filter(|t| self.schemas.get(&TableId(t.table_id)).is_none_or(|(ddl, _)| ddl.0 != t.last_ddl))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        if self.schemas.len() + missing.len() > CACHED_SCHEMAS {
            self.schemas.clear();
            // what this group needs again is loaded again
            return Box::pin(self.fill_all(connection, catalog, tables.iter().collect())).await;
        }
        self.fill_all(connection, catalog, missing).await
    }

    async fn fill_all(
        &mut self,
        connection: &mut PgConnection,
        catalog: CatalogId,
        tables: Vec<&TableRow>,
    ) -> Result<(), Fault> {
        let ids: Vec<i64> = tables.iter().map(|t| t.table_id).collect();
        let rows: Vec<(i64, i64, String, Option<String>, Option<i64>, i64)> =
            sqlx::query_as(include_str!("../../sql/commit/schemas.sql"))
                .bind(catalog.0)
                .bind(ids)
                .fetch_all(connection)
                .await?;
        let mut schemas: HashMap<i64, TableSchema> = HashMap::new();
        for (table, field, literal, params, spec, arity) in rows {
            let schema = schemas.entry(table).or_default();
            let params = params.map(|p| serde_json::from_str(&p)).transpose();
            let params = params.map_err(|e| Fault::Corrupt(format!("type_params of table {table}: {e}")))?;
            let column_type = ColumnType::parse(&literal, params.as_ref())
                .map_err(|e| Fault::Corrupt(format!("column {field} of table {table}: {e}")))?;
            schema.columns.insert(FieldId(field), column_type);
            // the empty spec means "unpartitioned from here on"
            schema.partition = spec.filter(|_| arity > 0).map(|s| (SpecId(s), usize::try_from(arity).unwrap_or(0)));
        }
        for table in tables {
            let schema = schemas.remove(&table.table_id).unwrap_or_default();
            self.schemas.insert(TableId(table.table_id), (SnapshotId(table.last_ddl), Arc::new(schema)));
        }
        Ok(())
    }

    fn get(&self, table: &TableRow) -> Result<Arc<TableSchema>, Fault> {
        self.schemas
            .get(&TableId(table.table_id))
            .map(|(_, schema)| Arc::clone(schema))
            .ok_or_else(|| Fault::Corrupt(format!("table {} has no schema", table.table_id)))
    }
}

impl TableRow {
    fn into_live(self, schema: Arc<TableSchema>) -> LiveTable {
        LiveTable {
            id: TableId(self.table_id),
            uuid: self.table_uuid,
            named_since: SnapshotId(self.named_since),
            created: SnapshotId(self.created),
            last_ddl: SnapshotId(self.last_ddl),
            last_ddl_author: self.last_ddl_author,
            schema,
            next_row_id: self.next_row_id,
            record_count: self.record_count,
            file_size_bytes: self.file_size_bytes,
        }
    }
}

impl From<PastRow> for PastName {
    fn from(row: PastRow) -> Self {
        Self {
            table: TableId(row.table_id),
            begin: SnapshotId(row.begin),
            end: SnapshotId(row.end),
            ended: if row.dropped { Ended::Dropped } else { Ended::Renamed },
            author: row.author,
        }
    }
}

impl From<TargetRow> for TargetFile {
    fn from(row: TargetRow) -> Self {
        let vector = match (row.vector_id, row.vector_begin, row.delete_count) {
            (Some(id), Some(begin), Some(delete_count)) => {
                Some(LiveVector { id: FileId(id), begin: SnapshotId(begin), author: row.vector_author, delete_count })
            }
            _ => None,
        };
        Self {
            table: TableId(row.table_id),
            begin: SnapshotId(row.begin),
            compacted: row.compacted,
            begin_author: row.begin_author,
            end: row.end.map(SnapshotId),
            end_author: row.end_author,
            record_count: row.record_count,
            vector,
        }
    }
}

impl QueuedRow {
    fn into_entry(self) -> (String, QueuedRemoval) {
        (self.path, QueuedRemoval { reason: self.reason, since: self.since })
    }
}

impl KeyRow {
    fn into_answer(self) -> Result<StoredAnswer, Fault> {
        let request_hash = (0..self.request_hash.len())
            .step_by(2)
            .map(|i| self.request_hash.get(i..i + 2).and_then(|h| u8::from_str_radix(h, 16).ok()))
            .collect::<Option<Vec<u8>>>()
            .ok_or_else(|| Fault::Corrupt("request_hash is not hexadecimal".to_owned()))?;
        Ok(StoredAnswer {
            key: self.key,
            request_hash,
            status: self.status,
            response: self.response,
            under_way: None,
            snapshot_id: self.snapshot_id,
        })
    }
}

fn document<T: for<'de> Deserialize<'de>>(row: &sqlx::postgres::PgRow, column: &str) -> Result<Option<T>, Fault> {
    let text: Option<&str> = row.try_get(column)?;
    text.map(serde_json::from_str).transpose().map_err(|e| Fault::Corrupt(format!("{column}: {e}")))
}
