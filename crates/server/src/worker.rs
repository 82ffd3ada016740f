//! Background work: reconcilers that compare what is with what should be, and do a bounded bite.
//!
//! Each task is a method of [`Worker`] that takes a catalog and answers a status. Timers ([`driver`]), endpoints and the
//! command line call the same methods. Work is claimed in the database, file by file, so that any number of servers share
//! it; what a dead one had claimed is due again when its claims end.
//!
//! **Architecture invariant:** no transaction is open while an object store is asked for anything.

mod clean;
mod compact;
mod deep_verify;
pub mod driver;
mod expire;
mod hydrate;
mod record;
mod stopping;
mod vector;

pub use clean::CleanupStatus;
pub use compact::{CompactionStatus, FilePutOff};
pub(crate) use hydrate::columns;
pub use hydrate::{HYDRATION_BITE, HydrationStatus};
use record::Record;
pub use record::Trigger;
pub(crate) use vector::VectorError;

use crate::api::error::chain;
use crate::audit::{Action, Audit, Event, Outcome};
use crate::config::maintenance::MaintenanceConfig;
use hoglake_catalog::Catalog;
use hoglake_formats::store::{Object, StoreError, Stores};
use hoglake_model::{ErrorCode, Location, Refusal};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What maintenance needs: the store, object stores, and its settings; and whether it is to stop. Cheap to clone.
#[derive(Clone)]
pub struct Worker {
    parts: Arc<Parts>,
    stop: CancellationToken,
}

/// See [`Worker`].
pub struct Parts {
    /// The catalogs.
    pub catalog: Catalog,
    /// Where the files are.
    pub stores: Arc<Stores>,
    /// Who did what.
    pub audit: Audit,
    /// Timers and bounds.
    pub settings: MaintenanceConfig,
    /// Whether this process serves requests, which go before maintenance where both want the processor.
    pub serves: bool,
}

impl std::ops::Deref for Worker {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

/// Why a task ended early. What it had done until then stays done.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The catalog refused or failed.
    #[error(transparent)]
    Catalog(#[from] hoglake_catalog::Error),
    /// The object store failed in a way that concerns the whole task.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The process ends. What was claimed has been given back.
    #[error("it was told to stop: what it had done until then stays done, and the rest can be done by others at once")]
    Stopped,
}

impl From<WorkError> for crate::api::error::ApiError {
    fn from(error: WorkError) -> Self {
        match error {
            WorkError::Catalog(error) => error.into(),
            WorkError::Store(error) => Self::fault(error),
            WorkError::Stopped => {
                let detail = "the server is stopping: what was done until then stays done; ask once more for the rest";
                Refusal::new(ErrorCode::Unavailable, detail).into()
            }
        }
    }
}

impl Worker {
    /// Shares `parts`.
    pub fn new(parts: Parts) -> Self {
        Self { parts: Arc::new(parts), stop: CancellationToken::new() }
    }

    /// The object at a registered path.
    pub(crate) fn object(&self, path: &str) -> Result<Object, StoreError> {
        let location = Location::parse(path)
            .map_err(|refusal| StoreError::Unsupported { location: path.to_owned(), reason: refusal.detail })?;
        self.stores.open(&location)
    }

    /// Writes an audit line of background work.
    pub(crate) fn audit_line(
        &self,
        action: Action,
        outcome: Outcome,
        catalog: &str,
        object: Option<&str>,
        detail: Option<&str>,
    ) {
        self.audit.record(&Event {
            action,
            outcome,
            actor: "background",
            catalog: Some(catalog),
            object,
            detail,
            request_id: None,
        });
    }
}

/// An error in one line, for ledgers and logs.
fn in_words(error: &(dyn std::error::Error + 'static)) -> String {
    chain(error)
}
