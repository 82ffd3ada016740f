//! Targets that lie elsewhere than the files of their source, however the source is spelled.

use crate::corpus::{case, live, root};
use crate::to_iceberg::copy;
use hoglake_formats::delta::{DeltaSource, DeltaTarget, DeltaTargetOptions};
use hoglake_formats::sync::{Mode, Options, Plan, Report, Step, TableRoot, sync};
use hoglake_model::Location;
use object_store::ObjectStoreExt;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use std::path::Path;
use std::sync::Arc;

fn spelled(prefix: &str, table: &Path) -> TableRoot {
    let location = Location::parse(&format!("{prefix}{}", table.to_str().unwrap())).unwrap();
    TableRoot::with_store(Arc::new(LocalFileSystem::new()), location)
}

async fn to_delta(prefix: &str, from: &Path, to: &Path, mode: Mode) -> Report {
    let mut target = DeltaTarget::new(root(to), DeltaTargetOptions::default());
    sync(&DeltaSource::new(spelled(prefix, from)), &mut target, &Options { mode, ..Options::default() }).await.unwrap()
}

/// The paths that a commit adds, and those that it removes with or without a vector.
fn lines(table: &Path, version: u64) -> (Vec<String>, Vec<(String, bool)>) {
    let text = std::fs::read_to_string(table.join(format!("_delta_log/{version:020}.json"))).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let path = |action: &serde_json::Value| action["path"].as_str().unwrap().to_owned();
    let added = lines.iter().filter_map(|l| l.get("add")).map(path).collect();
    let removed = lines.iter().filter_map(|l| l.get("remove"));
    (added, removed.map(|r| (path(r), r.get("deletionVector").is_some())).collect())
}

#[tokio::test]
async fn files_elsewhere_are_found_again_by_their_names() {
    for (first, later) in [("", ""), ("file://", "file://"), ("file:", "file:"), ("", "file:"), ("file:", "")] {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        copy(&case("delta", "table-with-dv-small").root, &from);
        std::fs::create_dir(&to).unwrap();
        to_delta(first, &from, &to, Mode::Incremental).await;
        let (_, files) = live(&DeltaSource::new(root(&to))).await.unwrap();
        assert!(files.len() == 1 && files.values().all(|file| file.deletes.len() == 1), "{files:?}");
        let (added, _) = lines(&to, 0);

        // Compared in full: the same already.
        let again = to_delta(later, &from, &to, Mode::Full).await;
        assert!(first != later || again.plan == Plan::NoChange, "{first} {later}: {again:?}");
        let changed = |s: &Step| s.committed.added + s.committed.removed + s.committed.redeleted;
        assert_eq!(again.steps.iter().map(changed).sum::<u64>(), 0, "{first} {later}");

        // What had deletes goes, with the vector that is part of its name.
        let head = std::fs::read_to_string(from.join("_delta_log/00000000000000000001.json")).unwrap();
        let add = head
            .lines()
            .map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap())
            .find(|l| l.get("add").is_some());
        let add = &add.unwrap()["add"];
        let gone = serde_json::json!({"remove": {"path": add["path"], "deletionTimestamp": 1, "dataChange": true,
            "deletionVector": add["deletionVector"]}});
        std::fs::write(from.join("_delta_log/00000000000000000002.json"), gone.to_string()).unwrap();
        let report = to_delta(later, &from, &to, Mode::Incremental).await;
        assert_eq!(report.plan, Plan::Incremental, "{first} {later}: {report:?}");
        let (_, files) = live(&DeltaSource::new(root(&to))).await.unwrap();
        assert!(files.is_empty(), "{first} {later}: {files:?}");
        let newest = std::fs::read_dir(to.join("_delta_log")).unwrap().count() as u64 - 1;
        let (_, removed) = lines(&to, newest);
        assert_eq!(removed, [(added[0].clone(), true)], "{first} {later}");
    }
}

#[tokio::test]
async fn a_source_that_is_called_something_else_is_compared_in_full() {
    let store = Arc::new(InMemory::new());
    let at = |text: &str| TableRoot::with_store(Arc::clone(&store) as _, Location::parse(text).unwrap());
    let put = async |version: u64, text: String| {
        let key = format!("from/_delta_log/{version:020}.json");
        store.put(&object_store::path::Path::from(key), text.into()).await.unwrap();
    };
    let schema =
        r#"{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}}]}"#;
    let add = |name: &str| {
        format!(
            r#"{{"add":{{"path":"{name}","partitionValues":{{}},"size":10,"modificationTime":1,"dataChange":true,"stats":"{{\"numRecords\":5}}"}}}}"#
        )
    };
    put(0, format!(
        "{}\n{}\n{}\n{}",
        r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}"#,
        format_args!(r#"{{"metaData":{{"id":"5f0a3b1e-0000-4000-8000-000000000001","format":{{"provider":"parquet","options":{{}}}},"schemaString":"{schema}","partitionColumns":[],"configuration":{{}}}}}}"#),
        add("a.parquet"),
        add("b.parquet"),
    )).await;
    let follow = async |from: &str| {
        let mut target = DeltaTarget::new(at("s3://b/to"), DeltaTargetOptions::default());
        sync(&DeltaSource::new(at(from)), &mut target, &Options::default()).await.unwrap()
    };
    follow("s3://b/from").await;
    put(1, r#"{"remove":{"path":"a.parquet","deletionTimestamp":1,"dataChange":true}}"#.to_owned()).await;
    let report = follow("s3a://b/from").await;
    assert!(matches!(&report.plan, Plan::Full { reason } if reason.contains("s3a://b/from")), "{report:?}");
    let (_, files) = live(&DeltaSource::new(at("s3://b/to"))).await.unwrap();
    // Under the name that the log has given it.
    assert_eq!(files.keys().map(|path| path.as_str()).collect::<Vec<_>>(), ["s3://b/from/b.parquet"]);
    put(2, r#"{"remove":{"path":"b.parquet","deletionTimestamp":1,"dataChange":true}}"#.to_owned()).await;
    assert_eq!(follow("s3a://b/from").await.plan, Plan::Incremental);
    let (_, files) = live(&DeltaSource::new(at("s3://b/to"))).await.unwrap();
    assert!(files.is_empty(), "{files:?}");
    let log = store.get(&object_store::path::Path::from("to/_delta_log/00000000000000000002.json")).await.unwrap();
    let log = String::from_utf8(log.bytes().await.unwrap().to_vec()).unwrap();
    assert!(log.contains(r#"{"remove":{"path":"s3://b/from/b.parquet""#), "{log}");
}
