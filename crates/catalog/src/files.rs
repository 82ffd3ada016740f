//! The files of a table at a snapshot, in the order they were added.

use crate::listing::copy::{Parameter, Rows};
use crate::listing::reader::Reader;
use crate::listing::stream::{self, Sink};
use crate::listing::{self, Listing, json};
use crate::scan::{ScanRequest, statistics_version};
use crate::{Catalog, Result, snapshots, tables};
use hoglake_model::{CatalogId, SnapshotSelector};

impl Catalog {
    /// Lists the files of a table: an array of `DataFile`, ordered by begin snapshot, first row id and file id. Filter and
    /// statistics of `request` are for scans only.
    ///
    /// # Errors
    /// As [`Catalog::scan`].
    ///
    /// # Source
    /// OpenAPI `listFiles`.
    pub async fn files(&self, request: ScanRequest) -> Result<Listing> {
        let catalog = self.catalog_find(&request.catalog).await?.id;
        let selector = SnapshotSelector::parse(request.snapshot.as_deref(), request.at_timestamp.as_deref())?;
        let mut reader = Reader::open(self).await?;
        let (mut listing, parameters, at_head) = match plan(&mut reader, catalog, selector, &request).await {
            Ok(planned) => planned,
            Err(error) => return Err(reader.fail(error).await),
        };
        let Some(parameters) = parameters else {
            reader.finish().await?;
            return Ok(listing);
        };
        let query = if at_head {
            include_str!("../sql/data_file/list_at_head.sql")
        } else {
            include_str!("../sql/data_file/list_at_snapshot.sql")
        };
        let body = stream::start(reader, self.options().read_chunk_timeout, move |reader, sink| {
            Box::pin(async move { write_files(reader, sink, query, &parameters.map(Parameter::One)).await })
        });
        listing.body = Some(body.await?);
        Ok(listing)
    }
}

async fn plan(
    reader: &mut Reader,
    catalog: CatalogId,
    selector: SnapshotSelector,
    request: &ScanRequest,
) -> Result<(Listing, Option<[i64; 3]>, bool)> {
    let connection = reader.connection();
    let snapshot = snapshots::resolve(connection, catalog, selector).await?;
    let table = tables::locate(connection, catalog, &request.namespace, &request.table, snapshot.id).await?;
    let mut listing = Listing { etag: None, files: None, body: None };
    if snapshot.pinned {
        let version = statistics_version(connection, catalog, table.id).await?;
        let etag = listing::etag(catalog, table.uuid, version, &["files", &snapshot.stamp()]);
        let held = listing::matches(request.if_none_match.as_deref(), &etag);
        listing.etag = Some(etag);
        if held {
            return Ok((listing, None, false));
        }
    }
    Ok((listing, Some([catalog.0, table.id.0, snapshot.id.0]), snapshot.is_head()))
}

/// Writes an array of `DataFile`.
pub(crate) async fn write_files(
    reader: &mut Reader,
    sink: &mut Sink,
    query: &str,
    parameters: &[Parameter<'_>],
) -> Result<()> {
    let mut rows = Rows::of(reader.connection(), query, parameters).await?;
    sink.buffer.push(b'[');
    let mut first = true;
    while let Some(mut row) = rows.next().await? {
        if !first {
            sink.buffer.push(b',');
        }
        first = false;
        json::push_data_file(&mut sink.buffer, &mut row)?;
        sink.row_done().await?;
    }
    sink.buffer.push(b']');
    Ok(())
}
