//! Delta logs that do not fit into memory at once, read through a store that hands out no files.

use crate::following::{Log, live, to_iceberg};
use crate::watched::{Watched, plain, watched};
use hoglake_formats::delta::{DeltaTarget, DeltaTargetOptions};
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource};
use hoglake_formats::sync::{Mode, Options, Plan, sync};
use std::path::Path;

fn adds(files: std::ops::Range<usize>) -> impl Iterator<Item = String> {
    files.map(|n| Log::add(&format!("f{n:06}")))
}

fn names(files: std::ops::Range<usize>) -> Vec<String> {
    files.map(|n| format!("f{n:06}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_of_many_blocks_says_what_a_small_one_says() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::new(folder.path());
    log.commit(&adds(0..30_000).collect::<Vec<_>>());
    // What is removed is said before, between and after what is added.
    let mut lines: Vec<_> = adds(30_000..60_000).collect();
    for (at, n) in [(0, 7), (15_000, 20_000), (30_002, 29_999)] {
        lines.insert(at, Log::remove(&format!("f{n:06}")));
    }
    log.commit(&lines);
    let path = folder.path().join("_delta_log/00000000000000000002.json");
    assert!(std::fs::metadata(path).unwrap().len() > 4 << 20);
    let store = Watched::new(usize::MAX);
    let report = to_iceberg(watched(&store, folder.path()), Mode::Incremental).await.unwrap();
    assert_eq!(report.steps[0].committed.added, 59_997);
    let mut expected = names(0..60_000);
    expected.retain(|name| !["f000007", "f020000", "f029999"].contains(&name.as_str()));
    assert_eq!(live(folder.path()).await, expected);

    log.commit(&[Log::add("f000007"), Log::add("f000008")]);
    let report = to_iceberg(watched(&store, folder.path()), Mode::Incremental).await.unwrap();
    let committed = &report.steps[0].committed;
    assert_eq!((report.plan, committed.added, committed.redeleted), (Plan::Incremental, 1, 0));
}

#[tokio::test]
async fn a_commit_too_large_to_replay_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::new(folder.path());
    log.commit(&[Log::add("a"), Log::add("b")]);
    to_iceberg(plain(folder.path()), Mode::Incremental).await.unwrap();
    let note = format!(r#"{{"commitInfo":{{"note":"{}"}}}}"#, "x".repeat(65 << 20));
    log.commit(&[Log::add("c"), note, Log::remove("a")]);
    let report = to_iceberg(plain(folder.path()), Mode::Incremental).await.unwrap();
    let Plan::Full { reason } = &report.plan else { panic!("{report:?}") };
    assert!(reason.contains("commit 2 is 65 MiB large"), "{reason}");
    let committed = &report.steps[0].committed;
    assert_eq!((committed.added, committed.removed), (1, 1));
    assert_eq!(live(folder.path()).await, ["b", "c"]);
}

/// A Delta table of so many files that has a checkpoint, written by our target.
async fn with_checkpoint(folder: &Path, files: usize) -> std::path::PathBuf {
    let (table, target) = (folder.join("source"), folder.join("target"));
    let mut log = Log::new(&table);
    for commit in [adds(0..files), adds(files..files + 1)] {
        log.commit(&commit.collect::<Vec<_>>());
        to_iceberg(plain(&table), Mode::Incremental).await.unwrap();
        let source = IcebergSource::new(plain(&table), IcebergOptions::default());
        let options = DeltaTargetOptions { checkpoint_interval: 1, ..Default::default() };
        sync(&source, &mut DeltaTarget::new(plain(&target), options), &Options::default()).await.unwrap();
    }
    assert!(target.join("_delta_log/00000000000000000001.checkpoint.parquet").exists());
    target
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_do_not_grow_with_the_checkpoint() {
    let mut requests = Vec::new();
    for files in [10, 20_000] {
        let folder = tempfile::tempdir().unwrap();
        let table = with_checkpoint(folder.path(), files).await;
        let store = Watched::new(usize::MAX);
        let report = to_iceberg(watched(&store, &table), Mode::Incremental).await.unwrap();
        assert_eq!(report.steps[0].committed.added, files as u64 + 1);
        store.taken();

        let mut log = Log { table: &table, version: 2 };
        log.commit(&[Log::add("new")]);
        let report = to_iceberg(watched(&store, &table), Mode::Incremental).await.unwrap();
        assert_eq!((report.plan, report.steps[0].committed.added), (Plan::Incremental, 1));
        requests.push(store.taken());

        // A file that is in the checkpoint is not new, whatever its row there.
        let first = std::fs::read_to_string(table.join("_delta_log/00000000000000000000.json")).unwrap();
        let prefix = first.split_once("/source/f0").unwrap().0.rsplit_once("\"path\":\"").unwrap().1.to_owned();
        let there = |n: usize| format!("{prefix}/source/f{n:06}");
        let restated: Vec<_> = [0, files / 2, files].map(|n| Log::add(&there(n))).to_vec();
        log.commit(&restated);
        let report = to_iceberg(watched(&store, &table), Mode::Incremental).await.unwrap();
        assert_eq!((report.plan, report.steps[0].committed.added), (Plan::Incremental, 0));
    }
    assert!(requests[0] == requests[1] && requests[0] <= 18, "{requests:?}");
}
