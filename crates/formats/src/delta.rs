//! Delta Lake: the transaction log read as a [`Source`](crate::sync::Source) and written as a
//! [`Target`](crate::sync::Target).
//!
//! # Source
//! The Delta Transaction Log Protocol (`PROTOCOL.md` of delta-io/delta); modules name the sections they implement.

mod action;
mod checkpoint;
mod checkpoint_names;
mod checkpoint_write;
mod log;
mod log_reader;
mod partition;
mod protocol;
mod replay;
mod schema;
mod source;
mod stats;
mod target;
mod time;
mod type_widening;
mod write;

pub use source::{DeltaSource, schema_text};
pub use target::{DeltaTarget, DeltaTargetOptions};

/// The folder of the log.
pub(crate) const LOG: &str = "_delta_log";
