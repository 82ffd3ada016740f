//! Background work: what runs how often, and how much it may do.

use super::value::{boolean, optional_duration_ms};
use std::path::PathBuf;
use std::time::Duration;

/// Timers and bounds of maintenance. A timer of 0 leaves the task to its endpoint and to the command line.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Maintenance")]
pub struct MaintenanceConfig {
    /// How often statistics of new files are read from their footers; 0 never
    #[arg(long, env = "HOGLAKE_HYDRATOR_INTERVAL_MS", value_name = "MS", default_value = "5000", value_parser = optional_duration_ms)]
    pub hydrator_interval_ms: Duration,
    /// Largest file to read without a registered footer size
    #[arg(long, env = "HOGLAKE_HYDRATOR_MAX_WHOLE_OBJECT_BYTES", value_name = "BYTES", default_value_t = 256 << 20)]
    pub hydrator_max_whole_object_bytes: u64,
    /// Footers that are read at a time
    #[arg(long, env = "HOGLAKE_HYDRATOR_CONCURRENCY", value_name = "N", default_value_t = 64, value_parser = positive)]
    pub hydrator_concurrency: usize,
    /// How often old snapshots are expired; 0 never
    #[arg(long, env = "HOGLAKE_EXPIRY_INTERVAL_MS", value_name = "MS", default_value = "60000", value_parser = optional_duration_ms)]
    pub expiry_interval_ms: Duration,
    /// Snapshots that one sweep expires at most
    #[arg(long, env = "HOGLAKE_EXPIRY_BATCH", value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(i64).range(1..))]
    pub expiry_batch: i64,
    /// How often files that nothing refers to are deleted; 0 never
    #[arg(long, env = "HOGLAKE_CLEANUP_INTERVAL_MS", value_name = "MS", default_value = "60000", value_parser = optional_duration_ms)]
    pub cleanup_interval_ms: Duration,
    /// Queue entries that one sweep takes at most
    #[arg(long, env = "HOGLAKE_CLEANUP_BATCH", value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(i64).range(1..))]
    pub cleanup_batch: i64,
    /// How long a file stays in the removal queue at least, for readers that planned before it was queued
    #[arg(long, env = "HOGLAKE_REMOVAL_MIN_AGE_SECONDS", value_name = "SECONDS", default_value_t = 0)]
    pub removal_min_age_seconds: u32,
    /// How long the ledgers of removals and runs reach back
    #[arg(long, env = "HOGLAKE_REMOVAL_LEDGER_RETENTION_SECONDS", value_name = "SECONDS", default_value_t = 2_592_000)]
    pub removal_ledger_retention_seconds: u32,
    /// How often the invariants of each catalog are checked, by one server at a time; 0 only on request
    #[arg(long, env = "HOGLAKE_VERIFY_INTERVAL_MS", value_name = "MS", default_value = "0", value_parser = optional_duration_ms)]
    pub verify_interval_ms: Duration,
    /// How often small files are merged; 0 never
    #[arg(long, env = "HOGLAKE_COMPACTION_INTERVAL_MS", value_name = "MS", default_value = "0", value_parser = optional_duration_ms)]
    pub compaction_interval_ms: Duration,
    /// Files below this size are small, and merged files are about this large
    #[arg(long, env = "HOGLAKE_COMPACTION_TARGET_BYTES", value_name = "BYTES", default_value_t = 512 << 20, value_parser = clap::value_parser!(i64).range(1..))]
    pub compaction_target_bytes: i64,
    /// Fewest tiny files that are worth a merge
    #[arg(long, env = "HOGLAKE_COMPACTION_MIN_INPUT_FILES", value_name = "N", default_value_t = 4, value_parser = positive)]
    pub compaction_min_input_files: usize,
    /// Groups that one sweep merges at most
    #[arg(long, env = "HOGLAKE_COMPACTION_MAX_GROUPS_PER_RUN", value_name = "N", default_value_t = 1, value_parser = positive)]
    pub compaction_max_groups_per_run: usize,
    /// Memory for sorting and encoding one group; what does not fit is spilled to --temp-dir
    #[arg(long, env = "HOGLAKE_COMPACTION_MEMORY_BYTES", value_name = "BYTES", default_value_t = 256 << 20, value_parser = positive)]
    pub compaction_memory_bytes: usize,
    /// How long a server may be silent before others take over the groups that it merges
    #[arg(long, env = "HOGLAKE_COMPACTION_LEASE_SECONDS", value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub compaction_lease_seconds: u32,
    /// Zstandard level of merged files, 1 to 22; higher ones are slower and a little smaller
    #[arg(long, env = "HOGLAKE_COMPACTION_ZSTD_LEVEL", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=22))]
    pub compaction_zstd_level: i32,
    /// Where temporary files go [default: the system's]
    #[arg(long, env = "HOGLAKE_TEMP_DIR", value_name = "DIR")]
    pub temp_dir: Option<PathBuf>,
    /// Whether file: locations on this machine may be read and written, besides object stores
    #[arg(long, env = "HOGLAKE_LOCAL_FILES", value_name = "BOOL", default_value = "false", value_parser = boolean, action = clap::ArgAction::Set)]
    pub local_files: bool,
}

impl MaintenanceConfig {
    /// How long a file stays in the removal queue at least.
    pub fn removal_min_age(&self) -> Duration {
        Duration::from_secs(self.removal_min_age_seconds.into())
    }

    /// How long the ledgers reach back.
    pub fn ledger_retention(&self) -> Duration {
        Duration::from_secs(self.removal_ledger_retention_seconds.into())
    }

    /// How long a server that merges may be silent.
    pub fn compaction_lease(&self) -> Duration {
        Duration::from_secs(self.compaction_lease_seconds.into())
    }

    /// Where temporary files go.
    pub fn temp_dir(&self) -> PathBuf {
        self.temp_dir.clone().unwrap_or_else(std::env::temp_dir)
    }
}

fn positive(text: &str) -> Result<usize, String> {
    text.trim().parse().ok().filter(|n| *n > 0).ok_or_else(|| "must be a whole number above 0".to_owned())
}
