//! An S3 endpoint over a folder, for the loopback interface only: its key is no secret.

mod listing;
mod suffix;
mod uploads;

use crate::config::ConfigError;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Mutex;
use tower::ServiceExt;

/// Access key of the endpoint.
pub const ACCESS_KEY: &str = "hoglake";
/// Secret key of the endpoint.
pub const SECRET_KEY: &str = "hoglake123";
/// The bucket that is there from the start.
pub const BUCKET: &str = "lake";
/// The region that clients sign for; any will do.
pub const REGION: &str = "us-east-1";

/// Refuses an address that others could reach.
///
/// # Errors
/// When `address` is not on the loopback interface.
pub fn check_address(address: SocketAddr) -> Result<(), ConfigError> {
    if address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    Err(ConfigError(format!(
        "HOGLAKE_S3_LISTEN (--s3-listen) is {address}: the development object store has a key that everybody knows, so \
         it listens on 127.0.0.1 or [::1] only"
    )))
}

/// The endpoint over `folder`, which is made if it is missing, with its bucket.
///
/// # Errors
/// When the folder cannot be made or read.
pub fn router(folder: &Path) -> Result<Router, Box<dyn std::error::Error + Send + Sync>> {
    std::fs::create_dir_all(folder.join(BUCKET))?;
    let files = FileSystem::new(folder).map_err(|error| format!("{error:?}"))?;
    let mut builder = S3ServiceBuilder::new(files);
    builder.set_route(listing::Route(Arc::new(listing::Listing::new(folder.to_owned()))));
    builder.set_access(suffix::Access::new(folder.to_owned()));
    builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
    let endpoint = Endpoint { service: builder.build(), conditional_writes: Arc::default() };
    Ok(Router::new().fallback(move |request: Request| {
        let endpoint = endpoint.clone();
        async move { endpoint.answer(request).await }
    }))
}

#[derive(Clone)]
struct Endpoint {
    service: S3Service,
    /// The file store looks first and writes then, so two conditional writes must not overlap: writers of table
    /// formats rely on exactly one of them to win.
    conditional_writes: Arc<Mutex<()>>,
}

impl Endpoint {
    async fn answer(&self, request: Request) -> Response {
        let conditional = matches!(*request.method(), Method::PUT | Method::POST)
            && (request.headers().contains_key(header::IF_NONE_MATCH)
                || request.headers().contains_key(header::IF_MATCH));
        let _turn = if conditional { Some(self.conditional_writes.lock().await) } else { None };
        match self.service.clone().oneshot(request).await {
            Ok(response) => response.map(Body::new).into_response(),
            Err(error) => {
                tracing::error!(?error, "the development object store failed to answer");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}
