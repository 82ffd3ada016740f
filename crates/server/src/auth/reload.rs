//! The tokens in force, read again whenever their file changes.

use super::Identity;
use super::tokens_file::Tokens;
use crate::config::ConfigError;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Tells who sent a request. Cheap to clone.
#[derive(Clone, Default)]
pub struct Authenticator(Option<Arc<TokensInForce>>);

struct TokensInForce {
    path: PathBuf,
    tokens: RwLock<Arc<Tokens>>,
}

/// What tells one version of a file from another.
#[derive(PartialEq, Eq, Clone, Copy)]
struct Version {
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl Authenticator {
    /// Reads the tokens file, if there is one; without, everybody is anonymous.
    ///
    /// # Errors
    /// When the file cannot be read or has a wrong line.
    pub fn load(path: Option<PathBuf>) -> Result<Self, ConfigError> {
        let Some(path) = path else { return Ok(Self(None)) };
        let tokens = read(&path).map_err(|problem| {
            ConfigError(format!("HOGLAKE_TOKENS_FILE (--tokens-file) {}: {problem}", path.display()))
        })?;
        Ok(Self(Some(Arc::new(TokensInForce { path, tokens: RwLock::new(Arc::new(tokens)) }))))
    }

    /// Whether requests need a token.
    pub fn is_required(&self) -> bool {
        self.0.is_some()
    }

    /// Whose `token` this is.
    pub fn identify(&self, token: &str) -> Option<Identity> {
        let in_force = self.0.as_ref()?;
        let tokens = in_force.tokens.read().unwrap_or_else(PoisonError::into_inner).clone();
        tokens.identify(token)
    }

    /// Reads the file again whenever it changes, and on SIGHUP, for as long as it is polled. A file that cannot be
    /// read or has a wrong line leaves the tokens as they were.
    pub async fn keep_fresh(self) {
        let Some(in_force) = self.0 else { return std::future::pending().await };
        let hangup = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup());
        let mut hangup = match hangup {
            Ok(hangup) => hangup,
            Err(error) => {
                tracing::error!(%error, "SIGHUP cannot be watched: the tokens file stays as it was read");
                return std::future::pending().await;
            }
        };
        let mut seen = version(&in_force.path);
        loop {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(2)) => {
                    let current = version(&in_force.path);
                    if current == seen {
                        continue;
                    }
                    seen = current;
                }
                _ = hangup.recv() => seen = version(&in_force.path),
            }
            match read(&in_force.path) {
                Ok(tokens) => {
                    tracing::info!(tokens = tokens.len(), "tokens file read again");
                    *in_force.tokens.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tokens);
                }
                Err(problem) => {
                    metrics::counter!("hoglake_tokens_reload_failures_total").increment(1);
                    tracing::error!(path = %in_force.path.display(), problem, "tokens file not usable: the former tokens stay in force");
                }
            }
        }
    }
}

fn read(path: &std::path::Path) -> Result<Tokens, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8: save it as UTF-8 without a byte-order mark")?;
    let tokens = Tokens::parse(&text)?;
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.mode() & 0o004 != 0) {
        tracing::warn!(
            path = %path.display(),
            "everybody on this machine can read the tokens file: chmod 640 it; its hashes tell who has access to what"
        );
    }
    Ok(tokens)
}

fn version(path: &std::path::Path) -> Option<Version> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(Version { inode: metadata.ino(), length: metadata.len(), modified: (metadata.mtime(), metadata.mtime_nsec()) })
}
