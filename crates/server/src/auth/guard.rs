//! The guard in front of every operation: names it for metrics and logs, and checks the caller.

use super::{Identity, Place, Requirement};
use crate::api::error::ApiError;
use crate::app::App;
use crate::operation::OperationId;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hoglake_model::{ErrorCode, Refusal};

/// What the guard of one operation knows.
#[derive(Clone)]
pub struct Guard {
    pub(crate) app: App,
    pub(crate) operation: OperationId,
    pub(crate) requirement: Requirement,
}

/// Lets a request through that is allowed; 401 or 403 otherwise.
pub async fn check(
    State(guard): State<Guard>,
    parameters: Result<RawPathParams, RawPathParamsRejection>,
    mut request: Request,
    next: Next,
) -> Response {
    let Ok(parameters) = parameters else {
        let refusal = Refusal::bad_request("the path of the request is not UTF-8 once it is percent-decoded");
        return ApiError::from(refusal).into_response();
    };
    let catalog = parameters.iter().find_map(|(name, value)| (name == "catalog").then_some(value));
    let mut response = match authorize(&guard, request.headers(), catalog) {
        Ok(identity) => {
            request.extensions_mut().insert(identity);
            next.run(request).await
        }
        Err(refusal) => ApiError::from(refusal).into_response(),
    };
    response.extensions_mut().insert(guard.operation);
    response
}

fn authorize(guard: &Guard, headers: &HeaderMap, catalog: Option<&str>) -> Result<Identity, Refusal> {
    if !guard.app.auth.is_required() || guard.requirement.place == Place::Nowhere {
        return Ok(Identity::anonymous());
    }
    let unauthenticated = |detail: &str| Refusal::new(ErrorCode::Unauthenticated, detail);
    let Some(header) = headers.get(header::AUTHORIZATION) else {
        return Err(unauthenticated("this server needs a token: send the header Authorization: Bearer <token>"));
    };
    let token = header
        .to_str()
        .ok()
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim());
    let Some(token) = token else {
        return Err(unauthenticated("the Authorization header must be: Bearer <token>"));
    };
    let Some(identity) = guard.app.auth.identify(token) else {
        return Err(unauthenticated("nobody holds this token: check it, or ask for a new one"));
    };
    if guard.requirement.is_met_by(&identity, catalog) {
        return Ok(identity);
    }
    Err(Refusal::new(
        ErrorCode::Forbidden,
        format!(
            "the token `{}` may not do {}, which needs the scope `{}`",
            identity.actor,
            guard.operation.0,
            guard.requirement.scope(catalog)
        ),
    ))
}
