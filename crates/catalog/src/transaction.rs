//! Read transactions.

use crate::{Catalog, Result};
use sqlx::{AssertSqlSafe, Postgres, Transaction};

impl Catalog {
    /// Opens one REPEATABLE READ READ ONLY transaction on a connection of the request pool: every statement in it sees
    /// the same state of the database. Dropping it ends it.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when no connection can be had.
    pub async fn read(&self) -> Result<Transaction<'static, Postgres>> {
        Ok(self.pool().begin_with("begin isolation level repeatable read read only").await?)
    }

    /// The same on a connection of the background pool, without a limit to what a statement takes: for previews.
    pub(crate) async fn read_in_background(&self) -> Result<Transaction<'static, Postgres>> {
        let begin = "begin isolation level repeatable read read only; set local statement_timeout = 0";
        Ok(self.background_pool().begin_with(AssertSqlSafe(begin)).await?)
    }
}
