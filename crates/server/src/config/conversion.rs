//! Conversion over REST: where it may read and write, and how much of it goes on at a time.

use super::ConfigError;
use hoglake_formats::store::Roots;
use std::time::Duration;
use url::Url;

/// Places and bounds of conversion over REST. The command line is not bound by them.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Conversion")]
pub struct ConversionConfig {
    /// Where conversion over REST may read and write: prefixes of object stores and folders, separated by commas; nowhere
    /// unless set [`dev`: its own bucket]
    #[arg(long, env = "HOGLAKE_CONVERSION_ROOTS", value_name = "LOCATIONS", value_delimiter = ',')]
    pub conversion_roots: Vec<String>,
    /// Endpoints of object stores that requests may name besides the server's own: URLs, separated by commas
    #[arg(long, env = "HOGLAKE_CONVERSION_ENDPOINTS", value_name = "URLS", value_delimiter = ',')]
    pub conversion_endpoints: Vec<String>,
    /// Conversions that this server does at a time
    #[arg(long, env = "HOGLAKE_CONVERSION_CONCURRENCY", value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub conversion_concurrency: u16,
    /// Conversions that may wait or run on all servers together; one more is answered 503
    #[arg(long, env = "HOGLAKE_CONVERSION_MAX_JOBS", value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub conversion_max_jobs: u32,
    /// How long the answer of a conversion in the background can be fetched
    #[arg(long, env = "HOGLAKE_CONVERSION_JOB_RETENTION_SECONDS", value_name = "SECONDS", default_value_t = 86_400)]
    pub conversion_job_retention_seconds: u32,
    /// How long a server may be silent before others take its conversions over
    #[arg(long, env = "HOGLAKE_CONVERSION_LEASE_SECONDS", value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(2..))]
    pub conversion_lease_seconds: u32,
}

impl ConversionConfig {
    /// The places.
    ///
    /// # Errors
    /// One that is no location; the text names the variable.
    pub fn roots(&self) -> Result<Roots, ConfigError> {
        let places = self.conversion_roots.iter().map(|text| text.trim()).filter(|text| !text.is_empty());
        Roots::parse(places, None).map_err(|refusal| {
            ConfigError(format!("HOGLAKE_CONVERSION_ROOTS (--conversion-roots): {}", refusal.detail))
        })
    }

    /// The endpoints.
    ///
    /// # Errors
    /// One that is no URL; the text names the variable.
    pub fn endpoints(&self) -> Result<Vec<Url>, ConfigError> {
        let texts = self.conversion_endpoints.iter().map(|text| text.trim()).filter(|text| !text.is_empty());
        texts
            .map(|text| {
                Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host()).ok_or_else(
                    || {
                        ConfigError(
                            "HOGLAKE_CONVERSION_ENDPOINTS (--conversion-endpoints) must be URLs that start with http:// \
                             or https://"
                                .to_owned(),
                        )
                    },
                )
            })
            .collect()
    }

    /// How long answers can be fetched.
    pub fn retention(&self) -> Duration {
        Duration::from_secs(self.conversion_job_retention_seconds.into())
    }

    /// How long a server may be silent.
    pub fn lease(&self) -> Duration {
        Duration::from_secs(self.conversion_lease_seconds.into())
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        self.roots()?;
        self.endpoints().map(drop)
    }
}
