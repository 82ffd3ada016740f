//! Targets that somebody else has written to, or in whose place something else stood before.

use crate::corpus::case;
use crate::deletes::{equality_tables, to_delta, to_iceberg};
use crate::judges::{judge, see};
use crate::to_iceberg::copy;
use crate::watched::{Watched, plain, watched};
use hoglake_formats::delta::{DeltaSource, DeltaTarget, DeltaTargetOptions};
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource, IcebergTarget, IcebergTargetOptions};
use hoglake_formats::sync::{Mode, Options, Outcome, Plan, Source, UnsupportedDeletes, sync, to_properties};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A table of two data files, the second version of which has lost a row of the first.
fn table(folder: &Path) -> (PathBuf, Value) {
    let found = equality_tables(folder).into_iter().find(|t| t["name"] == "mixed-positions").unwrap();
    (PathBuf::from(found["path"].as_str().unwrap()), found["versions"].clone())
}

fn metadata(version: &Value) -> &str {
    version["metadata"].as_str().unwrap()
}

const HOW: UnsupportedDeletes = UnsupportedDeletes::Materialize;

fn is_foreign(plan: &Plan) -> bool {
    matches!(plan, Plan::Full { reason } if reason.contains("somebody else"))
}

#[tokio::test]
async fn rows_that_others_delete_from_a_delta_target_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let (table, versions) = table(folder.path());
    to_delta(&table, metadata(&versions[0]), Mode::Incremental, HOW).await.unwrap();
    judge("delete.py", &[table.to_str().unwrap(), "id = 2"]);
    let mut asked = Vec::new();
    for (version, plan) in [(0, None), (0, Some(Plan::NoChange)), (1, Some(Plan::Incremental))] {
        let report = to_delta(&table, metadata(&versions[version]), Mode::Incremental, HOW).await.unwrap();
        match plan {
            None => assert!(is_foreign(&report.plan), "{report:?}"),
            Some(plan) => assert_eq!(report.plan, plan),
        }
        let now = folder.path().join(format!("after-{}", asked.len()));
        copy(&table, &now);
        asked.push(("delta", now.to_str().unwrap().to_owned()));
    }
    for (seen, version) in see(folder.path(), &asked).iter().zip([0, 0, 1]) {
        let rows = &versions[version]["rows"];
        assert_eq!((&seen["delta-rs"], &seen["duckdb"]), (rows, rows), "{}", seen["error"]);
    }
    // A commit of others that speaks of no file costs nothing.
    let log = table.join("_delta_log");
    let newest = std::fs::read_dir(&log).unwrap().filter(|e| e.as_ref().unwrap().path().extension().unwrap() == "json");
    let vacuum = log.join(format!("{:020}.json", newest.count()));
    std::fs::write(vacuum, r#"{"commitInfo":{"timestamp":1,"operation":"VACUUM END","operationParameters":{}}}"#)
        .unwrap();
    let report = to_delta(&table, metadata(&versions[1]), Mode::Incremental, HOW).await.unwrap();
    assert_eq!(report.plan, Plan::NoChange);
}

#[tokio::test]
async fn an_iceberg_target_that_others_roll_back_is_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table");
    copy(&case("delta", "table-with-dv-small").root, &table);
    let second = table.join("_delta_log/00000000000000000001.json");
    let commit = std::fs::read(&second).unwrap();
    std::fs::remove_file(&second).unwrap();
    to_iceberg(&table, None, Mode::Incremental).await.unwrap();
    std::fs::write(&second, commit).unwrap();
    let report = to_iceberg(&table, None, Mode::Incremental).await.unwrap();
    assert_eq!(report.plan, Plan::Incremental);
    let path = PathBuf::from(report.metadata_path.unwrap().trim_start_matches("file://"));
    let mut newest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let snapshots = newest["snapshots"].as_array().unwrap();
    let before = snapshots[snapshots.len() - 2]["snapshot-id"].clone();
    newest["current-snapshot-id"] = before.clone();
    newest["refs"]["main"]["snapshot-id"] = before;
    let number: u32 = report.steps[0].committed.version.parse().unwrap();
    let rolled_back = path.with_file_name(format!("v{}.metadata.json", number + 1));
    std::fs::write(&rolled_back, newest.to_string()).unwrap();
    let report = to_iceberg(&table, None, Mode::Incremental).await.unwrap();
    assert!(is_foreign(&report.plan), "{report:?}");
    let asked = [
        ("delta", table.to_str().unwrap().to_owned()),
        ("iceberg", rolled_back.to_str().unwrap().to_owned()),
        ("iceberg", report.metadata_path.clone().unwrap()),
    ];
    let seen = see(folder.path(), &asked);
    for reader in ["pyiceberg", "duckdb"] {
        assert_eq!(seen[1][reader].as_array().map(Vec::len), Some(10), "{}", seen[1]["error"]);
        assert_eq!(seen[2][reader], seen[0]["delta-rs"], "{}", seen[2]["error"]);
    }
    assert_eq!(seen[2]["problems"], json!([]));
    let again = to_iceberg(&table, None, Mode::Incremental).await.unwrap();
    assert_eq!((again.plan, again.metadata_path), (Plan::NoChange, report.metadata_path));
}

#[tokio::test]
async fn a_full_sync_that_finds_nothing_takes_the_target_over_once() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table");
    copy(&case("delta", "table-with-dv-small").root, &table);
    let report = to_iceberg(&table, None, Mode::Incremental).await.unwrap();
    let path = PathBuf::from(report.metadata_path.unwrap().trim_start_matches("file://"));
    // As after a rewriting of manifests: another snapshot with the same files.
    let mut newest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let mut snapshot = newest["snapshots"][0].clone();
    snapshot["snapshot-id"] = json!(7);
    newest["snapshots"].as_array_mut().unwrap().push(snapshot);
    newest["current-snapshot-id"] = json!(7);
    newest["refs"]["main"]["snapshot-id"] = json!(7);
    std::fs::write(path.with_file_name("v2.metadata.json"), newest.to_string()).unwrap();
    let report = to_iceberg(&table, None, Mode::Incremental).await.unwrap();
    assert!(is_foreign(&report.plan) && report.outcome == Outcome::Committed, "{report:?}");
    let committed = &report.steps[0].committed;
    assert_eq!((committed.added, committed.removed, committed.redeleted), (0, 0, 0));
    let again = to_iceberg(&table, None, Mode::Incremental).await.unwrap();
    assert_eq!(again.plan, Plan::NoChange);
}

#[tokio::test]
async fn files_that_an_iceberg_target_lists_twice_are_listed_once_again() {
    let folder = tempfile::tempdir().unwrap();
    for listed in ["manifests", "manifest"] {
        let table = folder.path().join(listed);
        copy(&case("delta", "table-with-dv-small").root, &table);
        let report = to_iceberg(&table, None, Mode::Incremental).await.unwrap();
        let doubled = judge("doubled.py", &[&report.metadata_path.unwrap(), listed]);
        assert_eq!(doubled["rows"], 16, "{listed}");
        let report = to_iceberg(&table, None, Mode::Full).await.unwrap();
        let committed = &report.steps[0].committed;
        assert_eq!((committed.added, committed.removed), (1, 2), "{listed}");
        let asked = [("delta", table.to_str().unwrap().to_owned()), ("iceberg", report.metadata_path.clone().unwrap())];
        let seen = see(folder.path(), &asked);
        assert_eq!(seen[0]["delta-rs"].as_array().map(Vec::len), Some(8), "{}", seen[0]["error"]);
        for reader in ["pyiceberg", "duckdb"] {
            assert_eq!(seen[1][reader], seen[0]["delta-rs"], "{listed} {reader} {}", seen[1]["error"]);
        }
        assert_eq!(seen[1]["problems"], json!([]), "{listed}");
        let again = to_iceberg(&table, None, Mode::Full).await.unwrap();
        assert_eq!(again.metadata_path, report.metadata_path, "{listed}");
        // A file that the source has lost goes as often as it is listed.
        let doubled = judge("doubled.py", &[&report.metadata_path.unwrap(), listed]);
        assert_ne!(doubled["rows"], 8, "{listed}");
        let source: Value = std::fs::read_to_string(table.join("_delta_log/00000000000000000001.json"))
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .find(|line| line["add"].is_object())
            .unwrap();
        let (path, vector) = (&source["add"]["path"], &source["add"]["deletionVector"]);
        let gone = json!({"remove": {"path": path, "deletionVector": vector, "dataChange": true}});
        std::fs::write(table.join("_delta_log/00000000000000000002.json"), gone.to_string()).unwrap();
        let report = to_iceberg(&table, None, Mode::Full).await.unwrap();
        assert_eq!(report.steps[0].committed.removed, 2, "{listed}");
        let seen = see(folder.path(), &[("iceberg", report.metadata_path.unwrap())]);
        assert_eq!(seen[0]["pyiceberg"], json!([]), "{listed} {}", seen[0]["error"]);
    }
}

/// Where nobody else is known to have written, commits are replayed; what they touch is listed once afterwards.
#[tokio::test]
async fn a_commit_about_a_file_that_is_listed_twice_lists_it_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut asked = Vec::new();
    for listed in ["manifests", "manifest"] {
        let table = folder.path().join(listed);
        copy(&case("delta", "table-with-dv-small").root, &table);
        let second = table.join("_delta_log/00000000000000000001.json");
        let commit = std::fs::read(&second).unwrap();
        std::fs::remove_file(&second).unwrap();
        let report = to_iceberg(&table, None, Mode::Incremental).await.unwrap();
        let doubled = judge("doubled.py", &[&report.metadata_path.unwrap(), listed, "hoglake.snapshot"]);
        assert_eq!(doubled["rows"], 20, "{listed}");
        std::fs::write(&second, commit).unwrap();
        let report = to_iceberg(&table, None, Mode::Incremental).await.unwrap();
        assert_eq!(report.plan, Plan::Incremental, "{listed}");
        asked.push(("delta", table.to_str().unwrap().to_owned()));
        asked.push(("iceberg", report.metadata_path.unwrap()));
    }
    for seen in see(folder.path(), &asked).chunks(2) {
        assert_eq!(seen[0]["delta-rs"].as_array().map(Vec::len), Some(8), "{}", seen[0]["error"]);
        assert_eq!(seen[1]["pyiceberg"], seen[0]["delta-rs"], "{}", seen[1]["error"]);
        assert_eq!(seen[1]["problems"], json!([]));
    }
}

#[tokio::test]
async fn deletes_apply_to_files_that_the_target_spells_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let (table, versions) = table(folder.path());
    to_delta(&table, metadata(&versions[0]), Mode::Incremental, HOW).await.unwrap();
    // As if another converter had made the Iceberg table: its location has a scheme, its paths have none.
    let mark = DeltaSource::new(crate::watched::plain(&table)).head().await.unwrap().watermark();
    let first = table.join("metadata/v1.metadata.json");
    let mut made: Value = serde_json::from_slice(&std::fs::read(&first).unwrap()).unwrap();
    made["location"] = json!(format!("file://{}", table.display()));
    for (key, value) in to_properties(&mark) {
        made["properties"][key] = json!(value);
    }
    to_delta(&table, metadata(&versions[1]), Mode::Incremental, HOW).await.unwrap();
    for entry in std::fs::read_dir(table.join("metadata")).unwrap().map(|e| e.unwrap().path()) {
        if entry.to_str().unwrap().ends_with(".metadata.json") {
            std::fs::remove_file(entry).unwrap();
        }
    }
    std::fs::write(&first, made.to_string()).unwrap();
    let report = to_iceberg(&table, None, Mode::Incremental).await.unwrap();
    assert_eq!(report.plan, Plan::Incremental);
    let asked = [("iceberg", report.metadata_path.unwrap())];
    let (seen, rows) = (&see(folder.path(), &asked)[0], &versions[1]["rows"]);
    assert_eq!((&seen["pyiceberg"], &seen["duckdb"]), (rows, rows), "{}", seen["error"]);
    assert_eq!(seen["problems"], json!([]));
}

#[tokio::test]
async fn deleted_rows_stay_deleted_when_the_partitioning_changes() {
    let folder = tempfile::tempdir().unwrap();
    let mut asked = Vec::new();
    for mode in [Mode::Incremental, Mode::Full] {
        let table = folder.path().join(format!("{mode:?}"));
        copy(&case("delta", "table-with-dv-small").root, &table);
        to_iceberg(&table, None, Mode::Incremental).await.unwrap();
        // The same file, with the same vector, in a partition.
        let log = table.join("_delta_log");
        let mut lines = Vec::new();
        for commit in [0, 1] {
            let text = std::fs::read_to_string(log.join(format!("{commit:020}.json"))).unwrap();
            for mut action in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
                if let Some(metadata) = action.get_mut("metaData") {
                    let mut schema: Value = serde_json::from_str(metadata["schemaString"].as_str().unwrap()).unwrap();
                    let column = json!({"name": "p", "type": "string", "nullable": true, "metadata": {}});
                    schema["fields"].as_array_mut().unwrap().push(column);
                    metadata["schemaString"] = json!(schema.to_string());
                    metadata["partitionColumns"] = json!(["p"]);
                    lines.push(action.to_string());
                } else if action["add"]["deletionVector"].is_object() {
                    action["add"]["partitionValues"] = json!({"p": "x"});
                    lines.push(action.to_string());
                }
            }
        }
        assert_eq!(lines.len(), 2);
        std::fs::write(log.join(format!("{:020}.json", 2)), lines.join("\n")).unwrap();
        let report = to_iceberg(&table, None, mode).await.unwrap();
        assert_eq!(report.plan == Plan::Incremental, mode == Mode::Incremental);
        asked.push(("delta", table.to_str().unwrap().to_owned()));
        asked.push(("iceberg", report.metadata_path.unwrap()));
    }
    for (pair, seen) in asked.chunks(2).zip(see(folder.path(), &asked).chunks(2)) {
        assert_eq!(seen[0]["delta-rs"].as_array().map(Vec::len), Some(8), "{}", seen[0]["error"]);
        for reader in ["pyiceberg", "duckdb"] {
            assert_eq!(seen[1][reader], seen[0]["delta-rs"], "{reader} {} {}", pair[1].1, seen[1]["error"]);
        }
        assert_eq!(seen[1]["problems"], json!([]), "{}", pair[1].1);
    }
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_has_been_made() {
    let folder = tempfile::tempdir().unwrap();
    let mut asked = vec![("delta", case("delta", "table-with-dv-small").root.to_str().unwrap().to_owned())];
    // The answer is that somebody was first, or that the store failed.
    for lost in [2, 1] {
        let back = folder.path().join(format!("back-{lost}"));
        let table = back.join("table");
        copy(&case("delta", "table-with-dv-small").root, &table);
        let store = Watched::new(usize::MAX);
        store.lose_answers(lost);
        let mut iceberg = IcebergTarget::new(watched(&store, &table), IcebergTargetOptions::default());
        let report = sync(&DeltaSource::new(plain(&table)), &mut iceberg, &Options::default()).await.unwrap();
        assert_eq!(report.steps[0].committed.version, "1");
        asked.push(("iceberg", report.metadata_path.unwrap()));
        store.lose_answers(lost);
        let source = IcebergSource::new(plain(&table), IcebergOptions::default());
        let mut delta = DeltaTarget::new(watched(&store, &back), DeltaTargetOptions::default());
        let report = sync(&source, &mut delta, &Options::default()).await.unwrap();
        assert_eq!((report.steps.len(), report.steps[0].committed.version.as_str()), (1, "0"));
        asked.push(("delta", back.to_str().unwrap().to_owned()));
    }
    let seen = see(folder.path(), &asked);
    assert_eq!(seen[0]["delta-rs"].as_array().map(Vec::len), Some(8));
    for ((format, path), found) in asked.iter().zip(&seen) {
        let reader = if *format == "delta" { "delta-rs" } else { "pyiceberg" };
        for reader in [reader, "duckdb"] {
            assert_eq!(found[reader], seen[0]["delta-rs"], "{reader} {path} {}", found["error"]);
        }
    }
}
