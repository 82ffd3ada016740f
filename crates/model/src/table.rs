//! The one table model that every format is read into and written from.
//!
//! A *source* (Delta log, Iceberg metadata, Hudi timeline, a directory of Parquet files, a hoglake catalog) describes
//! a version of its table as a [`TableState`] and a stream of [`DataFile`]s, and the step from one version to the next
//! as a [`Change`]. A *target* writes exactly that in its own metadata. No format knows another; this is all they share.
//!
//! Rules that hold everywhere in the model:
//!
//! - **Unknown is not zero.** Counts, sizes and bounds are `Option`; nothing here invents one.
//! - **A bound is a bound.** `lower` is at most every non-null, non-NaN value of the column in the file, `upper` at
//!   least; neither need occur. A bound in doubt is absent. Row-level deletes never tighten a bound or a count: both
//!   describe the file as it lies in storage.
//! - **Columns are addressed by [`FieldId`](crate::FieldId)**, never by dotted names. A source whose format has no ids
//!   numbers its columns itself and says so with [`FieldIds::Positional`]; targets then keep their own ids by name.
//! - **Files are addressed by [`FilePath`]**: relative to the table's root in decoded form where possible, so that two
//!   spellings of one root never make a file look different.
//! - **Row-level deletes travel with the data file** that they apply to ([`DataFile::deletes`]).

pub mod capability;
pub mod change;
pub mod file;
pub mod partition;
pub mod schema;
pub mod state;
pub mod value;

pub use capability::{Unsupported, UnsupportedKind};
pub use change::{Change, FileDelta, Operation, RemovedFile};
pub use file::{ColumnStats, DataFile, DeleteFile, FileFormat, FilePath, RowDeletes, VectorContainer, VectorRef};
pub use partition::{PartitionField, PartitionSpec, Transform};
pub use schema::{Element, Field, FieldIds, Primitive, Schema, Type};
pub use state::{Binding, TableFormat, TableState, Version, VersionId, Watermark};
pub use value::Value;
