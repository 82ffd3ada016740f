//! Apache Iceberg: table metadata read as a [`Source`](crate::sync::Source) and written as a
//! [`Target`](crate::sync::Target).
//!
//! # Source
//! The Iceberg Table Spec, versions 1 to 3 (`format/spec.md` of apache/iceberg); modules name the sections they
//! implement.

mod avro;
mod contents;
mod deletes;
mod locate;
mod manifest;
mod manifest_list;
mod metadata;
mod schema;
mod single_value;
mod source;
mod target;

pub use source::{IcebergOptions, IcebergSource, schema_text};
pub use target::{IcebergTarget, IcebergTargetOptions};
