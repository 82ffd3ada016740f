//! The `Idempotency-Key` header.

use crate::api::error::ApiError;
use axum::extract::FromRequestParts;
use axum::http::Method;
use axum::http::request::Parts;
use hoglake_catalog::idempotency;
use hoglake_model::Refusal;

/// The key under which a mutating request may be repeated, when the client gave one.
///
/// # Errors
/// 400 for a key that is empty, longer than 255 characters, not visible ASCII, or given twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    key: Option<String>,
    method: Method,
    path: String,
}

impl IdempotencyKey {
    /// The key together with the request it stands for; `body` as it came.
    ///
    /// # Errors
    /// None beyond those of the extractor.
    pub fn of_body(&self, body: &[u8]) -> Result<Option<idempotency::IdempotencyKey>, Refusal> {
        let Some(key) = &self.key else { return Ok(None) };
        idempotency::IdempotencyKey::new(key, self.method.as_str(), &self.path, body).map(Some)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let mut values = parts.headers.get_all("idempotency-key").iter();
        let with = |key| Self { key, method: parts.method.clone(), path: target(parts) };
        let Some(value) = values.next() else { return Ok(with(None)) };
        let key = value.as_bytes();
        let valid = (1..=255).contains(&key.len()) && key.iter().all(u8::is_ascii_graphic) && values.next().is_none();
        match (valid, std::str::from_utf8(key)) {
            (true, Ok(key)) => Ok(with(Some(key.to_owned()))),
            _ => Err(Refusal::bad_request(
                "Idempotency-Key must be one header of 1 to 255 visible ASCII characters without spaces, such as a uuid",
            )
            .into()),
        }
    }
}

/// Path and query: an operation may take part of what it is to do from the query.
fn target(parts: &Parts) -> String {
    parts.uri.path_and_query().map_or_else(|| parts.uri.path().to_owned(), ToString::to_string)
}
