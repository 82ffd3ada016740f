//! Below `/v1/conversion` every failure speaks the words of that contract, also those made before a handler is reached.

use crate::api::error::Told;
use crate::conversion::failure::{ErrorModel, respond};
use axum::extract::Request;
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;

/// Puts an `ErrorModel` in place of the other contract's error.
pub(super) async fn translate(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let conversion = path == "/v1/conversion" || path.starts_with("/v1/conversion/");
    let response = next.run(request).await;
    if !conversion {
        return response;
    }
    let Some(Told(refusal)) = response.extensions().get().cloned() else { return response };
    let code = response.status().as_u16();
    let model = ErrorModel { message: refusal.detail, kind: refusal.code.as_str().to_owned(), code };
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.remove(header::CONTENT_TYPE);
    let mut translated = respond(model);
    for (name, value) in &parts.headers {
        translated.headers_mut().insert(name, value.clone());
    }
    translated.extensions_mut().extend(parts.extensions);
    translated
}
