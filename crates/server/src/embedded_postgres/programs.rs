//! Where initdb and postgres are.

use super::EmbeddedPostgresError;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the Postgres programs.
pub(super) struct Programs {
    dir: PathBuf,
}

/// Where Debian and its children keep each major version.
const VERSIONED: &str = "/usr/lib/postgresql";

impl Programs {
    /// Finds the programs: in `named`, else those of `version` where a cluster exists, else the newest.
    ///
    /// # Errors
    /// When there are none, or none of `version`.
    pub(super) fn find(named: Option<&Path>, version: Option<&str>) -> Result<Self, EmbeddedPostgresError> {
        let candidates = match named {
            Some(dir) => vec![dir.to_owned()],
            None => candidates(),
        };
        let found: Vec<PathBuf> = candidates.into_iter().filter(|dir| is_complete(dir)).collect();
        let Some(newest) = found.first() else {
            let searched = match named {
                Some(dir) => dir.display().to_string(),
                None => format!("PATH and {VERSIONED}/*/bin"),
            };
            return Err(EmbeddedPostgresError::NoPrograms { searched });
        };
        let Some(version) = version else { return Ok(Self { dir: newest.clone() }) };
        let matching = found.iter().find(|dir| major_version(dir).as_deref() == Some(version));
        matching.map(|dir| Self { dir: dir.clone() }).ok_or_else(|| EmbeddedPostgresError::OtherVersion {
            data: PathBuf::from("the cluster in the state directory"),
            found: version.to_owned(),
            bin: newest.clone(),
            programs: major_version(newest).unwrap_or_else(|| "of an unknown version".to_owned()),
        })
    }

    /// The folder.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// A program in it.
    pub(super) fn path(&self, program: &str) -> PathBuf {
        self.dir.join(program)
    }
}

/// Versioned folders, newest first, then PATH.
fn candidates() -> Vec<PathBuf> {
    let mut versioned: Vec<(u32, PathBuf)> = std::fs::read_dir(VERSIONED)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versioned.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    versioned.into_iter().rev().map(|(_, dir)| dir).chain(std::env::split_paths(&path)).collect()
}

fn is_complete(dir: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|program| dir.join(program).is_file())
}

/// `15` from `postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)`.
fn major_version(dir: &Path) -> Option<String> {
    let output = Command::new(dir.join("postgres")).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let version = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    Some(version.chars().take_while(char::is_ascii_digit).collect())
}
