//! Keys of work that is no single transaction: claimed before it begins, answered after it.

use super::{Answer, IdempotencyKey, find, insert};
use crate::{Catalog, Result, commit};
use hoglake_model::name::quoted;
use hoglake_model::{CatalogId, ErrorCode, Refusal};
use std::time::Duration;

/// How long a claim holds unless it is renewed.
pub const CLAIM_LEASE: Duration = Duration::from_secs(60);

/// The status of a claimed key.
pub(super) const NO_ANSWER_YET: i16 = 0;

/// What a request gets whose key is claimed and has no answer.
pub(super) fn unanswered(key: &str, under_way: bool) -> Refusal {
    let key = quoted(key);
    if under_way {
        return Refusal::new(
            ErrorCode::Unavailable,
            format!(
                "the request with Idempotency-Key {key} is still being worked on; repeat it later to get its answer"
            ),
        );
    }
    Refusal::conflict(format!(
        "the server that worked on the request with Idempotency-Key {key} ended before it had an answer; what it had done \
         stands, and GET .../maintenance/runs tells of it. Repeating as is cannot succeed; ask again with a fresh key"
    ))
}

impl Catalog {
    /// The answer that was given to `key` before.
    ///
    /// # Errors
    /// As [`IdempotencyKey::replay`]; any database error.
    pub async fn answer_find(&self, catalog: CatalogId, key: &IdempotencyKey) -> Result<Option<Answer>> {
        let mut connection = self.pool().acquire().await?;
        let stored = find(&mut connection, catalog, &key.key).await?;
        Ok(stored.map(|stored| key.replay(stored)).transpose()?)
    }

    /// Keeps `answer` for a key that nobody has claimed, unless a concurrent request was faster.
    ///
    /// # Errors
    /// Any database error.
    pub async fn answer_store(&self, catalog: CatalogId, key: &IdempotencyKey, answer: &Answer) -> Result<()> {
        let mut connection = self.pool().acquire().await?;
        match insert(&mut connection, catalog, key, answer).await {
            Err(error) if crate::error::has_sqlstate(&error, crate::error::sqlstate::UNIQUE_VIOLATION) => Ok(()),
            stored => Ok(stored?),
        }
    }

    /// Claims `key`. None: the key was free, and the work may begin. Otherwise the answer that was given before. Whoever
    /// claims renews, and then settles or releases.
    ///
    /// # Errors
    /// 422 when the key came with another request before; 503 while that request is worked on; 409 when whoever did died;
    /// any database error.
    pub async fn answer_claim(&self, catalog: CatalogId, key: &IdempotencyKey) -> Result<Option<Answer>> {
        let mut connection = self.pool().acquire().await?;
        let claimed: Option<i64> = sqlx::query_scalar(include_str!("../../sql/idempotency/claim.sql"))
            .bind(catalog.0)
            .bind(&key.key)
            .bind(&key.request_hash[..])
            .bind(CLAIM_LEASE.as_secs_f64())
            .fetch_optional(&mut *connection)
            .await?;
        if claimed.is_some() {
            return Ok(None);
        }
        match find(&mut connection, catalog, &key.key).await? {
            Some(stored) => Ok(Some(key.replay(stored)?)),
            // released in between: the next try finds the key free
            None => Err(commit::queue::lock_timeout()),
        }
    }

    /// Holds on to a claim for another [`CLAIM_LEASE`].
    ///
    /// # Errors
    /// Any database error.
    pub async fn answer_renew(&self, catalog: CatalogId, key: &IdempotencyKey) -> Result<()> {
        sqlx::query(include_str!("../../sql/idempotency/renew.sql"))
            .bind(catalog.0)
            .bind(&key.key)
            .bind(CLAIM_LEASE.as_secs_f64())
            .execute(self.background_pool())
            .await?;
        Ok(())
    }

    /// Answers a claim.
    ///
    /// # Errors
    /// Any database error.
    pub async fn answer_settle(&self, catalog: CatalogId, key: &IdempotencyKey, answer: &Answer) -> Result<()> {
        sqlx::query(include_str!("../../sql/idempotency/settle.sql"))
            .bind(catalog.0)
            .bind(&key.key)
            .bind(i16::try_from(answer.status).unwrap_or(200))
            .bind(&answer.body)
            .execute(self.background_pool())
            .await?;
        Ok(())
    }

    /// Gives a claim back: the work was refused or failed, and may be asked for again.
    ///
    /// # Errors
    /// Any database error.
    pub async fn answer_release(&self, catalog: CatalogId, key: &IdempotencyKey) -> Result<()> {
        sqlx::query(include_str!("../../sql/idempotency/release.sql"))
            .bind(catalog.0)
            .bind(&key.key)
            .execute(self.background_pool())
            .await?;
        Ok(())
    }
}
