//! Whether Postgres answers, asked over a connection of its own: a queue for the others must not look like an outage.

use crate::{Options, Result};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};
use std::sync::{Mutex, PoisonError};

/// One connection that is used for nothing else.
pub struct Probe {
    options: PgConnectOptions,
    idle: Mutex<Option<PgConnection>>,
}

impl Probe {
    /// Prepares the probe; connects at the first question.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when the URL cannot be read.
    pub fn open(options: &Options) -> Result<Self> {
        Ok(Self { options: options.connect_options()?, idle: Mutex::new(None) })
    }

    /// Asks Postgres for an answer. The caller sets the deadline: a call that is abandoned closes its connection, so
    /// that one which hangs is never asked again.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when there is no answer.
    pub async fn ping(&self) -> Result<()> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The kept connection may have died with a Postgres that is back by now.
        if let Some(mut connection) = idle
            && connection.ping().await.is_ok()
        {
            self.keep(connection);
            return Ok(());
        }
        let mut connection = self.options.connect().await?;
        connection.ping().await?;
        self.keep(connection);
        Ok(())
    }

    fn keep(&self, connection: PgConnection) {
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
    }
}
