//! Every check finds what it is for, and says what to do.

use crate::lake::{Lake, append, file};
use crate::maintenance::delete;
use hoglake_catalog::verify::{CHECKS, Status};
use std::time::Duration;

/// What an operator is told to do about a violation.
fn remedy(check: &str) -> &'static str {
    match check {
        "row_id_tiling" => "restore the table_counter row, and register the later file's rows again",
        "delete_vectors" => "compare the vectors with the data file, then commit a vector with all deleted positions",
        "orphans" => "report it with the snapshots around it, and remove it once its files are known to be unused",
        "removal_queue" => "find the row's second registration and delete the queue entry",
        "snapshot_density" => {
            "restore the catalog database from its backup to the last moment at which this check passed"
        }
        "next_row_id" => "stop writers and raise table_counter.next_row_id above the sample's number",
        other => panic!("no check is called {other}"),
    }
}

/// The first sample of a check, without the remedy.
async fn sample(lake: &Lake, check: &str) -> String {
    let report = lake.catalog.verify("demo").await.unwrap();
    let found = report.checks.iter().find(|outcome| outcome.check == check).unwrap();
    found.samples[0].split(". ").next().unwrap().to_owned()
}

/// Breaks something and returns the checks that fail with their counts.
async fn broken_by(lake: &Lake, sql: &'static str) -> Vec<(&'static str, i64)> {
    lake.execute(sql).await;
    let report = lake.catalog.verify("demo").await.unwrap();
    for check in &report.checks {
        assert_eq!(check.samples.len() as i64, check.violations.min(20));
        assert!(check.samples.iter().all(|s| s.ends_with(remedy(check.check))), "{check:?}");
    }
    let failed = report.checks.iter().filter(|c| c.status == Status::Fail);
    let failed: Vec<_> = failed.map(|c| (c.check, c.violations)).collect();
    assert_eq!(report.status == Status::Pass, failed.is_empty());
    failed
}

#[tokio::test]
async fn a_fresh_catalog_passes_and_names_the_six_checks() {
    let lake = Lake::new().await;
    lake.execute(
        "insert into catalog (name, data_path, data_range) values ('new', 's3://n/', text_range('s3://n/', 's3://n0'))",
    )
    .await;
    lake.execute(
        "insert into snapshot (catalog_id, snapshot_id, snapshot_time, schema_version) values (2, 0, now(), 0)",
    )
    .await;
    let report = lake.catalog.verify("new").await.unwrap();
    assert_eq!(report.status, Status::Pass);
    let names: Vec<_> = report.checks.iter().map(|c| c.check).collect();
    assert_eq!(
        names,
        ["row_id_tiling", "delete_vectors", "orphans", "removal_queue", "snapshot_density", "next_row_id"]
    );
    assert_eq!(CHECKS.len(), 6);
    assert!(lake.catalog.verify("missing").await.is_err());
}

#[tokio::test]
async fn overlapping_row_ids_and_a_lagging_allocator_are_found() {
    let lake = Lake::new().await;
    for i in 0..30 {
        lake.commit(append("t", vec![file(&format!("f{i}"), 10)])).await.unwrap();
    }
    lake.verified().await;
    let found = broken_by(&lake, "update data_file set row_id_start = 0 where data_file_id > 1").await;
    assert_eq!(found, [("row_id_tiling", 29)]);
    let overlap = "data file 2 of table 1 has row ids [0, 10), but row ids below 10 are taken by files before it";
    assert_eq!(sample(&lake, "row_id_tiling").await, overlap);
    let found = broken_by(
        &lake,
        "update data_file set row_id_start = (data_file_id - 1) * 10;
        update table_counter set next_row_id = 299 where table_id = 1",
    )
    .await;
    assert_eq!(found, [("next_row_id", 1)]);
    let lagging = "table 1 would next give row id 299, its files hold row ids up to 299";
    assert_eq!(sample(&lake, "next_row_id").await, lagging);
    // in another order than they came in they do not overlap either
    let reversed = "update table_counter set next_row_id = 300 where table_id = 1;
                    update data_file set row_id_start = (30 - data_file_id) * 10";
    assert_eq!(broken_by(&lake, reversed).await, []);
    let found = broken_by(&lake, "update data_file set row_id_start = 145 where data_file_id = 16").await;
    assert_eq!(found, [("row_id_tiling", 1)]);
    // what no bigint holds is a violation as others are, and no end of the report
    let beyond = "update data_file set row_id_start = 9223372036854775800 where data_file_id = 1";
    assert_eq!(broken_by(&lake, beyond).await, [("row_id_tiling", 1), ("next_row_id", 1)]);
    lake.execute("update data_file set row_id_start = (data_file_id - 1) * 10").await;
    // outputs of compaction keep old ids
    let found = broken_by(
        &lake,
        "update table_counter set next_row_id = 300 where table_id = 1;
        update data_file set row_id_start = 0, explicit_row_ids = true where data_file_id = 30",
    )
    .await;
    assert_eq!(found, []);
}

#[tokio::test]
async fn impossible_vectors_are_found() {
    let lake = Lake::new().await;
    let begin = lake.commit(append("t", vec![file("a", 10)])).await.unwrap();
    let first = lake.commit(delete("t", begin, 1, 3)).await.unwrap();
    lake.commit(delete("t", first, 1, 5)).await.unwrap();
    lake.verified().await;
    let found = broken_by(&lake, "update delete_file set delete_count = 11 where end_snapshot is null").await;
    assert_eq!(found, [("delete_vectors", 1)]);
    assert_eq!(sample(&lake, "delete_vectors").await, "deletion vector 3 deletes 11 rows of data file 1, which has 10");
    let found = broken_by(&lake, "update delete_file set delete_count = 2 where end_snapshot is null").await;
    assert_eq!(found, [("delete_vectors", 1)]);
    assert_eq!(
        sample(&lake, "delete_vectors").await,
        "deletion vector 3 of data file 1 deletes 2 rows, the one before it (2) deleted 3"
    );
    let found = broken_by(
        &lake,
        "drop index delete_file_one_live; update delete_file set end_snapshot = null, delete_count = 3",
    )
    .await;
    assert_eq!(found, [("delete_vectors", 1)]);
    assert_eq!(sample(&lake, "delete_vectors").await, "data file 1 has 2 live deletion vectors: 2, 3");
}

#[tokio::test]
async fn orphans_are_found_and_a_dropped_table_is_none() {
    let lake = Lake::new().await;
    let begin = lake.commit(append("t", vec![file("a", 10)])).await.unwrap();
    lake.commit(delete("t", begin, 1, 3)).await.unwrap();
    lake.drop_table(1).await;
    lake.verified().await;
    let found = broken_by(&lake, "update table_version set end_snapshot = null where table_id = 1").await;
    assert_eq!(found, [("orphans", 1)]);
    let dropped = "table 1 was dropped in snapshot 6, yet it is still called 't'";
    assert_eq!(sample(&lake, "orphans").await, dropped);
    let found = broken_by(
        &lake,
        "update table_version set end_snapshot = 6 where table_id = 1;
        update data_file set begin_snapshot = 6",
    )
    .await;
    assert_eq!(found, [("orphans", 1)]);
    let found = broken_by(
        &lake,
        "update data_file set begin_snapshot = 4; update table_identity set purged = true where table_id = 1",
    )
    .await;
    // file, two columns, one name
    assert_eq!(found, [("orphans", 4)]);
    let found = broken_by(&lake, "update table_identity set purged = false; delete from data_file").await;
    assert_eq!(found, [("orphans", 1)]);
}

#[tokio::test]
async fn queued_live_paths_and_holes_in_history_are_found() {
    let lake = Lake::new().await;
    lake.commit(append("t", vec![file("a", 10)])).await.unwrap();
    let found = broken_by(
        &lake,
        "insert into file_removal (catalog_id, path, kind, reason)
        values (1, 's3://lake/demo/a', 'data', 'snapshot_expiry')",
    )
    .await;
    assert_eq!(found, [("removal_queue", 1)]);
    let removal = lake.number("select removal_id from file_removal").await;
    let queued =
        format!("removal {removal} would delete s3://lake/demo/a, which data file 1 of table 1 in catalog 1 refers to");
    assert_eq!(sample(&lake, "removal_queue").await, queued);
    let found = broken_by(&lake, "delete from file_removal; delete from snapshot where snapshot_id = 2").await;
    assert_eq!(found, [("snapshot_density", 1)]);
    let head = lake.number("select head_snapshot from catalog").await;
    let hole = format!("{head} snapshots are retained, [0, {head}] needs {}", head + 1);
    assert_eq!(sample(&lake, "snapshot_density").await, hole);
    let found = broken_by(&lake, "delete from snapshot where snapshot_id in (0, 4)").await;
    assert_eq!(found, [("snapshot_density", 3)]);
}

#[tokio::test]
async fn verify_neither_blocks_nor_waits_for_the_commit_lock() {
    let lake = Lake::new().await;
    let mut holder = lake.pool.begin().await.unwrap();
    let key = hoglake_catalog::lock::key(hoglake_model::CatalogId(1));
    sqlx::query("select pg_advisory_xact_lock($1)").bind(key).execute(&mut *holder).await.unwrap();
    sqlx::query("update catalog set head_snapshot = head_snapshot").execute(&mut *holder).await.unwrap();
    tokio::time::timeout(Duration::from_secs(5), lake.verified()).await.unwrap();
}
