//! Lists of files, from Postgres to the socket with constant memory.
//!
//! Rows leave Postgres by binary COPY and become JSON bytes in one step ([`copy`], [`json`]); a task of its own reads them
//! and hands chunks over ([`stream`]). Everything happens in one REPEATABLE READ READ ONLY transaction ([`reader`]).

pub(crate) mod copy;
pub(crate) mod json;
pub(crate) mod reader;
pub(crate) mod stream;
mod tag;

pub use stream::{Body, JsonStream};
pub(crate) use tag::{etag, matches};

/// The answer to a read of files.
pub struct Listing {
    /// Present when the read named a snapshot.
    pub etag: Option<String>,
    /// Files considered and kept; present with a filter.
    pub files: Option<(i64, i64)>,
    /// The JSON text, or nothing when the client holds it already.
    pub body: Option<Body>,
}
