//! `/v1/catalogs/{catalog}/stats`

pub mod partitions;
