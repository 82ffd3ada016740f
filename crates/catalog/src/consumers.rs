//! Consumers of the changefeed: how far each has come in each table.

use crate::idempotency::{self, Answer, IdempotencyKey};
use crate::snapshots::check_range;
use crate::{Catalog, Result, lock};
use chrono::{DateTime, Utc};
use hoglake_model::name::quoted;
use hoglake_model::{CatalogId, ErrorCode, Refusal, SnapshotId, timestamp};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use uuid::Uuid;

/// Longest consumer id, in characters.
const MAX_ID_LEN: usize = 128;

/// Ids with this prefix belong to the server's own publications.
const PUBLICATION_PREFIX: &str = "publication:";

/// `CommitConsumerOffsetRequest` of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitOffset {
    /// The last snapshot that the consumer has processed.
    pub snapshot_id: i64,
}

/// `ConsumerOffset` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, sqlx::FromRow)]
pub struct ConsumerOffset {
    /// Who.
    pub consumer_id: String,
    /// In which table incarnation.
    pub table_uuid: Uuid,
    /// The last snapshot processed.
    pub committed_snapshot: i64,
    /// When it was recorded.
    #[serde(serialize_with = "timestamp::serialize")]
    pub updated_at: DateTime<Utc>,
}

/// `ConsumerList` of the contract.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ConsumerList {
    /// Ordered by id.
    pub consumers: Vec<ConsumerSummary>,
}

/// `ConsumerSummary` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConsumerSummary {
    /// Who.
    pub consumer_id: String,
    /// Ordered by namespace and table.
    pub offsets: Vec<ConsumerTableOffset>,
}

/// `ConsumerTableOffset` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, sqlx::FromRow)]
pub struct ConsumerTableOffset {
    /// The table incarnation.
    pub table_uuid: Uuid,
    /// The last snapshot processed.
    pub committed_snapshot: i64,
    /// When it was recorded.
    #[serde(serialize_with = "timestamp::serialize")]
    pub updated_at: DateTime<Utc>,
    /// The table's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The table's name, the last one if it was dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_name: Option<String>,
    /// Whether the table was dropped.
    pub table_dropped: bool,
}

#[derive(sqlx::FromRow)]
struct ListRow {
    consumer_id: String,
    #[sqlx(flatten)]
    offset: ConsumerTableOffset,
}

#[derive(sqlx::FromRow)]
struct PutRow {
    head_snapshot: i64,
    earliest_snapshot: i64,
    earliest_snapshot_time: Option<DateTime<Utc>>,
    table_known: bool,
    updated_at: Option<DateTime<Utc>>,
}

impl Catalog {
    /// Records how far a consumer from outside has come. Offsets only grow; the same one again is fine.
    ///
    /// # Errors
    /// 422 for an id of no or more than 128 characters, or a publication's; 404 for an unknown catalog; then as
    /// [`put_offset`].
    ///
    /// # Source
    /// OpenAPI `commitConsumerOffset`.
    pub async fn consumer_commit_offset(
        &self,
        catalog: &str,
        consumer: String,
        table: Uuid,
        offset: CommitOffset,
        key: Option<IdempotencyKey>,
    ) -> Result<Answer> {
        check_id(&consumer)?;
        let catalog = self.catalog_find(catalog).await?;
        let id = catalog.id;
        self.change(id, key, move |connection| {
            Box::pin(async move {
                let stored = put_offset(connection, id, &consumer, table, SnapshotId(offset.snapshot_id)).await?;
                idempotency::answer(200, &stored)
            })
        })
        .await
    }

    /// One offset.
    ///
    /// # Errors
    /// 404 for an unknown catalog, and when none is stored.
    ///
    /// # Source
    /// OpenAPI `getConsumerOffset`.
    pub async fn consumer_offset(&self, catalog: &str, consumer: &str, table: Uuid) -> Result<ConsumerOffset> {
        let catalog = self.catalog_find(catalog).await?;
        let mut connection = self.pool().acquire().await?;
        match find_offset(&mut connection, catalog.id, consumer, table).await? {
            Some(offset) => Ok(offset),
            None => Err(Refusal::new(
                ErrorCode::NotFound,
                format!("consumer {} has no offset for table {table}", quoted(consumer)),
            )
            .into()),
        }
    }

    /// The offsets of one consumer; an unknown one has none.
    ///
    /// # Ordering
    /// By table uuid.
    ///
    /// # Errors
    /// 404 for an unknown catalog.
    ///
    /// # Source
    /// OpenAPI `listConsumerOffsets`.
    pub async fn consumer_offsets(&self, catalog: &str, consumer: &str) -> Result<Vec<ConsumerOffset>> {
        let catalog = self.catalog_find(catalog).await?;
        if consumer.contains('\0') {
            return Ok(Vec::new());
        }
        let list = sqlx::query_as(include_str!("../sql/consumer/list_offsets.sql"));
        Ok(list.bind(catalog.id.0).bind(consumer).fetch_all(self.pool()).await?)
    }

    /// Every consumer with its offsets. Offsets outlive their table, under its last name.
    ///
    /// # Ordering
    /// By consumer id, namespace, table; bytewise.
    ///
    /// # Errors
    /// 404 for an unknown catalog.
    ///
    /// # Source
    /// OpenAPI `listConsumers`.
    pub async fn consumer_list(&self, catalog: &str) -> Result<ConsumerList> {
        let catalog = self.catalog_find(catalog).await?;
        let list = sqlx::query_as(include_str!("../sql/consumer/list.sql"));
        let rows: Vec<ListRow> = list.bind(catalog.id.0).fetch_all(self.pool()).await?;
        let mut consumers: Vec<ConsumerSummary> = Vec::new();
        for row in rows {
            match consumers.last_mut() {
                Some(last) if last.consumer_id == row.consumer_id => last.offsets.push(row.offset),
                _ => consumers.push(ConsumerSummary { consumer_id: row.consumer_id, offsets: vec![row.offset] }),
            }
        }
        Ok(ConsumerList { consumers })
    }
}

/// Moves the offset of `consumer` in `table` to `snapshot`, in the caller's transaction.
///
/// # Locks
/// The floor lock, shared: an offset that was accepted is one that expiry sees.
///
/// # Errors
/// 422 for a snapshot below 0 or above head; 410 below the floor; 422 for a uuid that no table of the catalog ever had;
/// 409 `offset_regression` below the stored offset.
pub async fn put_offset(
    connection: &mut PgConnection,
    catalog: CatalogId,
    consumer: &str,
    table: Uuid,
    snapshot: SnapshotId,
) -> Result<ConsumerOffset> {
    lock::hold_floor(connection, catalog).await?;
    let row: PutRow = sqlx::query_as(include_str!("../sql/consumer/put_offset.sql"))
        .bind(catalog.0)
        .bind(consumer)
        .bind(table)
        .bind(snapshot.0)
        .fetch_one(&mut *connection)
        .await?;
    if let Some(updated_at) = row.updated_at {
        return Ok(ConsumerOffset {
            consumer_id: consumer.to_owned(),
            table_uuid: table,
            committed_snapshot: snapshot.0,
            updated_at,
        });
    }
    let reached = row.earliest_snapshot_time.map(timestamp::format);
    check_range(snapshot.0, SnapshotId(row.head_snapshot), row.earliest_snapshot, reached.as_deref())?;
    if !row.table_known {
        return Err(Refusal::validation(format!(
            "no table of this catalog ever had the uuid {table}; take it from the table's definition"
        ))
        .into());
    }
    let stored = find_offset(connection, catalog, consumer, table).await?.map_or(0, |o| o.committed_snapshot);
    Err(Refusal::new(
        ErrorCode::OffsetRegression,
        format!(
            "consumer {} has already committed snapshot {stored} of table {table}; an offset may only grow, so {snapshot} \
             was not stored",
            quoted(consumer)
        ),
    )
    .into())
}

async fn find_offset(
    connection: &mut PgConnection,
    catalog: CatalogId,
    consumer: &str,
    table: Uuid,
) -> Result<Option<ConsumerOffset>> {
    // Postgres stores no NUL
    if consumer.contains('\0') {
        return Ok(None);
    }
    Ok(sqlx::query_as(include_str!("../sql/consumer/get_offset.sql"))
        .bind(catalog.0)
        .bind(consumer)
        .bind(table)
        .fetch_optional(connection)
        .await?)
}

fn check_id(consumer: &str) -> Result<(), Refusal> {
    let length = consumer.chars().count();
    if !(1..=MAX_ID_LEN).contains(&length) {
        return Err(Refusal::validation(format!(
            "a consumer id has 1 to {MAX_ID_LEN} characters; this one has {length}"
        )));
    }
    if consumer.contains('\0') {
        return Err(Refusal::validation("a consumer id must not contain the character U+0000"));
    }
    if consumer.starts_with(PUBLICATION_PREFIX) {
        return Err(Refusal::validation(format!(
            "consumer id {} is reserved: ids that begin with `{PUBLICATION_PREFIX}` belong to the server's publications",
            quoted(consumer)
        )));
    }
    Ok(())
}
