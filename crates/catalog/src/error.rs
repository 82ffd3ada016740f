//! Errors of the store: a request that was refused, or a fault.

use crate::commit::Fault;
use hoglake_model::{ErrorCode, Refusal};

/// Result of a store operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation did not happen. It changed nothing, whichever it is.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request broke a rule of the contract.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Postgres failed or could not be reached.
    #[error("database operation failed")]
    Database(#[from] sqlx::Error),
    /// A group commit failed as a whole; every member shares the cause.
    #[error("commit failed")]
    Commit(#[from] Fault),
    /// The schema of the database is another than this build's.
    #[error("{0}")]
    Schema(String),
    /// A stored value is not what the schema promises.
    #[error("stored value is corrupt: {0}")]
    Corrupt(String),
}

/// SQLSTATEs that mean something to us; names from the Postgres manual, appendix A.
pub mod sqlstate {
    /// `lock_timeout` expired.
    pub const LOCK_NOT_AVAILABLE: &str = "55P03";
    /// A unique index refused the row.
    pub const UNIQUE_VIOLATION: &str = "23505";
    /// Two transactions waited for each other, and this one was ended.
    pub const DEADLOCK_DETECTED: &str = "40P01";
    /// An exclusion constraint refused the row.
    pub const EXCLUSION_VIOLATION: &str = "23P01";
    /// `statement_timeout` expired, or the statement was cancelled.
    pub const QUERY_CANCELED: &str = "57014";
}

impl Error {
    /// Whether Postgres answered with this SQLSTATE.
    pub fn is_sqlstate(&self, code: &str) -> bool {
        matches!(self, Self::Database(error) if has_sqlstate(error, code))
    }

    /// The refusal to show, when the request is to blame or the database is out of reach.
    ///
    /// `None` is a fault of ours: the caller logs it and answers 500 without details.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal.clone()),
            Self::Database(error) => unavailable(error),
            Self::Commit(fault) => fault.refusal(),
            Self::Schema(_) | Self::Corrupt(_) => None,
        }
    }
}

/// What Postgres said, when `error` is that; without what belongs to its own source code. Its causes say nothing more.
pub fn postgres_words(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    match error.downcast_ref::<sqlx::Error>()? {
        sqlx::Error::Database(said) => {
            let code = said.code().map(|code| format!(" (SQLSTATE {code})")).unwrap_or_default();
            Some(format!("Postgres says: {}{code}", said.message()))
        }
        _ => None,
    }
}

/// 503 for the ways in which Postgres cannot be reached or has run out of something, `None` for everything else.
pub(crate) fn unavailable(error: &sqlx::Error) -> Option<Refusal> {
    const OUT_OF_REACH: &str = "the catalog database cannot be reached at the moment; retry the request";
    const EXHAUSTED: &str = "the catalog database is out of disk, memory or connections; nothing was changed: retry the \
                             request when the operator has made room";
    let detail = match error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::Tls(_) => OUT_OF_REACH,
        sqlx::Error::Database(e) => match e.code() {
            // class 57P: shutting down, crashed, starting up; class 08: connection failures
            Some(code) if code.starts_with("57P") || code.starts_with("08") => OUT_OF_REACH,
            // class 53: disk full, out of memory, too many connections
            Some(code) if code.starts_with("53") => EXHAUSTED,
            _ => return None,
        },
        _ => return None,
    };
    Some(Refusal::new(ErrorCode::Unavailable, detail))
}

/// Whether `error` carries this SQLSTATE.
pub(crate) fn has_sqlstate(error: &sqlx::Error, code: &str) -> bool {
    error.as_database_error().and_then(|e| e.code()).is_some_and(|c| c == code)
}
