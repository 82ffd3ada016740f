//! Which Postgres: one that is there, or a private one in the state directory.

use super::{ConfigError, DatabaseUrl, Secret, duration_ms};
use std::path::PathBuf;
use std::time::Duration;

/// The database and its pools.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Database")]
pub struct DatabaseConfig {
    /// Postgres 14 to 18 to keep the catalog in; without it, a private Postgres runs in --state-dir
    #[arg(long, env = "HOGLAKE_DATABASE_URL", value_name = "URL", hide_env_values = true)]
    pub database_url: Option<DatabaseUrl>,
    /// User to log in as, in place of the one in --database-url
    #[arg(long, env = "HOGLAKE_DB_USER", value_name = "USER")]
    pub db_user: Option<String>,
    /// Password to log in with, in place of the one in --database-url
    #[arg(long, env = "HOGLAKE_DB_PASSWORD", value_name = "PASSWORD", hide_env_values = true)]
    pub db_password: Option<Secret>,
    /// Connections for requests; background work and health probes have a few of their own
    #[arg(long, env = "HOGLAKE_DB_POOL_SIZE", value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub db_pool_size: u32,
    /// Memory for the index of column bounds that filtered scans use, in bytes
    #[arg(long, env = "HOGLAKE_SCAN_INDEX_BYTES", value_name = "BYTES", default_value_t = 48 << 20)]
    pub scan_index_bytes: usize,
    /// How long a client may take to receive the next 128 KiB of a list of files before its answer is cut off
    #[arg(long, env = "HOGLAKE_READ_CHUNK_TIMEOUT_MS", value_name = "MS", default_value = "30000", value_parser = duration_ms)]
    pub read_chunk_timeout_ms: Duration,
    /// How long to wait for a connection to Postgres
    #[arg(long, env = "HOGLAKE_DB_CONNECT_TIMEOUT_MS", value_name = "MS", default_value = "5000", value_parser = duration_ms)]
    pub db_connect_timeout_ms: Duration,
    /// How long Postgres may take to answer /healthz
    #[arg(long, env = "HOGLAKE_HEALTH_TIMEOUT_MS", value_name = "MS", default_value = "2000", value_parser = duration_ms)]
    pub health_timeout_ms: Duration,
    /// Folder of the private Postgres and of `hoglake dev`'s objects [default: hoglake in the user's data directory; /var/lib/hoglake for root]
    #[arg(long, env = "HOGLAKE_STATE_DIR", value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Folder with the programs initdb and postgres [default: searched in Debian's versioned folders and PATH]
    #[arg(long, env = "HOGLAKE_PG_BIN", value_name = "DIR")]
    pub pg_bin: Option<PathBuf>,
}

impl DatabaseConfig {
    /// The given database with the given credentials, or nothing when the private Postgres is to run.
    ///
    /// # Errors
    /// When the URL has no place for the credentials.
    pub fn url(&self) -> Result<Option<DatabaseUrl>, ConfigError> {
        let Some(url) = self.database_url.clone() else { return Ok(None) };
        url.with_credentials(self.db_user.as_deref(), self.db_password.as_ref())
            .map(Some)
            .map_err(|error| ConfigError(format!("HOGLAKE_DATABASE_URL (--database-url): {error}")))
    }

    /// The state directory: as told, else where this user keeps data.
    ///
    /// # Errors
    /// When there is no home to put it in.
    pub fn state_dir(&self) -> Result<PathBuf, ConfigError> {
        if let Some(dir) = &self.state_dir {
            return std::path::absolute(dir)
                .map_err(|error| ConfigError(format!("HOGLAKE_STATE_DIR (--state-dir): {error}")));
        }
        // Root's home is closed to the unprivileged user that Postgres must run as.
        if nix::unistd::Uid::effective().is_root() {
            return Ok(PathBuf::from("/var/lib/hoglake"));
        }
        let absolute = |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        absolute("XDG_DATA_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
            .map(|data| data.join("hoglake"))
            .ok_or_else(|| ConfigError("HOGLAKE_STATE_DIR (--state-dir) must be set: HOME is not".to_owned()))
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.database_url.is_none() {
            for (set, name) in
                [(self.db_user.is_some(), "HOGLAKE_DB_USER"), (self.db_password.is_some(), "HOGLAKE_DB_PASSWORD")]
            {
                if set {
                    return Err(ConfigError(format!(
                        "{name} is set, but HOGLAKE_DATABASE_URL (--database-url) is not"
                    )));
                }
            }
        }
        self.url().map(|_| ())
    }
}
