//! The changefeed: what a table got in a window of snapshots.

use crate::files::write_files;
use crate::listing::copy::{Parameter, Rows};
use crate::listing::reader::Reader;
use crate::listing::stream::{self, Sink};
use crate::listing::{self, Listing, json};
use crate::scan::statistics_version;
use crate::{Catalog, Result, snapshots, tables};
use hoglake_model::{CatalogId, Refusal, SnapshotId, SnapshotSelector, snapshot};
use sqlx::PgConnection;
use uuid::Uuid;

/// A request for changes, as the client made it.
#[derive(Debug, Clone, Default)]
pub struct ChangesRequest {
    /// Name of the catalog.
    pub catalog: String,
    /// Name of the namespace.
    pub namespace: String,
    /// Name of the table at `to_snapshot`.
    pub table: String,
    /// Exclusive start.
    pub from_snapshot: i64,
    /// Inclusive end; absent: head.
    pub to_snapshot: Option<i64>,
    /// `If-None-Match`.
    pub if_none_match: Option<String>,
}

/// A window of a table.
struct Window {
    catalog: CatalogId,
    table: i64,
    uuid: Uuid,
    from: i64,
    to: i64,
    /// Snapshots in the window that compacted the table.
    compactions: Vec<i64>,
}

impl Catalog {
    /// What a table got in `(from_snapshot, to_snapshot]`: a `ChangePlan`. Files by begin snapshot, first row id and id,
    /// without what compaction wrote; vectors by begin snapshot and id.
    ///
    /// # Errors
    /// 404 for an unknown catalog; 422 for an end outside `[0, head]`, a negative start, a start after the end; 410 for a
    /// start more than one below the floor; 404 for an unknown namespace or table; in that order.
    ///
    /// # Source
    /// OpenAPI `getChanges`.
    pub async fn changes(&self, request: ChangesRequest) -> Result<Listing> {
        let catalog = self.catalog_find(&request.catalog).await?.id;
        let mut reader = Reader::open(self).await?;
        let (mut listing, window) = match plan(reader.connection(), catalog, &request).await {
            Ok(planned) => planned,
            Err(error) => return Err(reader.fail(error).await),
        };
        let Some(window) = window else {
            reader.finish().await?;
            return Ok(listing);
        };
        let body = stream::start(reader, self.options().read_chunk_timeout, move |reader, sink| {
            Box::pin(async move { window.write(reader, sink).await })
        });
        listing.body = Some(body.await?);
        Ok(listing)
    }
}

async fn plan(
    connection: &mut PgConnection,
    catalog: CatalogId,
    request: &ChangesRequest,
) -> Result<(Listing, Option<Window>)> {
    let range = snapshots::resolve(connection, catalog, SnapshotSelector::Head).await?;
    let (head, earliest) = (range.head, range.earliest.0);
    let (from, to) = (request.from_snapshot, request.to_snapshot.unwrap_or(head.0));
    if !(0..=head.0).contains(&to) {
        return Err(snapshot::out_of_range(to, head).into());
    }
    if from < 0 {
        return Err(Refusal::validation(format!("from_snapshot {from} is negative; 0 reads from the beginning")).into());
    }
    if from > to {
        return Err(Refusal::validation(format!(
            "from_snapshot {from} is after to_snapshot {to}; the window is from the first, exclusive, to the second"
        ))
        .into());
    }
    if from < earliest - 1 {
        let reached = snapshots::floor_time(connection, catalog).await?;
        return Err(snapshot::expired(from, earliest, reached.as_deref()).into());
    }
    let table = tables::locate(connection, catalog, &request.namespace, &request.table, SnapshotId(to)).await?;
    let mut listing = Listing { etag: None, files: None, body: None };
    if request.to_snapshot.is_some() {
        let version = statistics_version(connection, catalog, table.id).await?;
        let time = sqlx::query_scalar(include_str!("../sql/snapshot/time.sql"))
            .bind(catalog.0)
            .bind(to)
            .fetch_optional(&mut *connection)
            .await?;
        let to = snapshots::stamp(SnapshotId(to), time);
        let etag = listing::etag(catalog, table.uuid, version, &["changes", &from.to_string(), &to]);
        let held = listing::matches(request.if_none_match.as_deref(), &etag);
        listing.etag = Some(etag);
        if held {
            return Ok((listing, None));
        }
    }
    let compactions = sqlx::query_scalar(include_str!("../sql/scan/compactions.sql"))
        .bind(catalog.0)
        .bind(table.id.0)
        .bind(from)
        .bind(to)
        .fetch_all(connection)
        .await?;
    Ok((listing, Some(Window { catalog, table: table.id.0, uuid: table.uuid, from, to, compactions })))
}

impl Window {
    async fn write(&self, reader: &mut Reader, sink: &mut Sink) -> Result<()> {
        let Self { uuid, from, to, .. } = self;
        let head = format!("{{\"table_uuid\":\"{uuid}\",\"from_snapshot\":{from},\"to_snapshot\":{to},\"files\":");
        sink.buffer.extend_from_slice(head.as_bytes());
        let window = [self.catalog.0, self.table, *from, *to].map(Parameter::One);
        let [catalog, table, begin, end] = window;
        let parameters = [catalog, table, begin, end, Parameter::Many(&self.compactions)];
        write_files(reader, sink, include_str!("../sql/data_file/begun_between.sql"), &parameters).await?;
        sink.buffer.extend_from_slice(b",\"delete_files\":[");
        let query = include_str!("../sql/delete_file/begun_between.sql");
        let mut rows = Rows::of(reader.connection(), query, &window).await?;
        let mut first = true;
        while let Some(mut row) = rows.next().await? {
            if !first {
                sink.buffer.push(b',');
            }
            first = false;
            json::push_delete_file(&mut sink.buffer, &mut row)?;
            sink.row_done().await?;
        }
        sink.buffer.extend_from_slice(b"]}");
        Ok(())
    }
}
