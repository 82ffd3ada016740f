//! The object stores of the commands that run without a server.

use super::failure::Failure;
use crate::config::Secret;
use hoglake_formats::store::{S3Config, Secret as StoreSecret, StoreConfig, Stores};
use std::sync::Arc;

/// How to reach the stores. Local files are always allowed: who runs the command may read them anyway.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Object store")]
pub(super) struct Storage {
    /// URL of an S3-compatible store; unset is AWS
    #[arg(long, env = "HOGLAKE_S3_ENDPOINT", value_name = "URL")]
    s3_endpoint: Option<String>,
    /// Region to sign for
    #[arg(long, env = "HOGLAKE_S3_REGION", value_name = "REGION", default_value = "us-east-1")]
    s3_region: String,
    /// Access key; unset uses the environment's own credentials
    #[arg(long, env = "HOGLAKE_S3_ACCESS_KEY", value_name = "KEY", hide_env_values = true, requires = "s3_secret_key")]
    s3_access_key: Option<Secret>,
    /// Secret key that belongs to the access key
    #[arg(long, env = "HOGLAKE_S3_SECRET_KEY", value_name = "KEY", hide_env_values = true, requires = "s3_access_key")]
    s3_secret_key: Option<Secret>,
}

impl Storage {
    pub(super) fn open(&self) -> Result<Arc<Stores>, Failure> {
        // Another provider may have been installed by the process; then that one serves.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let keys = self.s3_access_key.as_ref().zip(self.s3_secret_key.as_ref());
        let credentials =
            keys.map(|(access, secret)| (access.expose().to_owned(), StoreSecret::new(secret.expose().to_owned())));
        let s3 = S3Config {
            endpoint: self.s3_endpoint.clone(),
            region: self.s3_region.clone(),
            credentials,
            ..S3Config::default()
        };
        Ok(Arc::new(Stores::new(StoreConfig { s3, ..StoreConfig::local() })))
    }
}
