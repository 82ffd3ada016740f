//! Deletion vectors of registered files.

use super::{Worker, in_words};
use hoglake_formats::deletion_vector::DeletionVector;
use hoglake_formats::puffin;
use hoglake_formats::store::StoreError;
use object_store::ObjectStoreExt;

/// Largest deletion vector that is read.
const MAX_VECTOR_BYTES: u64 = 256 << 20;

/// Why a vector cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VectorError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("deletion vector `{path}`: {reason}")]
    Wrong { path: String, reason: String },
}

impl Worker {
    /// Reads the vector at `path` and makes sure that it is the one that was registered, with `delete_count` rows, for a
    /// file of `records` rows.
    pub(crate) async fn read_vector(
        &self,
        path: &str,
        delete_count: i64,
        records: i64,
    ) -> Result<DeletionVector, VectorError> {
        let wrong = |reason: String| VectorError::Wrong { path: path.to_owned(), reason };
        let object = self.object(path)?;
        let got = object.store.get(&object.path).await.map_err(|error| object.error(error))?;
        if got.meta.size > MAX_VECTOR_BYTES {
            return Err(wrong(format!("{} bytes are more than the {MAX_VECTOR_BYTES} that are read", got.meta.size)));
        }
        let bytes = got.bytes().await.map_err(|error| object.error(error))?;
        let read = puffin::read(&bytes).map_err(|error| wrong(in_words(&error)))?;
        let cardinality = read.vector.cardinality();
        if u64::try_from(delete_count) != Ok(cardinality) {
            return Err(wrong(format!("it deletes {cardinality} rows, {delete_count} were registered")));
        }
        if let Some(last) = read.vector.last()
            && u64::try_from(records).is_ok_and(|records| last >= records)
        {
            return Err(wrong(format!("it deletes row {last} of a file with {records} rows")));
        }
        Ok(read.vector)
    }
}
