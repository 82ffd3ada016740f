//! Scan planning: the files of a table at a snapshot, each with its deletion vector, streamed.

mod cache;
mod index;
mod prune;
mod vectors;

pub(crate) use cache::ScanCache;

use crate::listing::copy::{Parameter, Rows, with_numbers};
use crate::listing::reader::Reader;
use crate::listing::stream::{self, Sink};
use crate::listing::{self, Listing, json};
use crate::snapshots::{self, ResolvedSnapshot};
use crate::tables;
use crate::{Catalog, Result};
use hoglake_model::filter::{Filter, FilterColumn};
use hoglake_model::{CatalogId, ColumnType, SnapshotSelector, TableId};
use std::collections::HashMap;
use vectors::Vectors;

const AT_HEAD: &str = include_str!("../sql/data_file/at_head.sql");
const AT_SNAPSHOT: &str = include_str!("../sql/data_file/at_snapshot.sql");
const BY_ID: &str = include_str!("../sql/data_file/by_id.sql");
const WITH_VECTORS: &str = include_str!("../sql/scan/with_vectors.sql");
const WITH_STATISTICS: &str = include_str!("../sql/scan/with_statistics.sql");

/// A request to plan a scan, as the client made it.
#[derive(Debug, Clone, Default)]
pub struct ScanRequest {
    /// Name of the catalog.
    pub catalog: String,
    /// Name of the namespace.
    pub namespace: String,
    /// Name of the table at the snapshot.
    pub table: String,
    /// `snapshot`.
    pub snapshot: Option<String>,
    /// `at_timestamp`.
    pub at_timestamp: Option<String>,
    /// `filter`.
    pub filter: Option<String>,
    /// Whether to add `column_stats`.
    pub stats: bool,
    /// `If-None-Match`.
    pub if_none_match: Option<String>,
}

/// What a scan reads: a table at a snapshot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope {
    pub(crate) catalog: CatalogId,
    pub(crate) table: TableId,
    pub(crate) snapshot: ResolvedSnapshot,
    pub(crate) statistics_version: i64,
}

/// How a scan will be read.
struct Plan {
    scope: Scope,
    query: String,
    vectors: Vectors,
    /// Types of the columns, with `stats=true`.
    types: Option<HashMap<i64, ColumnType>>,
    /// Ids, ascending: only these files are answered.
    only: Option<Vec<i64>>,
}

impl Catalog {
    /// Plans a scan: an array of `ScanFile`, ordered by first row id, then file id.
    ///
    /// # Errors
    /// 404 for an unknown catalog; 422 or 400 for bad snapshot parameters, 410 for an expired snapshot; 404 for an unknown
    /// namespace or table; 422 for a bad filter; in that order.
    ///
    /// # Source
    /// OpenAPI `planScan`.
    pub async fn scan(&self, request: ScanRequest) -> Result<Listing> {
        let catalog = self.catalog_find(&request.catalog).await?.id;
        let selector = SnapshotSelector::parse(request.snapshot.as_deref(), request.at_timestamp.as_deref())?;
        let mut reader = Reader::open(self).await?;
        let (mut listing, plan) = match self.plan_scan(&mut reader, catalog, selector, &request).await {
            Ok(planned) => planned,
            Err(error) => return Err(reader.fail(error).await),
        };
        match plan {
            None => reader.finish().await?,
            Some(plan) => {
                let patience = self.options().read_chunk_timeout;
                let body = stream::start(reader, patience, move |reader, sink| {
                    Box::pin(async move { plan.write(reader, sink).await })
                });
                listing.body = Some(body.await?);
            }
        }
        Ok(listing)
    }

    async fn plan_scan(
        &self,
        reader: &mut Reader,
        catalog: CatalogId,
        selector: SnapshotSelector,
        request: &ScanRequest,
    ) -> Result<(Listing, Option<Plan>)> {
        let connection = reader.connection();
        let snapshot = snapshots::resolve(connection, catalog, selector).await?;
        let table = tables::locate(connection, catalog, &request.namespace, &request.table, snapshot.id).await?;
        let filter = request.filter.as_deref().map(Filter::parse).transpose()?;
        let columns = if filter.is_some() || request.stats {
            tables::definition_at(connection, catalog, table.id, &request.table, snapshot.id).await?.columns
        } else {
            Vec::new()
        };
        let predicate = match &filter {
            Some(filter) => {
                let columns: Vec<FilterColumn> = columns
                    .iter()
                    .map(|c| FilterColumn { field_id: c.field_id, name: c.name.clone(), ty: c.column_type })
                    .collect();
                Some(filter.bind(&columns)?)
            }
            None => None,
        };
        let statistics_version = match predicate.is_some() || snapshot.pinned {
            true => statistics_version(connection, catalog, table.id).await?,
            false => 0,
        };
        let scope = Scope { catalog, table: table.id, snapshot, statistics_version };
        let mut listing = Listing { etag: None, files: None, body: None };
        if snapshot.pinned {
            let at = snapshot.stamp();
            let filter = request.filter.as_deref().unwrap_or_default();
            let stats = if request.stats { "stats" } else { "" };
            let etag = listing::etag(catalog, table.uuid, statistics_version, &["scan", &at, filter, stats]);
            let held = listing::matches(request.if_none_match.as_deref(), &etag);
            listing.etag = Some(etag);
            if held {
                return Ok((listing, None));
            }
        }
        let mut kept = None;
        if let Some(predicate) = &predicate {
            let pruned = prune::prune(self, connection, scope, predicate).await?;
            listing.files = Some((pruned.considered, pruned.kept.len() as i64));
            kept = Some((pruned.considered, pruned.kept));
        }
        let vectors = Vectors::load(connection, scope).await?;
        let types = request.stats.then(|| columns.iter().map(|c| (c.field_id.0, c.column_type)).collect());
        Ok((listing, Some(Plan::new(scope, vectors, types, kept))))
    }
}

impl Plan {
    fn new(
        scope: Scope,
        vectors: Vectors,
        types: Option<HashMap<i64, ColumnType>>,
        kept: Option<(i64, Vec<i64>)>,
    ) -> Self {
        let snapshot = Parameter::One(scope.snapshot.id.0);
        let (source, only) = match &kept {
            // Beyond a part of the files, reading them all in order is cheaper than looking each up.
            Some((considered, ids)) if (ids.len() as i64) <= 1_000.max(considered / 6) => (BY_ID, None),
            _ if scope.snapshot.is_head() => (AT_HEAD, kept.as_ref()),
            _ => (AT_SNAPSHOT, kept.as_ref()),
        };
        let only = only.map(|(_, ids)| {
            let mut ids = ids.clone();
            ids.sort_unstable();
            ids
        });
        let third = match &kept {
            Some((_, ids)) if source == BY_ID => Parameter::Many(ids),
            _ => snapshot,
        };
        let parameters = [Parameter::One(scope.catalog.0), Parameter::One(scope.table.0), third, snapshot];
        let mut query = with_numbers(source, &parameters);
        if matches!(vectors, Vectors::Joined) {
            query = with_numbers(WITH_VECTORS, &parameters).replace("{files}", &query);
        }
        if types.is_some() {
            query = with_numbers(WITH_STATISTICS, &parameters).replace("{files}", &query);
        }
        Self { scope, query, vectors, types, only }
    }

    async fn write(&self, reader: &mut Reader, sink: &mut Sink) -> Result<()> {
        tracing::trace!(table = %self.scope.table, snapshot = %self.scope.snapshot.id, "scan");
        let mut rows = Rows::of(reader.connection(), &self.query, &[]).await?;
        sink.buffer.push(b'[');
        let mut first = true;
        while let Some(mut row) = rows.next().await? {
            if let Some(only) = &self.only
                && only.binary_search(&row.first_number()?).is_err()
            {
                continue;
            }
            let out = &mut sink.buffer;
            out.extend_from_slice(if first { b"{\"data_file\":" } else { b",{\"data_file\":" });
            first = false;
            let (id, provided) = json::push_data_file(out, &mut row)?;
            let before = out.len();
            out.extend_from_slice(b",\"delete_file\":");
            let has_vector = match &self.vectors {
                Vectors::Joined => json::push_delete_file(out, &mut row)?.is_some(),
                Vectors::Loaded(vectors) => match vectors.get(&id) {
                    Some(vector) => {
                        out.extend_from_slice(vector);
                        true
                    }
                    None => false,
                },
            };
            if !has_vector {
                out.truncate(before);
            }
            if let Some(types) = &self.types {
                let before = out.len();
                out.extend_from_slice(b",\"column_stats\":");
                if !json::push_statistics(out, &mut row, types, provided)? {
                    out.truncate(before);
                }
            }
            out.push(b'}');
            sink.row_done().await?;
        }
        sink.buffer.push(b']');
        Ok(())
    }
}

/// How often statistics of the table's files have arrived.
pub(crate) async fn statistics_version(
    connection: &mut sqlx::PgConnection,
    catalog: CatalogId,
    table: TableId,
) -> Result<i64> {
    let version = sqlx::query_scalar(include_str!("../sql/scan/statistics_version.sql"))
        .bind(catalog.0)
        .bind(table.0)
        .fetch_one(connection)
        .await?;
    Ok(version)
}
