//! The store against a real Postgres.
#![cfg_attr(test, allow(missing_docs))]

mod commit;
mod lake;
mod maintenance;
mod migrations;
