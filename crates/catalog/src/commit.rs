//! The commit path: a bounded queue a catalog, drained by one group committer that writes many requests in one
//! transaction, each with its own snapshot.

mod group;
mod load;
mod plans;
pub(crate) mod queue;
pub(crate) mod write;

use crate::idempotency::{Answer, IdempotencyKey};
use crate::{Catalog, Result};
use hoglake_model::commit::CommitRequest;
use hoglake_model::{ErrorCode, Refusal};
pub use queue::Committers;
use queue::{Job, Work};
use std::sync::Arc;

/// Why a group of requests failed together.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    /// Postgres failed.
    #[error("database operation failed")]
    Database(#[source] Arc<sqlx::Error>),
    /// The connection broke while the transaction was being committed, and the database did not come back in time to
    /// ask whether it had been.
    #[error("the connection broke during commit; whether the snapshot exists is not known")]
    OutcomeUnknown,
    /// A stored value is not what the schema promises.
    #[error("stored value is corrupt: {0}")]
    Corrupt(String),
}

impl Fault {
    /// What the client sees when the fault is one it can act on.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Database(error) => crate::error::unavailable(error),
            Self::OutcomeUnknown => Some(Refusal::new(
                ErrorCode::Unavailable,
                "the catalog database went away during the commit; whether it happened is not known: retry with the \
                 same Idempotency-Key, or look for the snapshot before sending the request again",
            )),
            Self::Corrupt(_) => None,
        }
    }
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(Arc::new(error))
    }
}

impl Catalog {
    /// Commits `request` to the catalog called `name`: one snapshot, in a group with whatever waits at the same time.
    ///
    /// # Locks
    /// The catalog's commit lock, for the length of the group's transaction.
    ///
    /// # Errors
    /// 404 for an unknown catalog; what [`CommitRequest::check`] and [`hoglake_model::commit::judge`] refuse; 503
    /// `commit_queue_timeout` when queue, connection and lock took longer than the budget.
    ///
    /// # Source
    /// OpenAPI `commit`.
    pub async fn commit(&self, name: &str, request: CommitRequest, key: Option<IdempotencyKey>) -> Result<Answer> {
        let catalog = self.catalog_find(name).await?;
        request.check(&catalog.data_path)?;
        Job::submit(self, catalog.id, Work::Commit(Box::new(request)), key).await
    }
}
