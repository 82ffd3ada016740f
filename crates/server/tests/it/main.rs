//! The server as its clients meet it.

mod auth;
mod catalogs;
mod command_line;
mod contract;
mod conversion_cli;
mod conversion_jobs;
mod dev;
mod embedded_postgres;
mod history;
mod idempotency;
mod maintenance;
mod manners;
mod operations;
mod reads;
mod restore_check;
mod settings;
mod shutdown;
mod stage;
