//! Conversions between table formats: which go on, who does them, and the answers of those in the background.
//!
//! One that a client waits for (in the foreground) has a row while it lasts, so that no other server converts the same
//! table meanwhile. One in the background is a job: any server may do it, and takes it over when the lease of the one that
//! did it runs out. Each turn has a fence; an answer is stored only by the turn that is the last.

use crate::idempotency::{self, Answer, IdempotencyKey, NO_CATALOG};
use crate::{Catalog, Result};
use chrono::{DateTime, Utc};
use sha2::{Digest, Sha256};
use std::time::Duration;
use uuid::Uuid;

/// A conversion to begin.
#[derive(Debug, Clone)]
pub struct NewConversion {
    /// Its id, which nobody can guess.
    pub id: Uuid,
    /// Who asked.
    pub actor: String,
    /// In which request.
    pub request_id: String,
    /// The source, as its user spells it.
    pub source: String,
    /// The canonical locations that nobody else may convert meanwhile.
    pub places: Vec<String>,
    /// The request without its credentials, as JSON; only of one in the background.
    pub request: Option<String>,
    /// Whether the request brought credentials, which only this server's memory holds.
    pub is_private: bool,
}

/// Bounds of a beginning.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Most conversions that wait or run.
    pub limit: i64,
    /// How long a server may be silent before it counts as dead.
    pub lease: Duration,
}

/// How a beginning went.
#[derive(Debug, Clone)]
pub enum Begun {
    /// It is in the table.
    Begun,
    /// Somebody converts one of the places.
    Busy(Holder),
    /// As many as may be wait or run.
    Full,
    /// The key has been answered before.
    Replayed(Answer),
}

/// Who converts a table at the moment.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Holder {
    /// The conversion.
    pub conversion_id: Uuid,
    /// Who asked for it.
    pub actor: String,
    /// The source, as they spell it.
    pub source: String,
    /// Since when.
    pub created_at: DateTime<Utc>,
    /// Whether it can be asked for by its id.
    pub is_background: bool,
}

/// A turn of a conversion in the background.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Turn {
    /// The conversion.
    pub conversion_id: Uuid,
    /// Larger than that of every turn before.
    pub fence: i64,
    /// Turns so far, this one included.
    pub attempts: i32,
    /// Who asked.
    pub actor: String,
    /// In which request.
    pub request_id: String,
    /// The source, as its user spells it.
    pub source: String,
    /// The request without its credentials, as JSON.
    pub request: String,
    /// Whether it had credentials.
    pub is_private: bool,
}

/// A private conversion that ended with its server.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Lost {
    /// The conversion.
    pub conversion_id: Uuid,
    /// Who asked.
    pub actor: String,
    /// The source, as its user spells it.
    pub source: String,
    /// In which request.
    pub request_id: String,
}

/// What is known of a conversion in the background.
#[derive(Debug, Clone)]
pub enum State {
    /// It waits or runs.
    Pending,
    /// It is over.
    Finished {
        /// HTTP status of the answer.
        status: u16,
        /// JSON body of the answer.
        answer: String,
    },
}

/// How many there are.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
pub struct Gauges {
    /// Jobs that no server does yet.
    pub waiting: i64,
    /// Conversions that go on, in the foreground too.
    pub running: i64,
    /// Age of the oldest job that waits.
    pub oldest_waiting_seconds: f64,
}

fn digest(place: &str) -> Vec<u8> {
    Sha256::digest(place.as_bytes()).to_vec()
}

impl Catalog {
    /// Begins a conversion as `server`, once for `key`, under which the answer is stored in the same transaction.
    ///
    /// # Locks
    /// An advisory lock of all beginnings, for the transaction.
    ///
    /// # Errors
    /// 422 when the key came with another request before; any database error.
    pub async fn conversion_begin(
        &self,
        new: &NewConversion,
        server: Uuid,
        bounds: Bounds,
        key: Option<(&IdempotencyKey, &Answer)>,
    ) -> Result<Begun> {
        let places: Vec<Vec<u8>> = new.places.iter().map(|place| digest(place)).collect();
        let mut transaction = self.pool().begin().await?;
        sqlx::query(include_str!("../sql/conversion/lock.sql")).execute(&mut *transaction).await?;
        if let Some((key, _)) = key
            && let Some(stored) = idempotency::find(&mut transaction, NO_CATALOG, &key.key).await?
        {
            return Ok(Begun::Replayed(key.replay(stored)?));
        }
        sqlx::query(include_str!("../sql/conversion/forget_dead.sql")).execute(&mut *transaction).await?;
        let holder = sqlx::query_as(include_str!("../sql/conversion/conflict.sql"))
            .bind(&places)
            .fetch_optional(&mut *transaction)
            .await?;
        if let Some(holder) = holder {
            return Ok(Begun::Busy(holder));
        }
        let open: i64 =
            sqlx::query_scalar(include_str!("../sql/conversion/count_open.sql")).fetch_one(&mut *transaction).await?;
        if open >= bounds.limit {
            return Ok(Begun::Full);
        }
        sqlx::query(include_str!("../sql/conversion/insert.sql"))
            .bind(new.id)
            .bind(new.request.is_some())
            .bind(new.is_private)
            .bind(&new.actor)
            .bind(&new.request_id)
            .bind(&new.source)
            .bind(&new.request)
            .bind(server)
            .bind(bounds.lease.as_secs_f64())
            .execute(&mut *transaction)
            .await?;
        sqlx::query(include_str!("../sql/conversion/claim.sql"))
            .bind(new.id)
            .bind(&places)
            .execute(&mut *transaction)
            .await?;
        if let Some((key, answer)) = key {
            idempotency::insert(&mut transaction, NO_CATALOG, key, answer).await?;
        }
        transaction.commit().await?;
        Ok(Begun::Begun)
    }

    /// Takes the oldest job that `server` may do; `None` when there is none.
    ///
    /// # Errors
    /// Any database error.
    pub async fn conversion_take(&self, server: Uuid, lease: Duration) -> Result<Option<Turn>> {
        Ok(sqlx::query_as(include_str!("../sql/conversion/take.sql"))
            .bind(server)
            .bind(lease.as_secs_f64())
            .fetch_optional(self.background_pool())
            .await?)
    }

    /// Prolongs the leases of everything that `server` does.
    ///
    /// # Errors
    /// Any database error.
    pub async fn conversion_renew(&self, server: Uuid, lease: Duration) -> Result<()> {
        sqlx::query(include_str!("../sql/conversion/renew.sql"))
            .bind(server)
            .bind(lease.as_secs_f64())
            .execute(self.background_pool())
            .await?;
        Ok(())
    }

    /// Stores the answer of a turn; false when another turn has begun since, whose answer counts.
    ///
    /// # Errors
    /// Any database error.
    pub async fn conversion_finish(&self, turn: &Turn, server: Uuid, status: u16, answer: &str) -> Result<bool> {
        let stored = sqlx::query(include_str!("../sql/conversion/finish.sql"))
            .bind(turn.conversion_id)
            .bind(server)
            .bind(turn.fence)
            .bind(i16::try_from(status).unwrap_or(500))
            .bind(answer)
            .fetch_optional(self.background_pool())
            .await?;
        Ok(stored.is_some())
    }

    /// Ends a conversion in the foreground.
    ///
    /// # Errors
    /// Any database error; its lease ends by itself then.
    pub async fn conversion_end(&self, id: Uuid) -> Result<()> {
        sqlx::query(include_str!("../sql/conversion/end_foreground.sql"))
            .bind(id)
            .execute(self.background_pool())
            .await?;
        Ok(())
    }

    /// Ends private jobs whose server is gone with `answer`, or those of `server` at once.
    ///
    /// # Errors
    /// Any database error.
    pub async fn conversion_fail_lost(&self, status: u16, answer: &str, server: Option<Uuid>) -> Result<Vec<Lost>> {
        Ok(sqlx::query_as(include_str!("../sql/conversion/fail_lost.sql"))
            .bind(i16::try_from(status).unwrap_or(500))
            .bind(answer)
            .bind(server)
            .fetch_all(self.background_pool())
            .await?)
    }

    /// Gives back what `server`, which ends, does: jobs to other servers, tables to other requests.
    ///
    /// # Errors
    /// Any database error; the leases end by themselves then.
    pub async fn conversion_release(&self, server: Uuid) -> Result<()> {
        for statement in
            [include_str!("../sql/conversion/release.sql"), include_str!("../sql/conversion/forget_foreground.sql")]
        {
            sqlx::query(statement).bind(server).execute(self.background_pool()).await?;
        }
        Ok(())
    }

    /// A job by its id; `None` when there is none, or no longer.
    ///
    /// # Errors
    /// Any database error.
    pub async fn conversion_find(&self, id: Uuid) -> Result<Option<State>> {
        #[derive(sqlx::FromRow)]
        struct Row {
            state: String,
            status: Option<i16>,
            answer: Option<String>,
        }
        let row: Option<Row> =
            sqlx::query_as(include_str!("../sql/conversion/find.sql")).bind(id).fetch_optional(self.pool()).await?;
        Ok(row.map(|row| match (row.state.as_str(), row.status, row.answer) {
            ("finished", Some(status), Some(answer)) => {
                State::Finished { status: u16::try_from(status).unwrap_or(500), answer }
            }
            _ => State::Pending,
        }))
    }

    /// Forgets at most `limit` answers that are older than `retention`; how many went.
    ///
    /// # Errors
    /// Any database error.
    pub async fn conversion_purge(&self, retention: Duration, limit: i64) -> Result<u64> {
        let done = sqlx::query(include_str!("../sql/conversion/purge.sql"))
            .bind(retention.as_secs_f64())
            .bind(limit)
            .execute(self.background_pool())
            .await?;
        Ok(done.rows_affected())
    }

    /// How many conversions wait and run.
    ///
    /// # Errors
    /// Any database error.
    pub async fn conversion_gauges(&self) -> Result<Gauges> {
        Ok(sqlx::query_as(include_str!("../sql/conversion/gauges.sql")).fetch_one(self.background_pool()).await?)
    }
}
