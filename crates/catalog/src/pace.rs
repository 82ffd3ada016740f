//! How background work makes way for commits: in small steps with long rests while somebody commits, faster otherwise.
//!
//! What a step writes is flushed before the next commit is, and a step takes a processor from Postgres while it runs. Both
//! show in the slowest commits, however short a time the work as a whole would take.

use crate::{Catalog, Result};
use hoglake_model::CatalogId;
use sqlx::PgExecutor;
use std::time::Duration;

/// For how many times as long as a step took to rest while somebody commits.
const BUSY_RESTS: u32 = 9;

/// The pace of one sweep over a catalog.
#[derive(Debug)]
pub struct Pace {
    catalog: CatalogId,
    /// Whether it makes way at all.
    gentle: bool,
    /// Head after the step before.
    head: Option<i64>,
    busy: bool,
}

impl Pace {
    /// Of work that nobody waits for (`gentle`), which begins as if somebody committed, or of work without rests.
    pub fn new(catalog: CatalogId, gentle: bool) -> Self {
        Self { catalog, gentle, head: None, busy: gentle }
    }

    /// How large the next step is: at `full` pace, `gentle`, or `busy` while somebody commits.
    pub fn step(&self, full: i64, gentle: i64, busy: i64) -> i64 {
        if self.busy {
            full.min(busy)
        } else if self.gentle {
            full.min(gentle)
        } else {
            full
        }
    }

    /// Rests after a step that took `worked`: for as long, or several times as long when head has moved meanwhile.
    ///
    /// # Errors
    /// Any database error.
    pub async fn rest(&mut self, database: impl PgExecutor<'_>, worked: Duration) -> Result<(), sqlx::Error> {
        if !self.gentle {
            return Ok(());
        }
        self.look(database).await?;
        tokio::time::sleep(if self.busy { worked * BUSY_RESTS } else { worked }).await;
        Ok(())
    }

    async fn look(&mut self, database: impl PgExecutor<'_>) -> Result<bool, sqlx::Error> {
        let head = sqlx::query_scalar(include_str!("../sql/catalog/head.sql")).bind(self.catalog.0);
        let head = Some(head.fetch_one(database).await?);
        self.busy = self.head != head;
        self.head = head;
        Ok(self.busy)
    }
}

impl Catalog {
    /// [`Pace::rest`] with a connection of the background pool.
    ///
    /// # Errors
    /// Any database error.
    pub async fn rest(&self, pace: &mut Pace, worked: Duration) -> Result<()> {
        Ok(pace.rest(self.background_pool(), worked).await?)
    }

    /// Whether head has moved since the last look of `pace`; the first time it has.
    ///
    /// # Errors
    /// Any database error.
    pub async fn is_busy(&self, pace: &mut Pace) -> Result<bool> {
        Ok(pace.look(self.background_pool()).await?)
    }
}
