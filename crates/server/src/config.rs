//! Settings: one struct, filled from flags and `HOGLAKE_*` variables (a flag wins), one file a concern.
//!
//! A variable that is set but blank counts as unset. Secrets are [`Secret`]s and database URLs [`DatabaseUrl`]s, so
//! that printing a configuration never prints a credential.

pub mod auth;
pub mod commit;
pub mod conversion;
pub mod database;
pub mod http;
pub mod kafka;
pub mod log;
pub mod maintenance;
pub mod metrics;
mod secret;
pub mod stores;
mod value;

pub use secret::{DatabaseUrl, Secret};
pub use value::{duration_ms, optional_duration_ms};

/// Everything that `serve` and `dev` can be told.
#[derive(Debug, Clone, clap::Args)]
pub struct Config {
    /// What the server listens on, and how patient it is.
    #[command(flatten)]
    pub http: http::HttpConfig,
    /// Which Postgres.
    #[command(flatten)]
    pub database: database::DatabaseConfig,
    /// The commit path.
    #[command(flatten)]
    pub commit: commit::CommitConfig,
    /// The object store.
    #[command(flatten)]
    pub stores: stores::StoresConfig,
    /// Conversion over REST.
    #[command(flatten)]
    pub conversion: conversion::ConversionConfig,
    /// Background work.
    #[command(flatten)]
    pub maintenance: maintenance::MaintenanceConfig,
    /// Publications.
    #[command(flatten)]
    pub kafka: kafka::KafkaConfig,
    /// Who may do what.
    #[command(flatten)]
    pub auth: auth::AuthConfig,
    /// Sampling of gauges.
    #[command(flatten)]
    pub metrics: metrics::MetricsConfig,
    /// Logs and audit.
    #[command(flatten)]
    pub log: log::LogConfig,
    /// A name for this installation, shown by GET /v1/info
    #[arg(long, env = "HOGLAKE_INSTANCE_NAME", value_name = "NAME", help_heading = "Server")]
    pub instance_name: Option<String>,
}

/// A setting that cannot be used; the text names the variable.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

impl Config {
    /// Which object stores may be used, and how to reach them.
    pub fn store_config(&self) -> hoglake_formats::store::StoreConfig {
        self.stores.store_config(self.maintenance.local_files)
    }

    /// Checks what no single setting shows.
    ///
    /// # Errors
    /// A setting that contradicts another; the text names the variables.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.http.check()?;
        self.database.check()?;
        self.stores.check()?;
        self.conversion.check()?;
        self.kafka.check()?;
        self.auth.check(self.http.address())
    }
}

/// Variables of other implementations that would be silently ignored, each with what to set instead.
const REPLACED: [(&str, &str); 1] = [("HOGLAKE_JDBC_URL", "HOGLAKE_DATABASE_URL (postgresql://host:port/database)")];

/// Refuses variables that look like settings of this server but would change nothing, where ignoring them could start
/// the server on the wrong data.
///
/// # Errors
/// The first such variable.
pub fn refuse_replaced_variables() -> Result<(), ConfigError> {
    for (variable, instead) in REPLACED {
        if std::env::var_os(variable).is_some_and(|value| !value.is_empty()) {
            return Err(ConfigError(format!("{variable} is not read by this server: set {instead} instead")));
        }
    }
    Ok(())
}
