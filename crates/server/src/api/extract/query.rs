//! Query parameters.

use crate::api::error::ApiError;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use hoglake_model::Refusal;
use serde::de::DeserializeOwned;

/// The query of the URL as a `T`. Parameters that `T` does not know are ignored.
///
/// # Errors
/// 400 for a parameter that is missing, given twice, or does not parse as its type; the detail names it.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<S, T> FromRequestParts<S> for Query<T>
where
    T: DeserializeOwned,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = axum::extract::Query::from_request_parts(parts, state).await;
        query.map(|axum::extract::Query(value)| Self(value)).map_err(|rejection| {
            let problem: String = rejection.body_text().chars().take(400).collect();
            Refusal::bad_request(format!("the query of the request cannot be read: {problem}")).into()
        })
    }
}
