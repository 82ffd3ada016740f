//! Who may do what.

use super::ConfigError;
use super::value::boolean;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Authentication.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Authentication")]
pub struct AuthConfig {
    /// File of token hashes; with it every request needs a bearer token (see `hoglake token new`)
    #[arg(long, env = "HOGLAKE_TOKENS_FILE", value_name = "FILE")]
    pub tokens_file: Option<PathBuf>,
    /// Serve anybody who can reach a non-loopback address, without tokens
    #[arg(long, env = "HOGLAKE_ALLOW_ANONYMOUS", value_name = "BOOL", default_value = "false", value_parser = boolean, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub allow_anonymous: bool,
}

impl AuthConfig {
    pub(super) fn check(&self, address: SocketAddr) -> Result<(), ConfigError> {
        if self.tokens_file.is_some() && self.allow_anonymous {
            return Err(ConfigError(
                "HOGLAKE_TOKENS_FILE and HOGLAKE_ALLOW_ANONYMOUS=true contradict each other: unset one".to_owned(),
            ));
        }
        if !address.ip().to_canonical().is_loopback() && self.tokens_file.is_none() && !self.allow_anonymous {
            return Err(ConfigError(format!(
                "HOGLAKE_LISTEN (--listen) is {address}, which others can reach, and there is no authentication: set \
                 HOGLAKE_TOKENS_FILE (make a token with `hoglake token new`), listen on 127.0.0.1, or set \
                 HOGLAKE_ALLOW_ANONYMOUS=true to serve anybody"
            )));
        }
        Ok(())
    }
}
