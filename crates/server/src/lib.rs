//! The hoglake server: HTTP, background work, embedded Postgres, command line.
//!
//! Entry points: [`cli::main`] reads the command line, [`router::router`] lists every operation, [`http::serve`] runs
//! it on a listener. Handlers live under [`api`] in the shape of the URL tree.
//!
//! **Architecture invariant:** no SQL here. The catalog crate holds every statement; this crate joins it with HTTP,
//! object stores and the command line.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod api;
pub mod app;
pub mod audit;
pub mod auth;
pub mod cli;
pub mod config;
pub mod contract;
pub mod conversion;
pub mod dev;
pub mod docs;
pub mod embedded_postgres;
pub mod health;
pub mod http;
pub mod logging;
pub mod metrics;
pub mod operation;
pub mod publisher;
pub mod restore_check;
pub mod router;
pub mod worker;
