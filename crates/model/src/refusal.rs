//! Why a request was refused: one code of the contract and a sentence that names the thing, the rule and the remedy.

use std::fmt;

/// The closed vocabulary of `ApiError.error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// 400: malformed body or parameter, unknown field.
    BadRequest,
    /// 401: no credentials, or credentials that nobody holds.
    Unauthenticated,
    /// 403: the credentials do not cover this action.
    Forbidden,
    /// 404: no such catalog, namespace, table, view, offset, route.
    NotFound,
    /// 405: the route exists, the method does not.
    MethodNotAllowed,
    /// 409: the name is taken.
    AlreadyExists,
    /// 409: something changed since the writer looked.
    CommitConflict,
    /// 409: a consumer offset may only grow.
    OffsetRegression,
    /// 409: renaming a column would orphan files that bind columns by name.
    IdlessFilesPresent,
    /// 410: history below the expiry floor.
    Expired,
    /// 413: the body is larger than the limit.
    PayloadTooLarge,
    /// 422: well-formed, but not allowed.
    Validation,
    /// 500: a fault of ours.
    InternalError,
    /// 501: specified, not built yet.
    NotImplemented,
    /// 503: waiting for the catalog's commit lock took longer than the budget.
    CommitQueueTimeout,
    /// 503: the database cannot be reached.
    Unavailable,
}

impl ErrorCode {
    /// The code as it appears in `ApiError.error`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::AlreadyExists => "already_exists",
            Self::CommitConflict => "commit_conflict",
            Self::OffsetRegression => "offset_regression",
            Self::IdlessFilesPresent => "idless_files_present",
            Self::Expired => "expired",
            Self::PayloadTooLarge => "payload_too_large",
            Self::Validation => "validation",
            Self::InternalError => "internal_error",
            Self::NotImplemented => "not_implemented",
            Self::CommitQueueTimeout => "commit_queue_timeout",
            Self::Unavailable => "unavailable",
        }
    }

    /// The HTTP status that carries this code.
    pub const fn status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Unauthenticated => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::AlreadyExists | Self::CommitConflict | Self::OffsetRegression | Self::IdlessFilesPresent => 409,
            Self::Expired => 410,
            Self::PayloadTooLarge => 413,
            Self::Validation => 422,
            Self::InternalError => 500,
            Self::NotImplemented => 501,
            Self::CommitQueueTimeout | Self::Unavailable => 503,
        }
    }
}

/// A refused request. It changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {detail}", code.as_str())]
pub struct Refusal {
    /// Which rule of the contract.
    pub code: ErrorCode,
    /// The thing, the rule, and what to do next.
    pub detail: String,
}

impl Refusal {
    /// A refusal with any code.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into() }
    }

    /// 422 `validation`.
    pub fn validation(detail: impl Into<String>) -> Self {
        Self::new(ErrorCode::Validation, detail)
    }

    /// 400 `bad_request`.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(ErrorCode::BadRequest, detail)
    }

    /// 404 `not_found` for a `kind` ("table", "catalog", ...) called `name`.
    pub fn not_found(kind: &str, name: impl fmt::Display) -> Self {
        Self::new(ErrorCode::NotFound, format!("{kind} {} does not exist", crate::name::quoted(&name.to_string())))
    }

    /// 409 `already_exists` for a `kind` called `name`.
    pub fn already_exists(kind: &str, name: impl fmt::Display) -> Self {
        Self::new(
            ErrorCode::AlreadyExists,
            format!("{kind} {} already exists; choose another name", crate::name::quoted(&name.to_string())),
        )
    }

    /// 409 `commit_conflict`.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(ErrorCode::CommitConflict, detail)
    }

    /// 410 `expired`.
    pub fn expired(detail: impl Into<String>) -> Self {
        Self::new(ErrorCode::Expired, detail)
    }
}
