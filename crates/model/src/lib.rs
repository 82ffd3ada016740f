//! The table model of hoglake: ids, names, types, and the pure rules that decide what may happen to a table.
//!
//! **Architecture invariant:** nothing here performs I/O, reads a clock, or knows about SQL, HTTP or object stores.
//! The places where a bug loses data (conflict verdicts, alter semantics, the retention floor, compaction planning)
//! are functions in this crate, so that they can be property-tested and read as the specification.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod alter;
pub mod bounds;
pub mod column_type;
pub mod commit;
pub mod compaction;
pub mod definition;
pub mod filter;
pub mod id;
pub mod literal;
pub mod location;
pub mod name;
pub mod partition;
pub mod refusal;
pub mod retention;
pub mod snapshot;
pub mod table;
pub mod timestamp;

pub use bounds::{Bounds, BoundsBuilder, ClaimedStats, ColumnStats, Comparison, Datum};
pub use column_type::{ColumnType, DecimalType};
pub use id::{CatalogId, FieldId, FileId, NamespaceId, SnapshotId, SpecId, TableId, ViewId};
pub use location::{Location, Root};
pub use name::{CatalogName, Identifier};
pub use refusal::{ErrorCode, Refusal};
pub use snapshot::SnapshotSelector;
