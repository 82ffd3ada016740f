//! Read transactions.

use crate::{Catalog, Result};
use sqlx::{Postgres, Transaction};

impl Catalog {
    /// Opens one REPEATABLE READ READ ONLY transaction on a connection of the request pool: every statement in it sees
    /// the same state of the database. Dropping it ends it.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when no connection can be had.
    pub async fn read(&self) -> Result<Transaction<'static, Postgres>> {
        Ok(self.pool().begin_with("begin isolation level repeatable read read only").await?)
    }
}
