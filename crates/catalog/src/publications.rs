//! Publications: tables whose changes the server produces to Kafka. Create, list, get, drop, resume.
//!
//! A publication's progress is the offset of the consumer `publication:{name}`. Nobody but the server moves it, and
//! expiry never passes it. [`lease`] says which server publishes; [`window`] reads what there is to publish.

pub mod lease;
pub mod sink;
pub mod window;

pub use sink::{KafkaSink, RecordFormat, SinkRequest};

use crate::idempotency::{self, Answer, IdempotencyKey};
use crate::snapshots::{self, check_range};
use crate::{Catalog, Error, Result, lock, tables};
use hoglake_model::name::{is_identifier, quoted};
use hoglake_model::{CatalogId, Identifier, Refusal, SnapshotSelector};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use uuid::Uuid;

/// Longest name: a consumer id has 128 characters, `publication:` takes 12 of them.
pub const MAX_NAME_LEN: usize = 116;

/// `CreatePublicationRequest` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreatePublication {
    /// The name.
    pub name: String,
    /// Namespace of the table.
    pub namespace: String,
    /// The table.
    pub table: String,
    /// Where the records go.
    pub sink: SinkRequest,
    /// The snapshot that counts as published; absent: head.
    pub from_snapshot: Option<i64>,
}

/// `Publication` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Publication {
    /// The name.
    pub name: String,
    /// The table incarnation.
    pub table_uuid: Uuid,
    /// Where the records go.
    pub sink: KafkaSink,
    /// `pending`, `active` or `halted`.
    pub state: String,
    /// Everything up to this snapshot was acknowledged by the brokers.
    pub committed_snapshot: i64,
    /// How many snapshots of the catalog are newer.
    pub lag_snapshots: i64,
    /// Why it does not get on, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

#[derive(sqlx::FromRow)]
struct PublicationRow {
    name: String,
    table_uuid: Uuid,
    bootstrap_servers: String,
    topic: String,
    format: String,
    tombstones: bool,
    state: String,
    last_error: Option<String>,
    committed_snapshot: i64,
    head_snapshot: i64,
}

impl PublicationRow {
    fn into_publication(self) -> Result<Publication> {
        Ok(Publication {
            sink: KafkaSink::stored(self.bootstrap_servers, self.topic, &self.format, self.tombstones)?,
            name: self.name,
            table_uuid: self.table_uuid,
            state: self.state,
            committed_snapshot: self.committed_snapshot,
            lag_snapshots: (self.head_snapshot - self.committed_snapshot).max(0),
            last_error: self.last_error,
        })
    }
}

/// A publication as gauges show it.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct PublicationGauge {
    /// Its catalog's name.
    pub catalog: String,
    /// Its name.
    pub name: String,
    /// `pending`, `active` or `halted`.
    pub state: String,
    /// Whether it has a last error.
    pub troubled: bool,
    /// Snapshots of the catalog that are newer than its offset.
    pub lag: i64,
}

impl Catalog {
    /// Creates a publication. No snapshot: publications are no part of a catalog's history.
    ///
    /// # Locks
    /// The floor lock, shared: expiry sees the offset, or the request sees the floor.
    ///
    /// # Errors
    /// 422 for a bad name or sink; 404 for an unknown catalog, namespace or table; 422 for columns that the format cannot
    /// carry; 422 for `from_snapshot` below 0 or above head, 410 below the floor; 409 `already_exists`; in that order.
    ///
    /// # Source
    /// OpenAPI `createPublication`.
    pub async fn publication_create(
        &self,
        catalog: &str,
        request: CreatePublication,
        key: Option<IdempotencyKey>,
    ) -> Result<Answer> {
        check_name(&request.name)?;
        let sink = request.sink.check()?;
        let catalog = self.catalog_find(catalog).await?;
        let id = catalog.id;
        self.change(id, key, move |connection| Box::pin(create(connection, id, request, sink))).await
    }

    /// The publications of a catalog, ordered by name.
    ///
    /// # Errors
    /// 404 for an unknown catalog.
    ///
    /// # Source
    /// OpenAPI `listPublications`.
    pub async fn publication_list(&self, catalog: &str) -> Result<Vec<Publication>> {
        let catalog = self.catalog_find(catalog).await?;
        let rows: Vec<PublicationRow> = sqlx::query_as(include_str!("../sql/publication/list.sql"))
            .bind(catalog.id.0)
            .bind(None::<&str>)
            .fetch_all(self.pool())
            .await?;
        rows.into_iter().map(PublicationRow::into_publication).collect()
    }

    /// One publication.
    ///
    /// # Errors
    /// 404 for an unknown catalog or publication.
    ///
    /// # Source
    /// OpenAPI `getPublication`.
    pub async fn publication_get(&self, catalog: &str, name: &str) -> Result<Publication> {
        let catalog = self.catalog_find(catalog).await?;
        let mut connection = self.pool().acquire().await?;
        find(&mut connection, catalog.id, name).await
    }

    /// Drops a publication and releases its offset. Records that are under way may still arrive.
    ///
    /// # Errors
    /// 404 for an unknown catalog or publication.
    ///
    /// # Source
    /// OpenAPI `dropPublication`.
    pub async fn publication_drop(&self, catalog: &str, name: String, key: Option<IdempotencyKey>) -> Result<Answer> {
        let catalog = self.catalog_find(catalog).await?;
        let id = catalog.id;
        self.change(id, key, move |connection| {
            Box::pin(async move {
                let gone: Option<i64> = match is_identifier(&name) {
                    true => {
                        sqlx::query_scalar(include_str!("../sql/publication/delete.sql"))
                            .bind(id.0)
                            .bind(&name)
                            .fetch_optional(connection)
                            .await?
                    }
                    false => None,
                };
                match gone {
                    Some(_) => Ok(Answer { status: 204, body: None, snapshot: None, replayed: false }),
                    None => Err(Refusal::not_found("publication", &name).into()),
                }
            })
        })
        .await
    }

    /// Lets a halted publication go on from its offset; one that is not halted is left alone.
    ///
    /// # Errors
    /// 404 for an unknown catalog or publication.
    ///
    /// # Source
    /// OpenAPI `resumePublication`.
    pub async fn publication_resume(&self, catalog: &str, name: String, key: Option<IdempotencyKey>) -> Result<Answer> {
        let catalog = self.catalog_find(catalog).await?;
        let id = catalog.id;
        self.change(id, key, move |connection| {
            Box::pin(async move {
                find(connection, id, &name).await?;
                sqlx::query(include_str!("../sql/publication/resume.sql"))
                    .bind(id.0)
                    .bind(&name)
                    .execute(&mut *connection)
                    .await?;
                idempotency::answer(200, &find(connection, id, &name).await?)
            })
        })
        .await
    }

    /// Every publication with its state and lag.
    ///
    /// # Errors
    /// Any database error.
    pub async fn publication_gauges(&self) -> Result<Vec<PublicationGauge>> {
        Ok(sqlx::query_as(include_str!("../sql/publication/gauges.sql")).fetch_all(self.background_pool()).await?)
    }
}

fn check_name(name: &str) -> Result<(), Refusal> {
    Identifier::parse("publication", name)?;
    if name.len() > MAX_NAME_LEN {
        return Err(Refusal::validation(format!(
            "publication name {} has {} characters; at most {MAX_NAME_LEN} are allowed, because its consumer is called \
             `publication:` and the name",
            quoted(name),
            name.len()
        )));
    }
    Ok(())
}

async fn find(connection: &mut PgConnection, catalog: CatalogId, name: &str) -> Result<Publication> {
    let row: Option<PublicationRow> = match is_identifier(name) {
        true => {
            sqlx::query_as(include_str!("../sql/publication/list.sql"))
                .bind(catalog.0)
                .bind(Some(name))
                .fetch_optional(connection)
                .await?
        }
        // what cannot be a name cannot exist; NUL would not even reach Postgres
        false => None,
    };
    match row {
        Some(row) => row.into_publication(),
        None => Err(Refusal::not_found("publication", name).into()),
    }
}

async fn create(
    connection: &mut PgConnection,
    catalog: CatalogId,
    request: CreatePublication,
    sink: KafkaSink,
) -> Result<Answer> {
    lock::hold_floor(connection, catalog).await?;
    let range = snapshots::resolve(connection, catalog, SnapshotSelector::Head).await?;
    let head = range.head;
    let table = tables::locate(connection, catalog, &request.namespace, &request.table, head).await?;
    let definition = tables::definition_at(connection, catalog, table.id, &request.table, head).await?;
    sink.format
        .check_columns(definition.columns.iter().map(|column| column.name.as_str()))
        .map_err(Refusal::validation)?;
    let from = request.from_snapshot.unwrap_or(head.0);
    let reached = snapshots::floor_time(&mut *connection, catalog).await?;
    check_range(from, head, range.earliest.0, reached.as_deref())?;
    let made: Option<i64> = sqlx::query_scalar(include_str!("../sql/publication/insert.sql"))
        .bind(catalog.0)
        .bind(&request.name)
        .bind(table.id.0)
        .bind(table.uuid)
        .bind(&sink.bootstrap_servers)
        .bind(&sink.topic)
        .bind(sink.format.literal())
        .bind(sink.tombstones)
        .bind(from)
        .fetch_optional(&mut *connection)
        .await?;
    if made.is_none() {
        return Err(Error::from(Refusal::already_exists("publication", &request.name)));
    }
    idempotency::answer(201, &find(connection, catalog, &request.name).await?)
}
