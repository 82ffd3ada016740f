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
    assert_eq!(failures.len(), 8, "{done}");
    assert!(failures[0].as_str().unwrap().starts_with("ns.t2: data file 1: "), "{done}");
    assert_eq!(lake.rows_at(lake.head().await).await, before);
    // all of the group are to blame: they wait, and are tried again then
    assert_eq!(done["put_off"].as_array().unwrap().len(), 8, "{done}");
    let idle = CompactionStatus { files_put_off: 8, ..CompactionStatus::default() };
    assert_eq!(compact(&lake, 1).await, idle);
    assert_eq!(run(&lake, "compact", &[]).0, Some(0));
    lake.let_claims_end().await;
    let again = compact(&lake, 1).await;
    assert_eq!((again.groups_compacted, again.failures.len()), (0, 8), "{again:?}");
    assert!(again.put_off.iter().all(|file| (file.attempts, file.wait_seconds) == (2, 120)), "{again:?}");
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
    let idle = CompactionStatus { files_put_off: 39 * 5, ..CompactionStatus::default() };
    assert_eq!(compact(&lake, 1).await, idle);
}

/// Makes a page of a file unreadable, not its footer.
fn spoil(path: &str) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[4..40].fill(0xff);
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_is_put_off_and_the_others_of_its_group_are_compacted() {
    for sorted in [true, false] {
        let mut lake = Lake::new(sorted).await;
        let written: Vec<_> = (0..7).map(|i| lake.write(&[(i, Some("x")), (i + 100, None)])).collect();
        let paths: Vec<String> = written.iter().map(|file| file.path.clone()).collect();
        lake.register(written).await;
        let before = lake.rows_at(lake.head().await).await;
        let good = std::fs::read(&paths[2]).unwrap();
        spoil(&paths[2]);
        std::fs::remove_file(&paths[5]).unwrap();
        let status = compact(&lake, 1).await;
        assert_eq!((status.groups_compacted, status.files_in, status.files_put_off), (1, 5, 2), "{status:?}");
        let mut blamed: Vec<i64> = status.put_off.iter().map(|file| file.data_file_id).collect();
        blamed.sort_unstable();
        assert_eq!(blamed, [3, 6], "{status:?}");
        for file in &status.put_off {
            assert_eq!((file.table.as_str(), file.attempts, file.wait_seconds), ("ns.t", 1, 60));
            assert!(file.reason.contains(&paths[usize::try_from(file.data_file_id - 1).unwrap()]), "{file:?}");
        }
        assert_eq!(status.failures.len(), 2, "{status:?}");
        // the reason is in the ledger of runs
        let runs = serde_json::to_value(lake.worker.catalog.runs_list("demo", None, 1).await.unwrap()).unwrap();
        assert_eq!(runs["runs"][0]["result"]["put_off"].as_array().unwrap().len(), 2, "{runs}");
        assert_eq!(lake.number("select count(*) from compaction_claim").await, 0);
        // they are mended, and their time comes
        std::fs::write(&paths[2], good).unwrap();
        lake.execute("delete from data_file where data_file_id = 6").await;
        lake.execute("update compaction_failure set next_attempt_at = now()").await;
        let status = compact(&lake, 1).await;
        assert_eq!(status.files_put_off, 0, "{status:?}");
        let gone = before.into_iter().filter(|(row, _)| !(10..12).contains(row)).collect::<Vec<_>>();
        assert_eq!(lake.rows_at(lake.head().await).await, gone);
        // what was staged goes
        lake.worker.clean(&lake.catalog, 100, false, Trigger::Request).await.unwrap();
        assert!(lake.orphans().await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_away_is_not_waited_for_as_long_as_a_bad_file() {
    let mut lake = Lake::new(false).await;
    files(&mut lake, "t", 1, false).await;
    files(&mut lake, "t", 5, true).await;
    // nobody listens there
    lake.execute("update data_file set path = 's3://nowhere/x' where data_file_id = 2").await;
    lake.execute(
        "insert into compaction_failure (catalog_id, data_file_id, attempts, next_attempt_at, reason)
         values (1, 1, 9, now(), 'before'), (1, 2, 9, now(), 'before')",
    )
    .await;
    let status = compact(&lake, 1).await;
    assert_eq!((status.groups_compacted, status.files_in), (1, 4), "{status:?}");
    let waits: Vec<_> = status.put_off.iter().map(|f| (f.data_file_id, f.attempts, f.wait_seconds)).collect();
    assert_eq!(waits, [(1, 10, 21_600), (2, 10, 600)], "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_hears_that_others_are_at_it() {
    let mut lake = Lake::new(false).await;
    files(&mut lake, "t", 4, true).await;
    let plan = lake.worker.catalog.compaction_plan(lake.catalog.id, 4, 1).await.unwrap().remove(0);
    let claimed = lake.worker.catalog.compaction_claim(lake.catalog.id, plan).await.unwrap().unwrap();
    for extra in [&["--dry-run"][..], &[]] {
        let (code, done) = run(&lake, "compact", extra);
        assert_eq!((code, &done["groups_compacted"]), (Some(0), &0.into()), "{done}");
        assert_eq!(done["files_claimed_by_others"], 4, "{done}");
    }
    lake.worker.catalog.compaction_release(&claimed).await.unwrap();
    let done = run(&lake, "compact", &[]).1;
    assert_eq!(done["groups_compacted"], 1, "{done}");
    assert!(done.get("files_claimed_by_others").is_none(), "{done}");
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
