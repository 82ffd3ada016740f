//! The database of a command: the one that was named, or a private one that runs as long as the command.

use super::failure::Failure;
use crate::api::error::chain;
use crate::config::ConfigError;
use crate::config::commit::CommitConfig;
use crate::config::database::DatabaseConfig;
use crate::embedded_postgres::EmbeddedPostgres;
use hoglake_catalog::{Error, Options, migrations};
use hoglake_model::ErrorCode;
use std::time::Duration;
use tokio::time::Instant;

/// How long a database may take to come up that is started together with the server.
const PATIENCE: Duration = Duration::from_secs(30);

/// A database that answers.
pub(super) struct Database {
    /// How to open the catalog on it.
    pub(super) options: Options,
    embedded: Option<EmbeddedPostgres>,
}

impl Database {
    /// The database of a command that works on what others have made, and makes none.
    pub(super) async fn existing(config: &DatabaseConfig) -> Result<Self, Failure> {
        if config.url()?.is_none() {
            EmbeddedPostgres::check_exists(&config.state_dir()?).map_err(|error| ConfigError(error.to_string()))?;
        }
        Self::start(config, None).await
    }

    /// Starts the private Postgres unless a database is named, and makes it where there is none.
    pub(super) async fn start(config: &DatabaseConfig, commit: Option<&CommitConfig>) -> Result<Self, Failure> {
        let (url, embedded) = match config.url()? {
            Some(url) => {
                tracing::info!(database = %url, "using the database that was named");
                (url.expose().to_owned(), None)
            }
            None => {
                let embedded = EmbeddedPostgres::start(&config.state_dir()?, config.pg_bin.as_deref())
                    .await
                    .map_err(|error| Failure::at("the private Postgres does not run", error))?;
                (embedded.url().to_owned(), Some(embedded))
            }
        };
        let mut options = Options::new(url);
        options.pool_size = config.db_pool_size;
        options.connect_timeout = config.db_connect_timeout_ms;
        options.scan_cache_bytes = config.scan_index_bytes;
        options.read_chunk_timeout = config.read_chunk_timeout_ms;
        if let Some(commit) = commit {
            options.commit_lock_timeout = commit.lock_timeout();
        }
        Ok(Self { options, embedded })
    }

    /// Brings the schema up to date, waiting for a database that is only just starting.
    pub(super) async fn migrate_patiently(&self) -> Result<migrations::Report, Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let error = match self.apply_migrations().await {
                Ok(report) => return Ok(report),
                Err(error) => error,
            };
            let unavailable = error.refusal().is_some_and(|refusal| refusal.code == ErrorCode::Unavailable);
            if !unavailable || Instant::now() > deadline {
                return Err(unusable(error));
            }
            let patience_s = PATIENCE.as_secs();
            tracing::warn!(patience_s, error = chain(&error), "the database does not answer yet: it is tried again");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Brings the schema up to date, for somebody who waits for an answer: a database that is not there is told at once.
    pub(super) async fn migrate(&self) -> Result<(), Failure> {
        self.apply_migrations().await.map(drop).map_err(unusable)
    }

    async fn apply_migrations(&self) -> Result<migrations::Report, Error> {
        let report = migrations::migrate(&self.options).await?;
        if !report.applied.is_empty() {
            tracing::info!(applied = report.applied.len(), version = report.version, "schema migrated");
        }
        Ok(report)
    }

    /// Makes sure that the database is there, whatever its schema.
    pub(super) async fn reach(&self) -> Result<(), Failure> {
        migrations::reach(&self.options).await.map_err(unusable)
    }

    /// Makes sure that the schema is this program's, and leaves it as it is.
    pub(super) async fn check_schema(&self) -> Result<(), Failure> {
        migrations::check(&self.options).await.map_err(unusable)
    }

    /// Stops the private Postgres.
    pub(super) async fn stop(self) {
        if let Some(embedded) = self.embedded {
            embedded.stop().await;
        }
    }
}

fn unusable(error: Error) -> Failure {
    Failure::at("the database cannot be used (HOGLAKE_DATABASE_URL, --database-url)", error)
}
