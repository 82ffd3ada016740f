//! The postmaster process: start, readiness, stop.

use super::EmbeddedPostgresError;
use super::guard::Guard;
use super::programs::Programs;
use super::state_dir::StateDir;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

/// Recovery after a crash replays the log before it is ready.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A running postmaster.
pub(super) struct Postmaster {
    child: Child,
    _guard: Guard,
}

/// A command that runs as the unprivileged user, in a process group of its own: Ctrl-C is for the server, which stops
/// Postgres when the last request is answered.
pub(super) fn command(state: &StateDir, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.process_group(0).current_dir("/").env("LC_ALL", "C").env_remove("PGDATA").env_remove("PGPORT");
    if let Some(user) = state.runs_as() {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    command
}

/// Starts the postmaster and waits until it takes connections.
pub(super) async fn start(state: &StateDir, programs: &Programs) -> Result<Postmaster, EmbeddedPostgresError> {
    let socket_dir = format!("unix_socket_directories={}", state.socket_dir().display());
    let mut command = command(state, &programs.path("postgres"));
    command.arg("-D").arg(state.data());
    for setting in [
        "listen_addresses=",
        &socket_dir,
        "unix_socket_permissions=0700",
        "port=5432",
        "shared_buffers=128MB",
        "jit=off",
        "random_page_cost=1.1",
        "log_min_messages=warning",
        "log_line_prefix=%m [%p] ",
        "logging_collector=off",
    ] {
        command.arg("-c").arg(setting);
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(state.log()?)
        .spawn()
        .map_err(|error| EmbeddedPostgresError::program("postgres", error, b""))?;
    let guard = Guard::start(state, child.id());
    wait_until_ready(state, &mut child).await?;
    Ok(Postmaster { child, _guard: guard })
}

/// Reads the status that the postmaster keeps in its pid file, as `pg_ctl` does.
async fn wait_until_ready(state: &StateDir, child: &mut Child) -> Result<(), EmbeddedPostgresError> {
    let pid_file = state.data().join("postmaster.pid");
    let pid = child.id().map(|pid| pid.to_string());
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        if let Ok(text) = std::fs::read_to_string(&pid_file) {
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            if lines.first().copied() == pid.as_deref() && lines.get(7) == Some(&"ready") {
                return Ok(());
            }
        }
        let exited = child.try_wait().ok().flatten();
        if exited.is_none() && Instant::now() < deadline {
            sleep(Duration::from_millis(10)).await;
            continue;
        }
        let outcome = exited.map_or_else(|| format!("not ready after {START_TIMEOUT:?}"), |status| status.to_string());
        let _ = child.start_kill();
        return Err(EmbeddedPostgresError::program("postgres", outcome, last_lines(&state.log_path()).as_bytes()));
    }
}

/// The end of the log, for an error message.
fn last_lines(log: &Path) -> String {
    let text = std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    let mut shown: String = lines.into_iter().rev().collect::<Vec<_>>().join("\n");
    shown.push_str(&format!("\n(log: {})", log.display()));
    shown
}

impl Postmaster {
    /// Resolves when the postmaster ends.
    pub(super) async fn exited(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Fast shutdown: ends sessions, writes a checkpoint. Harsher when that takes too long.
    pub(super) async fn stop(mut self) {
        for (signal, patience) in [(Signal::SIGINT, 30), (Signal::SIGQUIT, 5), (Signal::SIGKILL, 5)] {
            let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
            let Some(pid) = pid else { return };
            let _ = kill(Pid::from_raw(pid), signal);
            if timeout(Duration::from_secs(patience), self.child.wait()).await.is_ok() {
                return;
            }
            tracing::warn!(signal = signal.as_str(), "private Postgres does not stop");
        }
    }
}
