//! What a conversion that failed is answered: `ErrorModel` of the contract.

use crate::api::error::{ApiError, chain};
use crate::audit::Outcome;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hoglake_formats::store::StoreError;
use hoglake_formats::sync::Error;
use hoglake_model::{ErrorCode, Refusal};
use serde::{Deserialize, Serialize};

/// The body of every answer below `/v1/conversion` that is no success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorModel {
    /// What is wrong, and what to do.
    pub message: String,
    /// A stable name of the kind.
    #[serde(rename = "type")]
    pub kind: String,
    /// The HTTP status.
    pub code: u16,
}

/// Why a conversion, or a request for one, failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What the client is told.
    pub model: ErrorModel,
    /// What the server's log is told besides; never holds a credential of the request.
    pub cause: Option<String>,
}

impl Failure {
    /// A failure of a kind of its own.
    pub fn new(code: u16, kind: &str, message: impl Into<String>) -> Self {
        Self { model: ErrorModel { message: message.into(), kind: kind.to_owned(), code }, cause: None }
    }

    /// 403: a path that is not allowed.
    pub fn outside(message: impl Into<String>) -> Self {
        Self::new(403, "forbidden_path", message)
    }

    /// 400: something about the request.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, ErrorCode::BadRequest.as_str(), message)
    }

    /// 500: `cause` is logged, not answered.
    pub fn fault(cause: impl Into<String>) -> Self {
        let message = "the server failed to convert the table; its log says why, at the request id of this answer";
        Self { cause: Some(cause.into()), ..Self::new(500, ErrorCode::InternalError.as_str(), message) }
    }

    fn because(mut self, cause: impl Into<String>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// What the audit trail calls it.
    pub fn outcome(&self) -> Outcome {
        match self.model.code {
            404 => Outcome::NotFound,
            409 => Outcome::Conflict,
            500.. => Outcome::Error,
            _ => Outcome::Validation,
        }
    }

    /// Writes the cause to the log.
    pub fn log(&self, request_id: &str) {
        if let Some(cause) = &self.cause {
            let code = self.model.code;
            if code == 500 {
                tracing::error!(target: "hoglake.conversion", request_id, code, error = cause, "conversion failed");
            } else {
                tracing::warn!(target: "hoglake.conversion", request_id, code, error = cause, "conversion failed");
            }
        }
    }

    /// The JSON text of the answer.
    pub fn body(&self) -> String {
        serde_json::to_string(&self.model).unwrap_or_else(|_| "{}".to_owned())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let text = chain(&error);
        match error {
            Error::NotATable { .. } => Self::new(404, "table_not_found", text),
            Error::Malformed { .. } => Self::new(422, "malformed_table", text),
            Error::UnsupportedSource { .. } | Error::Unsupported(_) => Self::new(422, "unsupported", text),
            Error::Lost { .. } => Self::new(
                409,
                "concurrent_write",
                format!("{text}, again and again; nothing was lost: repeat the request when the other writer is done"),
            ),
            Error::NeedsFull { reason } => Self::fault(format!("a full sync was not tried: {reason}")),
            Error::Store { place, source } => access(StoreError::at(&place, source)),
            Error::Access(error) => access(error),
            // A location that a table's metadata names; those of the request were checked before.
            Error::Refused(refusal) => Self::new(422, "malformed_table", refusal.detail),
        }
    }
}

/// What a store answered. Its own words may repeat parts of the request, the key id among them: they go to the log only.
fn access(error: StoreError) -> Failure {
    let cause = chain(&error);
    match error {
        StoreError::Outside { location } => outside_of(&location),
        StoreError::Denied { location, .. } | StoreError::NoCredentials { location, .. } => {
            denied(&location).because(cause)
        }
        StoreError::NotFound { location } => {
            Failure::new(404, "object_not_found", format!("{location} does not exist, and the conversion needs it"))
        }
        StoreError::Conflict { location, .. } => {
            Failure::new(409, "concurrent_write", format!("{location} was written by somebody else in the meantime"))
        }
        StoreError::Unsupported { location, .. } => Failure::new(
            422,
            "unsupported_location",
            format!("{location} cannot be served with the settings of this server or of the request"),
        )
        .because(cause),
        StoreError::Transient { location, .. } => Failure::new(
            503,
            ErrorCode::Unavailable.as_str(),
            format!("the object store did not answer properly on {location}; repeat the request"),
        )
        .because(cause),
    }
}

fn outside_of(place: &str) -> Failure {
    Failure::outside(format!(
        "{} lies outside the places that this server converts in (HOGLAKE_CONVERSION_ROOTS), or leads there by a link",
        hoglake_model::name::quoted(place)
    ))
}

fn denied(place: &str) -> Failure {
    Failure::new(
        403,
        "store_denied",
        format!("the object store denies access to {place}; check the credentials and the bucket's policy"),
    )
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code.status(), refusal.code.as_str(), refusal.detail)
    }
}

impl From<hoglake_catalog::Error> for Failure {
    fn from(error: hoglake_catalog::Error) -> Self {
        let cause = chain(&error);
        let api = ApiError::from(error);
        Self::new(api.code().status(), api.code().as_str(), api.detail()).because(cause)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        respond(self.model)
    }
}

/// The HTTP form of an error.
pub fn respond(model: ErrorModel) -> Response {
    let status = StatusCode::from_u16(model.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let retry_after = match status {
        StatusCode::SERVICE_UNAVAILABLE if model.kind == "too_many_conversions" => Some("5"),
        StatusCode::SERVICE_UNAVAILABLE => Some("1"),
        _ => None,
    };
    let mut response = (status, axum::Json(model)).into_response();
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(seconds));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoglake_model::table::TableFormat;

    #[test]
    fn a_store_s_own_words_stay_in_the_log() {
        let words = "SignatureDoesNotMatch AKIAEXAMPLE";
        let denied = object_store::Error::PermissionDenied { path: "k".into(), source: words.into() };
        let failure = Failure::from(Error::store("s3://b/k", denied));
        assert_eq!((failure.model.code, failure.model.kind.as_str()), (403, "store_denied"));
        assert!(!failure.body().contains("AKIA") && failure.cause.unwrap().contains("AKIA"));
        let broken = object_store::Error::Generic { store: "S3", source: words.into() };
        let failure = Failure::from(Error::store("s3://b/k", broken));
        assert!(failure.model.code == 503 && !failure.body().contains("AKIA"));
        assert_eq!(failure.into_response().headers()[header::RETRY_AFTER], "1");
    }

    #[test]
    fn each_kind_has_its_status() {
        let none = Error::NotATable { format: TableFormat::Delta, place: "s3://b/t".into(), detail: "no log".into() };
        assert_eq!(Failure::from(none).model.code, 404);
        assert_eq!(Failure::from(Error::malformed("x", "y")).model.code, 422);
        assert_eq!(Failure::from(Error::Lost { place: "x".into() }).model.code, 409);
        assert_eq!(Failure::from(Refusal::validation("x")).model.code, 422);
    }
}
