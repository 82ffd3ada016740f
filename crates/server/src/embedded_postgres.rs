//! A private Postgres in the state directory, for running without a database of one's own.
//!
//! The cluster is initialised once, listens on a unix socket only, runs as an unprivileged user when the server is
//! root, and lives exactly as long as the server: it is stopped with it, restarted when it dies under it, and stopped
//! by a small guard process when the server itself is killed. A lock on the state directory keeps a second server away.
//! Durability settings are Postgres's own defaults.

mod guard;
mod initialize;
mod leftover;
mod postmaster;
mod programs;
mod state_dir;

use programs::Programs;
use state_dir::StateDir;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Why the private Postgres does not run.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedPostgresError {
    /// The programs are not there.
    #[error(
        "no Postgres found in {searched}: install it (Debian: apt-get install postgresql), name the folder of initdb \
         and postgres in HOGLAKE_PG_BIN (--pg-bin), or set HOGLAKE_DATABASE_URL (--database-url) to a database"
    )]
    NoPrograms {
        /// Where they were looked for.
        searched: String,
    },
    /// The cluster was made by another major version.
    #[error(
        "{} was made by Postgres {found}, but the programs in {} are {programs}: set HOGLAKE_PG_BIN (--pg-bin) to the \
         folder of Postgres {found}, or move the data with pg_upgrade", data.display(), bin.display()
    )]
    OtherVersion {
        /// The cluster's folder.
        data: PathBuf,
        /// Version of the cluster.
        found: String,
        /// The programs' folder.
        bin: PathBuf,
        /// Version of the programs.
        programs: String,
    },
    /// There is no cluster, and nobody is to make one.
    #[error(
        "{} holds no state of hoglake, and this command makes none: it works on what `hoglake serve` or `hoglake dev` \
         have made; name their directory with HOGLAKE_STATE_DIR (--state-dir), or a database with HOGLAKE_DATABASE_URL \
         (--database-url)", dir.display()
    )]
    NoState {
        /// The state directory.
        dir: PathBuf,
    },
    /// Another server uses the state directory.
    #[error(
        "another hoglake server (process {holder}) uses the state directory {}: stop it, or choose another directory \
         with HOGLAKE_STATE_DIR (--state-dir)", dir.display()
    )]
    InUse {
        /// The state directory.
        dir: PathBuf,
        /// What the holder wrote into the lock file.
        holder: String,
    },
    /// A folder cannot be used.
    #[error("{what} {}: {problem}", path.display())]
    Folder {
        /// What was tried.
        what: &'static str,
        /// The folder or file.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A program failed.
    #[error("{program} failed ({outcome}): {output}")]
    Program {
        /// Which.
        program: &'static str,
        /// Exit status, or why it could not be run.
        outcome: String,
        /// What it said.
        output: String,
    },
}

impl EmbeddedPostgresError {
    fn folder(what: &'static str, path: &Path, problem: impl ToString) -> Self {
        Self::Folder { what, path: path.to_owned(), problem: problem.to_string() }
    }

    fn program(program: &'static str, outcome: impl ToString, output: &[u8]) -> Self {
        let output = String::from_utf8_lossy(output).trim().replace('\n', "; ");
        Self::Program { program, outcome: outcome.to_string(), output }
    }
}

/// A running private Postgres. Call [`stop`](Self::stop) before the process ends; the guard is only the safety net.
pub struct EmbeddedPostgres {
    url: String,
    stop: oneshot::Sender<()>,
    supervisor: JoinHandle<()>,
}

impl EmbeddedPostgres {
    /// Makes sure that a state directory holds a cluster, and makes nothing.
    ///
    /// # Errors
    /// [`EmbeddedPostgresError::NoState`].
    pub fn check_exists(state_dir: &Path) -> Result<(), EmbeddedPostgresError> {
        StateDir::check_exists(state_dir)
    }

    /// Initialises the cluster if need be, ends what a killed server left running, and starts Postgres.
    ///
    /// # Errors
    /// No Postgres installed, the directory in use or not usable, or a program that failed.
    pub async fn start(state_dir: &Path, pg_bin: Option<&Path>) -> Result<Self, EmbeddedPostgresError> {
        let state = StateDir::open(state_dir)?;
        let programs = Programs::find(pg_bin, state.cluster_version().as_deref())?;
        initialize::initialize(&state, &programs).await?;
        leftover::end(&state.data()).await;
        let mut running = postmaster::start(&state, &programs).await?;
        tracing::info!(state_dir = %state_dir.display(), postgres = %programs.dir().display(), "private Postgres is running");

        let url = state.url();
        let (stop, mut stopped) = oneshot::channel();
        let supervisor = tokio::spawn(async move {
            loop {
                tokio::select! {
                    status = running.exited() => {
                        log_exit(&status);
                        match restart(&state, &programs, &mut stopped).await {
                            Some(restarted) => running = restarted,
                            None => return,
                        }
                    }
                    _ = &mut stopped => {
                        running.stop().await;
                        tracing::info!("private Postgres is stopped");
                        return;
                    }
                }
            }
        });
        Ok(Self { url, stop, supervisor })
    }

    /// URL of the database, for sqlx and libpq alike. It holds no secret: the socket's folder is closed to others.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Stops Postgres cleanly and waits for it. Close the pools first.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.supervisor.await;
    }
}

fn log_exit(status: &std::io::Result<ExitStatus>) {
    let status = match status {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    };
    tracing::error!(status, "private Postgres ended on its own: starting it again");
}

/// Starts Postgres again, as often as it takes; `None` when the server is to stop meanwhile.
async fn restart(
    state: &StateDir,
    programs: &Programs,
    stopped: &mut oneshot::Receiver<()>,
) -> Option<postmaster::Postmaster> {
    let mut pause = Duration::from_millis(100);
    loop {
        leftover::end(&state.data()).await;
        match postmaster::start(state, programs).await {
            Ok(running) => return Some(running),
            Err(error) => tracing::error!(%error, "private Postgres does not start"),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = &mut *stopped => return None,
        }
        pause = (pause * 2).min(Duration::from_secs(5));
    }
}
