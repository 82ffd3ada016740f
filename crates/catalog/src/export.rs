//! The export: everything live at head, for comparing a restored catalog with its object store.
//!
//! One REPEATABLE READ READ ONLY transaction, streamed. The names of the live tables are held in memory (some 100 bytes
//! each), their files never are. A large table is a COPY of its own, in index order; small ones share one, since a
//! catalog may have 50,000 of them and each statement is a round trip.

mod tables;

use crate::consumers::ConsumerOffset;
use crate::listing::copy::{Parameter, Rows};
use crate::listing::json::{push_number, push_string};
use crate::listing::reader::Reader;
use crate::listing::stream::{self, Sink};
use crate::listing::{Body, json};
use crate::{Catalog, Error, Result};
use chrono::{DateTime, Utc};
use futures::TryStreamExt;
use hoglake_model::{CatalogId, timestamp};
use sqlx::PgConnection;
use tables::{LiveTable, Tables, batches};

/// The first columns of an export.
#[derive(Debug, sqlx::FromRow)]
struct Head {
    name: String,
    data_path: String,
    head_snapshot: i64,
    head_snapshot_time: DateTime<Utc>,
    earliest_snapshot: i64,
    earliest_snapshot_time: Option<DateTime<Utc>>,
}

impl Catalog {
    /// The `ExportManifest` of a catalog at head. With `unlisted` it also has the objects that the catalog knows besides
    /// the live ones: of retained snapshots, in the removal queue, staged by compactions.
    ///
    /// # Ordering
    /// Tables by namespace and name, bytewise; files by first row id, then id; vectors by data file; offsets by consumer,
    /// then table.
    ///
    /// # Errors
    /// 404 for an unknown catalog.
    ///
    /// # Source
    /// OpenAPI `exportCatalog`.
    pub async fn export(&self, catalog: &str, unlisted: bool) -> Result<Body> {
        let catalog = self.catalog_find(catalog).await?.id;
        let reader = Reader::open(self).await?;
        stream::start(reader, self.options().read_chunk_timeout, move |reader, sink| {
            Box::pin(async move { write(reader.connection(), sink, catalog, unlisted).await })
        })
        .await
    }
}

async fn write(connection: &mut PgConnection, sink: &mut Sink, catalog: CatalogId, unlisted: bool) -> Result<()> {
    let head =
        sqlx::query_as(include_str!("../sql/export/head.sql")).bind(catalog.0).fetch_one(&mut *connection).await?;
    push_head(&mut sink.buffer, head);
    let tables = live_tables(connection, catalog).await?;
    sink.buffer.extend_from_slice(b",\"tables\":[");
    let mut rest = &tables[..];
    for batch in batches(&tables) {
        let (these, others) = rest.split_at(batch);
        let mut written = Tables::new(these, rest.len() == tables.len());
        match these {
            [table] => write_table(connection, sink, catalog, table, &mut written).await?,
            several => write_tables(connection, sink, catalog, several, &mut written).await?,
        }
        written.finish(&mut sink.buffer);
        rest = others;
    }
    sink.buffer.extend_from_slice(b"],\"consumer_offsets\":[");
    write_offsets(connection, sink, catalog).await?;
    if unlisted {
        sink.buffer.extend_from_slice(b"],\"unlisted\":[");
        write_unlisted(connection, sink, catalog).await?;
    }
    sink.buffer.extend_from_slice(b"]}");
    Ok(())
}

fn push_head(out: &mut Vec<u8>, head: Head) {
    out.extend_from_slice(b"{\"catalog\":");
    push_string(out, head.name.as_bytes());
    out.extend_from_slice(b",\"data_path\":");
    push_string(out, head.data_path.as_bytes());
    out.extend_from_slice(b",\"head_snapshot_id\":");
    push_number(out, head.head_snapshot);
    out.extend_from_slice(b",\"head_snapshot_time\":");
    push_string(out, timestamp::format(head.head_snapshot_time).as_bytes());
    out.extend_from_slice(b",\"earliest_snapshot_id\":");
    push_number(out, head.earliest_snapshot);
    out.extend_from_slice(b",\"earliest_snapshot_time\":");
    match head.earliest_snapshot_time {
        Some(time) => push_string(out, timestamp::format(time).as_bytes()),
        None => out.extend_from_slice(b"null"),
    }
}

async fn live_tables(connection: &mut PgConnection, catalog: CatalogId) -> Result<Vec<LiveTable>> {
    let query = include_str!("../sql/export/tables.sql");
    let mut rows = Rows::of(connection, query, &[Parameter::One(catalog.0)]).await?;
    let mut tables = Vec::new();
    while let Some(mut row) = rows.next().await? {
        let id = row.required_number()?;
        let mut text = || -> Result<Box<str>> {
            let bytes = row.bytes()?.unwrap_or_default();
            let text = std::str::from_utf8(bytes).map_err(|_| Error::Corrupt("a name is not UTF-8".to_owned()))?;
            Ok(text.into())
        };
        let (uuid, namespace, name) = (text()?, text()?, text()?);
        tables.push(LiveTable { id, uuid, namespace, name, files: row.required_number()? });
    }
    Ok(tables)
}

/// A table with statements of its own: rows come in the order of an index, nothing is sorted.
async fn write_table(
    connection: &mut PgConnection,
    sink: &mut Sink,
    catalog: CatalogId,
    table: &LiveTable,
    written: &mut Tables<'_>,
) -> Result<()> {
    let parameters = [catalog.0, table.id].map(Parameter::One);
    let mut rows = Rows::of(connection, include_str!("../sql/data_file/at_head.sql"), &parameters).await?;
    while let Some(mut row) = rows.next().await? {
        written.file(&mut sink.buffer, 1)?;
        json::push_data_file(&mut sink.buffer, &mut row)?;
        sink.row_done().await?;
    }
    drop(rows);
    let mut rows = Rows::of(connection, include_str!("../sql/delete_file/live.sql"), &parameters).await?;
    while let Some(mut row) = rows.next().await? {
        written.vector(&mut sink.buffer, 1)?;
        json::push_delete_file(&mut sink.buffer, &mut row)?;
        sink.row_done().await?;
    }
    Ok(())
}

/// Columns of a data file in `files_of_tables.sql`.
const FILE_COLUMNS: usize = 11;

/// Several small tables with one statement.
async fn write_tables(
    connection: &mut PgConnection,
    sink: &mut Sink,
    catalog: CatalogId,
    tables: &[LiveTable],
    written: &mut Tables<'_>,
) -> Result<()> {
    let ids: Vec<i64> = tables.iter().map(|table| table.id).collect();
    let parameters = [Parameter::One(catalog.0), Parameter::Many(&ids)];
    let mut rows = Rows::of(connection, include_str!("../sql/export/files_of_tables.sql"), &parameters).await?;
    while let Some(mut row) = rows.next().await? {
        let ordinal = usize::try_from(row.required_number()?).unwrap_or_default();
        if row.boolean()? {
            written.vector(&mut sink.buffer, ordinal)?;
            for _ in 0..FILE_COLUMNS {
                row.bytes()?;
            }
            json::push_delete_file(&mut sink.buffer, &mut row)?;
        } else {
            written.file(&mut sink.buffer, ordinal)?;
            json::push_data_file(&mut sink.buffer, &mut row)?;
        }
        sink.row_done().await?;
    }
    Ok(())
}

async fn write_offsets(connection: &mut PgConnection, sink: &mut Sink, catalog: CatalogId) -> Result<()> {
    let query = sqlx::query_as::<_, ConsumerOffset>(include_str!("../sql/consumer/list_all.sql")).bind(catalog.0);
    let mut offsets = query.fetch(connection);
    let mut first = true;
    while let Some(offset) = offsets.try_next().await? {
        if !first {
            sink.buffer.push(b',');
        }
        first = false;
        serde_json::to_writer(&mut sink.buffer, &offset).map_err(|error| Error::Corrupt(error.to_string()))?;
        sink.row_done().await?;
    }
    Ok(())
}

async fn write_unlisted(connection: &mut PgConnection, sink: &mut Sink, catalog: CatalogId) -> Result<()> {
    let query = include_str!("../sql/export/unlisted.sql");
    let mut rows = Rows::of(connection, query, &[Parameter::One(catalog.0)]).await?;
    let mut first = true;
    while let Some(mut row) = rows.next().await? {
        let out = &mut sink.buffer;
        for (name, comma) in [(&b"{\"state\":"[..], first), (b",\"kind\":", true), (b",\"path\":", true)] {
            if !comma {
                out.push(b',');
            }
            out.extend_from_slice(name);
            push_string(out, row.bytes()?.unwrap_or_default());
        }
        first = false;
        if let Some(size) = row.number()? {
            out.extend_from_slice(b",\"file_size_bytes\":");
            push_number(out, size);
        }
        out.push(b'}');
        sink.row_done().await?;
    }
    Ok(())
}
