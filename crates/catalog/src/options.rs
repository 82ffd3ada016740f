//! Settings of the store.

use crate::Result;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use std::str::FromStr;
use std::time::Duration;

/// Settings of the store, with the defaults of the server.
#[derive(Clone)]
pub struct Options {
    /// `postgres://` URL of the database.
    pub database_url: String,
    /// Connections for requests.
    pub pool_size: u32,
    /// Connections for group committers, one for each catalog with work to do.
    pub commit_pool_size: u32,
    /// Connections for background work.
    pub background_pool_size: u32,
    /// Files below this size are small: compaction may merge them, partition statistics count them.
    pub compaction_target_bytes: i64,
    /// How long a server may be silent before others take the groups over that it compacts.
    pub compaction_lease: Duration,
    /// Budget of one commit or DDL request for waiting: queue, connection and lock together. `None` waits for ever.
    pub commit_lock_timeout: Option<Duration>,
    /// Most requests that one catalog's queue holds; one more is answered 503 at once.
    pub commit_queue_limit: usize,
    /// Most requests that one group commit takes.
    pub commit_batch_requests: usize,
    /// Most files that one group commit takes (a single larger request still goes through, alone).
    pub commit_batch_files: usize,
    /// How long a request waits for a connection before it is answered 503.
    pub connect_timeout: Duration,
    /// Limit of any single statement.
    pub statement_timeout: Duration,
    /// Bytes that cached column bounds may take (filtered scans).
    pub scan_cache_bytes: usize,
    /// How long a client may take to receive one chunk (128 KiB) of a listing. A slower one loses its answer, so that it
    /// does not hold a connection for ever.
    pub read_chunk_timeout: Duration,
}

impl Options {
    /// The defaults, for the database at `database_url`.
    pub fn new(database_url: impl Into<String>) -> Self {
        Self {
            database_url: database_url.into(),
            pool_size: 10,
            commit_pool_size: 4,
            background_pool_size: 8,
            compaction_target_bytes: 512 << 20,
            compaction_lease: Duration::from_secs(60),
            commit_lock_timeout: Some(Duration::from_secs(30)),
            commit_queue_limit: 4096,
            commit_batch_requests: 128,
            commit_batch_files: 4096,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(60),
            scan_cache_bytes: 48 << 20,
            read_chunk_timeout: Duration::from_secs(30),
        }
    }

    /// Connection settings: everything lives in the schema `hoglake`.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when the URL cannot be read.
    pub fn connect_options(&self) -> Result<PgConnectOptions> {
        let statement_timeout_ms = self.statement_timeout.as_millis().to_string();
        Ok(PgConnectOptions::from_str(&self.database_url)?.application_name("hoglake").options([
            ("search_path", "hoglake"),
            ("statement_timeout", statement_timeout_ms.as_str()),
            ("idle_in_transaction_session_timeout", "30000"),
            ("jit", "off"),
            ("random_page_cost", "1.1"),
            ("timezone", "UTC"),
        ]))
    }

    /// The pool for requests. Connections are tried before they are handed out, so that a restart of Postgres shows as
    /// nothing worse than a slower request.
    pub(crate) fn request_pool(&self) -> Result<PgPool> {
        Ok(pool_options(self.pool_size, self.connect_timeout).connect_lazy_with(self.connect_options()?))
    }

    /// The pool of the group committers. Their statements are index probes and inserts by arrays, whatever the tables
    /// hold: one generic plan serves for all, and planning each time would cost more than executing. Plans that scan or
    /// hash would be the planner's mistake about an empty table, kept long after the table has grown.
    pub(crate) fn commit_pool(&self) -> Result<PgPool> {
        let options = self.connect_options()?.options([
            ("plan_cache_mode", "force_generic_plan"),
            ("enable_seqscan", "off"),
            ("enable_bitmapscan", "off"),
            ("enable_material", "off"),
            ("enable_hashjoin", "off"),
            ("enable_mergejoin", "off"),
        ]);
        Ok(pool_options(self.commit_pool_size, Duration::from_secs(30))
            .test_before_acquire(false)
            .connect_lazy_with(options))
    }

    /// The pool of background work. A page of a purge is planned for the rows that it has, not for those of the first one.
    pub(crate) fn background_pool(&self) -> Result<PgPool> {
        let options = self.connect_options()?.options([("plan_cache_mode", "force_custom_plan")]);
        Ok(pool_options(self.background_pool_size, Duration::from_secs(30)).connect_lazy_with(options))
    }
}

fn pool_options(size: u32, timeout: Duration) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(size)
        .min_connections(0)
        .acquire_timeout(timeout)
        .idle_timeout(Duration::from_secs(300))
}
