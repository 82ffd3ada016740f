//! What cannot be compacted does not stand in front of what can; previews are of everything.

use super::lake::Lake;
use hoglake_server::worker::{CompactionStatus, Trigger};
use hoglake_testkit::server::ServerCommand;
use serde_json::Value;

async fn compact(lake: &Lake, groups: usize) -> CompactionStatus {
    lake.worker.compact(&lake.catalog, groups, false, Trigger::Request).await.unwrap()
}

/// Small files of a table, readable or not.
async fn files(lake: &mut Lake, table: &str, count: i64, readable: bool) {
    let files: Vec<_> = (0..count).map(|i| lake.write(&[(i, Some("x")), (i + 100, None)])).collect();
    for file in files.iter().filter(|_| !readable) {
        std::fs::write(&file.path, vec![7; usize::try_from(file.file_size_bytes).unwrap()]).unwrap();
    }
    lake.register_in(table, files).await;
}

fn run(lake: &Lake, command: &str, extra: &[&str]) -> (Option<i32>, Value) {
    let mut command = ServerCommand::new(command)
        .database(lake.database.url())
        .env("HOGLAKE_LOCAL_FILES", "true")
        .env("HOGLAKE_COMPACTION_TARGET_BYTES", "1048576")
        .env("HOGLAKE_EXPIRY_BATCH", "1");
    for argument in ["demo", "--json"].iter().chain(extra) {
        command = command.arg(argument);
    }
    let output = tokio::task::block_in_place(|| command.output());
    let said = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    (output.status.code(), said)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_fails_is_put_off_and_does_not_count() {
    let mut lake = Lake::new(false).await;
    lake.add_tables(2, "long").await;
    files(&mut lake, "t2", 8, false).await;
    files(&mut lake, "t", 4, true).await;
    let before = lake.rows_at(lake.head().await).await;
    let (code, done) = run(&lake, "compact", &[]);
    assert_eq!((code, &done["groups_compacted"]), (Some(1), &1.into()), "{done}");
    let failures = done["failures"].as_array().unwrap();
    assert_eq!(failures.len(), 1, "{done}");
    assert!(failures[0].as_str().unwrap().starts_with("ns.t2: "), "{done}");
    assert_eq!(lake.rows_at(lake.head().await).await, before);
    // it waits, and is tried again then
    assert_eq!(compact(&lake, 1).await, CompactionStatus::default());
    assert_eq!(run(&lake, "compact", &[]).0, Some(0));
    lake.let_claims_end().await;
    let again = compact(&lake, 1).await;
    assert_eq!((again.groups_compacted, again.failures.len()), (0, 1), "{again:?}");
    let waiting = "select count(*) from compaction_claim where claimed_until between
                   now() + interval '9 minutes' and now() + interval '10 minutes'";
    assert_eq!(lake.number(waiting).await, 8);
    // what was staged for it is for the cleanup
    lake.worker.clean(&lake.catalog, 100, false, Trigger::Request).await.unwrap();
    assert!(lake.orphans().await.is_empty());
    assert_eq!(lake.number("select count(*) from file_removal where settled_at is null").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_groups_that_cannot_be_converted_starve_no_other() {
    let mut lake = Lake::new(false).await;
    lake.add_tables(40, "boolean").await;
    for table in 2..=40 {
        files(&mut lake, &format!("t{table}"), 5, true).await;
    }
    files(&mut lake, "t", 4, true).await;
    let status = compact(&lake, 1).await;
    assert_eq!((status.groups_compacted, status.unconvertible_schema), (1, 39), "{status:?}");
    assert_eq!(compact(&lake, 1).await, CompactionStatus::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_tells_of_all_that_the_command_would_do() {
    let mut lake = Lake::new(false).await;
    lake.add_tables(3, "long").await;
    for table in ["t", "t2", "t3"] {
        files(&mut lake, table, 4, true).await;
    }
    for extra in [&["--dry-run"][..], &[]] {
        let (code, done) = run(&lake, "compact", extra);
        assert_eq!((code, &done["groups_compacted"], &done["files_in"]), (Some(0), &3.into(), &12.into()), "{done}");
    }
    lake.age(0).await;
    let planned = run(&lake, "expire", &["--dry-run"]).1;
    assert!(planned["snapshots_expired"].as_i64().unwrap() > 1, "{planned}");
    assert_eq!(run(&lake, "expire", &["--dry-run", "--batch", "1"]).1["snapshots_expired"], 1);
    let done = run(&lake, "expire", &[]).1;
    assert_eq!(done["snapshots_expired"], planned["snapshots_expired"]);
    assert_eq!(done["data_files_queued"], planned["data_files_queued"]);
    let planned = run(&lake, "clean", &["--dry-run"]).1;
    assert_eq!((&planned["removed"], &planned), (&12.into(), &run(&lake, "clean", &[]).1));
}
