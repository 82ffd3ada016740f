//! Metrics.

use super::optional_duration_ms;
use std::time::Duration;

/// Sampling of gauges.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Metrics")]
pub struct MetricsConfig {
    /// How often the gauges of the catalogs are sampled; 0 switches them off
    #[arg(long, env = "HOGLAKE_METRICS_INTERVAL_MS", value_name = "MS", default_value = "15000", value_parser = optional_duration_ms)]
    pub metrics_interval_ms: Duration,
}

impl MetricsConfig {
    /// The interval; `None` does not sample.
    pub fn interval(&self) -> Option<Duration> {
        Some(self.metrics_interval_ms).filter(|interval| !interval.is_zero())
    }
}
