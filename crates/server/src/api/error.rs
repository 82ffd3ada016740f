//! What a failed request is answered.
//!
//! - [`Refusal`]: the client did something that a rule forbids. The answer is the refusal itself.
//! - A fault: something of ours failed. The cause is logged, with the request id that the answer carries; the answer
//!   says nothing about it.
//! - Unavailable: Postgres cannot be reached or is overloaded. Logged like a fault; the client may try again.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hoglake_model::{ErrorCode, Refusal};
use serde::Serialize;
use std::error::Error as StdError;

/// The answer to a failed request. Build it with `?` from a [`Refusal`], or with one of the constructors.
#[derive(Debug)]
pub struct ApiError {
    refusal: Refusal,
    status: StatusCode,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

/// What a failed request was told, as an extension of its answer, for those who put it into other words.
#[derive(Debug, Clone)]
pub struct Told(pub Refusal);

/// The body of every failed request.
#[derive(Serialize)]
struct Body<'a> {
    error: &'a str,
    detail: &'a str,
}

impl ApiError {
    /// 500: `cause` is logged, not answered.
    pub fn fault(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let detail = "the server failed to answer; its log says why, at the request id of this answer";
        Self::with_cause(Refusal::new(ErrorCode::InternalError, detail), cause.into())
    }

    /// 503: the database cannot be reached at the moment; `cause` is logged, not answered.
    pub fn unavailable(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let detail = "the catalog's database does not answer at the moment; try again";
        Self::with_cause(Refusal::new(ErrorCode::Unavailable, detail), cause.into())
    }

    /// The same error under another status than its code's usual one.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// The code that the answer carries.
    pub fn code(&self) -> ErrorCode {
        self.refusal.code
    }

    /// The sentence that the answer carries.
    pub fn detail(&self) -> &str {
        &self.refusal.detail
    }

    fn with_cause(refusal: Refusal, cause: Box<dyn StdError + Send + Sync>) -> Self {
        Self { cause: Some(cause), ..Self::from(refusal) }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let status = StatusCode::from_u16(refusal.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { refusal, status, cause: None }
    }
}

impl From<hoglake_catalog::Error> for ApiError {
    fn from(error: hoglake_catalog::Error) -> Self {
        match (error.refusal(), error) {
            (Some(refusal), hoglake_catalog::Error::Refused(_)) => refusal.into(),
            (Some(refusal), error) => Self::with_cause(refusal, error.into()),
            (None, error) => Self::fault(error),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        if let Some(cause) = &self.cause {
            // The span of the request adds its id.
            tracing::error!(target: "hoglake.http", error = chain(cause.as_ref()), code = self.refusal.code.as_str(), "request failed");
        }
        let body = Body { error: self.refusal.code.as_str(), detail: &self.refusal.detail };
        let mut response = (self.status, axum::Json(body)).into_response();
        let headers = response.headers_mut();
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"hoglake\""));
            }
            StatusCode::REQUEST_TIMEOUT => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response.extensions_mut().insert(Told(self.refusal));
        response
    }
}

/// An error and its sources in one line.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let words = |error: &(dyn StdError + 'static)| match hoglake_catalog::error::postgres_words(error) {
        Some(said) => (said, true),
        None => (error.to_string(), false),
    };
    let (mut text, mut is_last) = words(error);
    let mut source = error.source();
    while let Some(error) = source.filter(|_| !is_last) {
        let cause;
        (cause, is_last) = words(error);
        // Many errors repeat their source in their own text.
        if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_fault_does_not_show_its_cause() {
        let response = ApiError::fault("password=s3cret").into_response();
        assert_eq!(response.status(), 500);
        let body = axum::body::to_bytes(response.into_body(), 4096).await.unwrap();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["error"], "internal_error");
        assert!(!body.to_string().contains("s3cret"));
    }

    #[test]
    fn an_overloaded_server_says_when_to_come_back() {
        for error in [
            ApiError::unavailable("gone"),
            Refusal::new(ErrorCode::CommitQueueTimeout, "waited too long; try again").into(),
        ] {
            let response = error.into_response();
            assert_eq!(response.status(), 503);
            assert_eq!(response.headers()[header::RETRY_AFTER], "1");
        }
    }
}
