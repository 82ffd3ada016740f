//! `hoglake sync` and `hoglake inspect`, as a process, without Postgres.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn hoglake(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hoglake"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HOGLAKE_")) {
        command.env_remove(name);
    }
    command.args(arguments).output().unwrap()
}

fn json(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A copy of a Delta table that Spark wrote.
fn table(into: &Path) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/data/corpus/delta/dat-nested_types/table");
    for folder in ["", "_delta_log"] {
        std::fs::create_dir_all(into.join(folder)).unwrap();
        for entry in std::fs::read_dir(from.join(folder)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                std::fs::copy(entry.path(), into.join(folder).join(entry.file_name())).unwrap();
            }
        }
    }
}

#[test]
fn a_table_is_converted_once_and_found_up_to_date_after() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path());
    let path = folder.path().to_str().unwrap();
    let dry = hoglake(&["sync", "--path", path, "--target", "iceberg", "--dry-run", "--json"]);
    assert_eq!(json(&dry)[0]["status"], "dry-run");
    assert!(!folder.path().join("metadata").exists());

    let first = hoglake(&["sync", "--path", path, "--target", "ICEBERG", "--json"]);
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    let report = &json(&first)[0];
    assert_eq!((&report["status"], &report["plan"]), (&Value::from("committed"), &Value::from("full")));
    let metadata = report["metadata-path"].as_str().unwrap().strip_prefix("file://").unwrap();
    assert!(Path::new(metadata).exists());

    // The log's folder names the table, too; the format has to be said from now on, two are there.
    let log = format!("{path}/_delta_log");
    let second = hoglake(&["sync", "--source", "delta", "--path", &log, "--target", "ICEBERG"]);
    assert!(String::from_utf8_lossy(&second.stdout).contains("up to date"));
    let ambiguous = hoglake(&["sync", "--path", path, "--target", "ICEBERG"]);
    assert_eq!(ambiguous.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ambiguous.stdout).contains("DELTA and ICEBERG"));
}

#[test]
fn the_dataset_file_of_xtable_is_taken_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path());
    let file = folder.path().join("datasets.yaml");
    let text = format!(
        "sourceFormat: DELTA\ntargetFormats:\n  - ICEBERG\n  - HUDI\ndatasets:\n  - tableBasePath: {0}\n    tableName: nested\n  - tableBasePath: {0}/missing\n",
        folder.path().display()
    );
    std::fs::write(&file, text).unwrap();
    let output = hoglake(&["sync", "--config", file.to_str().unwrap(), "--json"]);
    assert_eq!(output.status.code(), Some(1), "one table is missing");
    let lines = json(&output);
    let statuses: Vec<_> =
        lines.iter().map(|l| (l["target"].as_str().unwrap(), l["status"].as_str().unwrap())).collect();
    assert_eq!(statuses, [("ICEBERG", "committed"), ("HUDI", "committed"), ("ICEBERG", "failed"), ("HUDI", "failed")]);
    assert!(lines[2]["error"].as_str().unwrap().contains("no DELTA table"), "{}", lines[2]);
}

#[test]
fn inspect_says_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path());
    let output = hoglake(&["inspect", folder.path().to_str().unwrap(), "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let table = &json(&output)[0]["tables"][0];
    assert_eq!((&table["format"], &table["files"]["records"]), (&Value::from("DELTA"), &Value::from(5)));
    assert_eq!(table["cannot-express"]["ICEBERG"], serde_json::json!([]));
    let text = hoglake(&["inspect", folder.path().to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&text.stdout).starts_with("DELTA table, version 0"));
}
