//! Makes the cluster, once. A folder is called `data` only when it is complete.

use super::EmbeddedPostgresError;
use super::postmaster::command;
use super::programs::Programs;
use super::state_dir::StateDir;
use std::path::Path;
use std::process::Stdio;
use tokio::io::AsyncWriteExt;

/// Name of a cluster in the making.
const UNFINISHED: &str = "data.unfinished";

/// Makes the cluster and its database, unless they are there.
pub(super) async fn initialize(state: &StateDir, programs: &Programs) -> Result<(), EmbeddedPostgresError> {
    let unfinished = state.path().join(UNFINISHED);
    remove(&unfinished)?;
    let data = state.data();
    if state.cluster_version().is_some() {
        return Ok(());
    }
    if data.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        let problem =
            "it is not empty and holds no Postgres cluster: move it away, or choose another HOGLAKE_STATE_DIR";
        return Err(EmbeddedPostgresError::folder("cannot make a cluster in", &data, problem));
    }
    tracing::info!(path = %data.display(), "making the private Postgres cluster");
    state.make_private(&unfinished)?;
    init(state, programs, &unfinished).await?;
    create_database(state, programs, &unfinished).await?;
    let _ = std::fs::remove_dir(&data);
    std::fs::rename(&unfinished, &data)
        .and_then(|()| std::fs::File::open(state.path())?.sync_all())
        .map_err(|error| EmbeddedPostgresError::folder("cannot put the cluster into place", &data, error))
}

fn remove(dir: &Path) -> Result<(), EmbeddedPostgresError> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(EmbeddedPostgresError::folder("cannot remove a half-made cluster", dir, error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

async fn init(state: &StateDir, programs: &Programs, dir: &Path) -> Result<(), EmbeddedPostgresError> {
    let output = command(state, &programs.path("initdb"))
        // Only who can enter the socket's folder can connect at all.
        .args(["--username=postgres", "--auth-local=trust", "--auth-host=reject"])
        .args(["--encoding=UTF8", "--locale=C", "--data-checksums", "--pgdata"])
        .arg(dir)
        .stdin(Stdio::null())
        .output()
        .await
        .map_err(|error| EmbeddedPostgresError::program("initdb", error, b""))?;
    if output.status.success() {
        return Ok(());
    }
    Err(EmbeddedPostgresError::program("initdb", output.status, &output.stderr))
}

/// Single-user mode spares a start of the server and a client program.
async fn create_database(state: &StateDir, programs: &Programs, dir: &Path) -> Result<(), EmbeddedPostgresError> {
    let fail = |error: std::io::Error| EmbeddedPostgresError::program("postgres --single", error, b"");
    let mut child = command(state, &programs.path("postgres"))
        .args(["--single", "-D"])
        .arg(dir)
        .arg("postgres")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(fail)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(b"create database hoglake;\n").await.map_err(fail)?;
    }
    let output = child.wait_with_output().await.map_err(fail)?;
    let failed =
        String::from_utf8_lossy(&output.stderr).lines().any(|line| line.contains("ERROR:") || line.contains("FATAL:"));
    if output.status.success() && !failed {
        return Ok(());
    }
    Err(EmbeddedPostgresError::program("postgres --single", output.status, &output.stderr))
}
