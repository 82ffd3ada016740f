//! The object stores that background work and conversion read and write. Commits never touch it.

use super::value::boolean;
use super::{ConfigError, Secret};
use hoglake_formats::store;

/// Access to S3, Google Cloud Storage, Azure Blob Storage, and what speaks their protocols.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Object stores")]
pub struct StoresConfig {
    /// URL of an S3-compatible store; unset is AWS
    #[arg(long, env = "HOGLAKE_S3_ENDPOINT", value_name = "URL")]
    pub s3_endpoint: Option<String>,
    /// Region to sign for
    #[arg(long, env = "HOGLAKE_S3_REGION", value_name = "REGION", default_value = "us-east-1")]
    pub s3_region: String,
    /// Access key; unset uses the environment's own credentials
    #[arg(long, env = "HOGLAKE_S3_ACCESS_KEY", value_name = "KEY", hide_env_values = true)]
    pub s3_access_key: Option<Secret>,
    /// Secret key that belongs to the access key
    #[arg(long, env = "HOGLAKE_S3_SECRET_KEY", value_name = "KEY", hide_env_values = true)]
    pub s3_secret_key: Option<Secret>,
    /// Whether the bucket is part of the path (true) or of the host name (false)
    #[arg(long, env = "HOGLAKE_S3_PATH_STYLE", value_name = "BOOL", default_value = "true", value_parser = boolean, action = clap::ArgAction::Set)]
    pub s3_path_style: bool,
    /// URL of a store that speaks Google's protocol; unset is Google
    #[arg(long, env = "HOGLAKE_GCS_ENDPOINT", value_name = "URL")]
    pub gcs_endpoint: Option<String>,
    /// URL of a store that speaks Azure's protocol, account included; unset is Azure
    #[arg(long, env = "HOGLAKE_AZURE_ENDPOINT", value_name = "URL")]
    pub azure_endpoint: Option<String>,
}

impl StoresConfig {
    /// The object stores: as told here, with the environment's own credentials where none are, and files of this machine
    /// if `local_files`.
    pub fn store_config(&self, local_files: bool) -> store::StoreConfig {
        let secret = |secret: &Secret| store::Secret::new(secret.expose());
        let credentials = match (&self.s3_access_key, &self.s3_secret_key) {
            (Some(key), Some(secret_key)) => Some((key.expose().to_owned(), secret(secret_key))),
            _ => None,
        };
        store::StoreConfig {
            local: local_files,
            local_fsync: true,
            s3: store::S3Config {
                endpoint: self.s3_endpoint.clone(),
                region: self.s3_region.clone(),
                credentials,
                path_style: self.s3_path_style,
                ..store::S3Config::default()
            },
            gcs: store::GcsConfig { endpoint: self.gcs_endpoint.clone(), ..store::GcsConfig::default() },
            azure: store::AzureConfig { endpoint: self.azure_endpoint.clone(), ..store::AzureConfig::default() },
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.s3_access_key.is_some() != self.s3_secret_key.is_some() {
            return Err(ConfigError(
                "HOGLAKE_S3_ACCESS_KEY and HOGLAKE_S3_SECRET_KEY belong together: set both or neither".to_owned(),
            ));
        }
        for (name, flag, endpoint) in [
            ("HOGLAKE_S3_ENDPOINT", "--s3-endpoint", &self.s3_endpoint),
            ("HOGLAKE_GCS_ENDPOINT", "--gcs-endpoint", &self.gcs_endpoint),
            ("HOGLAKE_AZURE_ENDPOINT", "--azure-endpoint", &self.azure_endpoint),
        ] {
            if let Some(endpoint) = endpoint
                && !url::Url::parse(endpoint)
                    .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            {
                return Err(ConfigError(format!("{name} ({flag}) must be a URL that starts with http:// or https://")));
            }
        }
        Ok(())
    }
}
