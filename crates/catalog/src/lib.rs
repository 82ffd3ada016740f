//! The Postgres store of hoglake: every SQL statement, migrations, transactions, and the group committer.
//!
//! [`Catalog`] is one concrete struct over a pool; operations are noun-first methods on it, one noun a file.
//! SQL lives in `sql/<noun>/<verb>.sql`.
//!
//! **Architecture invariant:** no object-store call happens in this crate, so none can happen inside a transaction or
//! under the commit lock.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod catalogs;
pub mod changes;
pub mod commit;
pub mod compaction;
pub mod consumers;
pub mod conversions;
pub mod ddl;
pub mod error;
pub mod expiry;
pub mod export;
pub mod fault;
pub mod files;
pub mod gauges;
pub mod hydration;
pub mod idempotency;
pub mod leases;
pub mod listing;
pub mod lock;
pub mod migrations;
pub mod namespaces;
pub mod options;
pub mod pace;
pub mod partition_totals;
pub mod probe;
pub mod publications;
pub mod removals;
pub mod runs;
pub mod scan;
pub mod snapshots;
pub mod tables;
pub mod transaction;
pub mod verify;
pub mod views;

pub use error::{Error, Result};
pub use options::Options;

use sqlx::PgPool;
use std::collections::HashMap;
use std::sync::{Arc, RwLock};

/// Handle on the database that holds all catalogs. Cheap to clone.
///
/// # Locks
/// Each method says which locks it takes; methods that say nothing take none.
#[derive(Clone)]
pub struct Catalog {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    /// Reads, and small writes that need no commit lock.
    pub(crate) pool: PgPool,
    /// Group committers: at most one connection a catalog with work to do.
    pub(crate) commit_pool: PgPool,
    /// Maintenance, so that it takes no connection from a request.
    pub(crate) background_pool: PgPool,
    pub(crate) options: Options,
    /// Scan indexes, for filtered scans.
    pub(crate) scan_cache: scan::ScanCache,
    pub(crate) committers: commit::Committers,
    /// Catalogs by name: never renamed, never dropped.
    pub(crate) identities: RwLock<HashMap<String, Arc<catalogs::CatalogIdentity>>>,
}

impl Catalog {
    /// Opens the pools. Connects lazily: an unreachable database shows at the first use.
    ///
    /// # Errors
    /// [`Error::Database`] when `options.database_url` is not a Postgres URL.
    pub fn open(options: Options) -> Result<Self> {
        let background_pool = options.background_pool()?;
        let commit_pool = options.commit_pool()?;
        let pool = options.request_pool()?;
        let inner = Inner {
            pool,
            commit_pool,
            background_pool,
            options,
            scan_cache: scan::ScanCache::default(),
            committers: commit::Committers::default(),
            identities: RwLock::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The pool for reads.
    pub fn pool(&self) -> &PgPool {
        &self.inner.pool
    }

    /// The pool that the group committers draw from.
    pub fn commit_pool(&self) -> &PgPool {
        &self.inner.commit_pool
    }

    /// The pool that background work draws from.
    pub fn background_pool(&self) -> &PgPool {
        &self.inner.background_pool
    }

    /// The settings this handle was opened with.
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// Lets every accepted commit finish, then closes the pools.
    pub async fn close(&self) {
        self.inner.committers.close().await;
        self.inner.commit_pool.close().await;
        self.inner.background_pool.close().await;
        self.inner.pool.close().await;
    }
}
