//! `/v1/catalogs`

pub mod commit;
