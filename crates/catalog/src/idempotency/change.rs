//! Changes that make no snapshot: done once for each key, in one transaction with it.

use super::{Answer, IdempotencyKey, NO_CATALOG, find, first_answer, insert};
use crate::error::has_sqlstate;
use crate::{Catalog, Error, Result, commit, error::sqlstate};
use futures::future::BoxFuture;
use hoglake_model::CatalogId;
use serde::Serialize;
use sqlx::{AssertSqlSafe, PgConnection};

/// Makes the answer of a change without a snapshot: `value` as JSON with `status`.
pub(crate) fn answer(status: u16, value: &impl Serialize) -> Result<Answer> {
    let body = serde_json::to_string(value).map_err(|e| Error::Corrupt(e.to_string()))?;
    Ok(Answer { status, body: Some(body), snapshot: None, replayed: false })
}

impl Catalog {
    /// Runs `body` in a READ COMMITTED transaction and stores its answer under `key` in the same transaction; a request
    /// that brings the key again gets that answer. Requests with one key run one after another.
    ///
    /// # Errors
    /// What `body` refuses, which stores nothing; 422 when the key came with another request before; 503
    /// `commit_queue_timeout` when a lock was not had within the commit budget.
    pub(crate) async fn change<F>(&self, catalog: CatalogId, key: Option<IdempotencyKey>, body: F) -> Result<Answer>
    where
        F: for<'t> FnOnce(&'t mut PgConnection) -> BoxFuture<'t, Result<Answer>> + Send,
    {
        self.change_unbounded(catalog, key, body).await.map_err(|error| match error {
            Error::Database(e) if has_sqlstate(&e, sqlstate::LOCK_NOT_AVAILABLE) => commit::queue::lock_timeout(),
            other => other,
        })
    }

    async fn change_unbounded<F>(&self, catalog: CatalogId, key: Option<IdempotencyKey>, body: F) -> Result<Answer>
    where
        F: for<'t> FnOnce(&'t mut PgConnection) -> BoxFuture<'t, Result<Answer>> + Send,
    {
        // 0 would mean "no limit" to Postgres
        let timeout = self.options().commit_lock_timeout.map_or(0, |t| t.as_millis().clamp(1, i32::MAX as u128));
        // a number only: nothing in this text comes from outside
        let begin = AssertSqlSafe(format!("begin; set local lock_timeout = {timeout}"));
        let mut transaction = self.pool().begin_with(begin).await?;
        if let Some(key) = &key {
            sqlx::query(include_str!("../../sql/idempotency/lock.sql"))
                .bind(catalog.0)
                .bind(&key.key)
                .execute(&mut *transaction)
                .await?;
            if let Some(stored) = find(&mut transaction, catalog, &key.key).await? {
                return Ok(key.replay(stored)?);
            }
        }
        let answer = body(&mut transaction).await?;
        if let Some(key) = &key
            && let Err(error) = insert(&mut transaction, catalog, key, &answer).await
        {
            transaction.rollback().await?;
            let mut connection = self.pool().acquire().await?;
            return first_answer(&mut connection, catalog, key, error).await;
        }
        transaction.commit().await?;
        Ok(answer)
    }

    /// Deletes at most `limit` keys that are a day old and belong to no catalog: those of requests that make one. The keys of
    /// a catalog go with its expiry. Returns how many went.
    ///
    /// # Errors
    /// Any database error.
    pub async fn idempotency_purge(&self, limit: i64) -> Result<i64> {
        // no snapshot, so no floor either
        let purged = sqlx::query_scalar(include_str!("../../sql/expiry/purge_keys.sql"))
            .bind(NO_CATALOG.0)
            .bind(0_i64)
            .bind(limit)
            .fetch_one(self.background_pool());
        Ok(purged.await?)
    }
}
