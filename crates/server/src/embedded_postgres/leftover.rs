//! Processes of a cluster whose server is gone.
//!
//! Every process of a cluster has the data folder as its working directory, which tells them from a process that
//! happens to have got the same id. The caller holds the lock on the state directory, so they belong to nobody.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Ends them, gently first, and removes the pid file that they leave.
pub(super) async fn end(data: &Path) {
    let pid_file = data.join("postmaster.pid");
    if !pid_file.exists() {
        return;
    }
    let postmaster = std::fs::read_to_string(&pid_file).ok().and_then(|text| text.lines().next()?.trim().parse().ok());
    for (signal, patience) in [(Signal::SIGINT, 15), (Signal::SIGQUIT, 5), (Signal::SIGKILL, 5)] {
        let deadline = Instant::now() + Duration::from_secs(patience);
        let found = processes(data);
        if found.is_empty() {
            break;
        }
        tracing::warn!(
            processes = found.len(),
            signal = signal.as_str(),
            "ending a Postgres that a killed server left"
        );
        // Without a postmaster the others end by themselves as soon as they notice.
        for pid in found.into_iter().filter(|pid| signal != Signal::SIGINT || Some(*pid) == postmaster) {
            let _ = kill(Pid::from_raw(pid), signal);
        }
        while !processes(data).is_empty() && Instant::now() < deadline {
            sleep(Duration::from_millis(20)).await;
        }
    }
    if processes(data).is_empty() {
        // Postgres would refuse to start if the id in it belonged to another process of the same user by now.
        let _ = std::fs::remove_file(&pid_file);
    }
}

fn processes(data: &Path) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == data))
        .collect()
}
