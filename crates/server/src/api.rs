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

use error::ApiError;
use hoglake_model::{ErrorCode, Refusal};

/// The answer of an operation that the contract has and this server does not, so far.
///
/// # Errors
/// Always 501 `not_implemented`.
pub async fn not_implemented() -> Result<(), ApiError> {
    Err(Refusal::new(ErrorCode::NotImplemented, "this server does not implement the operation").into())
}
