//! The manners of HTTP: request ids, JSON for every failure, compression, patience with slow clients, shutdown.

mod drain;
mod error_model;
mod listener;
mod observe;
mod patience;
mod request_id;
mod unparsable;

pub use listener::{Shutdown, serve};
pub use request_id::RequestId;

use crate::api::error::ApiError;
use axum::Router;
use axum::http::{Method, Uri};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use hoglake_model::{ErrorCode, Refusal};
use std::any::Any;
use tower_http::CompressionLevel;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;

/// Wraps all routes: what no route or method answers, panics, compression, request ids, metrics and logs.
pub fn with_manners<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    router
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn(error_model::translate))
        .layer(CompressionLayer::new().gzip(true).zstd(true).quality(CompressionLevel::Fastest))
        .layer(middleware::from_fn(observe::observe))
}

async fn unknown_route(uri: Uri) -> ApiError {
    let path = hoglake_model::name::quoted(uri.path());
    Refusal::new(ErrorCode::NotFound, format!("there is nothing at {path}; GET /openapi.yaml lists what there is"))
        .into()
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    let path = hoglake_model::name::quoted(uri.path());
    let detail = format!("{path} does not take {method}; the Allow header lists what it takes");
    Refusal::new(ErrorCode::MethodNotAllowed, detail).into()
}

/// The panic itself has been logged by the panic hook.
fn panicked(_payload: Box<dyn Any + Send + 'static>) -> Response {
    ApiError::fault("a handler panicked").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::extract::Request;
    use axum::routing::get;
    use tower::ServiceExt;

    async fn broken() -> &'static str {
        panic!("the combination of the safe is 1234")
    }

    #[tokio::test]
    async fn a_panic_is_a_500_that_tells_nothing() {
        let router: Router = with_manners(Router::new().route("/broken", get(broken)));
        let response = router.oneshot(Request::get("/broken").body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 500);
        assert!(response.headers().contains_key("x-request-id"));
        let body = axum::body::to_bytes(response.into_body(), 4096).await.unwrap();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["error"], "internal_error");
        assert!(!body.to_string().contains("1234"), "{body}");
    }
}
