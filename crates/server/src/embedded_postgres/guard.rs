//! A shell that waits for the server's end of a pipe to close, and then stops Postgres: the server may be killed
//! without a chance to do it itself.

use super::postmaster::command;
use super::state_dir::StateDir;
use std::path::Path;
use std::process::Stdio;
use tokio::process::Child;

/// Stops the postmaster when this process ends in any way. Dropping it calls it off.
pub(super) struct Guard(Option<Child>);

impl Guard {
    /// Watches over the postmaster `pid`. Without a shell there is no guard; the next start cleans up then.
    pub(super) fn start(state: &StateDir, pid: Option<u32>) -> Self {
        let Some(pid) = pid else { return Self(None) };
        let spawned = command(state, Path::new("/bin/sh"))
            .args(["-c", "read _; kill -INT \"$1\"", "hoglake-guard", &pid.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        match spawned {
            Ok(child) => Self(Some(child)),
            Err(error) => {
                tracing::warn!(%error, "no guard over the private Postgres: killing the server will leave it running");
                Self(None)
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Killed before its pipe closes, so that it never signals a process id that somebody else has got.
        if let Some(child) = &mut self.0 {
            let _ = child.start_kill();
        }
    }
}
