//! Iceberg tables of other engines converted to Delta, read by delta-rs and DuckDB, compared with what was found in the
//! source by others.

use crate::corpus::{Case, cases, root};
use crate::judges::see;
use crate::to_iceberg::copy;
use hoglake_formats::delta::{DeltaTarget, DeltaTargetOptions};
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource};
use hoglake_formats::sync::{Error, Options, Outcome, Plan, Report, Result, sync};
use std::path::{Path, PathBuf};

async fn convert(table: &Path) -> Result<Report> {
    convert_at(table, None).await
}

async fn convert_at(table: &Path, metadata_file: Option<String>) -> Result<Report> {
    let source = IcebergSource::new(root(table), IcebergOptions { relocated: true, metadata_file });
    let mut target = DeltaTarget::new(root(table), DeltaTargetOptions::default());
    sync(&source, &mut target, &Options::default()).await
}

/// Converts the table as its oldest metadata file with a snapshot has it, then lets the target follow; `None` when
/// there is only one such file.
async fn follow(table: &Path) -> Option<Result<Report>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(table.join("metadata")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.ends_with(".metadata.json")
            && let Ok(json) = serde_json::from_slice::<serde_json::Value>(&std::fs::read(entry.path()).unwrap())
            && json["current-snapshot-id"].as_i64().is_some_and(|id| id != -1)
        {
            files.push((json["last-updated-ms"].as_i64().unwrap_or(0), name));
        }
    }
    files.sort();
    let (_, oldest) = files.first().filter(|_| files.len() > 1)?;
    convert_at(table, Some(format!("metadata/{oldest}"))).await.ok()?;
    Some(convert(table).await)
}

/// Tables that one of the readers cannot compare, with the reason.
const EXCEPTIONS: [(&str, &str); 7] = [
    ("duckdbice-equality_delete_cross_partition", "its snapshot ids are larger than a long"),
    ("duckdbice-partition_binary", "its manifest names other file sizes than the files have"),
    ("duckdbice-partition_double", "its manifest names other file sizes than the files have"),
    ("duckdbice-partition_fixed_length_binary", "its manifest names other file sizes than the files have"),
    ("duckdbice-partition_timestamptz", "its manifest names other file sizes than the files have"),
    ("impala-iceberg_column_case_sensitivity_issue", "its files spell the columns in another case, without ids"),
    ("impala-iceberg_v3_trino_variant", "DuckDB does not read variant from Delta"),
];

#[tokio::test]
async fn other_engines_see_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let mut tables: Vec<(Case, PathBuf)> = Vec::new();
    let mut failures = Vec::new();
    let mut refused = Vec::new();
    for case in cases("iceberg") {
        if case.expected["expect"] != "read" || EXCEPTIONS.iter().any(|(name, _)| *name == case.name) {
            continue;
        }
        let table = folder.path().join(&case.name);
        copy(&case.root, &table);
        match convert(&table).await {
            Ok(report) => {
                assert_eq!(report.outcome, Outcome::Committed, "{}", case.name);
                assert_eq!(convert(&table).await.unwrap().plan, Plan::NoChange, "{}", case.name);
                tables.push((case, table));
            }
            Err(Error::Unsupported(items)) => {
                assert!(!table.join("_delta_log").exists(), "{}: refused, yet something was written", case.name);
                refused.push(format!("{}: {}", case.name, items[0]));
            }
            Err(e) => failures.push(format!("{}: {e}", case.name)),
        }
    }
    let mut replayed = 0;
    for case in cases("iceberg") {
        let table = folder.path().join(format!("{}-followed", case.name));
        if case.expected["expect"] != "read" || EXCEPTIONS.iter().any(|(name, _)| *name == case.name) {
            continue;
        }
        copy(&case.root, &table);
        match follow(&table).await {
            None | Some(Err(Error::Unsupported(_))) => {}
            Some(Ok(report)) => {
                replayed += usize::from(report.plan == Plan::Incremental);
                tables.push((case, table));
            }
            Some(Err(e)) => failures.push(format!("{} followed: {e}", case.name)),
        }
    }
    assert!(replayed >= 5, "only {replayed} tables were followed commit by commit");
    let asked: Vec<_> = tables.iter().map(|(_, table)| ("delta", table.to_str().unwrap().to_owned())).collect();
    for ((case, table), seen) in tables.iter().zip(see(folder.path(), &asked)) {
        let mut wrong = Vec::new();
        if let Some(error) = seen["error"].as_str() {
            wrong.push(error.to_owned());
        }
        for reader in ["delta-rs", "duckdb"] {
            let rows = seen[reader].as_array().map_or(0, Vec::len);
            let expected = case.expected["rows"].as_u64().unwrap();
            if u64::try_from(rows).unwrap() != expected {
                wrong.push(format!("{reader} sees {rows} rows instead of {expected}"));
            }
        }
        if seen["delta-rs"] != seen["duckdb"] {
            wrong.push(format!("delta-rs sees {}, DuckDB {}", seen["delta-rs"][0], seen["duckdb"][0]));
        }
        wrong.extend(seen["problems"].as_array().into_iter().flatten().map(|p| p.as_str().unwrap().to_owned()));
        if !wrong.is_empty() {
            failures.push(format!("{}: {}", table.file_name().unwrap().display(), wrong.join("; ")));
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {} tables:\n{}\nrefused:\n{}",
        failures.len(),
        tables.len(),
        failures.join("\n"),
        refused.join("\n")
    );
}
