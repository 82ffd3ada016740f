//! A read transaction that can move into a task of its own.

use crate::{Catalog, Result};
use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, Postgres};

/// One REPEATABLE READ READ ONLY transaction on a connection of the request pool.
///
/// Dropped before [`Reader::finish`], it closes its connection: after an interrupted COPY there may be a million rows
/// still to come, which nobody wants to read only to give the connection back.
pub(crate) struct Reader {
    connection: PoolConnection<Postgres>,
    idle: bool,
}

impl Reader {
    /// Opens the transaction.
    pub(crate) async fn open(catalog: &Catalog) -> Result<Self> {
        let connection = catalog.pool().acquire().await?;
        let mut reader = Self { connection, idle: false };
        sqlx::raw_sql(include_str!("../../sql/scan/begin.sql")).execute(reader.connection()).await?;
        Ok(reader)
    }

    /// The connection, inside the transaction.
    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        &mut self.connection
    }

    /// Ends the transaction and gives the connection back.
    pub(crate) async fn finish(mut self) -> Result<()> {
        sqlx::raw_sql("commit").execute(self.connection()).await?;
        self.idle = true;
        Ok(())
    }

    /// Ends the transaction after `error`, keeping the connection where the error is not its own.
    pub(crate) async fn fail(self, error: crate::Error) -> crate::Error {
        if matches!(error, crate::Error::Refused(_)) {
            // The refusal is what the client wants to know.
            let _ = self.finish().await;
        }
        error
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if !self.idle {
            self.connection.close_on_drop();
        }
    }
}
