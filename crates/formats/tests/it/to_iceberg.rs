//! Delta tables of other engines converted to Iceberg, read by PyIceberg and DuckDB, compared with what delta-rs and
//! DuckDB see in the source.

use crate::corpus::{Case, cases, root};
use crate::judges::see;
use hoglake_formats::delta::DeltaSource;
use hoglake_formats::iceberg::{IcebergTarget, IcebergTargetOptions};
use hoglake_formats::sync::{Options, Outcome, Plan, Report, Result, Target, sync};
use std::path::{Path, PathBuf};

pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
            // Hudi's timeline is ordered by it.
            let modified = entry.metadata().unwrap().modified().unwrap();
            std::fs::File::options().write(true).open(target).unwrap().set_modified(modified).unwrap();
        }
    }
}

async fn convert(table: &Path) -> Result<Report> {
    let source = DeltaSource::new(root(table));
    let mut target = IcebergTarget::new(root(table), IcebergTargetOptions::default());
    sync(&source, &mut target, &Options::default()).await
}

/// Tables that one of the readers cannot compare, with the reason.
const EXCEPTIONS: [(&str, &str); 5] = [
    ("duckdb-variant_basic", "PyIceberg does not know variant"),
    ("golden-type-widening", "refused: int became double"),
    ("krs-void-column", "DuckDB does not know unknown columns"),
    ("krs-with-short-dv", "PyIceberg does not read INT96 as microseconds"),
    ("table_with_edge_timestamps", "PyIceberg overflows nanoseconds"),
];

/// Converts the table as it was at version 0, then lets the target follow; `None` when the log does not go back.
async fn follow(table: &Path) -> Option<Result<Report>> {
    let log = table.join("_delta_log");
    let first = log.join("00000000000000000000.json");
    let later = table.with_extension("later");
    let names: Vec<_> = std::fs::read_dir(&log).unwrap().map(|e| e.unwrap().file_name()).collect();
    if !first.exists() || !log.join("00000000000000000001.json").exists() {
        return None;
    }
    std::fs::create_dir_all(&later).unwrap();
    let moved: Vec<_> = names.iter().filter(|n| *n != first.file_name().unwrap()).collect();
    moved.iter().for_each(|n| std::fs::rename(log.join(n), later.join(n)).unwrap());
    let started = convert(table).await;
    moved.iter().for_each(|n| std::fs::rename(later.join(n), log.join(n)).unwrap());
    std::fs::remove_dir_all(&later).unwrap();
    started.ok()?;
    Some(convert(table).await)
}

#[tokio::test]
async fn other_engines_see_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let mut tables: Vec<(Case, PathBuf, String)> = Vec::new();
    let mut failures = Vec::new();
    for case in cases("delta") {
        if case.expected["expect"] != "read" || EXCEPTIONS.iter().any(|(name, _)| *name == case.name) {
            continue;
        }
        let table = folder.path().join(&case.name);
        copy(&case.root, &table);
        match convert(&table).await {
            Ok(report) => {
                assert_eq!(report.outcome, Outcome::Committed, "{}", case.name);
                let again = convert(&table).await.unwrap();
                assert_eq!((again.plan, again.metadata_path.clone()), (Plan::NoChange, report.metadata_path.clone()));
                tables.push((case, table, report.metadata_path.unwrap()));
            }
            Err(e) => failures.push(format!("{}: {e}", case.name)),
        }
    }
    let mut replayed = 0;
    for case in cases("delta") {
        let table = folder.path().join(format!("{}-followed", case.name));
        if case.expected["expect"] != "read" || EXCEPTIONS.iter().any(|(name, _)| *name == case.name) {
            continue;
        }
        copy(&case.root, &table);
        match follow(&table).await {
            None => {}
            Some(Ok(report)) => {
                replayed += usize::from(report.plan == Plan::Incremental);
                tables.push((case, table, report.metadata_path.unwrap()));
            }
            Some(Err(e)) => failures.push(format!("{} followed: {e}", case.name)),
        }
    }
    assert!(replayed >= 10, "only {replayed} tables were followed commit by commit");
    let mut asked = Vec::new();
    for (_, table, metadata) in &tables {
        asked.push(("delta", table.to_str().unwrap().to_owned()));
        asked.push(("iceberg", metadata.clone()));
    }
    let seen = see(folder.path(), &asked);
    for ((case, table, _), seen) in tables.iter().zip(seen.chunks(2)) {
        let [source, target] = seen else { unreachable!() };
        let mut wrong = Vec::new();
        if let Some(error) = target["error"].as_str() {
            wrong.push(error.to_owned());
        }
        for reader in ["pyiceberg", "duckdb"] {
            let rows = target[reader].as_array().map_or(0, Vec::len);
            let expected = case.expected["rows"].as_u64().unwrap();
            if u64::try_from(rows).unwrap() != expected {
                wrong.push(format!("{reader} sees {rows} rows instead of {expected}"));
            } else if source["delta-rs"].is_array()
                && target[reader] != source["delta-rs"]
                && target[reader] != source["duckdb"]
            {
                wrong.push(format!("{reader} sees {} instead of {}", target[reader][0], source["delta-rs"][0]));
            }
        }
        wrong.extend(target["problems"].as_array().into_iter().flatten().map(|p| p.as_str().unwrap().to_owned()));
        if !wrong.is_empty() {
            failures.push(format!("{}: {}", table.file_name().unwrap().display(), wrong.join("; ")));
        }
    }
    assert!(failures.is_empty(), "{} of {} tables:\n{}", failures.len(), tables.len(), failures.join("\n"));
}

#[tokio::test]
async fn a_loaded_target_knows_where_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let case = crate::corpus::case("delta", "dat-nested_types");
    copy(&case.root, folder.path());
    convert(folder.path()).await.unwrap();
    let mut target = IcebergTarget::new(root(folder.path()), IcebergTargetOptions::default());
    let loaded = target.load().await.unwrap();
    assert_eq!(loaded.watermark.unwrap().version.unwrap().0, "0");
}
