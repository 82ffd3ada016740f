//! What can go wrong between two formats.

use crate::store::{StoreError, asked_for_instance_role};
use hoglake_model::table::Unsupported;

/// The result of everything in [`sync`](super).
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a table could not be read or written. Nothing was committed unless a report says so.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no table of this format at this place.
    #[error("no {format} table at {place}: {detail}")]
    NotATable {
        /// The format that was looked for.
        format: hoglake_model::table::TableFormat,
        /// Where.
        place: String,
        /// What was missing.
        detail: String,
    },
    /// The source's metadata breaks its own specification, or is damaged.
    #[error("{place}: {detail}")]
    Malformed {
        /// The file, and the line or entry in it.
        place: String,
        /// Which rule is broken.
        detail: String,
    },
    /// The source uses a feature that we do not read.
    #[error("{place} needs {feature}: {detail}")]
    UnsupportedSource {
        /// The feature, as its specification calls it.
        feature: String,
        /// The commit or file that needs it.
        place: String,
        /// What to do about it.
        detail: String,
    },
    /// The target cannot express the source. Found before anything was written.
    #[error("{}", list(.0))]
    Unsupported(Vec<Unsupported>),
    /// Somebody else committed to the target first; load it and plan again.
    #[error("{place} was written by somebody else in the meantime")]
    Lost {
        /// The pointer that was lost.
        place: String,
    },
    /// The target cannot apply a step incrementally; bring it to the head in full.
    #[error("an incremental commit is not possible: {reason}")]
    NeedsFull {
        /// Why, for the report.
        reason: String,
    },
    /// The object store failed.
    #[error("{place}: {source}")]
    Store {
        /// The object or prefix.
        place: String,
        /// The store's own error.
        source: object_store::Error,
    },
    /// The object store failed, or does not allow the location.
    #[error(transparent)]
    Access(#[from] StoreError),
    /// A request that makes no sense, such as a location that does not parse.
    #[error(transparent)]
    Refused(#[from] hoglake_model::Refusal),
}

impl Error {
    /// Metadata that breaks its specification.
    pub fn malformed(place: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Malformed { place: place.into(), detail: detail.into() }
    }

    /// A failed request to the object store.
    pub fn store(place: impl Into<String>, source: object_store::Error) -> Self {
        if asked_for_instance_role(&source) {
            return StoreError::NoCredentials { location: place.into(), source }.into();
        }
        Self::Store { place: place.into(), source }
    }

    /// A Parquet file that could not be read: damaged, unless it was the store that failed.
    pub fn parquet(place: impl Into<String>, error: &parquet::errors::ParquetError) -> Self {
        use object_store::Error as Store;
        let parquet::errors::ParquetError::External(cause) = error else {
            return Self::malformed(place, error.to_string());
        };
        let Some(cause) = cause.downcast_ref::<Store>() else { return Self::malformed(place, error.to_string()) };
        let (text, path) = (cause.to_string(), String::new());
        let again = match cause {
            _ if crate::store::is_outside(cause) => crate::store::outside(&path),
            Store::NotFound { .. } => Store::NotFound { path, source: text.into() },
            Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => {
                Store::PermissionDenied { path, source: text.into() }
            }
            // The store's name tells requests for credentials from those for the object.
            Store::Generic { store, .. } => Store::Generic { store, source: text.into() },
            _ => Store::Generic { store: "object store", source: text.into() },
        };
        Self::store(place, again)
    }

    /// Whether the object simply is not there.
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Self::Store { source: object_store::Error::NotFound { .. }, .. })
    }
}

fn list(items: &[Unsupported]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::errors::ParquetError;

    #[test]
    fn stores_that_fail_below_a_parquet_reader_are_no_damaged_files() {
        let below = |cause: object_store::Error| Error::parquet("s3://b/t/f", &ParquetError::External(Box::new(cause)));
        let generic = |text: &str| object_store::Error::Generic { store: "S3", source: text.into() };
        let credentials = below(generic("GET http://169.254.169.254/latest/api/token failed"));
        assert!(matches!(credentials, Error::Access(StoreError::NoCredentials { .. })), "{credentials:?}");
        assert!(matches!(below(generic("connection reset")), Error::Store { .. }));
        let missing = below(object_store::Error::NotFound { path: "f".to_owned(), source: "404".into() });
        assert!(missing.is_not_found(), "{missing:?}");
        let damaged = Error::parquet("s3://b/t/f", &ParquetError::General("no footer".to_owned()));
        assert!(matches!(damaged, Error::Malformed { .. }), "{damaged:?}");
    }
}
