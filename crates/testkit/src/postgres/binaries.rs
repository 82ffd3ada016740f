//! Where the Postgres programs are, and as whom to run them.

use nix::unistd::{Uid, User};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder that holds `initdb` and `postgres`: `HOGLAKE_PG_BIN`, else the newest of Debian's versioned folders,
/// else the first of PATH.
///
/// # Panics
/// When there is none.
pub fn bin_dir() -> PathBuf {
    if let Some(dir) = std::env::var_os("HOGLAKE_PG_BIN").filter(|v| !v.is_empty()) {
        return PathBuf::from(dir);
    }
    let mut versioned: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, dir)| has_programs(dir))
        .collect();
    versioned.sort();
    versioned.pop().map(|(_, dir)| dir).or_else(from_path).expect(
        "no Postgres found: install it (Debian: apt-get install postgresql) or set HOGLAKE_PG_BIN to the folder with \
         initdb and postgres",
    )
}

fn from_path() -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).find(|dir| has_programs(dir))
}

fn has_programs(dir: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|program| dir.join(program).is_file())
}

/// The unprivileged user that Postgres must run as, when this process is root.
pub(super) fn unprivileged() -> Option<User> {
    if !Uid::effective().is_root() {
        return None;
    }
    ["postgres", "nobody"].iter().find_map(|name| User::from_name(name).ok().flatten())
}

/// A command that runs `program` as the unprivileged user, in a process group of its own, so that Ctrl-C on the tests
/// does not reach it.
pub(super) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.process_group(0).current_dir("/").env("LC_ALL", "C");
    if let Some(user) = unprivileged() {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    command
}

/// Makes `dir` if it is missing and gives it to the user that Postgres runs as.
pub(super) fn make_owned_dir(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap_or_else(|e| panic!("cannot create {}: {e}", dir.display()));
    if let Some(user) = unprivileged() {
        std::os::unix::fs::chown(dir, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
            .unwrap_or_else(|e| panic!("cannot give {} to {}: {e}", dir.display(), user.name));
    }
}
