//! The state directory: locked by one server, laid out, and handed to the user that Postgres runs as.
//!
//! `lock` (the holder's process id), `data` (the cluster), `run` (the socket), `postgres.log`.

use super::EmbeddedPostgresError;
use nix::unistd::{Uid, User};
use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Longest path of a unix socket, without the final NUL.
const LONGEST_SOCKET_PATH: usize = 107;
/// File name of the socket of port 5432.
const SOCKET: &str = ".s.PGSQL.5432";
/// The log is started afresh above this size.
const LARGEST_LOG_BYTES: u64 = 16 << 20;

/// An open, locked state directory.
pub(super) struct StateDir {
    dir: PathBuf,
    socket_dir: PathBuf,
    runs_as: Option<User>,
    _lock: File,
}

/// The cluster, in the state directory.
const DATA: &str = "data";

impl StateDir {
    /// Makes sure that there is a cluster in the directory, and leaves it as it is. One that this user may not look at is
    /// left to [`open`](Self::open), which says so.
    pub(super) fn check_exists(dir: &Path) -> Result<(), EmbeddedPostgresError> {
        use std::io::ErrorKind::{NotADirectory, NotFound};
        match std::fs::metadata(dir.join(DATA).join("PG_VERSION")) {
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => {
                Err(EmbeddedPostgresError::NoState { dir: dir.to_owned() })
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Makes the directory if it is missing, and locks it.
    pub(super) fn open(dir: &Path) -> Result<Self, EmbeddedPostgresError> {
        let runs_as = unprivileged_user()?;
        let mode = if runs_as.is_some() { 0o711 } else { 0o700 };
        DirBuilder::new()
            .recursive(true)
            .mode(mode)
            .create(dir)
            .map_err(|error| EmbeddedPostgresError::folder("cannot make the state directory", dir, error))?;
        let dir = dir
            .canonicalize()
            .map_err(|error| EmbeddedPostgresError::folder("cannot use the state directory", dir, error))?;
        let lock = lock(&dir)?;
        if let Some(user) = &runs_as {
            make_reachable(&dir, user)?;
        }
        let mut state = Self { socket_dir: socket_dir(&dir), dir, runs_as, _lock: lock };
        state.make_private(&state.socket_dir)?;
        state.socket_dir = state.socket_dir.canonicalize().unwrap_or(state.socket_dir);
        Ok(state)
    }

    /// The cluster.
    pub(super) fn data(&self) -> PathBuf {
        self.dir.join(DATA)
    }

    /// The directory itself.
    pub(super) fn path(&self) -> &Path {
        &self.dir
    }

    /// Where the socket is.
    pub(super) fn socket_dir(&self) -> &Path {
        &self.socket_dir
    }

    /// The user that Postgres runs as, when this process is root.
    pub(super) fn runs_as(&self) -> Option<&User> {
        self.runs_as.as_ref()
    }

    /// Major version of the cluster, when there is one.
    pub(super) fn cluster_version(&self) -> Option<String> {
        let version = std::fs::read_to_string(self.data().join("PG_VERSION")).ok()?;
        Some(version.trim().to_owned()).filter(|version| !version.is_empty())
    }

    /// URL of the database.
    pub(super) fn url(&self) -> String {
        let host: String = url::form_urlencoded::byte_serialize(self.socket_dir.as_os_str().as_bytes()).collect();
        format!("postgresql://postgres@localhost:5432/hoglake?host={host}&sslmode=disable")
    }

    /// Makes a folder that only Postgres's user can enter, or checks that it is one.
    pub(super) fn make_private(&self, dir: &Path) -> Result<(), EmbeddedPostgresError> {
        let fail =
            |error: &dyn ToString| EmbeddedPostgresError::folder("cannot use the folder", dir, error.to_string());
        match DirBuilder::new().mode(0o700).create(dir) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(fail(&error)),
            Err(_) | Ok(()) => {}
        }
        // Not following links: in /tmp somebody else may have been first.
        let metadata = std::fs::symlink_metadata(dir).map_err(|error| fail(&error))?;
        let owner = self.runs_as.as_ref().map_or(Uid::effective(), |user| user.uid);
        if !metadata.is_dir() || (metadata.uid() != owner.as_raw() && metadata.uid() != Uid::effective().as_raw()) {
            return Err(fail(&"it belongs to somebody else; remove it"));
        }
        if let Some(user) = &self.runs_as {
            std::os::unix::fs::chown(dir, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
                .map_err(|error| fail(&error))?;
        }
        std::fs::set_permissions(dir, Permissions::from_mode(0o700)).map_err(|error| fail(&error))
    }

    /// Postgres's standard error.
    pub(super) fn log(&self) -> Result<Stdio, EmbeddedPostgresError> {
        let path = self.log_path();
        if std::fs::metadata(&path).is_ok_and(|metadata| metadata.len() > LARGEST_LOG_BYTES) {
            let _ = std::fs::rename(&path, path.with_extension("log.old"));
        }
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.map(Stdio::from).map_err(|error| EmbeddedPostgresError::folder("cannot write the log", &path, error))
    }

    /// Where that goes.
    pub(super) fn log_path(&self) -> PathBuf {
        self.dir.join("postgres.log")
    }
}

fn lock(dir: &Path) -> Result<File, EmbeddedPostgresError> {
    let path = dir.join("lock");
    let fail = |error: std::io::Error| EmbeddedPostgresError::folder("cannot lock the state directory", &path, error);
    let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).map_err(fail)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            let holder = if holder.trim().is_empty() { "unknown".to_owned() } else { holder.trim().to_owned() };
            return Err(EmbeddedPostgresError::InUse { dir: dir.to_owned(), holder });
        }
        Err(TryLockError::Error(error)) => return Err(fail(error)),
    }
    file.set_len(0).and_then(|()| write!(file, "{}", std::process::id())).map_err(fail)?;
    Ok(file)
}

/// `run` in the state directory, or a short path in /tmp when that would be too long for a socket.
fn socket_dir(state_dir: &Path) -> PathBuf {
    let inside = state_dir.join("run");
    if inside.join(SOCKET).as_os_str().len() <= LONGEST_SOCKET_PATH {
        return inside;
    }
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(state_dir.as_os_str().as_bytes());
    let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Path::new("/tmp").join(format!("hoglake-{name}"))
}

/// Postgres refuses to run as root.
fn unprivileged_user() -> Result<Option<User>, EmbeddedPostgresError> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    let known = ["postgres", "nobody"].iter().find_map(|name| User::from_name(name).ok().flatten());
    known.map(Some).ok_or_else(|| {
        let problem = "Postgres does not run as root, and this system has neither a user postgres nor nobody: make one";
        EmbeddedPostgresError::folder("cannot use", Path::new("/etc/passwd"), problem)
    })
}

/// Checks that `user` can get to `dir`; opens `dir` itself, but never a folder above it.
fn make_reachable(dir: &Path, user: &User) -> Result<(), EmbeddedPostgresError> {
    for folder in dir.ancestors() {
        let metadata = std::fs::metadata(folder)
            .map_err(|error| EmbeddedPostgresError::folder("cannot look at", folder, error))?;
        let needed = match (metadata.uid() == user.uid.as_raw(), metadata.gid() == user.gid.as_raw()) {
            (true, _) => 0o100,
            (false, true) => 0o010,
            (false, false) => 0o001,
        };
        if metadata.mode() & needed != 0 {
            continue;
        }
        if folder != dir {
            let problem = format!(
                "Postgres runs as {}, which cannot pass through this folder: choose another HOGLAKE_STATE_DIR \
                 (--state-dir), or run chmod o+x {}",
                user.name,
                folder.display()
            );
            return Err(EmbeddedPostgresError::folder("the state directory is out of reach behind", folder, problem));
        }
        std::fs::set_permissions(folder, Permissions::from_mode((metadata.mode() | needed) & 0o7777))
            .map_err(|error| EmbeddedPostgresError::folder("cannot open for Postgres", folder, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_state_directory_gets_a_short_socket() {
        let short = Path::new("/var/lib/hoglake");
        assert_eq!(socket_dir(short), short.join("run"));
        let long = Path::new("/").join("x".repeat(100));
        let socket = socket_dir(&long).join(SOCKET);
        assert!(socket.as_os_str().len() <= LONGEST_SOCKET_PATH, "{}", socket.display());
        assert_ne!(socket_dir(&long), socket_dir(&Path::new("/").join("y".repeat(100))));
    }
}
