//! Writes a group of accepted commits set-based: one statement for everything but deletion vectors.

use hoglake_model::bounds::ColumnStats;
use hoglake_model::commit::{Accepted, CatalogState, CommitRequest, NewVector};
use hoglake_model::{CatalogId, FileId};
use sqlx::PgConnection;
use std::collections::HashMap;
use std::fmt::Write as _;

use crate::idempotency::IdempotencyKey;

/// One accepted request and its answer.
pub(super) struct Entry<'r> {
    pub(super) request: &'r CommitRequest,
    pub(super) accepted: Accepted<'r>,
    pub(super) key: Option<&'r IdempotencyKey>,
    pub(super) response: String,
}

/// By what a written group is found again after its connection broke.
#[derive(Debug, Clone)]
pub(super) struct Trace {
    pub(super) snapshot: i64,
    pub(super) time: chrono::DateTime<chrono::Utc>,
    pub(super) transaction: String,
}

/// Writes `entries`; `state` is the state after the last of them.
pub(super) async fn write(
    connection: &mut PgConnection,
    catalog: CatalogId,
    state: &CatalogState,
    entries: &[Entry<'_>],
) -> Result<Trace, sqlx::Error> {
    let rows = Rows::of(state, entries);
    let statistics = StatisticsRows::of(entries);
    let (transaction, time) = sqlx::query_as(include_str!("../../sql/commit/write.sql"))
        .bind(catalog.0)
        .bind(state.next_file_id)
        .bind(i64::try_from(rows.file_ids.len()).unwrap_or(i64::MAX))
        .bind(entries.iter().map(|e| e.request.author.as_deref()).collect::<Vec<_>>())
        .bind(entries.iter().map(|e| e.request.message.as_deref()).collect::<Vec<_>>())
        .bind(rows.change_snapshots)
        .bind(rows.change_ordinals)
        .bind(rows.change_kinds)
        .bind(rows.change_tables)
        .bind(rows.file_ids)
        .bind(rows.file_tables)
        .bind(rows.file_snapshots)
        .bind(rows.file_paths)
        .bind(rows.record_counts)
        .bind(rows.sizes)
        .bind(rows.footer_sizes)
        .bind(rows.row_id_starts)
        .bind(rows.specs)
        .bind(rows.partition_values)
        .bind(rows.has_statistics)
        .bind(rows.counter_tables)
        .bind(rows.counter_row_ids)
        .bind(rows.counter_records)
        .bind(rows.counter_files)
        .bind(rows.counter_sizes)
        .bind(statistics.file_ids)
        .bind(statistics.field_ids)
        .bind(statistics.value_counts)
        .bind(statistics.null_counts)
        .bind(statistics.nan_counts)
        .bind(statistics.sizes)
        .bind(statistics.lower_bounds)
        .bind(statistics.upper_bounds)
        .fetch_one(&mut *connection)
        .await?;
    write_vectors(connection, catalog, entries).await?;
    write_keys(connection, catalog, entries).await?;
    Ok(Trace { snapshot: state.head, time, transaction })
}

/// Column arrays for changes, files and table counters.
#[derive(Default)]
struct Rows<'r> {
    change_snapshots: Vec<i64>,
    change_ordinals: Vec<i32>,
    change_kinds: Vec<&'static str>,
    change_tables: Vec<i64>,
    file_ids: Vec<i64>,
    file_tables: Vec<i64>,
    file_snapshots: Vec<i64>,
    file_paths: Vec<&'r str>,
    record_counts: Vec<i64>,
    sizes: Vec<i64>,
    footer_sizes: Vec<Option<i64>>,
    row_id_starts: Vec<i64>,
    specs: Vec<Option<i64>>,
    partition_values: Vec<Option<String>>,
    has_statistics: Vec<bool>,
    counter_tables: Vec<i64>,
    counter_row_ids: Vec<i64>,
    counter_records: Vec<i64>,
    counter_files: Vec<i64>,
    counter_sizes: Vec<i64>,
}

impl<'r> Rows<'r> {
    fn of(state: &CatalogState, entries: &[Entry<'r>]) -> Self {
        let mut rows = Self::default();
        let mut files_added: HashMap<i64, i64> = HashMap::new();
        for Entry { accepted, .. } in entries {
            let snapshot = accepted.snapshot.0;
            for (ordinal, (kind, table)) in (1..).zip(&accepted.changes) {
                rows.change_snapshots.push(snapshot);
                rows.change_ordinals.push(ordinal);
                rows.change_kinds.push(kind);
                rows.change_tables.push(table.0);
            }
            for file in &accepted.files {
                let registration = file.registration;
                rows.file_ids.push(file.id.0);
                rows.file_tables.push(file.table.0);
                rows.file_snapshots.push(snapshot);
                rows.file_paths.push(&registration.path);
                rows.record_counts.push(registration.record_count);
                rows.sizes.push(registration.file_size_bytes);
                rows.footer_sizes.push(registration.footer_size);
                rows.row_id_starts.push(file.row_id_start);
                rows.specs.push(file.spec.map(|s| s.0));
                rows.partition_values.push(registration.partition_values.as_deref().map(text_array));
                rows.has_statistics.push(file.statistics.is_some());
                *files_added.entry(file.table.0).or_default() += 1;
            }
        }
        for table in state.tables.values() {
            if let Some(added) = files_added.get(&table.id.0) {
                rows.counter_tables.push(table.id.0);
                rows.counter_row_ids.push(table.next_row_id);
                rows.counter_records.push(table.record_count);
                rows.counter_files.push(*added);
                rows.counter_sizes.push(table.file_size_bytes);
            }
        }
        rows
    }
}

/// Column arrays for statistics: one row a file, each cell an array literal.
#[derive(Default)]
pub(crate) struct StatisticsRows {
    pub(crate) file_ids: Vec<i64>,
    pub(crate) field_ids: Vec<String>,
    pub(crate) value_counts: Vec<String>,
    pub(crate) null_counts: Vec<String>,
    pub(crate) nan_counts: Vec<String>,
    pub(crate) sizes: Vec<String>,
    pub(crate) lower_bounds: Vec<String>,
    pub(crate) upper_bounds: Vec<String>,
}

impl StatisticsRows {
    fn of(entries: &[Entry<'_>]) -> Self {
        let mut rows = Self::default();
        for file in entries.iter().flat_map(|e| &e.accepted.files) {
            if let Some(stats) = file.statistics.as_deref().filter(|s| !s.is_empty()) {
                rows.push(file.id, stats);
            }
        }
        rows
    }

    /// Adds the statistics of `file`.
    pub(crate) fn push(&mut self, file: FileId, stats: &[ColumnStats]) {
        self.file_ids.push(file.0);
        self.field_ids.push(integer_array(stats.iter().map(|s| Some(s.field_id.0))));
        self.value_counts.push(integer_array(stats.iter().map(|s| s.value_count)));
        self.null_counts.push(integer_array(stats.iter().map(|s| s.null_count)));
        self.nan_counts.push(integer_array(stats.iter().map(|s| s.nan_count)));
        self.sizes.push(integer_array(stats.iter().map(|s| s.size_bytes)));
        self.lower_bounds.push(bytes_array(stats.iter().map(|s| s.bounds.lower())));
        self.upper_bounds.push(bytes_array(stats.iter().map(|s| s.bounds.upper())));
    }
}

async fn write_vectors(
    connection: &mut PgConnection,
    catalog: CatalogId,
    entries: &[Entry<'_>],
) -> Result<(), sqlx::Error> {
    let vectors: Vec<(i64, &NewVector<'_>)> =
        entries.iter().flat_map(|e| e.accepted.vectors.iter().map(|v| (e.accepted.snapshot.0, v))).collect();
    if vectors.is_empty() {
        return Ok(());
    }
    let ended: HashMap<FileId, i64> =
        vectors.iter().filter_map(|(snapshot, v)| v.replaces.map(|id| (id, *snapshot))).collect();
    if !ended.is_empty() {
        sqlx::query(include_str!("../../sql/commit/replace_vectors.sql"))
            .bind(catalog.0)
            .bind(ended.keys().map(|id| id.0).collect::<Vec<_>>())
            .bind(ended.values().copied().collect::<Vec<_>>())
            .execute(&mut *connection)
            .await?;
    }
    let column = |value: fn(&NewVector<'_>) -> i64| vectors.iter().map(|(_, v)| value(v)).collect::<Vec<_>>();
    sqlx::query(include_str!("../../sql/commit/write_vectors.sql"))
        .bind(catalog.0)
        .bind(column(|v| v.id.0))
        .bind(column(|v| v.table.0))
        .bind(column(|v| v.registration.data_file_id))
        .bind(vectors.iter().map(|(snapshot, _)| *snapshot).collect::<Vec<_>>())
        // a later commit of the same group may have replaced it already
        .bind(vectors.iter().map(|(_, v)| ended.get(&v.id).copied()).collect::<Vec<_>>())
        .bind(vectors.iter().map(|(_, v)| v.registration.path.as_str()).collect::<Vec<_>>())
        .bind(column(|v| v.registration.delete_count))
        .bind(column(|v| v.registration.file_size_bytes))
        .execute(connection)
        .await?;
    Ok(())
}

async fn write_keys(
    connection: &mut PgConnection,
    catalog: CatalogId,
    entries: &[Entry<'_>],
) -> Result<(), sqlx::Error> {
    let keyed: Vec<(&IdempotencyKey, &Entry<'_>)> = entries.iter().filter_map(|e| Some((e.key?, e))).collect();
    if keyed.is_empty() {
        return Ok(());
    }
    sqlx::query(include_str!("../../sql/commit/write_keys.sql"))
        .bind(catalog.0)
        .bind(keyed.iter().map(|(key, _)| key.key.as_str()).collect::<Vec<_>>())
        .bind(keyed.iter().map(|(key, _)| &key.request_hash[..]).collect::<Vec<_>>())
        .bind(keyed.iter().map(|(_, e)| e.response.as_str()).collect::<Vec<_>>())
        .bind(keyed.iter().map(|(_, e)| e.accepted.snapshot.0).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}

/// An array literal of integers and NULLs.
fn integer_array(values: impl Iterator<Item = Option<i64>>) -> String {
    let mut literal = String::from("{");
    let mut digits = itoa::Buffer::new();
    for (index, value) in values.enumerate() {
        if index > 0 {
            literal.push(',');
        }
        literal.push_str(value.map_or("NULL", |v| digits.format(v)));
    }
    literal.push('}');
    literal
}

/// An array literal of `bytea` values and NULLs.
fn bytes_array<'b>(values: impl Iterator<Item = Option<&'b [u8]>>) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut literal = String::from("{");
    for (index, value) in values.enumerate() {
        if index > 0 {
            literal.push(',');
        }
        match value {
            None => literal.push_str("NULL"),
            Some(bytes) => {
                literal.push_str("\"\\\\x");
                for byte in bytes {
                    literal.push(char::from(HEX[usize::from(byte >> 4)]));
                    literal.push(char::from(HEX[usize::from(byte & 15)]));
                }
                literal.push('"');
            }
        }
    }
    literal.push('}');
    literal
}

/// An array literal of texts and NULLs.
pub(crate) fn text_array(values: &[Option<String>]) -> String {
    let mut literal = String::from("{");
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            literal.push(',');
        }
        match value {
            None => literal.push_str("NULL"),
            Some(text) => {
                let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
                // writing to a String cannot fail
                let _ = write!(literal, "\"{escaped}\"");
            }
        }
    }
    literal.push('}');
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn array_literals_survive_every_character() {
        assert_eq!(integer_array([Some(1), None, Some(-2)].into_iter()), "{1,NULL,-2}");
        assert_eq!(
            bytes_array([Some(&[0x0f, 0xa0][..]), None, Some(&[][..])].into_iter()),
            r#"{"\\x0fa0",NULL,"\\x"}"#
        );
        let texts = [Some("a,b".to_owned()), None, Some(r#"q"\{}"#.to_owned()), Some("NULL".to_owned())];
        assert_eq!(text_array(&texts), r#"{"a,b",NULL,"q\"\\{}","NULL"}"#);
    }
}
