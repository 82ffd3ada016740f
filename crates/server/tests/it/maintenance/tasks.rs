//! Each task on its own, over HTTP where the contract speaks.

use super::lake::Lake;
use hoglake_server::worker::Trigger;
use hoglake_testkit::server::{ServerCommand, ServerProcess};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

const FOREVER: Duration = Duration::from_secs(60);

/// A server on the lake's database that does nothing by itself.
async fn server(lake: &Lake) -> ServerProcess {
    let mut command = ServerCommand::serve().database(lake.database.url()).env("HOGLAKE_LOCAL_FILES", "true");
    for timer in ["HYDRATOR", "EXPIRY", "CLEANUP", "COMPACTION"] {
        command = command.env(&format!("HOGLAKE_{timer}_INTERVAL_MS"), "0");
    }
    command = command.env("HOGLAKE_COMPACTION_TARGET_BYTES", "1048576");
    tokio::task::spawn_blocking(move || command.start()).await.unwrap()
}

async fn post(server: &ServerProcess, target: &str) -> (u16, Value) {
    let response = server.request("POST", &format!("/v1/catalogs/demo/maintenance/{target}")).send().await;
    (response.status, response.json())
}

async fn get(server: &ServerProcess, target: &str) -> (u16, Value) {
    let response = server.request("GET", &format!("/v1/catalogs/demo/{target}")).send().await;
    (response.status, response.json())
}

async fn five_files() -> Lake {
    let mut lake = Lake::new(true).await;
    for i in 0..5 {
        lake.append(&[(i * 10, Some("b")), (i * 10 + 1, None), (i * 10 + 2, Some("a"))]).await;
    }
    lake.delete(2, &BTreeSet::from([0, 2])).await;
    lake
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_goes_through_the_whole_cycle_and_reads_the_same() {
    let lake = five_files().await;
    let before = lake.rows_at(lake.head().await).await;
    assert_eq!(before.len(), 13);
    let status = lake.worker.hydrate(&lake.catalog, FOREVER, Trigger::Request).await.unwrap();
    assert_eq!((status.hydrated, status.failed, status.retried), (5, 0, 0));
    let server = server(&lake).await;
    {
        let (status, debts) = get(&server, "stats/partitions").await;
        assert_eq!((status, &debts["partitions"][0]["debt_score"]), (200, &5.into()));
        let (status, planned) = post(&server, "compact?dry_run=true").await;
        assert_eq!((status, &planned["groups_compacted"], &planned["files_in"]), (200, &1.into(), &5.into()));
        let (status, done) = post(&server, "compact").await;
        assert_eq!(status, 200, "{done}");
        let counts = ["groups_compacted", "files_in", "files_out", "skipped_conflicts", "dv_superseded"];
        assert_eq!(counts.map(|c| done[c].as_i64().unwrap()), [1, 5, 1, 0, 0]);
        assert!(done["failures"].is_null(), "{done}");
    }
    assert_eq!(lake.rows_at(lake.head().await).await, before);
    assert_eq!(lake.number("select count(*) from data_file where explicit_row_ids and end_snapshot is null and record_count = 13 and row_id_start = 0 and stats_state = 'provided'").await, 1);
    lake.verified().await;
    lake.age(0).await;
    {
        let (status, planned) = post(&server, "expire?dry_run=true").await;
        let (_, done) = post(&server, "expire").await;
        assert_eq!((status, &planned), (200, &done));
        assert_eq!((&done["data_files_queued"], &done["delete_files_queued"]), (&5.into(), &1.into()));
        let (_, planned) = post(&server, "cleanup?dry_run=true").await;
        let (status, done) = post(&server, "cleanup").await;
        assert_eq!((status, &planned), (200, &done));
        assert_eq!(done, serde_json::json!({"removed": 6, "missing": 0, "still_referenced": 0}));
        let (_, report) = post(&server, "verify?deep=true").await;
        assert_eq!(report["status"], "pass", "{report:#}");
        let (_, removals) = get(&server, "maintenance/removals?state=removed&limit=4").await;
        assert_eq!((removals["removals"].as_array().unwrap().len(), &removals["has_more"]), (4, &true.into()));
        let (_, runs) = get(&server, "maintenance/runs").await;
        let tasks: Vec<_> = runs["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| (r["task"].as_str().unwrap(), r["outcome"].as_str().unwrap()))
            .collect();
        let names = ["verify", "cleanup", "expire", "verify", "compact", "hydrate"];
        assert_eq!(tasks, names.map(|name| (name, "done")));
        assert_eq!(post(&server, "expire?batch=0").await.0, 422);
        assert_eq!(post(&server, "cleanup?batch=lots").await.0, 400);
        assert_eq!(post(&server, "rehydrate?namespace=ns").await.0, 422);
        assert_eq!(post(&server, "rehydrate").await.1, serde_json::json!({"requeued": 0}));
        let (_, runs) = get(&server, "maintenance/runs?limit=3").await;
        let last = &runs["runs"][0];
        assert_eq!((&last["task"], &last["result"]), (&"rehydrate".into(), &serde_json::json!({"requeued": 0})));
        // the report of the verify is kept as it was answered
        assert_eq!(runs["runs"][1]["result"], report);
        assert_eq!(get(&server, "maintenance/removals?state=lost").await.0, 422);
    }
    assert_eq!(lake.rows_at(lake.head().await).await, before);
    assert!(lake.orphans().await.is_empty());
}

#[tokio::test]
async fn bad_files_fail_with_a_reason_and_come_back_by_rehydrate() {
    let mut lake = Lake::new(false).await;
    let good = lake.write(&[(1, None)]);
    let mut short = lake.write(&[(1, None)]);
    short.record_count = 2;
    let mut gone = lake.write(&[(1, None)]);
    gone.path.push_str("-gone");
    let garbage = lake.write(&[(1, None)]);
    std::fs::write(&garbage.path, vec![7; usize::try_from(garbage.file_size_bytes).unwrap()]).unwrap();
    lake.register(vec![good, short.clone(), gone, garbage]).await;
    let status = lake.worker.hydrate(&lake.catalog, FOREVER, Trigger::Request).await.unwrap();
    assert_eq!((status.hydrated, status.failed, status.retried), (1, 3, 0), "{status:?}");
    assert!(status.failures.iter().any(|f| f.contains("the footer counts 1 rows, 2 were registered")), "{status:?}");
    assert_eq!(lake.number("select count(*) from file_statistics").await, 1);
    assert_eq!(lake.worker.catalog.rehydrate("demo", None, None).await.unwrap(), 3);
    let report = serde_json::to_value(lake.worker.verify(&lake.catalog, true).await.unwrap()).unwrap();
    let deep: Vec<_> =
        report["checks"].as_array().unwrap().iter().skip(6).map(|c| c["violations"].as_i64().unwrap()).collect();
    assert_eq!(deep, [3, 0]);
}

#[tokio::test]
async fn a_store_that_is_away_leaves_files_pending_and_others_unharmed() {
    let mut lake = Lake::new(false).await;
    let good = lake.write(&[(1, None)]);
    lake.register(vec![good]).await;
    // a store where nobody listens
    lake.execute("insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, path, record_count, file_size_bytes, row_id_start, stats_state)
        values (1, 0, 1, 1, 's3://nowhere/x', 1, 100, 1, 'pending')").await;
    let started = std::time::Instant::now();
    let status = lake.worker.hydrate(&lake.catalog, Duration::ZERO, Trigger::Timer).await.unwrap();
    assert_eq!((status.hydrated, status.failed, status.retried), (1, 0, 1), "{status:?} {:?}", started.elapsed());
    assert_eq!(
        lake.number("select count(*) from hydration where last_error is not null and next_attempt_at > now()").await,
        1
    );
}

#[tokio::test]
async fn a_file_whose_vector_is_not_what_was_registered_is_left_out() {
    let lake = five_files().await;
    lake.execute("update delete_file set delete_count = 1").await;
    let status = lake.worker.compact(&lake.catalog, 1, false, Trigger::Request).await.unwrap();
    assert_eq!((status.groups_compacted, status.files_in, status.files_put_off), (1, 4, 1), "{status:?}");
    assert!(status.failures[0].contains("data file 2: "), "{status:?}");
    assert!(status.failures[0].contains("it deletes 2 rows, 1 were registered"), "{status:?}");
    let report = serde_json::to_value(lake.worker.verify(&lake.catalog, true).await.unwrap()).unwrap();
    assert_eq!(report["checks"][7]["violations"], 1, "{report:#}");
    // what was staged for the first attempt goes, nothing else
    let cleaned = lake.worker.clean(&lake.catalog, 100, false, Trigger::Request).await.unwrap();
    assert_eq!((cleaned.removed, cleaned.missing), (0, 1));
    assert!(lake.orphans().await.is_empty());
}

#[tokio::test]
async fn cleanup_removes_what_a_killed_upload_left() {
    let lake = five_files().await;
    let folder = lake.folder.path().join("lake/demo/data/ns/t");
    std::fs::create_dir_all(&folder).unwrap();
    let (half, whole) = (folder.join("compacted-1.parquet"), folder.join("compacted-2.parquet"));
    let others = ["compacted-3.parquet#1", "compacted-1.parquet#1x", "compacted-1.parquet#", "dead#1"];
    let unfinished = ["compacted-1.parquet#1", "compacted-1.parquet#2", "compacted-2.parquet#1", "compacted-2.parquet"];
    for name in others.iter().chain(&unfinished) {
        std::fs::write(folder.join(name), b"PAR1").unwrap();
    }
    for (path, reason) in
        [(&half, "compaction_staging"), (&whole, "compaction_staging"), (&folder.join("dead"), "snapshot_expiry")]
    {
        sqlx::query(
            "insert into file_removal (catalog_id, path, kind, reason) values (1, $1, 'data', $2::removal_reason)",
        )
        .bind(path.to_str().unwrap())
        .bind(reason)
        .execute(&lake.pool)
        .await
        .unwrap();
    }
    let status = lake.worker.clean(&lake.catalog, 100, false, Trigger::Request).await.unwrap();
    assert_eq!((status.removed, status.missing, status.failed), (2, 1, 0), "{status:?}");
    let mut left: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    left.sort();
    assert_eq!(left, ["compacted-1.parquet#", "compacted-1.parquet#1x", "compacted-3.parquet#1", "dead#1"]);
}

#[tokio::test]
async fn a_hydration_whose_time_is_over_gives_back_what_it_has_not_begun() {
    let mut lake = Lake::new(false).await;
    let files: Vec<_> = (0..100).map(|i| lake.write(&[(i, None)])).collect();
    lake.register(files).await;
    let status = lake.worker.hydrate(&lake.catalog, Duration::ZERO, Trigger::Request).await.unwrap();
    let chunk = i64::try_from(lake.worker.settings.hydrator_concurrency).unwrap();
    assert_eq!((status.hydrated, status.retried, status.failed), (chunk, 0, 0), "{status:?}");
    let given_back = "select count(*) from hydration
                      where claimed_by is null and attempts = 0 and next_attempt_at <= now() and last_error is null";
    assert_eq!(lake.number(given_back).await, 100 - chunk);
    let status = lake.worker.hydrate(&lake.catalog, FOREVER, Trigger::Request).await.unwrap();
    assert_eq!(status.hydrated, 100 - chunk, "{status:?}");
}

#[tokio::test]
async fn cleanup_of_many_objects_counts_each_and_keeps_referenced_ones() {
    let mut lake = Lake::new(false).await;
    let kept = lake.write(&[(1, None)]);
    let kept_path = kept.path.clone();
    lake.register(vec![kept]).await;
    let folder = lake.folder.path().join("lake/data");
    for i in 0..120 {
        let path = folder.join(format!("dead-{i}"));
        if i % 3 > 0 {
            std::fs::write(&path, b"x").unwrap();
        }
        sqlx::query(
            "insert into file_removal (catalog_id, path, kind, reason) values (1, $1, 'data', 'snapshot_expiry')",
        )
        .bind(path.to_str().unwrap())
        .execute(&lake.pool)
        .await
        .unwrap();
    }
    sqlx::query("insert into file_removal (catalog_id, path, kind, reason) values (1, $1, 'data', 'snapshot_expiry')")
        .bind(&kept_path)
        .execute(&lake.pool)
        .await
        .unwrap();
    let status = lake.worker.clean(&lake.catalog, 1000, false, Trigger::Request).await.unwrap();
    assert_eq!((status.removed, status.missing, status.still_referenced, status.failed), (80, 40, 1, 0));
    assert!(std::path::Path::new(&kept_path).exists());
    assert!(lake.orphans().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_do_the_same_with_json_and_exit_codes() {
    let lake = five_files().await;
    let url = lake.database.url().to_owned();
    let run = |command: &str, extra: &[&str]| {
        let mut command = ServerCommand::new(command).database(&url).env("HOGLAKE_LOCAL_FILES", "true");
        for argument in ["demo", "--json"].iter().chain(extra) {
            command = command.arg(argument);
        }
        tokio::task::block_in_place(|| command.output())
    };
    let json = |output: &std::process::Output| -> Value {
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    };
    assert_eq!(json(&run("hydrate", &[]))["hydrated"], 5);
    assert_eq!(json(&run("compact", &["--dry-run"]))["groups_compacted"], 1);
    assert_eq!(json(&run("compact", &[]))["groups_compacted"], 1);
    lake.age(0).await;
    assert_eq!(json(&run("expire", &[]))["data_files_queued"], 5);
    assert_eq!(json(&run("clean", &[]))["removed"], 6);
    let verified = run("verify", &["--deep"]);
    assert_eq!((verified.status.code(), &json(&verified)["status"]), (Some(0), &"pass".into()));
    lake.execute("insert into file_removal (catalog_id, path, kind, reason) select 1, path, 'data', 'snapshot_expiry' from data_file").await;
    let verified = run("verify", &[]);
    assert_eq!((verified.status.code(), &json(&verified)["status"]), (Some(3), &"fail".into()));
    assert_eq!(run("expire", &["--batch", "0"]).status.code(), Some(2));
    let unknown = tokio::task::block_in_place(|| ServerCommand::new("verify").database(&url).arg("nope").output());
    assert_eq!(unknown.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("catalog `nope` does not exist"), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_ask_a_server_to_do_the_same() {
    let lake = five_files().await;
    let before = lake.rows_at(lake.head().await).await;
    let server = server(&lake).await;
    let url = format!("http://{}/", server.address());
    let run = |command: &str, extra: &[&str]| {
        // no database is named: everything goes through the server
        let mut command = ServerCommand::new(command).env("HOGLAKE_SERVER", &url);
        for argument in ["demo", "--json"].iter().chain(extra) {
            command = command.arg(argument);
        }
        tokio::task::block_in_place(|| command.output())
    };
    let json = |output: &std::process::Output| -> Value {
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    };
    assert_eq!(json(&run("hydrate", &[])), serde_json::json!({"hydrated": 5, "failed": 0, "retried": 0}));
    assert_eq!(json(&run("compact", &["--dry-run"]))["groups_compacted"], 1);
    assert_eq!(lake.number("select count(*) from data_file where explicit_row_ids").await, 0);
    assert_eq!(json(&run("compact", &[]))["files_in"], 5);
    lake.age(0).await;
    // one snapshot at a time on request, otherwise until nothing is left
    assert_eq!(json(&run("expire", &["--batch", "1"]))["snapshots_expired"], 1);
    let expired = json(&run("expire", &[]));
    let head = lake.head().await;
    assert_eq!(
        (&expired["snapshots_expired"], &expired["new_earliest_snapshot_id"]),
        (&(head - 1).into(), &head.into())
    );
    assert_eq!(json(&run("clean", &["--batch", "2"]))["removed"], 2);
    assert_eq!(json(&run("clean", &[]))["removed"], 4);
    let verified = run("verify", &["--deep"]);
    assert_eq!((verified.status.code(), json(&verified)["checks"].as_array().unwrap().len()), (Some(0), 8));
    assert_eq!(lake.rows_at(head).await, before);
    lake.execute("insert into file_removal (catalog_id, path, kind, reason) select 1, path, 'data', 'snapshot_expiry' from data_file").await;
    assert_eq!(run("verify", &[]).status.code(), Some(3));
    let unknown = ServerCommand::new("verify").arg("nope").arg("--server").arg(&url);
    let unknown = tokio::task::block_in_place(|| unknown.output());
    assert_eq!(unknown.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("catalog `nope` does not exist"), "{unknown:?}");
    let nobody = ServerCommand::new("verify").arg("demo").arg("--server").arg("http://127.0.0.1:9");
    let nobody = tokio::task::block_in_place(|| nobody.output());
    assert_eq!(nobody.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("does not answer (--server)"), "{nobody:?}");
}
