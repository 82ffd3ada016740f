//! The built server as a process.

use crate::http::Request;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a server may take to start or stop on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How to run the server: a subcommand, arguments, and nothing of the caller's `HOGLAKE_*` variables.
#[derive(Clone)]
pub struct ServerCommand {
    binary: PathBuf,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
}

/// A running server; killed when dropped.
pub struct ServerProcess {
    child: Child,
    address: SocketAddr,
    stdout: Captured,
    stderr: Captured,
}

/// What a process has written so far.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<String>>);

impl ServerCommand {
    /// `hoglake serve` of the build that the running test belongs to.
    pub fn serve() -> Self {
        Self::new("serve")
    }

    /// A subcommand of the built binary. Servers listen on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// When the path of the running test is not known.
    pub fn new(subcommand: &str) -> Self {
        // target/debug/deps/it-0123456789abcdef
        let test = std::env::current_exe().expect("the path of the running test");
        let binary = test.ancestors().nth(2).expect("a target folder").join("hoglake");
        Self { binary, arguments: vec![subcommand.to_owned()], variables: Vec::new() }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<str>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: impl AsRef<str>) -> Self {
        self.variables.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Keeps the catalog in the database at `url`.
    pub fn database(self, url: &str) -> Self {
        self.env("HOGLAKE_DATABASE_URL", url)
    }

    /// Runs a private Postgres in `dir`.
    pub fn state_dir(self, dir: &Path) -> Self {
        self.env("HOGLAKE_STATE_DIR", dir.to_string_lossy())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HOGLAKE_")) {
            command.env_remove(name);
        }
        command.args(&self.arguments).envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a server and waits until it listens. It must log JSON at level `info`, which is the default.
    ///
    /// # Panics
    /// When it ends instead, or takes too long; with its log.
    pub fn start(self) -> ServerProcess {
        let mut command = self.command();
        if !self.variables.iter().any(|(name, _)| name == "HOGLAKE_PORT" || name == "HOGLAKE_LISTEN") {
            command.env("HOGLAKE_PORT", "0");
        }
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", self.binary.display()));
        let stdout = Captured::from(child.stdout.take());
        let stderr = Captured::from(child.stderr.take());
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(address) = listening(&stderr.text()) {
                return ServerProcess { child, address, stdout, stderr };
            }
            let ended = child.try_wait().ok().flatten();
            assert!(ended.is_none() && Instant::now() < deadline, "no server ({ended:?}):\n{}", stderr.text());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Runs a command to its end, such as a server that refuses to start.
    ///
    /// # Panics
    /// When it cannot be run or does not end.
    pub fn output(self) -> Output {
        let mut child = self.command().spawn().unwrap_or_else(|error| panic!("{}: {error}", self.binary.display()));
        wait(&mut child).unwrap_or_else(|| {
            let _ = child.kill();
            panic!("it did not end: {:?}", self.arguments);
        });
        child.wait_with_output().expect("its output")
    }
}

impl ServerProcess {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:...`
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A request to it.
    pub fn request(&self, method: &str, target: &str) -> Request {
        Request::new(self.address, method, target)
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        self.stderr.text()
    }

    /// What it has printed so far: audit lines, for `serve`.
    pub fn printed(&self) -> String {
        self.stdout.text()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a pid fits");
        kill(Pid::from_raw(pid), signal).expect("the server is there");
    }

    /// SIGKILL: what a crash looks like.
    pub fn kill(mut self) {
        self.signal(Signal::SIGKILL);
        let _ = self.child.wait();
    }

    /// SIGTERM, and waits for the end.
    ///
    /// # Panics
    /// When it does not end.
    pub fn stop(mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.wait()
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// When it does not come.
    pub fn wait(&mut self) -> ExitStatus {
        wait(&mut self.child).unwrap_or_else(|| panic!("the server does not stop:\n{}", self.log()))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait(child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

/// The address in the log line that tells of it.
fn listening(log: &str) -> Option<SocketAddr> {
    log.lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find(|line| line["message"] == "listening")
        .and_then(|line| line["address"].as_str()?.parse().ok())
}

impl Captured {
    fn from(pipe: Option<impl Read + Send + 'static>) -> Self {
        let captured = Self::default();
        let (sink, pipe) = (captured.clone(), pipe.expect("a pipe was asked for"));
        std::thread::spawn(move || {
            let mut lines = BufReader::new(pipe);
            let mut line = Vec::new();
            while lines.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                sink.0.lock().unwrap_or_else(PoisonError::into_inner).push_str(&String::from_utf8_lossy(&line));
                line.clear();
            }
        });
        captured
    }

    fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
