//! The store against a real Postgres.
#![cfg_attr(test, allow(missing_docs))]

mod answer;
mod catalogs;
mod commit;
mod consumers;
mod conversions;
mod export;
mod idempotency;
mod lake;
mod maintenance;
mod migrations;
mod namespaces;
mod plans;
mod publications;
mod reads;
mod schema;
mod snapshots;
mod tables;
mod views;
