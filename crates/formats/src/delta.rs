//! Delta Lake: the transaction log read as a [`Source`](crate::sync::Source) and written as a
//! [`Target`](crate::sync::Target).
//!
//! # Source
//! The Delta Transaction Log Protocol (`PROTOCOL.md` of delta-io/delta); modules name the sections they implement.

#[allow(dead_code, reason = "the target needs the rest")]
mod action;
mod checkpoint;
mod log;
#[allow(dead_code, reason = "the target needs the rest")]
mod partition;
mod protocol;
mod replay;
#[allow(dead_code, reason = "the target needs the rest")]
mod schema;
mod source;
mod stats;
mod time;

pub use source::DeltaSource;

/// The folder of the log.
pub(crate) const LOG: &str = "_delta_log";
