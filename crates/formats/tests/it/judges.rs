//! Runs the Python scripts in `tests/judges`, which read with other projects' code what this crate wrote, or the
//! other way round.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository's Python environment.
fn python() -> PathBuf {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/python");
    assert!(python.exists(), "the readers of other projects are not installed; run `./x test`, which makes .venv");
    python
}

/// Runs a judge and parses the JSON that it prints.
pub fn judge(script: &str, arguments: &[&str]) -> serde_json::Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judges").join(script);
    let output = Command::new(python()).arg(path).args(arguments).output().unwrap();
    assert!(output.status.success(), "{script} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A file under `tests/data`.
pub fn data(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(path)
}

/// Unpacks a zip archive.
pub fn unzip(archive: &Path, into: &Path) {
    let arguments = ["-m", "zipfile", "-e"];
    let output = Command::new(python()).args(arguments).arg(archive).arg(into).output().unwrap();
    assert!(output.status.success(), "{}: {}", archive.display(), String::from_utf8_lossy(&output.stderr));
}

/// What other projects' readers see in tables: see `tests/judges/tables.py`.
pub fn see(folder: &Path, tables: &[(&str, String)]) -> Vec<serde_json::Value> {
    let file = folder.join("tables.json");
    std::fs::write(&file, serde_json::to_vec(tables).unwrap()).unwrap();
    judge("tables.py", &[file.to_str().unwrap()]).as_array().unwrap().clone()
}
