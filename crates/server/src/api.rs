//! Handlers, in the shape of the URL tree: `api/catalogs/create.rs` answers `POST /v1/catalogs`.
//!
//! A handler decodes with the extractors of [`extract`], calls the catalog, and answers `Result<_, ApiError>`; see
//! [`error`] for how refusals and faults become answers.

mod answer;
pub mod catalogs;
pub mod error;
pub mod extract;
pub mod info;

use error::ApiError;
use hoglake_model::{ErrorCode, Refusal};

/// The answer of an operation that the contract has and this server does not, so far.
///
/// # Errors
/// Always 501 `not_implemented`.
pub async fn not_implemented() -> Result<(), ApiError> {
    Err(Refusal::new(ErrorCode::NotImplemented, "this server does not implement the operation").into())
}
