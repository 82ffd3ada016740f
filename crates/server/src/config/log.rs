//! Logs and the audit trail.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

/// Logs go to standard error, audit lines to standard output.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Logs")]
pub struct LogConfig {
    /// What to log: a level, or targets with levels such as `info,hoglake.http=debug`
    #[arg(long, env = "HOGLAKE_LOG", value_name = "FILTER", default_value = "info,sqlx=warn,s3s=warn,s3s_fs=warn")]
    pub log: String,
    /// How log lines look; auto is text on a terminal and json elsewhere
    #[arg(long, env = "HOGLAKE_LOG_FORMAT", value_name = "FORMAT", default_value = "auto")]
    pub log_format: LogFormat,
    /// Where audit lines go: stdout, off, or a file to append to [default: stdout; `dev`: audit.jsonl in the state directory]
    #[arg(long, env = "HOGLAKE_AUDIT_LOG", value_name = "PLACE")]
    pub audit_log: Option<AuditPlace>,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Text when standard error is a terminal, JSON otherwise.
    Auto,
    /// One readable line an event.
    Text,
    /// One JSON object an event.
    Json,
}

/// Where audit lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditPlace {
    /// Standard output.
    Stdout,
    /// Nowhere.
    Off,
    /// Appended to a file.
    File(PathBuf),
}

impl FromStr for AuditPlace {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.trim() {
            "stdout" => Self::Stdout,
            "off" => Self::Off,
            path => Self::File(PathBuf::from(path)),
        })
    }
}
