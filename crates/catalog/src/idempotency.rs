//! Idempotency keys: the first answer of a mutating request, kept for those who ask again.
//!
//! A key is stored in the transaction that does the work, so an answer exists exactly when its effect does. Work that is no
//! single transaction (maintenance) claims its key before it begins, so that nobody begins it twice (`claim.rs`). Refused
//! requests store nothing: they changed nothing, and may succeed later. Keys live at least 24 hours and as long as
//! their snapshot is retained.

mod change;
mod claim;

pub(crate) use change::answer;
pub use claim::CLAIM_LEASE;

use crate::error::{has_sqlstate, sqlstate};
use hoglake_model::{CatalogId, Refusal, SnapshotId};
use sha2::{Digest, Sha256};
use sqlx::PgConnection;

/// A key, and the digest of the request that brought it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The header's value: 1 to 255 visible ASCII characters.
    pub key: String,
    /// SHA-256 over method, path and body.
    pub request_hash: [u8; 32],
}

/// The answer of a mutating request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// JSON body; `None` for an answer without one.
    pub body: Option<String>,
    /// The snapshot that the request made, if it made one.
    pub snapshot: Option<SnapshotId>,
    /// Whether this is the stored answer of an earlier request with the same key.
    pub replayed: bool,
}

impl IdempotencyKey {
    /// Reads the `Idempotency-Key` header of a request.
    ///
    /// # Errors
    /// 400 when the key is empty, longer than 255 characters, or not visible ASCII.
    pub fn new(key: &str, method: &str, path: &str, body: &[u8]) -> Result<Self, Refusal> {
        if key.is_empty() || key.len() > 255 || !key.bytes().all(|b| (0x21..=0x7e).contains(&b)) {
            return Err(Refusal::bad_request("the Idempotency-Key header must have 1 to 255 visible ASCII characters"));
        }
        let mut digest = Sha256::new();
        for part in [method.as_bytes(), path.as_bytes()] {
            digest.update(part);
            digest.update([0]);
        }
        digest.update(body);
        Ok(Self { key: key.to_owned(), request_hash: digest.finalize().into() })
    }

    /// Judges a stored answer for the same key.
    ///
    /// # Errors
    /// 422 when the key came with another request before; 503 while that is being worked on; 409 when whoever worked on it
    /// died.
    pub fn replay(&self, stored: StoredAnswer) -> Result<Answer, Refusal> {
        if stored.request_hash != self.request_hash {
            return Err(Refusal::validation(format!(
                "Idempotency-Key {} was used before with another request; use a fresh key for each request",
                hoglake_model::name::quoted(&self.key)
            )));
        }
        if stored.status == claim::NO_ANSWER_YET {
            return Err(claim::unanswered(&self.key, stored.under_way.unwrap_or(false)));
        }
        Ok(Answer {
            status: u16::try_from(stored.status).unwrap_or(200),
            body: stored.response,
            snapshot: stored.snapshot_id.map(SnapshotId),
            replayed: true,
        })
    }
}

/// A row of `idempotency_key`.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct StoredAnswer {
    /// The key.
    pub key: String,
    /// Digest of the request.
    pub request_hash: Vec<u8>,
    /// HTTP status.
    pub status: i16,
    /// JSON text.
    pub response: Option<String>,
    /// The snapshot that the request made.
    pub snapshot_id: Option<i64>,
    /// Of a key without an answer: whether somebody is at work on it.
    pub under_way: Option<bool>,
}

/// Catalog id under which keys of requests that name no existing catalog are kept.
pub const NO_CATALOG: CatalogId = CatalogId(0);

/// The stored answer for `key`, if any.
///
/// # Errors
/// Any database error.
pub async fn find(
    connection: &mut PgConnection,
    catalog: CatalogId,
    key: &str,
) -> Result<Option<StoredAnswer>, sqlx::Error> {
    sqlx::query_as(include_str!("../sql/idempotency/find.sql"))
        .bind(catalog.0)
        .bind(key)
        .fetch_optional(connection)
        .await
}

/// Stores `answer` under `key`, in the caller's transaction.
///
/// # Errors
/// SQLSTATE 23505 when a concurrent request stored the key first.
pub async fn insert(
    connection: &mut PgConnection,
    catalog: CatalogId,
    key: &IdempotencyKey,
    answer: &Answer,
) -> Result<(), sqlx::Error> {
    sqlx::query(include_str!("../sql/idempotency/insert.sql"))
        .bind(catalog.0)
        .bind(&key.key)
        .bind(&key.request_hash[..])
        .bind(i16::try_from(answer.status).unwrap_or(200))
        .bind(&answer.body)
        .bind(answer.snapshot.map(|s| s.0))
        .execute(connection)
        .await?;
    Ok(())
}

/// Whether another transaction stored an answer under the same key first. Commits and DDL find stored keys under the
/// commit lock, other changes under a lock of the key; neither keeps the other from bringing the same key.
pub(crate) fn is_race(error: &sqlx::Error) -> bool {
    has_sqlstate(error, sqlstate::DEADLOCK_DETECTED)
        || error.as_database_error().is_some_and(|e| {
            e.code().is_some_and(|code| code == sqlstate::UNIQUE_VIOLATION)
                && e.constraint() == Some("idempotency_key_pkey")
        })
}

/// After `error` of [`insert`] and a rollback: what the request gets that was second with its key.
///
/// # Errors
/// 422 when the first request was another one; 503 when there is no answer to find; `error` when it is no race.
pub(crate) async fn first_answer(
    connection: &mut PgConnection,
    catalog: CatalogId,
    key: &IdempotencyKey,
    error: sqlx::Error,
) -> crate::Result<Answer> {
    if !is_race(&error) {
        return Err(error.into());
    }
    match find(connection, catalog, &key.key).await? {
        Some(stored) => Ok(key.replay(stored)?),
        None => Err(crate::commit::queue::lock_timeout()),
    }
}
