//! Group commit on a real Postgres.

use crate::lake::{Lake, ROOT, append, file};
use hoglake_catalog::idempotency::IdempotencyKey;
use hoglake_catalog::lock;
use hoglake_model::commit::{ColumnStats, CommitRequest, DeleteFileRegistration, TableDeletes};
use hoglake_model::{CatalogId, ErrorCode};
use std::time::Duration;

fn delete(read_snapshot: i64, data_file_id: i64, delete_count: i64) -> CommitRequest {
    let vector = DeleteFileRegistration {
        data_file_id,
        path: format!("{ROOT}/dv-{data_file_id}-{delete_count}.puffin"),
        delete_count,
        file_size_bytes: 64,
    };
    let deletes = TableDeletes {
        namespace: "ns".to_owned(),
        table: "t".to_owned(),
        expected_table_uuid: None,
        files: vec![vector],
    };
    CommitRequest { read_snapshot: Some(read_snapshot), deletes: vec![deletes], ..CommitRequest::default() }
}

#[tokio::test]
async fn a_commit_writes_snapshot_change_file_statistics_and_counters() {
    let lake = Lake::new().await;
    let mut request = append("t", vec![file("a", 5), file("b", 7)]);
    request.author = Some("ann'; drop table snapshot; --".to_owned());
    request.message = Some(String::new());
    request.appends[0].files[1].column_stats = Some(vec![ColumnStats {
        field_id: 2,
        value_count: 7,
        null_count: 1,
        nan_count: None,
        size_bytes: Some(40),
        lower_bound: Some(b"a\"\\,{".to_vec()),
        upper_bound: Some(b"z".to_vec()),
    }]);
    let answer = lake.catalog.commit("demo", request, None).await.unwrap();
    assert_eq!(answer.body.as_deref(), Some(r#"{"snapshot_id":4,"schema_version":3}"#));

    let snapshot: (i64, Option<String>, Option<String>) =
        sqlx::query_as("select schema_version, author, message from snapshot where snapshot_id = 4")
            .fetch_one(&lake.pool)
            .await
            .unwrap();
    assert_eq!(snapshot, (3, Some("ann'; drop table snapshot; --".to_owned()), Some(String::new())));
    let files: Vec<(i64, i64, i64, String)> = sqlx::query_as(
        "select data_file_id, begin_snapshot, row_id_start, stats_state::text from data_file order by data_file_id",
    )
    .fetch_all(&lake.pool)
    .await
    .unwrap();
    assert_eq!(files, [(1, 4, 0, "pending".to_owned()), (2, 4, 5, "provided".to_owned())]);
    let bounds: (Vec<i32>, Vec<Option<i64>>, Vec<Vec<u8>>) =
        sqlx::query_as("select field_ids, nan_counts, lower_bounds from file_statistics where data_file_id = 2")
            .fetch_one(&lake.pool)
            .await
            .unwrap();
    assert_eq!(bounds, (vec![2], vec![None], vec![b"a\"\\,{".to_vec()]));
    let counter: (i64, i64, i64, i64) = sqlx::query_as(
        "select next_row_id, record_count, file_count, file_size_bytes from table_counter where table_id = 1",
    )
    .fetch_one(&lake.pool)
    .await
    .unwrap();
    assert_eq!(counter, (12, 12, 2, 200));
    assert_eq!(lake.number("select live_file_count from catalog").await, 2);
}

#[tokio::test]
async fn concurrent_writers_make_dense_snapshots_and_tiled_rows_from_two_processes() {
    let lake = Lake::new().await;
    let second = lake.second();
    let commits = (0..120).map(|i| {
        let catalog = if i % 3 == 0 { second.clone() } else { lake.catalog.clone() };
        let table = if i % 2 == 0 { "t" } else { "u" };
        async move { catalog.commit("demo", append(table, vec![file(&format!("f{i}"), i % 4)]), None).await.unwrap() }
    });
    let mut snapshots: Vec<i64> =
        futures::future::join_all(commits).await.into_iter().map(|a| a.snapshot.unwrap().0).collect();
    snapshots.sort_unstable();
    assert_eq!(snapshots, (4..124).collect::<Vec<_>>());
    assert_eq!(lake.head().await, (123, 121, 3));
    assert_eq!(lake.number("select count(*) from snapshot").await, 124);
    // positional ranges tile: each file begins where the one before it ended
    let gaps = "select count(*) from (
        select row_id_start, lag(row_id_start + record_count, 1, 0::bigint)
                 over (partition by table_id order by data_file_id) as expected from data_file) t
      where row_id_start <> expected";
    assert_eq!(lake.number(gaps).await, 0);
    let backwards = "select count(*) from (
        select snapshot_time, lag(snapshot_time) over (order by snapshot_id) as before from snapshot) t
      where snapshot_time < before";
    assert_eq!(lake.number(backwards).await, 0);
}

#[tokio::test]
async fn a_refused_member_of_a_group_fails_alone_and_leaves_no_trace() {
    let lake = Lake::new().await;
    let good = (0..10).map(|i| lake.commit(append("t", vec![file(&format!("g{i}"), 1)])));
    let bad = (0..10).map(|i| lake.commit(append("missing", vec![file(&format!("b{i}"), 1)])));
    let (good, bad) = futures::join!(futures::future::join_all(good), futures::future::join_all(bad));
    assert!(good.iter().all(Result::is_ok), "{good:?}");
    assert!(bad.iter().all(|b| b.as_ref().is_err_and(|e| e.refusal().unwrap().code == ErrorCode::Validation)));
    assert_eq!(lake.head().await, (13, 11, 3));
}

#[tokio::test]
async fn vectors_replace_each_other_and_conflict() {
    let lake = Lake::new().await;
    let begin = lake.commit(append("t", vec![file("a", 10)])).await.unwrap();
    let first = lake.commit(delete(begin, 1, 3)).await.unwrap();
    let raced = lake.commit(delete(begin, 1, 5)).await.unwrap_err().refusal().unwrap();
    assert_eq!(raced.code, ErrorCode::CommitConflict, "{raced}");
    let shrunk = lake.commit(delete(first, 1, 2)).await.unwrap_err().refusal().unwrap();
    assert_eq!(shrunk.code, ErrorCode::Validation, "{shrunk}");
    let second = lake.commit(delete(first, 1, 3)).await.unwrap();
    let vectors: Vec<(i64, i64, Option<i64>)> =
        sqlx::query_as("select delete_file_id, begin_snapshot, end_snapshot from delete_file order by 1")
            .fetch_all(&lake.pool)
            .await
            .unwrap();
    assert_eq!(vectors, [(2, first, Some(second)), (3, second, None)]);
}

#[tokio::test]
async fn racing_deletes_of_one_file_have_one_winner() {
    let lake = Lake::new().await;
    let begin = lake.commit(append("t", vec![file("a", 100)])).await.unwrap();
    let outcomes = futures::future::join_all((1..=8).map(|n| lake.commit(delete(begin, 1, n)))).await;
    assert_eq!(outcomes.iter().filter(|o| o.is_ok()).count(), 1);
    for lost in outcomes.into_iter().filter_map(Result::err) {
        assert_eq!(lost.refusal().unwrap().code, ErrorCode::CommitConflict, "{lost}");
    }
}

#[tokio::test]
async fn a_key_answers_once_and_replays_after() {
    let lake = Lake::new().await;
    let request = append("t", vec![file("a", 1)]);
    let key = || Some(IdempotencyKey::new("k-1", "POST", "/v1/catalogs/demo/commit", b"body").unwrap());
    // ten at once, in one group or several: one commit
    let answers = futures::future::join_all((0..10).map(|_| lake.catalog.commit("demo", request.clone(), key()))).await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().filter(|a| !a.replayed).count(), 1);
    assert!(answers.iter().all(|a| a.snapshot == answers[0].snapshot && a.body == answers[0].body));
    let again = lake.second().commit("demo", request.clone(), key()).await.unwrap();
    assert!(again.replayed);
    assert_eq!(lake.head().await.0, 4);
    let other = IdempotencyKey::new("k-1", "POST", "/v1/catalogs/demo/commit", b"another body").unwrap();
    let refusal = lake.catalog.commit("demo", request, Some(other)).await.unwrap_err().refusal().unwrap();
    assert_eq!(refusal.code, ErrorCode::Validation);
}

#[tokio::test]
async fn a_refused_request_does_not_burn_its_key() {
    let lake = Lake::new().await;
    let key = || Some(IdempotencyKey::new("k", "POST", "/", b"").unwrap());
    lake.catalog.commit("demo", append("missing", vec![file("a", 1)]), key()).await.unwrap_err();
    let answer = lake.catalog.commit("demo", append("t", vec![file("a", 1)]), key()).await.unwrap();
    assert!(!answer.replayed);
}

#[tokio::test]
async fn a_path_in_the_removal_queue_conflicts_until_it_is_settled() {
    let lake = Lake::new().await;
    sqlx::query("insert into file_removal (catalog_id, path, kind, reason) values (1, $1, 'data', 'snapshot_expiry')")
        .bind(format!("{ROOT}/a"))
        .execute(&lake.pool)
        .await
        .unwrap();
    let refusal = lake.commit(append("t", vec![file("a", 1)])).await.unwrap_err().refusal().unwrap();
    assert_eq!(refusal.code, ErrorCode::CommitConflict);
    sqlx::query("update file_removal set settled_at = now(), outcome = 'deleted'").execute(&lake.pool).await.unwrap();
    lake.commit(append("t", vec![file("a", 1)])).await.unwrap();
}

#[tokio::test]
async fn waiting_for_the_lock_is_bounded_and_the_retry_succeeds_once() {
    let lake = Lake::with(|o| o.commit_lock_timeout = Some(Duration::from_millis(300))).await;
    let mut holder = lake.pool.begin().await.unwrap();
    sqlx::query("select pg_advisory_xact_lock($1)").bind(lock::key(CatalogId(1))).execute(&mut *holder).await.unwrap();
    let shed =
        futures::future::join_all((0..20).map(|i| lake.commit(append("t", vec![file(&format!("f{i}"), 1)])))).await;
    for outcome in shed {
        let refusal = outcome.unwrap_err().refusal().unwrap();
        assert_eq!(refusal.code, ErrorCode::CommitQueueTimeout, "{refusal}");
    }
    holder.rollback().await.unwrap();
    assert_eq!(lake.commit(append("t", vec![file("f0", 1)])).await.unwrap(), 4);
}

#[tokio::test]
async fn closing_finishes_what_was_accepted() {
    let lake = Lake::new().await;
    let commits: Vec<_> = (0..50)
        .map(|i| {
            let catalog = lake.catalog.clone();
            tokio::spawn(
                async move { catalog.commit("demo", append("t", vec![file(&format!("f{i}"), 1)]), None).await },
            )
        })
        .collect();
    // let them queue
    tokio::time::sleep(Duration::from_millis(5)).await;
    lake.catalog.close().await;
    let mut committed = 0;
    for commit in commits {
        match commit.await.unwrap() {
            Ok(_) => committed += 1,
            Err(error) => assert_eq!(error.refusal().unwrap().code, ErrorCode::Unavailable, "{error:?}"),
        }
    }
    assert_eq!(lake.head().await.0, 3 + committed);
}

/// A full disk in the middle of a commit, as Postgres reports it.
#[tokio::test]
async fn a_database_out_of_room_is_unavailable_and_changes_nothing() {
    let lake = Lake::new().await;
    sqlx::raw_sql(
        "create function full_disk() returns trigger language plpgsql as
           $$ begin raise exception 'could not extend file' using errcode = 'disk_full'; end $$;
         create trigger full_disk before insert on data_file execute function full_disk()",
    )
    .execute(&lake.pool)
    .await
    .unwrap();
    let before = lake.head().await;
    let refusal = lake.commit(append("t", vec![file("a", 1)])).await.unwrap_err().refusal().unwrap();
    assert_eq!(refusal.code, ErrorCode::Unavailable, "{refusal}");
    assert_eq!(lake.head().await, before);
    sqlx::raw_sql("drop trigger full_disk on data_file").execute(&lake.pool).await.unwrap();
    assert_eq!(lake.commit(append("t", vec![file("a", 1)])).await.unwrap(), before.0 + 1);
}
