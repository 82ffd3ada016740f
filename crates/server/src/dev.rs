//! `hoglake dev`: everything on one machine, object store included.

pub mod object_store;
pub mod welcome;
