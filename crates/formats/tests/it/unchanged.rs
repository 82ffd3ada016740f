//! Full syncs of what the target has already: no commit, and nothing written.

use crate::corpus::live;
use crate::origin::Origin;
use crate::pairs::{source, target};
use crate::to_iceberg::copy;
use crate::watched::plain;
use hoglake_formats::sync::{Mode, Options, Outcome, Plan, Report, WATERMARK_KEY, XTABLE_KEY, sync};
use hoglake_model::table::TableFormat::{self, Delta, Hudi, Iceberg};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const PAIRS: [(TableFormat, TableFormat); 6] =
    [(Delta, Iceberg), (Delta, Hudi), (Iceberg, Delta), (Iceberg, Hudi), (Hudi, Delta), (Hudi, Iceberg)];

async fn run((from, to): (TableFormat, TableFormat), table: &Path, mode: Mode) -> Report {
    let options = Options { mode, ..Options::default() };
    sync(source(from, plain(table)).as_ref(), target(to, plain(table)).as_mut(), &options).await.unwrap()
}

/// All objects below a folder, and what they hold.
fn objects(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
        if entry.is_dir() {
            found.extend(objects(&entry));
        } else {
            found.insert(entry.clone(), std::fs::read(&entry).unwrap());
        }
    }
    found
}

/// Asks for a full sync of a target that shows the source's head, which `shown` reported.
async fn finds_nothing(pair: (TableFormat, TableFormat), table: &Path, shown: &Report) {
    let before = objects(table);
    let report = run(pair, table, Mode::Full).await;
    let place = format!("{} to {}", pair.0, pair.1);
    assert_eq!((&report.plan, report.outcome, report.steps.len()), (&Plan::NoChange, Outcome::NoChange, 0), "{place}");
    assert_eq!((&report.metadata_path, &report.version), (&shown.metadata_path, &shown.version), "{place}");
    let after = objects(table);
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>(), "{place}");
    assert!(after == before, "{place}: an object was written anew");
}

/// A table whose files came in two commits, the second one with row-level deletes where both formats have them.
async fn followed(folder: &Path, pair: (TableFormat, TableFormat)) -> PathBuf {
    let mut origin = Origin::new(&folder.join("origin"));
    let table = folder.join("table");
    let (first, second) = (folder.join("first"), folder.join("second"));
    let bring = async |origin: &Origin| {
        origin.bring((pair.0 != Delta).then(|| target(pair.0, plain(&origin.table)))).await;
    };
    let deletes = pair.0 != Hudi && pair.1 != Hudi;
    origin.step(&["a"]);
    bring(&origin).await;
    origin.save(&first, pair.0);
    origin.step(&["b", "c"]);
    origin.step(if deletes { &["b/1,3", "d"] } else { &["d"] });
    bring(&origin).await;
    origin.save(&second, pair.0);

    copy(&first, &table);
    let created = run(pair, &table, Mode::Full).await;
    assert!(created.outcome == Outcome::Committed && matches!(created.plan, Plan::Full { .. }), "{created:?}");
    finds_nothing(pair, &table, &created).await;
    copy(&second, &table);
    let report = run(pair, &table, Mode::Incremental).await;
    // A Delta target has a checkpoint now, from which its definition is read.
    assert!(report.plan == Plan::Incremental && report.steps.len() == 2, "{report:?}");
    finds_nothing(pair, &table, &report).await;
    table
}

#[tokio::test]
async fn a_full_sync_without_a_difference_commits_nothing() {
    for pair in PAIRS {
        let folder = tempfile::tempdir().unwrap();
        followed(folder.path(), pair).await;
    }
}

/// The newest object of a folder whose name ends so.
fn newest(folder: &Path, end: &str) -> PathBuf {
    let names = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    names.filter(|p| p.to_str().unwrap().ends_with(end)).max().unwrap()
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Lets the target show less than its watermark, which stays, says.
fn lose_files(format: TableFormat, table: &Path) {
    match format {
        Iceberg => {
            let mut head = read(&newest(&table.join("metadata"), ".metadata.json"));
            let first = head["snapshots"][0]["snapshot-id"].clone();
            head["current-snapshot-id"] = first.clone();
            head["refs"]["main"]["snapshot-id"] = first.clone();
            head["properties"]["hoglake.snapshot"] = first.to_string().into();
            std::fs::write(table.join("metadata/v4.metadata.json"), head.to_string()).unwrap();
        }
        Delta => {
            let gone = json!({"remove": {"path": "k=y/d.parquet", "deletionTimestamp": 1, "dataChange": true}});
            std::fs::write(table.join("_delta_log/00000000000000000003.json"), gone.to_string()).unwrap();
        }
        _ => {
            let extra = read(&newest(&table.join(".hoodie"), ".replacecommit"))["extraMetadata"].clone();
            let commit = json!({"partitionToWriteStats": {}, "partitionToReplaceFileIds": {"k=y": ["d.parquet"]},
                                "compacted": false, "extraMetadata": extra, "operationType": "DELETE_PARTITION"});
            for (end, content) in [(".requested", ""), (".inflight", ""), ("", &*commit.to_string())] {
                let name = format!(".hoodie/20990101000000000.replacecommit{end}");
                std::fs::write(table.join(name), content).unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_full_sync_of_a_target_that_has_lost_files_commits() {
    for pair in [(Delta, Iceberg), (Delta, Hudi), (Iceberg, Delta)] {
        let folder = tempfile::tempdir().unwrap();
        let table = followed(folder.path(), pair).await;
        let (_, files) = live(source(pair.1, plain(&table)).as_ref()).await.unwrap();
        lose_files(pair.1, &table);
        let (_, left) = live(source(pair.1, plain(&table)).as_ref()).await.unwrap();
        assert!(left.len() < files.len() && files.len() == 4, "{left:?}");
        let report = run(pair, &table, Mode::Full).await;
        assert!(matches!(report.plan, Plan::Full { .. }) && report.outcome == Outcome::Committed, "{report:?}");
        assert_eq!(report.steps[0].committed.added, (files.len() - left.len()) as u64, "{report:?}");
        let (_, again) = live(source(pair.1, plain(&table)).as_ref()).await.unwrap();
        assert!(again.keys().eq(files.keys()), "{again:?}");
        finds_nothing(pair, &table, &report).await;
    }
}

/// Takes the watermark away from where the target keeps it.
fn lose_watermark(format: TableFormat, table: &Path) {
    let without = |map: &mut Value| {
        for key in [WATERMARK_KEY, XTABLE_KEY] {
            map.as_object_mut().unwrap().remove(key);
        }
    };
    match format {
        Iceberg => {
            let path = newest(&table.join("metadata"), ".metadata.json");
            let mut head = read(&path);
            without(&mut head["properties"]);
            std::fs::write(path, head.to_string()).unwrap();
        }
        Delta => {
            let path = newest(&table.join("_delta_log"), "2.json");
            let text = std::fs::read_to_string(&path).unwrap();
            let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            for line in &mut lines {
                if line["commitInfo"].is_object() {
                    without(&mut line["commitInfo"]["tags"]);
                }
                if line["metaData"].is_object() {
                    without(&mut line["metaData"]["configuration"]);
                }
            }
            let text: Vec<_> = lines.iter().map(Value::to_string).collect();
            std::fs::write(path, text.join("\n")).unwrap();
            // The checkpoint holds it, too.
            std::fs::remove_file(newest(&table.join("_delta_log"), ".checkpoint.parquet")).unwrap();
            std::fs::remove_file(table.join("_delta_log/_last_checkpoint")).unwrap();
        }
        _ => {
            let path = newest(&table.join(".hoodie"), ".replacecommit");
            let mut head = read(&path);
            without(&mut head["extraMetadata"]);
            std::fs::write(path, head.to_string()).unwrap();
        }
    }
}

#[tokio::test]
async fn a_full_sync_that_only_writes_the_watermark_is_a_commit() {
    for pair in [(Delta, Iceberg), (Delta, Hudi), (Iceberg, Delta)] {
        let folder = tempfile::tempdir().unwrap();
        let table = followed(folder.path(), pair).await;
        lose_watermark(pair.1, &table);
        let report = run(pair, &table, Mode::Full).await;
        assert!(matches!(report.plan, Plan::Full { .. }) && report.outcome == Outcome::Committed, "{report:?}");
        let committed = &report.steps[0].committed;
        assert_eq!((committed.added, committed.removed, committed.redeleted), (0, 0, 0), "{report:?}");
        assert_eq!(run(pair, &table, Mode::Incremental).await.plan, Plan::NoChange);
        finds_nothing(pair, &table, &report).await;
    }
}
