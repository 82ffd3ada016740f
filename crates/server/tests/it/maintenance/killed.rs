//! A server that is killed or stopped while it uploads: another one finishes, and nothing is left.

use super::lake::Lake;
use super::object_store::ObjectStore;
use crate::stage;
use hoglake_testkit::server::{ServerCommand, ServerProcess};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// A catalog whose objects are in the object store of a `hoglake dev` of its own.
async fn on_dev() -> (Lake, ServerProcess) {
    let folder = stage::folder();
    let state = folder.path().join("state");
    let command = ServerCommand::new("dev").arg("--json").arg("--s3-listen").arg("127.0.0.1:0").state_dir(&state);
    let dev = tokio::task::block_in_place(|| command.start());
    let deadline = Instant::now() + Duration::from_secs(30);
    while !dev.printed().ends_with('\n') {
        assert!(Instant::now() < deadline, "{}", dev.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let welcome: Value = serde_json::from_str(&dev.printed()).unwrap();
    let store = ObjectStore::of_dev(welcome["s3_endpoint"].as_str().unwrap(), state.join("objects"));
    (Lake::on(store, folder).await, dev)
}

/// A server on the lake's database and store that compacts and cleans on its own.
fn serve(lake: &Lake, lease_seconds: &str) -> ServerProcess {
    let mut command = lake
        .reaches_its_objects(ServerCommand::serve())
        .env("HOGLAKE_COMPACTION_LEASE_SECONDS", lease_seconds)
        .env("HOGLAKE_TEMP_DIR", lake.folder.path().to_string_lossy());
    for (timer, interval) in [("HYDRATOR", "0"), ("EXPIRY", "0"), ("CLEANUP", "300"), ("COMPACTION", "200")] {
        command = command.env(&format!("HOGLAKE_{timer}_INTERVAL_MS"), interval);
    }
    tokio::task::block_in_place(|| command.start())
}

/// Text that no compression makes shorter than half.
fn noise(seed: u64, length: usize) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let hex = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'!' + u8::try_from(state % 90).unwrap())
    };
    (0..length).map(hex).collect()
}

/// Files that a compaction takes a while for: five times what one part of an upload holds.
async fn five_large_files() -> (Lake, ServerProcess) {
    let (mut lake, dev) = on_dev().await;
    for file in 0..5_u64 {
        let texts: Vec<String> = (0..2_200).map(|row| noise(file * 10_000 + row + 1, 4_096)).collect();
        let rows: Vec<_> = texts.iter().zip(0..).map(|(text, row)| (row, Some(text.as_str()))).collect();
        lake.append(&rows).await;
    }
    lake.delete(2, &BTreeSet::from([0, 7, 2_199])).await;
    (lake, dev)
}

/// Parts of uploads that have not ended.
fn parts(lake: &Lake) -> usize {
    let root = lake.store.as_ref().unwrap().root();
    let names = std::fs::read_dir(root).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(".upload_id-")).count()
}

async fn until_it_uploads(lake: &Lake, server: &ServerProcess) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while parts(lake) == 0 {
        assert!(Instant::now() < deadline, "{}", server.log());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Until the server has merged all files into one, and cleaned up.
async fn until_it_is_done(lake: &Lake, server: &ServerProcess, began: Instant) {
    let live = "select count(*) from data_file where end_snapshot is null";
    let queued = "select count(*) from file_removal where settled_at is null";
    while lake.number(live).await > 1 || lake.number(queued).await > 0 {
        assert!(began.elapsed() < Duration::from_secs(120), "{}", server.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_stopped_gives_back_what_it_has_claimed_and_another_begins_at_once() {
    let (lake, dev) = five_large_files().await;
    let head = lake.head().await;
    let before = lake.rows_at(head).await;
    // claims that nobody outlives in a test
    let first = serve(&lake, "600");
    // while it reads and sorts: what is half-way up already, it may finish
    let deadline = Instant::now() + Duration::from_secs(60);
    while lake.number("select count(*) from file_removal where claimed_by is not null").await == 0 {
        assert!(Instant::now() < deadline, "{}", first.log());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let told = Instant::now();
    assert!(tokio::task::block_in_place(|| first.stop()).success());
    assert!(told.elapsed() < Duration::from_secs(5), "{:?}", told.elapsed());
    assert_eq!(lake.head().await, head, "stopped during the rewrite, not after it");
    assert_eq!(lake.number("select count(*) from compaction_claim").await, 0);
    assert_eq!(lake.number("select count(*) from compaction_failure").await, 0, "it is nobody's failure");
    assert_eq!(lake.number("select count(*) from file_removal where claimed_by is not null").await, 0);
    assert_eq!(lake.number("select count(*) from maintenance_run where finished_at is null").await, 0);
    assert_eq!((parts(&lake), lake.store.as_ref().unwrap().open_uploads().len()), (0, 0));
    assert_eq!(lake.rows_at(head).await, before);
    assert!(lake.orphans().await.is_empty());

    let second = serve(&lake, "600");
    let began = Instant::now();
    while lake.number("select count(*) from compaction_claim").await < 5 && lake.head().await == head {
        assert!(began.elapsed() < Duration::from_secs(3), "{}", second.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    until_it_is_done(&lake, &second, began).await;
    assert_eq!(lake.rows_at(lake.head().await).await, before);
    assert!(lake.orphans().await.is_empty());
    let runs = second.request("GET", "/v1/catalogs/demo/maintenance/runs").send().await.json();
    let compactions: Vec<_> = runs["runs"].as_array().unwrap().iter().filter(|run| run["task"] == "compact").collect();
    let outcomes: Vec<_> = compactions.iter().map(|run| run["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["done", "abandoned"], "{runs:#}");
    let why = compactions[1]["error"].as_str().unwrap();
    assert!(why.contains("its server stopped before the run had ended"), "{why}");
    assert!(tokio::task::block_in_place(|| second.stop()).success());
    assert!(tokio::task::block_in_place(|| dev.stop()).success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_during_a_multipart_upload_leaves_nothing_that_another_does_not_finish() {
    let (lake, dev) = five_large_files().await;
    let before = lake.rows_at(lake.head().await).await;
    let head = lake.head().await;
    let store = lake.store.clone().unwrap();
    let first = serve(&lake, "3");
    until_it_uploads(&lake, &first).await;
    first.kill();
    assert_eq!((lake.head().await, store.open_uploads().len()), (head, 1), "killed during the upload, not after it");
    assert_eq!(lake.rows_at(head).await, before);
    assert_eq!(lake.number("select count(*) from compaction_claim").await, 5);
    lake.verified().await;

    let began = Instant::now();
    let second = serve(&lake, "3");
    until_it_is_done(&lake, &second, began).await;
    assert_eq!(lake.rows_at(lake.head().await).await, before);
    assert_eq!(lake.rows_at(head).await, before, "time travel reads the inputs");
    assert_eq!((parts(&lake), store.open_uploads().len()), (0, 0));
    assert!(lake.orphans().await.is_empty());
    let report = second.request("POST", "/v1/catalogs/demo/maintenance/verify?deep=true").send().await.json();
    assert_eq!(report["status"], "pass", "{report:#}");
    // a minute later everybody sees that the first run was abandoned
    lake.execute(
        "update maintenance_run set last_seen_at = last_seen_at - interval '1 minute' where finished_at is null",
    )
    .await;
    let runs = second.request("GET", "/v1/catalogs/demo/maintenance/runs").send().await.json();
    let outcomes: Vec<_> = runs["runs"].as_array().unwrap().iter().filter(|run| run["task"] == "compact").collect();
    let outcomes: Vec<_> = outcomes.iter().map(|run| run["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["done", "abandoned"], "{runs:#}");
    assert!(tokio::task::block_in_place(|| second.stop()).success());
    assert!(tokio::task::block_in_place(|| dev.stop()).success());
}
