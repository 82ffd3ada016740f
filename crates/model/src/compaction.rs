//! Compaction: which files of a table are worth rewriting together.

pub mod partition_key;
mod plan;

pub use plan::{Candidate, MAX_INPUT_FILES, Policy, plan};
