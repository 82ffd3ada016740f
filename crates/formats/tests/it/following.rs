//! Targets that follow a source commit by commit: incrementally, after lost history, with deletes and checkpoints.

use crate::judges::see;
use crate::to_iceberg::copy;
use crate::watched::{Watched, plain, watched};
use hoglake_formats::deletion_vector::DeletionVector;
use hoglake_formats::delta::{DeltaSource, DeltaTarget, DeltaTargetOptions};
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource, IcebergTarget, IcebergTargetOptions};
use hoglake_formats::sync::{Mode, Options, Plan, Report, Result, Source, TableRoot, Target, sync};
use std::path::Path;

pub async fn to_iceberg(root: TableRoot, mode: Mode) -> Result<Report> {
    let source = DeltaSource::new(root.clone());
    let mut target = IcebergTarget::new(root, IcebergTargetOptions::default());
    sync(&source, &mut target, &Options { mode, ..Options::default() }).await
}

/// A Delta log in the making; its data files are named, not there.
pub struct Log<'a> {
    pub table: &'a Path,
    pub version: u64,
}

impl<'a> Log<'a> {
    pub fn new(table: &'a Path) -> Self {
        std::fs::create_dir_all(table.join("_delta_log")).unwrap();
        let mut log = Self { table, version: 0 };
        let schema = r#"{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}}]}"#;
        log.commit(&[
            r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}"#.to_owned(),
            format!(r#"{{"metaData":{{"id":"5f0a3b1e-0000-4000-8000-000000000001","format":{{"provider":"parquet","options":{{}}}},"schemaString":"{schema}","partitionColumns":[],"configuration":{{}}}}}}"#),
        ]);
        log
    }

    pub fn commit(&mut self, lines: &[String]) {
        let path = self.table.join(format!("_delta_log/{:020}.json", self.version));
        std::fs::write(path, lines.join("\n")).unwrap();
        self.version += 1;
    }

    pub fn add(name: &str) -> String {
        format!(
            r#"{{"add":{{"path":"{name}.parquet","partitionValues":{{}},"size":10,"modificationTime":1,"dataChange":true,"stats":"{{\"numRecords\":5,\"minValues\":{{\"id\":1}},\"maxValues\":{{\"id\":9}},\"nullCount\":{{\"id\":0}}}}"}}}}"#
        )
    }

    pub fn remove(name: &str) -> String {
        format!(r#"{{"remove":{{"path":"{name}.parquet","deletionTimestamp":1,"dataChange":true}}}}"#)
    }
}

/// The live files that the Iceberg table has, by name.
pub async fn live(table: &Path) -> Vec<String> {
    let source = IcebergSource::new(plain(table), IcebergOptions::default());
    let (_, files) = crate::corpus::live(&source).await.unwrap();
    files.keys().map(|path| path.as_str().trim_end_matches(".parquet").to_owned()).collect()
}

#[tokio::test]
async fn every_commit_of_the_source_becomes_one_of_the_target() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let mut log = Log::new(table);
    log.commit(&[Log::add("a"), Log::add("b")]);
    let first = to_iceberg(plain(table), Mode::Incremental).await.unwrap();
    assert!(matches!(first.plan, Plan::Full { .. }));
    log.commit(&[Log::add("c"), Log::remove("a")]);
    log.commit(&[Log::add("d")]);
    log.commit(&[Log::remove("d"), Log::remove("b")]);
    let second = to_iceberg(plain(table), Mode::Incremental).await.unwrap();
    assert_eq!(second.plan, Plan::Incremental);
    let counts: Vec<_> = second.steps.iter().map(|s| (s.committed.added, s.committed.removed)).collect();
    assert_eq!(counts, [(1, 1), (1, 0), (0, 2)]);
    assert_eq!(live(table).await, ["c"]);
    // A full comparison of the same version finds nothing to do and commits nothing.
    let third = to_iceberg(plain(table), Mode::Full).await.unwrap();
    assert_eq!((third.plan, third.metadata_path), (Plan::NoChange, second.metadata_path));
    assert_eq!(to_iceberg(plain(table), Mode::Incremental).await.unwrap().plan, Plan::NoChange);
}

#[tokio::test]
async fn what_a_kept_snapshot_uses_outlives_the_expired_ones() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let mut log = Log::new(table);
    log.commit(&[Log::add("a")]);
    let options = || IcebergTargetOptions { retention_ms: 0, ..IcebergTargetOptions::default() };
    let follow = async || {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        let mut target = IcebergTarget::new(plain(table), options());
        sync(&DeltaSource::new(plain(table)), &mut target, &Options::default()).await.unwrap()
    };
    let first = follow().await;
    // Somebody tags the first snapshot, which is kept from then on.
    let path = first.metadata_path.unwrap();
    let path = path.trim_start_matches("file://");
    let mut metadata: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let id = metadata["current-snapshot-id"].clone();
    metadata["refs"]["kept"] = serde_json::json!({"snapshot-id": id, "type": "tag"});
    std::fs::write(path, metadata.to_string()).unwrap();
    for name in ["b", "c", "d"] {
        log.commit(&[Log::add(name)]);
        assert_eq!(follow().await.plan, Plan::Incremental);
    }
    assert_eq!(live(table).await, ["a", "b", "c", "d"]);
    let lists = std::fs::read_dir(table.join("metadata")).unwrap();
    let lists = lists.filter(|e| e.as_ref().unwrap().file_name().to_str().unwrap().starts_with("snap-")).count();
    assert_eq!(lists, 2, "the tagged and the current one");
}

#[tokio::test]
async fn delete_files_go_with_the_last_snapshot_that_uses_them() {
    for format_version in [2, 3] {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path();
        let mut log = Log::new(table);
        log.commit(&[
            r#"{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["deletionVectors"],"writerFeatures":["deletionVectors"]}}"#.to_owned(),
            Log::add("a"), Log::add("b"),
        ]);
        // File `name` with its first rows deleted, as a descriptor.
        let vector = |name: &str, rows: u64| {
            let framed = DeletionVector::from_positions(0..rows).encode();
            let path = table.join(format!("{name}-{rows}.bin"));
            std::fs::write(&path, [&[1], &framed[..]].concat()).unwrap();
            let (path, size) = (path.display(), framed.len() - 8);
            format!(
                r#""deletionVector":{{"storageType":"p","pathOrInlineDv":"file://{path}","offset":1,"sizeInBytes":{size},"cardinality":{rows}}}"#
            )
        };
        let with = |line: String, vector: &str| format!("{},{vector}}}}}", &line[..line.len() - 2]);
        let follow = async || {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            let options = IcebergTargetOptions { retention_ms: 0, format_version: Some(format_version) };
            let mut target = IcebergTarget::new(plain(table), options);
            sync(&DeltaSource::new(plain(table)), &mut target, &Options::default()).await.unwrap()
        };
        let delete_files = || {
            let files = std::fs::read_dir(table.join("metadata")).unwrap().map(|e| e.unwrap().file_name());
            files.filter(|name| name.to_str().unwrap().contains("-deletes.")).count()
        };
        follow().await;
        log.commit(&[Log::remove("b"), with(Log::add("b"), &vector("b", 1))]);
        follow().await;
        for rows in 1..5 {
            let gone = if rows == 1 { Log::remove("a") } else { with(Log::remove("a"), &vector("a", rows - 1)) };
            log.commit(&[gone, with(Log::add("a"), &vector("a", rows))]);
            assert_eq!(follow().await.plan, Plan::Incremental);
            assert_eq!(delete_files(), 2, "version {format_version}: those of the only snapshot");
        }
        let source = IcebergSource::new(plain(table), IcebergOptions::default());
        let (_, files) = crate::corpus::live(&source).await.unwrap();
        let mut rows = Vec::new();
        for file in files.values() {
            rows.push(source.deleted_rows(file).await.unwrap().cardinality());
        }
        assert_eq!(rows, [4, 1]);
        log.commit(&[with(Log::remove("a"), &vector("a", 4))]);
        follow().await;
        assert_eq!(delete_files(), 1, "version {format_version}: the file is gone");
    }
}

#[tokio::test]
async fn lost_history_falls_back_to_a_comparison_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let mut log = Log::new(table);
    log.commit(&[Log::add("a"), Log::add("b")]);
    to_iceberg(plain(table), Mode::Incremental).await.unwrap();
    log.commit(&[Log::add("c"), Log::remove("a")]);
    log.commit(&[Log::add("d")]);
    // A log that begins anew with the head as its first version: commits 2 and 3 cannot be replayed.
    let lines: Vec<_> = ["b", "c", "d"].map(Log::add).to_vec();
    let head = std::fs::read_to_string(table.join("_delta_log/00000000000000000000.json")).unwrap();
    std::fs::remove_dir_all(table.join("_delta_log")).unwrap();
    std::fs::create_dir_all(table.join("_delta_log")).unwrap();
    std::fs::write(table.join("_delta_log/00000000000000000000.json"), format!("{head}\n{}", lines.join("\n")))
        .unwrap();
    let report = to_iceberg(plain(table), Mode::Incremental).await.unwrap();
    let Plan::Full { reason } = &report.plan else { panic!("{report:?}") };
    assert!(reason.contains("version 1"), "{reason}");
    assert_eq!(live(table).await, ["b", "c", "d"]);
}

#[tokio::test]
async fn a_table_that_nobody_converted_is_not_replaced_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let mut log = Log::new(table);
    log.commit(&[Log::add("a")]);
    to_iceberg(plain(table), Mode::Incremental).await.unwrap();
    let metadata = table.join("metadata/v1.metadata.json");
    let own = std::fs::read_to_string(&metadata).unwrap();
    let foreign = own.replace("XTABLE_METADATA", "note").replace("hoglake.watermark", "note2");
    std::fs::write(&metadata, &foreign).unwrap();
    let refused = to_iceberg(plain(table), Mode::Incremental).await.unwrap_err();
    assert!(refused.to_string().contains("no conversion has written"), "{refused}");
    assert_eq!(std::fs::read_to_string(&metadata).unwrap(), foreign);
    assert!(!table.join("metadata/v2.metadata.json").exists());
    assert!(matches!(to_iceberg(plain(table), Mode::Full).await.unwrap().plan, Plan::Full { .. }));
}

#[tokio::test]
async fn requests_do_not_grow_with_the_table() {
    let mut incremental = Vec::new();
    for files in [10, 2_000] {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path();
        let mut log = Log::new(table);
        log.commit(&(0..files).map(|n| Log::add(&format!("f{n:06}"))).collect::<Vec<_>>());
        to_iceberg(plain(table), Mode::Incremental).await.unwrap();

        let store = Watched::new(usize::MAX);
        let mut target = IcebergTarget::new(watched(&store, table), IcebergTargetOptions::default());
        target.load().await.unwrap();
        assert!(store.taken() <= 3, "a target that is up to date");

        log.commit(&[Log::add("new")]);
        let report = to_iceberg(watched(&store, table), Mode::Incremental).await.unwrap();
        assert_eq!(report.steps.len(), 1);
        incremental.push(store.taken());
    }
    assert_eq!(incremental[0], incremental[1]);
    assert!(incremental[0] <= 16, "{incremental:?}");
}

#[tokio::test]
async fn there_and_back_again_the_rows_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let mut tables = Vec::new();
    for name in ["dat-nested_types", "dat-all_primitive_types", "kernel-basic-dv-with-checkpoint"] {
        let case = crate::corpus::case("delta", name);
        let table = folder.path().join(name);
        copy(&case.root, &table);
        to_iceberg(plain(&table), Mode::Incremental).await.unwrap();
        std::fs::remove_dir_all(table.join("_delta_log")).unwrap();
        let source = IcebergSource::new(plain(&table), IcebergOptions::default());
        let mut target = DeltaTarget::new(plain(&table), DeltaTargetOptions::default());
        let report = sync(&source, &mut target, &Options::default()).await.unwrap();
        assert!(report.steps[0].committed.added > 0);
        tables.push(("delta", case.root.to_str().unwrap().to_owned()));
        tables.push(("delta", table.to_str().unwrap().to_owned()));
    }
    for (pair, seen) in tables.chunks(2).zip(see(folder.path(), &tables).chunks(2)) {
        assert!(seen[0]["delta-rs"].is_array(), "{} {}", pair[0].1, seen[0]["error"]);
        for reader in ["delta-rs", "duckdb"] {
            assert_eq!(seen[0][reader], seen[1][reader], "{} {}", pair[1].1, seen[1]["error"]);
        }
        assert_eq!(seen[1]["problems"], serde_json::json!([]), "{}", pair[1].1);
    }
}

#[tokio::test]
async fn columns_with_other_names_in_the_files_are_not_taken_for_null() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    copy(&crate::corpus::case("delta", "golden-dv-with-columnmapping").root, table);
    to_iceberg(plain(table), Mode::Incremental).await.unwrap();
    std::fs::remove_dir_all(table.join("_delta_log")).unwrap();
    let source = IcebergSource::new(plain(table), IcebergOptions::default());
    let mut target = DeltaTarget::new(plain(table), DeltaTargetOptions::default());
    let refused = sync(&source, &mut target, &Options::default()).await.unwrap_err();
    assert!(refused.to_string().contains("name mapping"), "{refused}");
    assert!(!table.join("_delta_log").exists());
}

#[tokio::test]
async fn a_delta_target_follows_with_checkpoints_and_deletes() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("source");
    let mut log = Log::new(&table);
    log.commit(&[Log::add("a"), Log::add("b")]);
    to_iceberg(plain(&table), Mode::Incremental).await.unwrap();
    let copy_of = folder.path().join("target");
    let follow = async || {
        let source = IcebergSource::new(plain(&table), IcebergOptions::default());
        let mut target =
            DeltaTarget::new(plain(&copy_of), DeltaTargetOptions { checkpoint_interval: 3, ..Default::default() });
        sync(&source, &mut target, &Options::default()).await.unwrap()
    };
    assert!(matches!(follow().await.plan, Plan::Full { .. }));
    for n in 0..7 {
        log.commit(&[
            Log::add(&format!("f{n}")),
            Log::remove(if n == 0 { "a".to_owned() } else { format!("f{}", n - 1) }.as_str()),
        ]);
    }
    to_iceberg(plain(&table), Mode::Incremental).await.unwrap();
    let report = follow().await;
    assert_eq!((report.plan, report.steps.len()), (Plan::Incremental, 7));
    assert!(copy_of.join("_delta_log/00000000000000000006.checkpoint.parquet").exists());
    assert_eq!(follow().await.plan, Plan::NoChange);
    let (_, files) = crate::corpus::live(&DeltaSource::new(plain(&copy_of))).await.unwrap();
    let names: Vec<_> = files.keys().map(|p| p.as_str().rsplit('/').next().unwrap().to_owned()).collect();
    assert_eq!(names, ["b.parquet", "f6.parquet"]);
}

#[tokio::test]
async fn a_commit_larger_than_memory_allows_is_staged() {
    const FILES: usize = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let (table, target) = (folder.path().join("source"), folder.path().join("target"));
    let mut log = Log::new(&table);
    let long = "x".repeat(900);
    log.commit(&(0..FILES).map(|n| Log::add(&format!("{n:05}-{long}"))).collect::<Vec<_>>());
    to_iceberg(plain(&table), Mode::Incremental).await.unwrap();
    let convert = async |root: TableRoot| {
        let source = IcebergSource::new(plain(&table), IcebergOptions::default());
        let mut delta = DeltaTarget::new(root, DeltaTargetOptions::default());
        sync(&source, &mut delta, &Options::default()).await
    };
    // A machine that stops in between leaves no commit, and what it leaves is in nobody's way.
    for writes in 0..2 {
        assert!(convert(watched(&Watched::new(writes), &target)).await.is_err());
        assert!(!target.join("_delta_log/00000000000000000000.json").exists());
    }
    // One that stops when the commit has its name has committed.
    let late = folder.path().join("late");
    let committed = convert(watched(&Watched::new(2), &late)).await.unwrap();
    assert_eq!(committed.steps.len(), 1);
    assert!(late.join("_delta_log/00000000000000000000.json").exists());
    convert(plain(&target)).await.unwrap();
    assert!(std::fs::metadata(target.join("_delta_log/00000000000000000000.json")).unwrap().len() > 16 << 20);
    let left = std::fs::read_dir(target.join("_delta_log")).unwrap().count();
    let (_, files) = crate::corpus::live(&DeltaSource::new(plain(&target))).await.unwrap();
    assert_eq!(files.len(), FILES);
    // The watermark stands at the beginning of the commit.
    let store = Watched::new(usize::MAX);
    assert_eq!(convert(watched(&store, &target)).await.unwrap().plan, Plan::NoChange);
    assert!(store.taken() <= 3);
    assert_eq!(std::fs::read_dir(target.join("_delta_log")).unwrap().count(), left);
}

#[tokio::test]
async fn a_staged_commit_that_fails_takes_its_parts_back() {
    let folder = tempfile::tempdir().unwrap();
    let (table, target) = (folder.path().join("source"), folder.path().join("target"));
    copy(&crate::corpus::case("delta", "table-with-dv-small").root, &table);
    let mut log = Log { table: &table, version: 2 };
    let long = "x".repeat(900);
    log.commit(&(0..20_000).map(|n| Log::add(&format!("{n:05}-{long}"))).collect::<Vec<_>>());
    // The upload begins; the deletion vectors, which come before the commit, find the machine stopped.
    let store = Watched::new(1);
    let mut delta = DeltaTarget::new(watched(&store, &target), DeltaTargetOptions::default());
    let error = sync(&DeltaSource::new(plain(&table)), &mut delta, &Options::default()).await.unwrap_err();
    assert!(error.to_string().contains("deletion_vector_"), "{error}");
    assert_eq!(store.open_uploads(), 0);
}
