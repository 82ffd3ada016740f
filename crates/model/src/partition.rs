//! Partition transforms, and what a file's partition values prove about its rows.

pub mod transform;
pub mod value;
