//! What must hold for every pair of source and target: crashes between any two writes lose nothing, of two converters
//! every commit is made once, and requests do not grow with the table.

use crate::to_iceberg::copy;
use crate::watched::{Watched, plain, watched};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use hoglake_formats::delta::{DeltaSource, DeltaTarget, DeltaTargetOptions};
use hoglake_formats::hudi::{HudiOptions, HudiSource, HudiTarget};
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource, IcebergTarget, IcebergTargetOptions};
use hoglake_formats::sync::{Error, Options, Plan, Report, Result, Source, TableRoot, Target, sync};
use hoglake_model::table::TableFormat::{self, Delta, Hudi, Iceberg};
use parquet::arrow::ArrowWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PAIRS: [(TableFormat, TableFormat); 6] =
    [(Delta, Iceberg), (Delta, Hudi), (Iceberg, Delta), (Iceberg, Hudi), (Hudi, Delta), (Hudi, Iceberg)];

fn source(format: TableFormat, root: TableRoot) -> Box<dyn Source> {
    match format {
        Delta => Box::new(DeltaSource::new(root)),
        // The tables here are copied to where they are read.
        Iceberg => Box::new(IcebergSource::new(root, IcebergOptions { relocated: true, ..IcebergOptions::default() })),
        _ => Box::new(HudiSource::new(root, HudiOptions::default())),
    }
}

fn target(format: TableFormat, root: TableRoot) -> Box<dyn Target> {
    match format {
        Delta => Box::new(DeltaTarget::new(root, DeltaTargetOptions { checkpoint_interval: 2, ..Default::default() })),
        Iceberg => Box::new(IcebergTarget::new(root, IcebergTargetOptions::default())),
        _ => Box::new(HudiTarget::new(root)),
    }
}

/// The live files of a table by name, with what is said of them; nothing when there is no table yet.
async fn live(format: TableFormat, table: &Path) -> Vec<(String, Option<u64>)> {
    let source = source(format, plain(table));
    match crate::corpus::live(source.as_ref()).await {
        Ok((_, files)) => {
            files.values().map(|f| (f.path.as_str().trim_end_matches(".parquet").to_owned(), f.record_count)).collect()
        }
        Err(Error::NotATable { .. }) => Vec::new(),
        Err(other) => panic!("{format}: {other}"),
    }
}

fn names(files: &[(String, Option<u64>)]) -> String {
    files.iter().map(|(name, _)| name.as_str()).collect()
}

/// A Delta table that is written by hand, with real files of five rows.
struct Origin {
    table: PathBuf,
    version: u64,
}

impl Origin {
    fn new(table: &Path) -> Self {
        std::fs::create_dir_all(table.join("_delta_log")).unwrap();
        let mut origin = Self { table: table.to_owned(), version: 0 };
        let schema = r#"{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}}]}"#;
        origin.commit(&[
            r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}"#.to_owned(),
            format!(r#"{{"metaData":{{"id":"5f0a3b1e-0000-4000-8000-000000000001","format":{{"provider":"parquet","options":{{}}}},"schemaString":"{schema}","partitionColumns":[],"configuration":{{}}}}}}"#),
        ]);
        origin
    }

    fn commit(&mut self, lines: &[String]) {
        let path = self.table.join(format!("_delta_log/{:020}.json", self.version));
        std::fs::write(path, lines.join("\n")).unwrap();
        self.version += 1;
    }

    /// Names with a minus before them are removed.
    fn step(&mut self, names: &[&str]) {
        let line = |name: &&str| match name.strip_prefix('-') {
            Some(name) => {
                format!(r#"{{"remove":{{"path":"{name}.parquet","deletionTimestamp":1,"dataChange":true}}}}"#)
            }
            None => self.add(name),
        };
        let lines: Vec<_> = names.iter().map(line).collect();
        self.commit(&lines);
    }

    fn add(&self, name: &str) -> String {
        let file = self.table.join(format!("{name}.parquet"));
        if !file.exists() {
            let ids = Arc::new(Int64Array::from_iter_values(1..=5)) as ArrayRef;
            let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
            let mut bytes = Vec::new();
            let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
            writer.write(&batch).unwrap();
            writer.close().unwrap();
            std::fs::write(&file, bytes).unwrap();
        }
        let size = std::fs::metadata(&file).unwrap().len();
        format!(
            r#"{{"add":{{"path":"{name}.parquet","partitionValues":{{}},"size":{size},"modificationTime":1,"dataChange":true,"stats":"{{\"numRecords\":5,\"minValues\":{{\"id\":1}},\"maxValues\":{{\"id\":5}},\"nullCount\":{{\"id\":0}}}}"}}}}"#
        )
    }

    /// Brings the table as it is now into another format, one commit for each of its own.
    async fn as_format(&self, format: TableFormat) {
        if format != Delta {
            let source = DeltaSource::new(plain(&self.table));
            let mut target = target(format, plain(&self.table));
            sync(&source, target.as_mut(), &Options::default()).await.unwrap();
        }
    }

    /// The table in one format alone, as it is now.
    fn save(&self, to: &Path, format: TableFormat) {
        copy(&self.table, to);
        if format != Delta {
            std::fs::remove_dir_all(to.join("_delta_log")).unwrap();
        }
    }
}

/// What the table shows after each of its commits.
const HISTORY: [&str; 4] = ["ab", "bc", "bcd", "ce"];

/// A table of `format` as it was early in its history, and as it is later.
async fn early_and_late(folder: &Path, format: TableFormat) -> (PathBuf, PathBuf) {
    let mut origin = Origin::new(&folder.join("origin"));
    origin.step(&["a", "b"]);
    origin.as_format(format).await;
    let (early, late) = (folder.join("early"), folder.join("late"));
    origin.save(&early, format);
    origin.step(&["c", "-a"]);
    origin.step(&["d"]);
    origin.step(&["e", "-b", "-d"]);
    origin.as_format(format).await;
    origin.save(&late, format);
    (early, late)
}

async fn run(pair: (TableFormat, TableFormat), root: TableRoot) -> Result<Report> {
    let source = source(pair.0, root.clone());
    sync(source.as_ref(), target(pair.1, root).as_mut(), &Options::default()).await
}

#[tokio::test]
async fn a_crash_between_any_two_writes_loses_nothing() {
    for pair in PAIRS {
        let (from, to) = pair;
        let folder = tempfile::tempdir().unwrap();
        let (early, late) = early_and_late(folder.path(), from).await;
        let whole = folder.path().join("whole");
        copy(&early, &whole);
        run(pair, plain(&whole)).await.unwrap();
        let created = live(to, &whole).await;
        copy(&late, &whole);
        assert_eq!(run(pair, plain(&whole)).await.unwrap().steps.len(), 3, "{from} to {to}");
        let followed = live(to, &whole).await;
        assert_eq!((names(&created), names(&followed)), ("ab".to_owned(), "ce".to_owned()), "{from} to {to}");

        for follows in [false, true] {
            let mut came_through = None;
            for writes in 0..150 {
                let table = folder.path().join(format!("crash-{follows}-{writes}"));
                copy(&early, &table);
                if follows {
                    run(pair, plain(&table)).await.unwrap();
                    copy(&late, &table);
                }
                let outcome = run(pair, watched(&Watched::new(writes), &table)).await;
                // Readers see a commit or none, never a half.
                let between = names(&live(to, &table).await);
                let possible = if follows { &HISTORY[..] } else { &["", "ab"] };
                let place = format!("{from} to {to}, {writes} writes, follows: {follows}");
                assert!(possible.contains(&between.as_str()), "{place}: {between}");
                run(pair, plain(&table)).await.unwrap_or_else(|e| panic!("{place}: {e}"));
                assert_eq!(&live(to, &table).await, if follows { &followed } else { &created }, "{place}");
                assert_eq!(run(pair, plain(&table)).await.unwrap().plan, Plan::NoChange, "{place}");
                std::fs::remove_dir_all(&table).unwrap();
                // The last writes are hints, whose failure is none.
                if outcome.is_ok() {
                    came_through = Some(writes);
                    break;
                }
            }
            let writes = came_through.unwrap_or_else(|| panic!("{from} to {to} never came through"));
            assert!(writes >= if follows { 3 } else { 1 }, "{from} to {to}: {writes} writes cannot be enough");
        }
    }
}

#[tokio::test]
async fn of_two_converters_one_wins_and_the_other_plans_again() {
    for pair in PAIRS {
        let (from, to) = pair;
        let folder = tempfile::tempdir().unwrap();
        let (early, late) = early_and_late(folder.path(), from).await;
        for round in 0..5 {
            let table = folder.path().join(format!("raced-{round}"));
            copy(&early, &table);
            let (one, two) = tokio::join!(run(pair, plain(&table)), run(pair, plain(&table)));
            let created = one.unwrap().steps.len() + two.unwrap().steps.len();
            assert!((1..=2).contains(&created), "{from} to {to}");
            assert_eq!(names(&live(to, &table).await), "ab", "{from} to {to}");
            copy(&late, &table);
            let (one, two) = tokio::join!(run(pair, plain(&table)), run(pair, plain(&table)));
            let made = one.unwrap().steps.len() + two.unwrap().steps.len();
            assert_eq!(made, 3, "{from} to {to}: every commit is made exactly once");
            assert_eq!(names(&live(to, &table).await), "ce", "{from} to {to}");
        }
    }
}

#[tokio::test]
async fn requests_do_not_grow_with_the_table() {
    for pair in PAIRS {
        let (from, to) = pair;
        let mut incremental = Vec::new();
        for files in [10, 500] {
            let folder = tempfile::tempdir().unwrap();
            let table = folder.path().join("table");
            let mut origin = Origin::new(&table);
            let all: Vec<_> = (0..files).map(|n| format!("f{n:04}")).collect();
            origin.step(&all.iter().map(String::as_str).collect::<Vec<_>>());
            origin.as_format(from).await;
            if to == Delta {
                std::fs::rename(table.join("_delta_log"), folder.path().join("log")).unwrap();
            }
            run(pair, plain(&table)).await.unwrap();

            let store = Watched::new(usize::MAX);
            target(to, watched(&store, &table)).load().await.unwrap();
            let idle = store.taken();
            assert!(idle <= 3, "{from} to {to}: {idle} requests for a target that is up to date");

            let target_log = folder.path().join("target");
            if to == Delta {
                std::fs::rename(table.join("_delta_log"), &target_log).unwrap();
                std::fs::rename(folder.path().join("log"), table.join("_delta_log")).unwrap();
            }
            origin.step(&["new", "-f0003"]);
            origin.as_format(from).await;
            if to == Delta {
                std::fs::remove_dir_all(table.join("_delta_log")).unwrap();
                std::fs::rename(&target_log, table.join("_delta_log")).unwrap();
            }
            store.taken();
            let report = run(pair, watched(&store, &table)).await.unwrap();
            assert_eq!((report.plan, report.steps.len()), (Plan::Incremental, 1), "{from} to {to}");
            incremental.push(store.taken());
        }
        assert_eq!(incremental[0], incremental[1], "{from} to {to}");
        assert!(incremental[0] <= 32, "{from} to {to}: {incremental:?}");
    }
}

#[tokio::test]
async fn requests_grow_with_the_commits_only() {
    for pair in PAIRS {
        let (from, to) = pair;
        let folder = tempfile::tempdir().unwrap();
        let mut origin = Origin::new(&folder.path().join("origin"));
        origin.step(&["a"]);
        origin.as_format(from).await;
        let table = folder.path().join("table");
        origin.save(&table, from);
        run(pair, plain(&table)).await.unwrap();
        let mut totals = Vec::new();
        // Together fewer than a Hudi timeline keeps.
        for commits in [12, 12] {
            for n in 0..commits {
                origin.step(&[&format!("f{}-{n}", totals.len())]);
            }
            origin.as_format(from).await;
            let fresh = folder.path().join(format!("fresh-{}", totals.len()));
            origin.save(&fresh, from);
            copy(&fresh, &table);
            let store = Watched::new(usize::MAX);
            let report = run(pair, watched(&store, &table)).await.unwrap();
            assert_eq!(report.plan, Plan::Incremental, "{from} to {to}");
            assert_eq!(report.steps.len(), commits, "{from} to {to}");
            totals.push(store.taken());
        }
        // Twice the history costs no more for as many commits.
        assert!(totals.iter().all(|t| *t <= 12 * 16 + 40), "{from} to {to}: {totals:?}");
    }
}

#[tokio::test]
async fn a_file_that_is_stated_again_is_live_once() {
    for to in [Iceberg, Hudi] {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("table");
        let mut origin = Origin::new(&table);
        origin.step(&["a", "b"]);
        run((Delta, to), plain(&table)).await.unwrap();
        origin.step(&["a", "c"]);
        origin.step(&["-c", "d"]);
        origin.step(&["c", "b"]);
        let report = run((Delta, to), plain(&table)).await.unwrap();
        let added: Vec<_> = report.steps.iter().map(|s| s.committed.added).collect();
        assert_eq!((report.plan, added), (Plan::Incremental, vec![1, 1, 1]), "{to}");
        assert_eq!(names(&live(to, &table).await), "abcd", "{to}");
        // Once more, on top of what was replayed.
        origin.step(&["d"]);
        let report = run((Delta, to), plain(&table)).await.unwrap();
        assert_eq!((report.plan, names(&live(to, &table).await)), (Plan::Incremental, "abcd".to_owned()), "{to}");
    }
}
