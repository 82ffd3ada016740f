//! Test support: a real Postgres with template databases, and the built server as a process.
//!
//! Everything here is for tests only; it panics rather than returning errors, because a test that cannot set its stage
//! has nothing to report but where it stopped.

pub mod history;
pub mod http;
pub mod postgres;
pub mod server;
