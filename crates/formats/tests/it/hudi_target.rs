//! Hudi tables as a target: read back by our own source here, by Spark in `tests/spark`.

use crate::corpus;
use futures::StreamExt;
use hoglake_formats::delta::DeltaSource;
use hoglake_formats::hudi::{HudiOptions, HudiSource, HudiTarget};
use hoglake_formats::parquet_directory::{ParquetDirectoryOptions, ParquetDirectorySource};
use hoglake_formats::sync::{Error, Mode, Options, Outcome, Plan, Source, Target, sync};
use hoglake_model::table::{DataFile, FilePath};
use std::collections::BTreeMap;
use std::path::Path;

pub fn directory(path: &Path) -> ParquetDirectorySource {
    ParquetDirectorySource::new(corpus::root(path), ParquetDirectoryOptions::default())
}

pub fn target(path: &Path) -> HudiTarget {
    HudiTarget::new(corpus::root(path))
}

async fn read_back(path: &Path) -> BTreeMap<FilePath, DataFile> {
    let source = HudiSource::new(corpus::root(path), HudiOptions::default());
    corpus::live(&source).await.unwrap().1
}

/// Paths, counts and partition values: what both sides must agree on.
fn facts(files: &BTreeMap<FilePath, DataFile>) -> Vec<(String, Option<u64>, String)> {
    files.values().map(|f| (f.path.as_str().to_owned(), f.record_count, format!("{:?}", f.partition))).collect()
}

pub fn place(folder: &Path, key: &str, seconds: u64) {
    let to = folder.join(key);
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    let from = corpus::case("parquet", "rapids-partitioned-parquet");
    let file = "partKey=100/part-00000-7404bd47-cd68-43cf-b78e-5f1c5fba912d.c000.snappy.parquet";
    std::fs::copy(from.root.join(file), &to).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000 + seconds);
    std::fs::File::options().write(true).open(&to).unwrap().set_modified(time).unwrap();
}

#[tokio::test]
async fn appends_removals_and_returns_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    place(path, "k=1/a.parquet", 1);
    let mut hudi = target(path);
    let report = sync(&directory(path), &mut hudi, &Options::default()).await.unwrap();
    assert!(matches!(report.plan, Plan::Full { .. }) && report.outcome == Outcome::Committed, "{report:?}");
    assert_eq!(report.metadata_path.as_deref().map(|p| p.ends_with("/.hoodie")), Some(true));

    // The same again: nothing to do, nothing written.
    let before = std::fs::read_dir(path.join(".hoodie")).unwrap().count();
    let report = sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
    assert_eq!((report.plan, report.outcome), (Plan::NoChange, Outcome::NoChange));
    assert_eq!(std::fs::read_dir(path.join(".hoodie")).unwrap().count(), before);

    place(path, "k=1/b.parquet", 2);
    place(path, "k=2 %25/c.parquet", 3);
    let report = sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
    // The new value made the column text, so that everything was compared.
    assert!(matches!(report.plan, Plan::Full { reason } if reason.contains("types")));
    let (_, expected) = corpus::live(&directory(path)).await.unwrap();
    assert_eq!(facts(&read_back(path).await), facts(&expected));
    assert_eq!(expected.len(), 3);

    place(path, "k=x/d.parquet", 4);
    let report = sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
    assert_eq!((report.plan, report.steps[0].committed.added), (Plan::Incremental, 1));
    assert_eq!(read_back(path).await.len(), 4);

    // A file goes, and later one of the same name comes back.
    std::fs::remove_file(path.join("k=1/a.parquet")).unwrap();
    let report = sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
    assert_eq!((report.steps[0].committed.added, report.steps[0].committed.removed), (0, 1));
    assert_eq!(read_back(path).await.len(), 3);
    place(path, "k=1/a.parquet", 5);
    sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
    let (_, expected) = corpus::live(&directory(path)).await.unwrap();
    assert_eq!(facts(&read_back(path).await), facts(&expected));
    assert_eq!(expected.len(), 4);

    // And again after that.
    std::fs::remove_file(path.join("k=1/a.parquet")).unwrap();
    sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
    place(path, "k=1/a.parquet", 6);
    sync(&directory(path), &mut target(path), &Options { mode: Mode::Full, ..Options::default() }).await.unwrap();
    let (_, expected) = corpus::live(&directory(path)).await.unwrap();
    assert_eq!(facts(&read_back(path).await), facts(&expected));
}

#[tokio::test]
async fn many_commits_stay_few_instants() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for i in 0..70 {
        place(path, &format!("f{i:02}.parquet"), i);
        let report = sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
        assert_eq!(report.steps.len(), 1, "{i}");
    }
    assert_eq!(read_back(path).await.len(), 70);
    let instants = std::fs::read_dir(path.join(".hoodie")).unwrap();
    let completed =
        instants.filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().ends_with(".replacecommit")).count();
    assert!(completed <= 31, "{completed}");
    let logs = std::fs::read_dir(path.join(".hoodie/metadata/files")).unwrap().count();
    assert!(logs <= 70, "{logs}");
    // What left it was cleaned and archived.
    let names = |folder: &str| {
        let entries = std::fs::read_dir(path.join(folder)).unwrap();
        entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let clean = |end: &str| names(".hoodie").iter().filter(|name| name.ends_with(end)).count();
    assert!(clean(".clean") >= 1, "{:?}", names(".hoodie"));
    assert_eq!((clean(".clean"), clean(".clean")), (clean(".clean.requested"), clean(".clean.inflight")));
    assert_eq!(names(".hoodie/archived").len(), 4, "before the commits 31, 41, 51 and 61");
    let pointers = names(".hoodie").iter().filter(|name| name.starts_with("hoglake-after-")).count();
    assert!(pointers <= 42, "{pointers}");
}

/// Hudi itself removed a file of our table: its commit has no watermark, and hides the file until it is archived.
#[tokio::test]
async fn what_hudi_removed_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    place(path, "a.parquet", 1);
    place(path, "b.parquet", 2);
    sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
    let commit = serde_json::json!({
        "partitionToWriteStats": {}, "partitionToReplaceFileIds": {"": ["a.parquet"]}, "compacted": false,
        "extraMetadata": {}, "operationType": "DELETE_PARTITION",
    });
    for (end, content) in [(".requested", String::new()), (".inflight", String::new()), ("", commit.to_string())] {
        std::fs::write(path.join(format!(".hoodie/20260101000000000.replacecommit{end}")), content).unwrap();
    }
    assert_eq!(read_back(path).await.len(), 1);
    let full = Options { mode: Mode::Full, ..Options::default() };
    sync(&directory(path), &mut target(path), &full).await.unwrap();
    assert_eq!(read_back(path).await.len(), 2);
    assert!(!path.join(".hoodie/20260101000000000.replacecommit").exists(), "archived");
}

/// With a retention, age decides what leaves the active timeline: these commits are of 2023.
#[tokio::test]
async fn retention_decides_what_is_archived() {
    for (retention, expected) in [(0, 1..=11), (i64::MAX, 35..=35)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        for i in 0..35 {
            place(path, &format!("f{i:02}.parquet"), i);
            let mut hudi = target(path).retaining(Some(retention));
            sync(&directory(path), &mut hudi, &Options::default()).await.unwrap();
        }
        assert_eq!(read_back(path).await.len(), 35);
        let names = std::fs::read_dir(path.join(".hoodie")).unwrap().map(|e| e.unwrap().file_name());
        let commits = names.filter(|name| name.to_string_lossy().ends_with(".replacecommit")).count();
        assert!(expected.contains(&commits), "{retention}: {commits}");
    }
}

/// A clean that won but was cut off is finished by the next run: the metadata table's compaction, then the clean.
#[tokio::test]
async fn an_interrupted_clean_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    place(path, "a.parquet", 1);
    place(path, "b.parquet", 2);
    sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
    std::fs::remove_file(path.join("a.parquet")).unwrap();
    sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
    place(path, "a.parquet", 3);
    sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
    assert_eq!(read_back(path).await.len(), 2);
    let hoodie = path.join(".hoodie");
    let find = |folder: &Path, end: &str| {
        let entries = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
        let mut found: Vec<_> = entries.filter(|p| p.to_string_lossy().ends_with(end)).collect();
        found.sort();
        found
    };
    // As if it had ended right after winning: neither the clean, nor the compaction, nor what followed happened.
    let clean = find(&hoodie, ".clean").remove(0);
    let time = clean.file_stem().unwrap().to_string_lossy().into_owned();
    let compaction = find(&hoodie.join("metadata/.hoodie"), &format!("{time}001.commit")).remove(0);
    let whole = [std::fs::read(&clean).unwrap(), std::fs::read(&compaction).unwrap()];
    for later in find(&hoodie, "").into_iter().chain(find(&hoodie.join("metadata/.hoodie"), "")) {
        let name = later.file_name().unwrap().to_string_lossy().into_owned();
        let after = name.get(..17).is_some_and(|t| t.bytes().all(|b| b.is_ascii_digit()) && *t > *time);
        if after || name == format!("hoglake-after-{time}") {
            std::fs::remove_file(&later).unwrap();
        }
    }
    std::fs::remove_file(&clean).unwrap();
    std::fs::remove_file(&compaction).unwrap_or_default();
    let report = sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
    assert_eq!(report.outcome, Outcome::Committed);
    assert_eq!([std::fs::read(&clean).unwrap(), std::fs::read(&compaction).unwrap()], whole);
    assert_eq!(read_back(path).await.len(), 2);
    // Data files are not Hudi's to delete.
    assert!(path.join("a.parquet").exists() && path.join("b.parquet").exists());
}

/// Every commit of the Delta tables replayed into Hudi shows the same files as the Delta table does.
#[tokio::test]
async fn delta_histories_are_replayed() {
    let (mut converted, mut refused) = (0, Vec::new());
    for case in corpus::cases("delta").into_iter().filter(|c| c.expected["expect"] == "read") {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        let copied = std::process::Command::new("cp").arg("-r").arg(&case.root).arg(&path).status().unwrap();
        assert!(copied.success());
        let source = DeltaSource::new(corpus::root(&path));
        let mut hudi = target(&path);
        match sync(&source, &mut hudi, &Options::default()).await {
            Ok(_) => {}
            Err(Error::Unsupported(found)) => {
                assert!(!found.is_empty(), "{}", case.name);
                if case.name == "golden-type-widening" {
                    let columns: Vec<_> = found.iter().map(|f| f.place.as_str()).collect();
                    assert!(
                        columns.contains(&"long_decimal") && columns.contains(&"date_timestamp_ntz"),
                        "{columns:?}"
                    );
                    assert!(!columns.contains(&"int_long") && !columns.contains(&"float_double"), "{columns:?}");
                }
                assert!(!path.join(".hoodie/hoodie.properties").exists(), "{} was refused late", case.name);
                refused.push(case.name);
                continue;
            }
            Err(other) => panic!("{}: {other}", case.name),
        }
        let (_, expected) = corpus::live(&source).await.unwrap();
        let hudi = HudiSource::new(corpus::root(&path), HudiOptions::default());
        let (_, files) = corpus::live(&hudi).await.unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let paths = |files: &BTreeMap<FilePath, DataFile>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(paths(&files), paths(&expected), "{}", case.name);
        converted += 1;
    }
    assert!(converted >= 10, "{converted} converted, {refused:?} refused");
    assert!(refused.iter().any(|name| name == "golden-type-widening"), "{refused:?} refused");
}

/// Of two writers on one table one wins, the other changes nothing and plans again.
#[tokio::test]
async fn of_two_writers_one_wins() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    place(path, "a.parquet", 1);
    sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
    place(path, "b.parquet", 2);
    let mut slow = target(path);
    slow.load().await.unwrap();
    sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
    let source = directory(path);
    let head = source.head().await.unwrap();
    let files = source.snapshot(&head).await.unwrap().files;
    let commit = hoglake_formats::sync::Commit {
        source: &source,
        state: &head,
        operation: hoglake_model::table::Operation::Overwrite,
        files: hoglake_formats::sync::Files::All(files),
    };
    assert!(matches!(slow.commit(commit).await.unwrap_err(), Error::Lost { .. }));
    assert_eq!(read_back(path).await.len(), 2);
    place(path, "c.parquet", 3);
    let (one, two) = (directory(path), directory(path));
    let (mut first, mut second) = (target(path), target(path));
    let options = Options::default();
    let (first, second) = futures::join!(sync(&one, &mut first, &options), sync(&two, &mut second, &options));
    first.unwrap();
    second.unwrap();
    assert_eq!(read_back(path).await.len(), 3);
}

/// A commit that won but was cut off before it became visible is finished by the next one that looks.
#[tokio::test]
async fn an_interrupted_commit_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    place(path, "a.parquet", 1);
    sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
    place(path, "b.parquet", 2);
    let report = sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
    let completed = path.join(".hoodie").join(format!("{}.replacecommit", report.steps[0].committed.version));
    let whole = std::fs::read(&completed).unwrap();
    std::fs::remove_file(&completed).unwrap();
    assert_eq!(read_back(path).await.len(), 1, "as it was");
    let report = sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
    assert_eq!(report.outcome, Outcome::NoChange);
    assert_eq!(std::fs::read(&completed).unwrap(), whole);
    assert_eq!(read_back(path).await.len(), 2, "as it will be");
}

/// A writer that died before it won leaves a pending commit, and its changes in the metadata table. The next commit
/// takes it back, and commits that are archived long after are still there. One of Hudi's own stays, and holds up
/// archiving, as Hudi does it.
#[tokio::test]
async fn a_commit_that_did_not_win_is_rolled_back() {
    for (plan, left) in [("", false), ("Hudi's plan", true)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let hoodie = path.join(".hoodie");
        place(path, "a.parquet", 1);
        let report = sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
        let first = report.steps[0].committed.version.clone();
        place(path, "never.parquet", 2);
        let report = sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
        let dead = report.steps[0].committed.version.clone();
        std::fs::remove_file(hoodie.join(format!("{dead}.replacecommit"))).unwrap();
        std::fs::remove_file(hoodie.join(format!("hoglake-after-{first}"))).unwrap();
        std::fs::remove_file(path.join("never.parquet")).unwrap();
        std::fs::write(hoodie.join(format!("{dead}.replacecommit.requested")), plan).unwrap();
        assert_eq!(read_back(path).await.len(), 1);
        for i in 0..35 {
            place(path, &format!("f{i:02}.parquet"), 10 + i);
            sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
            assert_eq!(read_back(path).await.len(), usize::try_from(i).unwrap() + 2, "{plan}");
        }
        let (_, expected) = corpus::live(&directory(path)).await.unwrap();
        assert_eq!(facts(&read_back(path).await), facts(&expected), "{plan}");
        let full = Options { mode: Mode::Full, ..Options::default() };
        let report = sync(&directory(path), &mut target(path), &full).await.unwrap();
        assert_eq!(report.outcome, Outcome::NoChange, "{plan}");
        let entries = || std::fs::read_dir(&hoodie).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        assert_eq!(entries().any(|name| name.starts_with(&dead)), left, "{plan}");
        let commits = entries().filter(|name| name.ends_with(".replacecommit")).count();
        assert!(if left { commits == 35 } else { commits <= 30 }, "{plan}: {commits}");
    }
}

#[tokio::test]
async fn what_hudi_cannot_show_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    // An unpartitioned table whose files lie in folders.
    place(path, "deep/a.parquet", 1);
    let error = sync(&directory(path), &mut target(path), &Options::default()).await.unwrap_err();
    assert!(matches!(&error, Error::Unsupported(found) if found[0].detail.contains("folder itself")), "{error}");
    assert!(!path.join(".hoodie").exists());
    // Another version of Hudi owns the folder.
    std::fs::create_dir(path.join(".hoodie")).unwrap();
    std::fs::write(path.join(".hoodie/hoodie.properties"), "hoodie.table.version=9\n").unwrap();
    let error = target(path).load().await.unwrap_err();
    assert!(error.to_string().contains("other writers"), "{error}");
}

/// Reads commits of the target as a source: the history that an incremental consumer of the Hudi table sees.
#[tokio::test]
async fn the_target_is_a_source_with_history() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    place(path, "a.parquet", 1);
    sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
    let first = HudiSource::new(corpus::root(path), HudiOptions::default()).head().await.unwrap();
    place(path, "b.parquet", 2);
    sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
    std::fs::remove_file(path.join("a.parquet")).unwrap();
    sync(&directory(path), &mut target(path), &Options::default()).await.unwrap();
    let source = HudiSource::new(corpus::root(path), HudiOptions::default());
    let head = source.head().await.unwrap();
    let changes = source.changes(&first.watermark(), &head).await.unwrap();
    let hoglake_formats::sync::Changes::Replay(changes) = changes else { panic!("the history is there") };
    let changes: Vec<_> = changes.map(|c| c.unwrap().files).collect().await;
    let names = |files: &[DataFile]| files.iter().map(|f| f.path.as_str().to_owned()).collect::<Vec<_>>();
    assert_eq!(changes.len(), 2);
    assert_eq!(names(&changes[0].added), ["b.parquet"]);
    assert_eq!(changes[1].removed.iter().map(|f| f.path.as_str()).collect::<Vec<_>>(), ["a.parquet"]);
}
