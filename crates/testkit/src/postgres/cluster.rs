//! A Postgres server of one test, to be killed and started again.

use super::binaries::{bin_dir, command, make_owned_dir};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A private Postgres server on a unix socket, with the durability settings of production.
///
/// It is stopped and its folder removed when the value is dropped.
pub struct Cluster {
    dir: PathBuf,
    child: Option<Child>,
}

impl Cluster {
    /// Initialises and starts a server.
    ///
    /// # Panics
    /// When Postgres is not installed or does not start within 20 s.
    pub fn start() -> Self {
        let dir = std::env::temp_dir().join(format!("hlpg-{}", uuid::Uuid::new_v4().simple()));
        make_owned_dir(&dir);
        init(&dir.join("data"));
        let mut cluster = Self { dir, child: None };
        cluster.restart();
        cluster
    }

    /// URL of the database `postgres`, as superuser.
    pub fn url(&self) -> String {
        socket_url(&self.dir, "postgres")
    }

    /// Starts the server again after [`kill`](Self::kill) or [`stop`](Self::stop); waits until it answers.
    ///
    /// # Panics
    /// When it does not answer within 20 s.
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "the server is running already");
        let mut child = command(bin_dir().join("postgres"))
            .args(server_arguments(&self.dir))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log_file(&self.dir))
            .spawn()
            .expect("postgres can be run");
        wait_until_ready(&self.dir, || child.try_wait().is_ok_and(|status| status.is_none()));
        self.child = Some(child);
    }

    /// SIGKILL to the postmaster: what a crash looks like. Its backends notice and exit by themselves.
    pub fn kill(&mut self) {
        self.end(Signal::SIGKILL);
        // Backends keep the shared memory until they notice; a restart before that is refused by Postgres.
        std::thread::sleep(Duration::from_millis(200));
    }

    /// Stops the server cleanly, disconnecting clients (a "fast" shutdown).
    pub fn stop(&mut self) {
        self.end(Signal::SIGINT);
    }

    fn end(&mut self, signal: Signal) {
        if let Some(mut child) = self.child.take() {
            let _ = kill(pid(&child), signal);
            let _ = child.wait();
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.end(Signal::SIGQUIT);
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a pid fits"))
}

/// URL of `database` on the server whose socket is in `dir`; understood by sqlx and by libpq.
pub(super) fn socket_url(dir: &Path, database: &str) -> String {
    format!("postgresql://postgres@localhost:5432/{database}?host={}&sslmode=disable", dir.display())
}

pub(super) fn init(data: &Path) {
    let output = command(bin_dir().join("initdb"))
        .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--pgdata"])
        .arg(data)
        .output()
        .expect("initdb can be run");
    assert!(output.status.success(), "initdb failed: {}", String::from_utf8_lossy(&output.stderr));
}

pub(super) fn server_arguments(dir: &Path) -> Vec<String> {
    let mut arguments = vec!["-D".to_owned(), dir.join("data").display().to_string()];
    for setting in [
        "listen_addresses=",
        &format!("unix_socket_directories={}", dir.display()),
        "max_connections=300",
        "jit=off",
        "random_page_cost=1.1",
        "log_min_messages=warning",
    ] {
        arguments.extend(["-c".to_owned(), setting.to_owned()]);
    }
    arguments
}

pub(super) fn log_file(dir: &Path) -> Stdio {
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(dir.join("postgres.log"))
        .expect("the log of the test server can be opened")
        .into()
}

/// Waits until the server takes connections, as long as `alive` says that it is there.
///
/// # Panics
/// After 20 s, or when it is gone.
pub(super) fn wait_until_ready(dir: &Path, mut alive: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let ready = bin_dir().join("pg_isready");
    loop {
        let answered = std::process::Command::new(&ready)
            .args(["--quiet", "--host"])
            .arg(dir)
            .status()
            .is_ok_and(|status| status.success());
        if answered {
            return;
        }
        let alive = alive();
        assert!(
            alive && Instant::now() < deadline,
            "the test Postgres did not start; its log is {}",
            dir.join("postgres.log").display()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}
