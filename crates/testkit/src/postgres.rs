//! Real Postgres for tests.
//!
//! - [`TestDatabase`] is what most tests want: a database of its own, cloned from a template that was migrated once.
//!   All test binaries of a run share one server ([`server_url`]), which is started by whoever comes first and stops
//!   itself when nobody has used it for half a minute. `HOGLAKE_TEST_PG` (the URL of a superuser's database) points the
//!   tests at another server instead.
//! - [`Cluster`] is a private server for tests that kill it.

mod binaries;
mod cluster;
mod database;
mod shared;

pub use binaries::bin_dir;
pub use cluster::Cluster;
pub use database::TestDatabase;
pub use shared::server_url;
