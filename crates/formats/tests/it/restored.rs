//! Sources that were put back from a backup and have gone on otherwise since.

use crate::corpus;
use crate::following::Log;
use crate::hudi_target::{directory, place, target};
use crate::to_iceberg::copy;
use crate::watched::{Watched, plain, watched};
use hoglake_formats::delta::{DeltaSource, DeltaTarget, DeltaTargetOptions};
use hoglake_formats::hudi::{HudiOptions, HudiSource};
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource};
use hoglake_formats::sync::{Mode, Options, Plan, Report, Source, WATERMARK_KEY, XTABLE_KEY, sync};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

async fn to_iceberg(table: &Path) -> Report {
    crate::following::to_iceberg(plain(table), Mode::Incremental).await.unwrap()
}

fn reason(report: &Report) -> &str {
    let Plan::Full { reason } = &report.plan else { panic!("{report:?}") };
    reason
}

/// What is said of a Delta source's commit that has become another.
const REPLACED: &str = "commit 2 of the source is not the one that the target shows";

#[tokio::test]
async fn a_delta_history_that_became_another_is_not_followed() {
    // As many commits as before, one more, and many more.
    for more in [0, 1, 20] {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path();
        let mut log = Log::new(table);
        log.commit(&[Log::add("a"), Log::add("b")]);
        to_iceberg(table).await;
        log.commit(&[Log::add("lost"), Log::remove("a")]);
        assert_eq!(to_iceberg(table).await.plan, Plan::Incremental);
        // The backup has two commits; the table goes on from there.
        log.version = 2;
        log.commit(&[Log::add("other")]);
        for n in 0..more {
            log.commit(&[Log::add(&format!("more-{n:02}"))]);
        }
        let store = Watched::new(usize::MAX);
        let report = crate::following::to_iceberg(watched(&store, table), Mode::Incremental).await.unwrap();
        assert!(reason(&report).contains(REPLACED), "{report:?}");
        let mut names = vec!["a".to_owned(), "b".to_owned()];
        names.extend((0..more).map(|n| format!("more-{n:02}")));
        names.push("other".to_owned());
        assert_eq!(crate::following::live(table).await, names);
        assert_eq!(to_iceberg(table).await.plan, Plan::NoChange);
        log.commit(&[Log::remove("other")]);
        assert_eq!(to_iceberg(table).await.plan, Plan::Incremental);
    }
}

#[tokio::test]
async fn a_delta_table_that_was_copied_is_followed_on() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let mut log = Log::new(table);
    log.commit(&[Log::add("a")]);
    to_iceberg(table).await;
    // The same commits at another time.
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    for entry in std::fs::read_dir(table.join("_delta_log")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, bytes).unwrap();
    }
    assert_eq!(to_iceberg(table).await.plan, Plan::NoChange);
    log.commit(&[Log::add("b")]);
    assert_eq!(to_iceberg(table).await.plan, Plan::Incremental);
}

/// Its metadata names the files of the first place, by whose names nothing of the second can be removed.
#[tokio::test]
async fn an_iceberg_target_that_was_copied_or_moved_is_written_anew() {
    for moved in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        let mut log = Log::new(&first);
        log.commit(&[Log::add("a"), Log::add("b")]);
        to_iceberg(&first).await;
        if moved {
            std::fs::rename(&first, &second).unwrap();
        } else {
            copy(&first, &second);
        }
        let mut log = Log { table: &second, version: 2 };
        log.commit(&[Log::remove("a"), Log::add("c")]);
        let report = to_iceberg(&second).await;
        assert!(reason(&report).contains("written at another place"), "{report:?}");
        assert_eq!(crate::following::live(&second).await, ["b", "c"]);
        let metadata = std::fs::read_to_string(second.join("metadata/v2.metadata.json")).unwrap();
        assert!(!metadata.contains(first.to_str().unwrap()), "{metadata}");
        log.commit(&[Log::remove("b")]);
        assert_eq!(to_iceberg(&second).await.plan, Plan::Incremental);
        assert_eq!(crate::following::live(&second).await, ["c"]);
        if !moved {
            assert_eq!(to_iceberg(&first).await.plan, Plan::NoChange);
            assert_eq!(crate::following::live(&first).await, ["a", "b"]);
        }
    }
}

#[tokio::test]
async fn a_commit_that_cannot_be_recognised_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let mut log = Log::new(table);
    log.commit(&[Log::add("a")]);
    to_iceberg(table).await;
    log.commit(&[Log::add("b")]);
    let first = std::fs::read_to_string(table.join("_delta_log/00000000000000000000.json")).unwrap();
    // As after the log's clean-up: a checkpoint of the head, and the commits after the watermark.
    let mut target =
        DeltaTarget::new(plain(table), DeltaTargetOptions { checkpoint_interval: 1, ..Default::default() });
    let source = IcebergSource::new(plain(table), IcebergOptions::default());
    sync(&source, &mut target, &Options { mode: Mode::Full, ..Options::default() }).await.unwrap();
    assert!(!first.is_empty() && table.join("_delta_log/00000000000000000003.checkpoint.parquet").exists());
    for version in 0..2 {
        std::fs::remove_file(table.join(format!("_delta_log/{version:020}.json"))).unwrap();
    }
    let report = to_iceberg(table).await;
    assert!(reason(&report).contains("commit 1, which the target shows, is no longer in the log"), "{report:?}");
}

/// Leaves only what XTable would have written of the watermark in the newest metadata of an Iceberg target, the time
/// shifted.
fn by_xtable(table: &Path, version: u32, shift_ms: i64) {
    let path = table.join(format!("metadata/v{version}.metadata.json"));
    let mut metadata: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let shifted = |text: &str| {
        let mut mark: Value = serde_json::from_str(text).unwrap();
        let time = chrono::DateTime::parse_from_rfc3339(mark["lastInstantSynced"].as_str().unwrap()).unwrap();
        let time = time + chrono::TimeDelta::milliseconds(shift_ms);
        mark["lastInstantSynced"] = json!(time.to_rfc3339());
        mark.to_string()
    };
    let change = |object: &mut Value| {
        let Some(object) = object.as_object_mut() else { return };
        object.remove(WATERMARK_KEY);
        if let Some(text) = object.get(XTABLE_KEY).and_then(Value::as_str).map(shifted) {
            object.insert(XTABLE_KEY.to_owned(), json!(text));
        }
    };
    change(&mut metadata["properties"]);
    for snapshot in metadata["snapshots"].as_array_mut().unwrap() {
        change(&mut snapshot["summary"]);
    }
    std::fs::write(path, metadata.to_string()).unwrap();
}

#[tokio::test]
async fn watermarks_of_xtable_are_compared_by_their_time() {
    for (shift, is_same) in [(0, true), (-3_600_000, false)] {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path();
        let mut log = Log::new(table);
        log.commit(&[Log::add("a")]);
        to_iceberg(table).await;
        by_xtable(table, 1, shift);
        let report = to_iceberg(table).await;
        if is_same {
            assert_eq!((report.plan, report.steps.len()), (Plan::NoChange, 0));
            log.commit(&[Log::add("b")]);
            assert_eq!(to_iceberg(table).await.plan, Plan::Incremental);
        } else {
            assert!(reason(&report).contains("has another time than"), "{report:?}");
        }
    }
}

#[tokio::test]
async fn an_iceberg_history_that_became_another_is_not_followed() {
    for more in [0, 3] {
        let folder = tempfile::tempdir().unwrap();
        let (source, target) = (folder.path().join("source"), folder.path().join("target"));
        let mut log = Log::new(&source);
        log.commit(&[Log::add("a"), Log::add("b")]);
        to_iceberg(&source).await;
        let backup = folder.path().join("backup");
        copy(&source, &backup);
        log.commit(&[Log::add("lost")]);
        to_iceberg(&source).await;
        let follow = async || {
            let iceberg = IcebergSource::new(plain(&source), IcebergOptions::default());
            let mut delta = DeltaTarget::new(plain(&target), DeltaTargetOptions::default());
            sync(&iceberg, &mut delta, &Options::default()).await.unwrap()
        };
        follow().await;
        std::fs::remove_dir_all(&source).unwrap();
        copy(&backup, &source);
        let mut log = Log { table: &source, version: 2 };
        log.commit(&[Log::add("other")]);
        for n in 0..more {
            log.commit(&[Log::add(&format!("other-{n}"))]);
        }
        to_iceberg(&source).await;
        let report = follow().await;
        assert!(reason(&report).contains("is no ancestor of the current one"), "{report:?}");
        let (_, files) = corpus::live(&DeltaSource::new(plain(&target))).await.unwrap();
        let names: BTreeSet<_> = files.keys().map(|p| p.as_str().rsplit('/').next().unwrap().to_owned()).collect();
        assert_eq!(names.len(), 3 + more);
        assert!(names.contains("other.parquet") && !names.contains("lost.parquet"));
        assert_eq!(follow().await.plan, Plan::NoChange);
    }
}

#[tokio::test]
async fn an_iceberg_schema_that_became_another_under_its_number_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    let mut log = Log::new(&source);
    log.commit(&[Log::add("a")]);
    to_iceberg(&source).await;
    let first = std::fs::read(source.join("metadata/v1.metadata.json")).unwrap();
    let follow = async || {
        let iceberg = IcebergSource::new(plain(&source), IcebergOptions::default());
        let mut delta = DeltaTarget::new(plain(&target), DeltaTargetOptions::default());
        sync(&iceberg, &mut delta, &Options::default()).await.unwrap()
    };
    // A column without a snapshot; then the backup, and another column.
    for column in ["lost", "other"] {
        let mut metadata: Value = serde_json::from_slice(&first).unwrap();
        let mut schema = metadata["schemas"][0].clone();
        schema["schema-id"] = json!(1);
        let field = json!({"id": 2, "name": column, "required": false, "type": "long"});
        schema["fields"].as_array_mut().unwrap().push(field);
        metadata["schemas"].as_array_mut().unwrap().push(schema);
        metadata["current-schema-id"] = json!(1);
        metadata["last-column-id"] = json!(2);
        std::fs::write(source.join("metadata/v2.metadata.json"), metadata.to_string()).unwrap();
        follow().await;
        let head = DeltaSource::new(plain(&target)).head().await.unwrap();
        assert!(head.schema.column(column).is_some(), "{column}: {:?}", head.schema);
        assert_eq!(follow().await.plan, Plan::NoChange);
    }
}

#[tokio::test]
async fn a_hudi_history_that_became_another_is_not_followed() {
    for more in [0, 2] {
        let folder = tempfile::tempdir().unwrap();
        let (table, delta) = (folder.path().join("table"), folder.path().join("delta"));
        std::fs::create_dir(&table).unwrap();
        let commit = async |name: &str| {
            place(&table, name, 1);
            sync(&directory(&table), &mut target(&table), &Options::default()).await.unwrap();
        };
        let follow = async || {
            let hudi = HudiSource::new(plain(&table), HudiOptions::default());
            let mut target = DeltaTarget::new(plain(&delta), DeltaTargetOptions::default());
            sync(&hudi, &mut target, &Options::default()).await.unwrap()
        };
        commit("a.parquet").await;
        let backup = folder.path().join("backup");
        copy(&table.join(".hoodie"), &backup);
        commit("lost.parquet").await;
        follow().await;
        assert_eq!(follow().await.plan, Plan::NoChange);
        std::fs::remove_dir_all(table.join(".hoodie")).unwrap();
        std::fs::remove_file(table.join("lost.parquet")).unwrap();
        copy(&backup, &table.join(".hoodie"));
        commit("other.parquet").await;
        for n in 0..more {
            commit(&format!("other-{n}.parquet")).await;
        }
        let report = follow().await;
        // Instants come of the files' times, so that the new history has the old one's.
        assert!(reason(&report).contains("is not the commit that the target shows"), "{report:?}");
        let (_, files) = corpus::live(&DeltaSource::new(plain(&delta))).await.unwrap();
        assert_eq!(files.len(), 2 + more);
        assert!(files.keys().all(|path| !path.as_str().contains("lost")));
        assert_eq!(follow().await.plan, Plan::NoChange);
        // The same instant, and another commit.
        let path = table.join(format!(".hoodie/{}.replacecommit", report.version.id.0));
        let mut metadata: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        metadata["extraMetadata"]["note"] = json!("another one");
        std::fs::write(&path, metadata.to_string()).unwrap();
        if more > 0 {
            commit("last.parquet").await;
        }
        let report = follow().await;
        assert!(reason(&report).contains("is not the commit that the target shows"), "{report:?}");
        assert_eq!(follow().await.plan, Plan::NoChange);
    }
}
