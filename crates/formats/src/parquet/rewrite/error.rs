//! Why a rewrite fails, and because of which of its inputs.

use crate::parquet::binding::BindingError;
use crate::parquet::footer::FooterError;
use crate::store::StoreError;
use arrow::error::ArrowError;
use parquet::errors::ParquetError;

/// Why nothing was written. An upload that had begun was aborted.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// An input stores a column in a form that has no exact counterpart in the live schema.
    #[error("`{path}` cannot be rewritten: {reason}")]
    Unconvertible {
        /// The input.
        path: String,
        /// The column and its form.
        reason: String,
    },
    /// An input is not what it was registered as.
    #[error("`{path}` is not what was registered: {reason}")]
    Mismatch {
        /// The input.
        path: String,
        /// What differs.
        reason: String,
    },
    /// An input's footer cannot be read.
    #[error("the footer of `{path}`")]
    Footer {
        /// The input.
        path: String,
        /// Why.
        #[source]
        source: Box<FooterError>,
    },
    /// The pages of an input cannot be decoded.
    #[error("`{path}` cannot be read")]
    Unreadable {
        /// The input.
        path: String,
        /// Why.
        #[source]
        source: Box<RewriteError>,
    },
    /// Several inputs cannot be taken, each for a reason of its own; the first stands for all.
    #[error("{} inputs cannot be rewritten, the first: {}", .0.len(), first(.0))]
    Inputs(Vec<RewriteError>),
    /// A store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A page cannot be decoded or encoded.
    #[error("Parquet")]
    Parquet(#[from] ParquetError),
    /// A batch cannot be computed.
    #[error("Arrow")]
    Arrow(#[from] ArrowError),
    /// The temporary directory failed.
    #[error("a temporary file failed (--temp-dir, HOGLAKE_TEMP_DIR)")]
    Spill(#[source] std::io::Error),
    /// The caller went away.
    #[error("the rewrite was cancelled")]
    Cancelled,
    /// A fault of ours.
    #[error("{0}")]
    Internal(&'static str),
}

impl RewriteError {
    /// Whether the same rewrite may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Store(error) => error.is_transient(),
            Self::Footer { source, .. } => source.is_transient(),
            Self::Inputs(errors) => errors.iter().all(Self::is_transient),
            Self::Spill(_) | Self::Cancelled => true,
            _ => false,
        }
    }

    /// Whether an input cannot be mapped to the live schema, which only another schema or file can change.
    pub fn is_unconvertible(&self) -> bool {
        match self {
            Self::Unconvertible { .. } => true,
            Self::Inputs(errors) => errors.iter().any(Self::is_unconvertible),
            _ => false,
        }
    }

    /// The location that the error is about, an input as a rule; none when it is not known to be about one.
    pub fn location(&self) -> Option<&str> {
        match self {
            Self::Unconvertible { path, .. }
            | Self::Mismatch { path, .. }
            | Self::Footer { path, .. }
            | Self::Unreadable { path, .. } => Some(path),
            Self::Store(error) => Some(error.location()),
            _ => None,
        }
    }

    /// What is wrong, input by input.
    pub fn causes(&self) -> &[Self] {
        match self {
            Self::Inputs(errors) => errors,
            one => std::slice::from_ref(one),
        }
    }

    pub(super) fn unconvertible(path: impl ToString, reason: impl Into<String>) -> Self {
        Self::Unconvertible { path: path.to_string(), reason: reason.into() }
    }

    pub(super) fn mismatch(path: impl ToString, reason: impl Into<String>) -> Self {
        Self::Mismatch { path: path.to_string(), reason: reason.into() }
    }

    /// Of decoding an input: says which.
    pub(super) fn of_input(self, path: impl ToString) -> Self {
        match self {
            error @ (Self::Parquet(_) | Self::Arrow(_)) => {
                Self::Unreadable { path: path.to_string(), source: Box::new(error) }
            }
            error => error,
        }
    }

    pub(super) fn binding(path: impl ToString, error: &BindingError) -> Self {
        Self::unconvertible(path, error.to_string())
    }
}

fn first(errors: &[RewriteError]) -> String {
    errors.first().map(ToString::to_string).unwrap_or_default()
}
