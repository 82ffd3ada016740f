//! Lists the bucket below a data path.

use super::{CheckError, Sorted, Workplace};
use futures::StreamExt;
use hoglake_formats::store::{StoreError, Stores};
use hoglake_model::Location;
use object_store::ObjectMeta;
use tokio::sync::mpsc;

/// Bytes of a [`StoredObject`].
pub(super) const STORED_BYTES: usize = 16;

/// Objects that are handed over together, at most.
const PAGE: usize = 1_000;

/// An object of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredObject {
    pub(super) size: u64,
    /// When it was written, in milliseconds since 1970.
    pub(super) modified_ms: i64,
}

impl StoredObject {
    fn encode(self) -> [u8; STORED_BYTES] {
        let mut bytes = [0; STORED_BYTES];
        bytes[..8].copy_from_slice(&self.size.to_be_bytes());
        bytes[8..].copy_from_slice(&self.modified_ms.to_be_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; STORED_BYTES]) -> Self {
        let (mut size, mut modified_ms) = ([0; 8], [0; 8]);
        size.copy_from_slice(&bytes[..8]);
        modified_ms.copy_from_slice(&bytes[8..]);
        Self { size: u64::from_be_bytes(size), modified_ms: i64::from_be_bytes(modified_ms) }
    }
}

/// Every object below a data path, sorted by its key there.
pub struct Listing {
    pub(super) objects: Sorted<STORED_BYTES>,
}

/// Lists what lies below `data_path`. Stores that list in another order than that of their keys are as good as others.
///
/// # Errors
/// [`CheckError::DataPath`], [`CheckError::Store`], [`CheckError::Temporary`].
pub async fn list(stores: &Stores, data_path: &str, workplace: Workplace) -> Result<Listing, CheckError> {
    let location = Location::parse(data_path).map_err(|refusal| CheckError::DataPath(refusal.detail))?;
    let root = stores.open(&location).map_err(CheckError::Store)?;
    let (sender, mut receiver) = mpsc::channel::<Vec<ObjectMeta>>(4);
    let prefix = match root.path.as_ref() {
        "" => String::new(),
        path => format!("{path}/"),
    };
    let sorting = tokio::task::spawn_blocking(move || {
        let mut sorter = workplace.sorter();
        let mut count = 0_u64;
        while let Some(page) = receiver.blocking_recv() {
            for object in page {
                // A placeholder of the folder itself is no object below it.
                let Some(key) = object.location.as_ref().strip_prefix(&prefix) else { continue };
                let stored = StoredObject { size: object.size, modified_ms: object.last_modified.timestamp_millis() };
                sorter.push(key.as_bytes(), stored.encode())?;
                count += 1;
            }
            workplace.progress.set_message(format!("object store: {count} objects"));
        }
        sorter.finish()
    });
    let mut pages = root.store.list(Some(&root.path)).ready_chunks(PAGE);
    let mut failure = None;
    while let Some(page) = pages.next().await {
        let page: Result<Vec<_>, _> = page.into_iter().collect();
        match page {
            Ok(page) => {
                if sender.send(page).await.is_err() {
                    break;
                }
            }
            Err(error) => {
                failure = Some(match error {
                    object_store::Error::InvalidPath { source } => CheckError::OddKey(source),
                    error => CheckError::Store(StoreError::at(&location, error)),
                });
                break;
            }
        }
    }
    drop(sender);
    let objects = sorting.await.map_err(|_| CheckError::CutOff)?.map_err(CheckError::Temporary)?;
    match failure {
        Some(error) => Err(error),
        None => Ok(Listing { objects }),
    }
}
