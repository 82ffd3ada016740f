//! The commit path.

use super::optional_duration_ms;
use std::time::Duration;

/// Admission of commits and DDL.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Commit")]
pub struct CommitConfig {
    /// How long a commit may wait for its turn (queue, connection and lock together) before 503; 0 waits for ever
    #[arg(long, env = "HOGLAKE_COMMIT_LOCK_TIMEOUT_MS", value_name = "MS", default_value = "30000", value_parser = optional_duration_ms)]
    pub commit_lock_timeout_ms: Duration,
}

impl CommitConfig {
    /// The admission budget; `None` waits for ever.
    pub fn lock_timeout(&self) -> Option<Duration> {
        Some(self.commit_lock_timeout_ms).filter(|timeout| !timeout.is_zero())
    }
}
