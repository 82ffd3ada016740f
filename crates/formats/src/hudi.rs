//! Apache Hudi tables: the timeline, the metadata table, file groups, and what they say of a table.
//!
//! Read are table versions up to 6 (timeline layout 1) and 8 and 9 (layout 2). A copy-on-write table is read exactly. A
//! merge-on-read table is read exactly where compaction has merged all log files of the newest file slices; where not,
//! the log files travel as [`RowDeletes::Log`](hoglake_model::table::RowDeletes::Log), which targets refuse, unless the
//! read-optimised view was asked for.
//!
//! # Source
//! Apache Hudi technical specification, versions 6 and 8: "Timeline", "File layout", "Metadata table", "Log format",
//! and the HFile format of `hudi-io`.

mod archived;
mod avro_schema;
mod avro_writer;
mod clean;
mod commit;
mod file_group;
mod hfile;
mod hfile_writer;
mod log;
mod metadata_table;
mod metadata_writer;
mod partitioning;
mod properties;
mod replay;
mod schema_writer;
mod source;
mod target;
mod timeline;

pub use partitioning::PartitionPathSpec;
pub use source::{HudiOptions, HudiSource, schema_text};
pub use target::HudiTarget;

/// The folder of a table's metadata.
pub(crate) const FOLDER: &str = ".hoodie";
