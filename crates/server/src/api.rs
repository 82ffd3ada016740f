//! Handlers, in the shape of the URL tree: `api/catalogs/namespaces.rs` answers `/v1/catalogs/{catalog}/namespaces` and
//! one namespace below it, `api/catalogs/namespaces/tables.rs` its tables.
//!
//! A handler decodes with the extractors of [`extract`], calls the catalog, and answers `Result<_, ApiError>`; see
//! [`error`] for how refusals and faults become answers.

mod answer;
pub mod at;
pub mod catalogs;
pub mod conversion;
pub mod error;
pub mod extract;
pub mod info;
pub mod listing;
