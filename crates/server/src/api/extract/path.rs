//! Path parameters.

use crate::api::error::ApiError;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use hoglake_model::Refusal;
use serde::de::DeserializeOwned;

/// The parameters of the path, percent-decoded once.
///
/// # Errors
/// 400 for a segment that is not UTF-8 after decoding, or does not parse as its type (a uuid, a number).
#[derive(Debug)]
pub struct Path<T>(pub T);

impl<S, T> FromRequestParts<S> for Path<T>
where
    T: DeserializeOwned + Send,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(value)) => Ok(Self(value)),
            Err(rejection) if rejection.status().is_client_error() => {
                Err(Refusal::bad_request(format!("the path of the request cannot be read: {}", rejection.body_text()))
                    .into())
            }
            Err(rejection) => Err(ApiError::fault(rejection)),
        }
    }
}
