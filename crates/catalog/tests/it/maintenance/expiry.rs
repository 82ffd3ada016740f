//! The floor moves as the rule says; what lies below it goes, and nothing else.

use super::{DEMO, delete};
use crate::lake::{Lake, append, file};
use hoglake_catalog::expiry::{ExpiryLimits, ExpiryResult};
use hoglake_catalog::pace::Pace;
use std::time::Duration;

fn floor(result: &ExpiryResult) -> (i64, i64, Option<&str>) {
    (result.snapshots_expired, result.new_earliest_snapshot_id, result.floored_by_consumer.as_deref())
}

async fn offset(lake: &Lake, consumer: &str, table: i64, snapshot: i64) {
    sqlx::query(
        "insert into consumer_offset (catalog_id, consumer_id, table_uuid, committed_snapshot)
         select 1, $1, table_uuid, $3 from table_identity where table_id = $2
         on conflict (catalog_id, consumer_id, table_uuid) do update set committed_snapshot = excluded.committed_snapshot",
    )
    .bind(consumer)
    .bind(table)
    .bind(snapshot)
    .execute(&lake.pool)
    .await
    .unwrap();
}

#[tokio::test]
async fn without_a_retention_nothing_expires() {
    let lake = Lake::new().await;
    lake.execute("update snapshot set snapshot_time = snapshot_time - interval '1 year'").await;
    assert_eq!(floor(&lake.expire().await), (0, 0, None));
}

#[tokio::test]
async fn expiry_stops_at_head_and_keeps_what_head_sees() {
    let lake = Lake::new().await;
    let begin = lake.commit(append("t", vec![file("a", 10), file("b", 10)])).await.unwrap();
    let first = lake.commit(delete("t", begin, 1, 3)).await.unwrap();
    let second = lake.commit(delete("t", first, 1, 4)).await.unwrap();
    lake.age().await;
    let preview = lake.catalog.expire_preview(DEMO, ExpiryLimits::default()).await.unwrap();
    assert_eq!(lake.number("select earliest_snapshot from catalog").await, 0);
    let result = lake.expire().await;
    assert_eq!(result, ExpiryResult { unfinished: false, ..preview });
    assert_eq!(floor(&result), (second, second, None));
    assert_eq!((result.data_files_queued, result.delete_files_queued), (0, 1));
    assert_eq!(lake.number("select count(*) from data_file").await, 2);
    assert_eq!(lake.number("select count(*) from delete_file").await, 1);
    assert_eq!(lake.number("select count(*) from snapshot").await, 1);
    assert_eq!(lake.number("select count(*) from snapshot_change where snapshot_id < 6").await, 0);
    assert_eq!(
        lake.number(
            "select count(*) from catalog c join snapshot s on s.snapshot_id = earliest_snapshot
                     where earliest_snapshot_time = snapshot_time"
        )
        .await,
        1
    );
    lake.verified().await;
    // a second sweep has nothing to do
    assert_eq!(floor(&lake.expire().await), (0, second, None));
}

#[tokio::test]
async fn a_batch_bounds_the_snapshots_of_one_sweep() {
    let lake = Lake::new().await;
    for i in 0..4 {
        lake.commit(append("t", vec![file(&format!("f{i}"), 1)])).await.unwrap();
    }
    lake.age().await;
    let limits = ExpiryLimits { batch: 3, ..ExpiryLimits::default() };
    let mut floors = Vec::new();
    for _ in 0..4 {
        floors.push(lake.catalog.expire(DEMO, limits).await.unwrap().new_earliest_snapshot_id);
        lake.verified().await;
    }
    assert_eq!(floors, [3, 6, 7, 7]);
}

#[tokio::test]
async fn consumers_and_publications_cap_the_sweep() {
    let lake = Lake::new().await;
    for i in 0..6 {
        lake.commit(append("t", vec![file(&format!("f{i}"), 1)])).await.unwrap();
    }
    lake.age().await;
    offset(&lake, "slow", 1, 5).await;
    offset(&lake, "fast", 1, 9).await;
    assert_eq!(floor(&lake.expire().await), (5, 5, Some("slow")));
    assert_eq!(floor(&lake.expire().await), (0, 5, Some("slow")));
    offset(&lake, "slow", 1, 7).await;
    offset(&lake, "publication:p", 2, 8).await;
    lake.execute("update catalog set consumer_floor = false").await;
    assert_eq!(floor(&lake.expire().await), (3, 8, Some("publication:p")));
    offset(&lake, "publication:p", 2, 9).await;
    // at head nothing is capped
    assert_eq!(floor(&lake.expire().await), (1, 9, None));
    lake.verified().await;
}

#[tokio::test]
async fn an_offset_on_a_table_whose_drop_is_old_pins_nothing() {
    let lake = Lake::new().await;
    lake.commit(append("t", vec![file("a", 1)])).await.unwrap();
    offset(&lake, "gone", 1, 4).await;
    let dropped = lake.drop_table(1).await;
    let head = lake.commit(append("u", vec![file("b", 1)])).await.unwrap();
    // while the drop is young, the consumer may still read up to it
    lake.age().await;
    sqlx::query("update snapshot set snapshot_time = clock_timestamp() where snapshot_id >= $1")
        .bind(dropped)
        .execute(&lake.pool)
        .await
        .unwrap();
    let young = lake.expire().await;
    assert_eq!(young.new_earliest_snapshot_id, dropped);
    lake.age().await;
    assert_eq!(floor(&lake.expire().await), (head - dropped, head, None));
    assert_eq!(lake.number("select count(*) from consumer_offset").await, 1);
    assert_eq!(lake.number("select count(*) from data_file where table_id = 1").await, 0);
    assert_eq!(lake.number("select count(*) from table_identity where purged and last_name = 't'").await, 1);
    assert_eq!(lake.number("select count(*) from table_column where table_id = 1").await, 0);
    lake.verified().await;
}

#[tokio::test]
async fn dropped_tables_are_purged_in_pages_and_continued_after_a_cut() {
    let lake = Lake::new().await;
    for i in 0..25 {
        lake.commit(append("t", vec![file(&format!("f{i}"), 1)])).await.unwrap();
    }
    lake.commit(append("u", vec![file("kept", 1)])).await.unwrap();
    lake.drop_table(1).await;
    lake.age().await;
    let limits = ExpiryLimits { page: 10, budget: Duration::ZERO, ..ExpiryLimits::default() };
    let first = lake.catalog.expire(DEMO, limits).await.unwrap();
    assert!(first.unfinished);
    lake.verified().await;
    let mut queued = first.data_files_queued;
    for _ in 0..20 {
        queued += lake.catalog.expire(DEMO, limits).await.unwrap().data_files_queued;
        lake.verified().await;
    }
    assert_eq!(queued, 25);
    assert_eq!(lake.number("select count(*) from file_removal where reason = 'table_drop'").await, 25);
    assert_eq!(lake.number("select count(*) from data_file").await, 1);
    assert_eq!(lake.number("select count(*) from snapshot").await, 1);
}

#[tokio::test]
async fn a_path_with_two_registrations_is_queued_with_the_last() {
    let lake = Lake::new().await;
    lake.commit(append("t", vec![file("twice", 1), file("once", 1)])).await.unwrap();
    lake.commit(append("u", vec![file("twice", 1)])).await.unwrap();
    lake.drop_table(1).await;
    lake.age().await;
    assert_eq!(lake.expire().await.data_files_queued, 1);
    lake.verified().await;
    lake.drop_table(2).await;
    lake.age().await;
    assert_eq!(lake.expire().await.data_files_queued, 1);
    assert_eq!(lake.number("select count(*) from file_removal").await, 2);
    lake.verified().await;
}

#[tokio::test]
async fn specs_that_files_follow_survive_and_old_idempotency_keys_do_not() {
    let lake = Lake::new().await;
    lake.execute(
        "insert into partition_spec (catalog_id, table_id, spec_id, begin_snapshot, end_snapshot)
           values (1, 1, 1, 2, 3), (1, 1, 2, 2, 3);
         insert into partition_spec_field values (1, 1, 1, 0, 2, 'identity', null), (1, 1, 2, 0, 1, 'bucket', 4);
         insert into idempotency_key (catalog_id, key, request_hash, status, snapshot_id, created_at)
           values (1, 'old', sha256(''), 200, 2, now() - interval '2 days'), (1, 'young', sha256(''), 200, 2, now()),
                  (1, 'kept', sha256(''), 200, 4, now() - interval '2 days')",
    )
    .await;
    lake.commit(append("t", vec![file("a", 1)])).await.unwrap();
    lake.execute("update data_file set spec_id = 1, partition_values = '{x}'").await;
    lake.age().await;
    lake.expire().await;
    assert_eq!(lake.number("select sum(spec_id)::bigint from partition_spec").await, 1);
    assert_eq!(lake.number("select count(*) from idempotency_key where key in ('young', 'kept')").await, 2);
    assert_eq!(lake.number("select count(*) from idempotency_key").await, 2);
}

#[tokio::test]
async fn purging_holds_no_lock_that_a_commit_needs() {
    let lake = Lake::new().await;
    for i in 0..3 {
        lake.commit(append("t", vec![file(&format!("f{i}"), 1)])).await.unwrap();
    }
    lake.drop_table(1).await;
    lake.age().await;
    // somebody holds a page open
    let mut page = lake.pool.begin().await.unwrap();
    sqlx::query("select from data_file where data_file_id = 1 for update").execute(&mut *page).await.unwrap();
    let catalog = lake.catalog.clone();
    let sweep = tokio::spawn(async move { catalog.expire(DEMO, ExpiryLimits::default()).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!sweep.is_finished());
    tokio::time::timeout(Duration::from_secs(5), lake.commit(append("u", vec![file("g", 1)]))).await.unwrap().unwrap();
    page.rollback().await.unwrap();
    assert_eq!(sweep.await.unwrap().unwrap().data_files_queued, 3);
}

#[tokio::test]
async fn work_that_makes_way_takes_small_steps_while_head_moves() {
    let lake = Lake::new().await;
    let mut pace = Pace::new(DEMO, true);
    let step = |pace: &Pace| pace.step(1000, 100, 10);
    // as if somebody committed, until head was seen twice
    assert_eq!((step(&pace), pace.step(5, 100, 10)), (10, 5));
    lake.catalog.rest(&mut pace, Duration::ZERO).await.unwrap();
    assert_eq!(step(&pace), 10);
    lake.catalog.rest(&mut pace, Duration::ZERO).await.unwrap();
    assert_eq!(step(&pace), 100);
    lake.commit(append("t", vec![file("a", 1)])).await.unwrap();
    assert!(lake.catalog.is_busy(&mut pace).await.unwrap());
    assert_eq!(step(&pace), 10);
    assert!(!lake.catalog.is_busy(&mut pace).await.unwrap());
    let mut asked_for = Pace::new(DEMO, false);
    lake.catalog.rest(&mut asked_for, Duration::from_secs(3600)).await.unwrap();
    assert_eq!(step(&asked_for), 1000);
}

/// Plans of commits are kept until the statistics change. One made while the queue was known to be empty reads all of it.
#[tokio::test]
async fn the_planner_hears_of_a_filling_queue_before_the_sweep_ends() {
    let lake = Lake::new().await;
    let files = (0..6000).map(|i| file(&format!("f{i}"), 1)).collect();
    lake.commit(append("t", files)).await.unwrap();
    lake.drop_table(1).await;
    lake.age().await;
    lake.commit(append("u", vec![file("g", 1)])).await.unwrap();
    lake.execute("vacuum analyze file_removal").await;
    let believed = "select reltuples::bigint from pg_class where oid = 'file_removal'::regclass";
    assert_eq!(lake.number(believed).await, 0);
    // no time: what was begun is ended, the rest is left to the next sweep
    let limits = ExpiryLimits { page: 5_500, budget: Duration::ZERO, ..ExpiryLimits::default() };
    let mut swept = 0;
    while swept < 5_000 {
        swept += lake.catalog.expire(DEMO, limits).await.unwrap().data_files_queued;
    }
    assert_eq!(swept, 5_500);
    assert_eq!(lake.number(believed).await, 5_500);
    while lake.catalog.expire(DEMO, limits).await.unwrap().unfinished {}
    lake.verified().await;
}
