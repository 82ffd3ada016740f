//! Whether the object store holds what a catalog lists: the last step of a restore.
//!
//! The manifest (every object that the catalog knows) and the listing of the bucket are each sorted by key, on disk
//! where they do not fit in memory, and then walked side by side. Nothing is held per object, and nothing is changed,
//! neither in the database nor in the store.

mod compare;
mod listing;
mod manifest;
mod report;
mod sort;

pub use compare::compare;
pub use listing::{Listing, list};
pub use manifest::{Manifest, read};
pub use report::{Count, Finding, Found, Kind, Report, Status, Unlisted};
pub use sort::{Sorted, Sorter};

use hoglake_formats::store::StoreError;
use indicatif::ProgressBar;
use std::path::PathBuf;

/// Memory of each of the two sorts; what does not fit goes to temporary files.
const SORT_BYTES: usize = 32 << 20;

/// Why a check could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The manifest broke off, or is none.
    #[error("the catalog's manifest cannot be read")]
    Manifest(#[source] serde_json::Error),
    /// The server is older than this command.
    #[error(
        "the server's manifest does not say which unlisted objects the catalog knows; ask a server of this version"
    )]
    Incomplete,
    /// The data path names no store that can be listed.
    #[error("the catalog's data path cannot be listed: {0}")]
    DataPath(String),
    /// The store refused or failed.
    #[error("the objects below the data path cannot be listed")]
    Store(#[source] StoreError),
    /// No path of a catalog has such a key, but `object_store` lists nothing beyond it.
    #[error(
        "the object store holds an object below the data path whose key cannot be read ({0}): remove or rename it, it \
         belongs to no catalog; then check again"
    )]
    OddKey(object_store::path::Error),
    /// A temporary file could not be written or read.
    #[error("a temporary file failed (--temp-dir, HOGLAKE_TEMP_DIR)")]
    Temporary(#[source] std::io::Error),
    /// The file of findings could not be written.
    #[error("the findings cannot be written (--findings)")]
    Findings(#[source] std::io::Error),
    /// A task of ours ended without an answer.
    #[error("the check was cut off")]
    CutOff,
}

/// How a check works.
#[derive(Debug, Clone)]
pub struct Workplace {
    /// Where temporary files go.
    pub temp_dir: PathBuf,
    /// Memory of each sort.
    pub sort_bytes: usize,
    /// Told how far the check has come.
    pub progress: ProgressBar,
}

impl Workplace {
    /// Temporary files in `temp_dir`, and the usual memory.
    pub fn new(temp_dir: PathBuf, progress: ProgressBar) -> Self {
        Self { temp_dir, sort_bytes: SORT_BYTES, progress }
    }

    fn sorter<const N: usize>(&self) -> Sorter<N> {
        Sorter::new(self.temp_dir.clone(), self.sort_bytes)
    }
}
