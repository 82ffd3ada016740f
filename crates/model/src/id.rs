//! Newtypes for the identifiers of the catalog. Mixing two kinds does not compile.
//!
//! All are 64-bit integers on the wire and in Postgres. Snapshot ids are dense per catalog, from 0 (genesis); the
//! others start at 1 and are never reused.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A catalog, unique in one database.
    CatalogId
);
id!(
    /// A snapshot of one catalog: dense, in commit order, 0 is genesis.
    SnapshotId
);
id!(
    /// A namespace of one catalog.
    NamespaceId
);
id!(
    /// One incarnation of a table; a table dropped and created again gets another id.
    TableId
);
id!(
    /// A view of one catalog.
    ViewId
);
id!(
    /// A data file or a deletion vector: both draw from one allocator per catalog.
    FileId
);
id!(
    /// A column of one table incarnation, from 1; never reused, not even after the column is dropped.
    FieldId
);
id!(
    /// A partition spec or sort order of one table incarnation, from 1; never reused.
    SpecId
);

impl SnapshotId {
    /// The snapshot that every catalog starts with; it has no changes.
    pub const GENESIS: Self = Self(0);
}

impl FieldId {
    /// Parquet field id of the `_hog_row_id` column that compaction writes.
    pub const ROW_ID: Self = Self(2_147_483_646);

    /// Largest field id that a column may get.
    pub const LAST_COLUMN: Self = Self(Self::ROW_ID.0 - 1);
}
