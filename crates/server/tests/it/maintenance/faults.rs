//! Killed at every step of expiry, cleanup and compaction, on local files and on S3: nothing live is lost, nothing is left behind.

use super::lake::Lake;
use hoglake_catalog::fault;
use hoglake_server::worker::Trigger;
use hoglake_testkit::server::ServerCommand;
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;

/// Small files with vectors, a dropped history, and something queued: work for every task.
async fn staged(on_s3: bool) -> Lake {
    let mut lake = if on_s3 { Lake::on_s3(true).await } else { Lake::new(true).await };
    for i in 0..6 {
        lake.append(&[(i, Some("x")), (i + 100, None)]).await;
    }
    lake.delete(1, &BTreeSet::from([0])).await;
    lake.delete(1, &BTreeSet::from([0, 1])).await;
    lake.delete(2, &BTreeSet::from([1])).await;
    // the dropped table whose drop has expired by the end
    lake.execute(
        "insert into table_identity (catalog_id, table_id, table_uuid, created_snapshot, dropped_snapshot, ddl_snapshot,
           last_namespace, last_name, next_field_id) values (1, 2, gen_random_uuid(), 1, 2, 2, 'ns', 'gone', 2);
         insert into table_counter (catalog_id, table_id, next_row_id) values (1, 2, 1)",
    )
    .await;
    let dead = lake.write(&[(7, None)]);
    sqlx::query(
        "insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, path, record_count, file_size_bytes,
                                row_id_start, stats_state)
         select 1, next_file_id, 2, 1, $1, 1, $2, 0, 'pending' from catalog",
    )
    .bind(&dead.path)
    .bind(dead.file_size_bytes)
    .execute(&lake.pool)
    .await
    .unwrap();
    lake.execute("update catalog set next_file_id = next_file_id + 1").await;
    lake
}

/// The command that comes to `point`.
fn command(point: &str) -> &'static str {
    match point.split('.').next() {
        Some("expiry") => "expire",
        Some("cleanup") => "clean",
        Some("compaction") => "compact",
        other => panic!("no command comes to {other:?}"),
    }
}

async fn killed_at(point: &'static str, on_s3: bool) {
    let lake = staged(on_s3).await;
    let task = command(point);
    if task != "compact" {
        // inputs of a compaction are what expiry and cleanup have to do with
        assert_eq!(lake.compact().await, 1);
        lake.age(0).await;
    }
    if task == "clean" {
        lake.worker.expire(&lake.catalog, 10_000, false, Trigger::Request).await.unwrap();
    }
    let head = lake.head().await;
    let before = lake.rows_at(head).await;
    assert_eq!(before.len(), 9);
    let run = lake.reaches_its_objects(ServerCommand::new(task).arg("demo")).env("HOGLAKE_FAULT_POINT", point);
    let output = tokio::task::block_in_place(|| run.output());
    let place = if on_s3 { "on S3" } else { "on local files" };
    assert!(output.status.signal().is_some(), "{point} was not reached {place}: {output:?}");

    // right after the crash
    lake.verified().await;
    assert_eq!(lake.rows_at(lake.head().await).await, before, "{point} {place}");
    assert!(lake.orphans().await.is_empty(), "{point} {place}");

    // others take over when the claims end
    lake.let_claims_end().await;
    lake.compact().await;
    lake.age(0).await;
    lake.worker.expire(&lake.catalog, 10_000, false, Trigger::Request).await.unwrap();
    lake.worker.clean(&lake.catalog, 10_000, false, Trigger::Request).await.unwrap();
    lake.verified().await;
    assert_eq!(lake.rows_at(lake.head().await).await, before, "{point} {place}");
    assert!(lake.orphans().await.is_empty(), "{point} {place}");
    assert_eq!(lake.number("select count(*) from data_file").await, 1, "{point} {place}");
    assert_eq!(lake.number("select count(*) from file_removal where settled_at is null").await, 0, "{point} {place}");
    assert_eq!(
        lake.number("select count(*) from table_identity where table_id = 2 and purged").await,
        1,
        "{point} {place}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_every_point_of_expiry() {
    for point in fault::POINTS.iter().filter(|p| p.starts_with("expiry.")) {
        killed_at(point, false).await;
        killed_at(point, true).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_every_point_of_cleanup() {
    for point in fault::POINTS.iter().filter(|p| p.starts_with("cleanup.")) {
        killed_at(point, false).await;
        killed_at(point, true).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_every_point_of_compaction() {
    for point in fault::POINTS.iter().filter(|p| p.starts_with("compaction.")) {
        killed_at(point, false).await;
        killed_at(point, true).await;
    }
}

#[test]
fn every_point_belongs_to_a_command() {
    // the server itself comes to those of publications: e2e/test_publication_faults.py
    for point in fault::POINTS.iter().filter(|point| !point.starts_with("publication.")) {
        command(point);
    }
}
