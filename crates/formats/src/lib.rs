//! File and table-format codecs, and the engine that translates one table format into another.
//!
//! **Architecture invariant:** no format module imports another; they meet in [`hoglake_model::table`] and [`sync`].
//! Files and stores ([`parquet`], [`footer`], [`deletion_vector`], [`puffin`], [`store`]) know no table format.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod change_record;
pub mod deletion_vector;
pub mod delta;
pub mod footer;
pub mod hive_path;
pub mod hudi;
pub mod iceberg;
pub mod parquet;
pub mod parquet_directory;
pub mod puffin;
pub mod store;
pub mod sync;
