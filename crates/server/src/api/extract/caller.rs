//! Who asks.

use crate::api::error::ApiError;
use crate::auth::Identity;
use crate::http::RequestId;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;

/// Who sent the request, and the id under which logs and audit know it.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The token's name and what it may do.
    pub identity: Identity,
    /// The request's id.
    pub request_id: RequestId,
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let identity = parts.extensions.get::<Identity>().cloned();
        let request_id = parts.extensions.get::<RequestId>().cloned();
        match (identity, request_id) {
            (Some(identity), Some(request_id)) => Ok(Self { identity, request_id }),
            _ => Err(ApiError::fault("a handler that asks for its caller runs outside the guard")),
        }
    }
}
