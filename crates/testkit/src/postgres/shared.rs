//! The server that all test binaries of a checkout share.
//!
//! Nobody owns it: each test process holds a shared lock on a file while it lives, and a small shell loop beside the
//! server stops it once it could take that lock exclusively. The data folder stays for the next run, which saves the
//! time of `initdb`; it is written without fsync, so a folder that does not start is made anew.

use super::binaries::{bin_dir, command, make_owned_dir};
use super::cluster::{init, log_file, server_arguments, socket_url, wait_until_ready};
use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;

/// Prefix of every database that this crate makes.
pub(super) const PREFIX: &str = "hltest_";

/// Runs the server until no test process holds `users.lock`. `$1` is the folder, the rest the command.
const SUPERVISOR: &str = r#"
dir=$1; shift
"$@" & server=$!
while sleep 15; do
  kill -0 $server 2>/dev/null || exit 0
  flock --exclusive --nonblock "$dir/users.lock" sh -c "kill -INT $server; while kill -0 $server 2>/dev/null; do sleep 0.1; done" && exit 0
done
"#;

/// URL of a superuser's database on the shared test server, which is started if need be.
///
/// # Panics
/// When there is no Postgres or it does not start.
pub fn server_url() -> &'static str {
    static URL: OnceLock<String> = OnceLock::new();
    URL.get_or_init(|| match std::env::var("HOGLAKE_TEST_PG") {
        Ok(url) if !url.is_empty() => url,
        _ => start_or_join(),
    })
}

fn start_or_join() -> String {
    static USERS: OnceLock<File> = OnceLock::new();
    let dir = shared_dir();
    make_owned_dir(&dir);
    let start = open_lock(&dir.join("start.lock"));
    start.lock().expect("the start lock can be taken");
    let users = open_lock(&dir.join("users.lock"));
    users.lock_shared().expect("the users lock can be taken");
    let _ = USERS.set(users);
    if !answers(&dir) {
        if !dir.join("data/PG_VERSION").exists() || !try_start(&dir) {
            let _ = std::fs::remove_dir_all(dir.join("data"));
            init(&dir.join("data"));
            assert!(try_start(&dir), "the test Postgres did not start; see {}", dir.join("postgres.log").display());
        }
        drop_leftovers(&dir);
    }
    socket_url(&dir, "postgres")
}

/// One folder a checkout, with a short name because socket paths are limited to 107 bytes.
fn shared_dir() -> PathBuf {
    let mut hasher = DefaultHasher::new();
    env!("CARGO_MANIFEST_DIR").hash(&mut hasher);
    nix::unistd::Uid::effective().as_raw().hash(&mut hasher);
    std::env::temp_dir().join(format!("hoglake-test-{:08x}", hasher.finish() & 0xffff_ffff))
}

fn open_lock(path: &Path) -> File {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path).expect("a lock file opens");
    // The supervisor may run as another user.
    let _ = file.set_permissions(std::fs::Permissions::from_mode(0o666));
    file
}

fn answers(dir: &Path) -> bool {
    std::process::Command::new(bin_dir().join("pg_isready"))
        .args(["--quiet", "--host"])
        .arg(dir)
        .status()
        .is_ok_and(|status| status.success())
}

fn try_start(dir: &Path) -> bool {
    let _ = std::fs::remove_file(dir.join("data/postmaster.pid"));
    let mut supervisor = command("sh")
        .args(["-c", SUPERVISOR, "hoglake-test-postgres"])
        .arg(dir)
        .arg(bin_dir().join("postgres"))
        .args(server_arguments(dir))
        .args(["-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log_file(dir))
        .spawn()
        .expect("sh can be run");
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wait_until_ready(dir, || supervisor.try_wait().is_ok_and(|status| status.is_none()));
    }))
    .is_ok()
}

/// Drops what killed test runs left behind. Nobody else is connected yet: the start lock is held.
fn drop_leftovers(dir: &Path) {
    let psql = |sql: &str| {
        let output = std::process::Command::new(bin_dir().join("psql"))
            .args([
                "--no-psqlrc",
                "--tuples-only",
                "--no-align",
                "--dbname",
                &socket_url(dir, "postgres"),
                "--command",
                sql,
            ])
            .output()
            .expect("psql can be run");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for name in psql(&format!("select datname from pg_database where datname like '{PREFIX}%'")).lines() {
        psql(&format!("alter database \"{name}\" is_template false"));
        psql(&format!("drop database \"{name}\" with (force)"));
    }
}
