//! Tags of reads at a named snapshot: they hold while the answer does, and no longer.

use super::{at, ids, json, lives, table_t, window};
use crate::lake::Lake;
use hoglake_catalog::changes::ChangesRequest;
use hoglake_catalog::scan::ScanRequest;

async fn tag(lake: &Lake, request: ScanRequest) -> Option<String> {
    lake.catalog.scan(request).await.unwrap().etag
}

#[tokio::test]
async fn a_held_answer_is_not_sent_again() {
    let lake = Lake::new().await;
    lives(&lake).await;
    assert_eq!(tag(&lake, table_t()).await, None);
    let first = tag(&lake, at(8)).await;
    assert!(first.is_some());
    let again = lake.catalog.scan(ScanRequest { if_none_match: first.clone(), ..at(8) }).await.unwrap();
    assert_eq!(again.etag, first);
    assert!(again.body.is_none());
    // Other questions have other tags.
    for other in
        [at(7), ScanRequest { stats: true, ..at(8) }, ScanRequest { filter: Some("id > 1".to_owned()), ..at(8) }]
    {
        let answer = lake.catalog.scan(ScanRequest { if_none_match: first.clone(), ..other }).await.unwrap();
        assert!(answer.body.is_some());
        assert_ne!(answer.etag, first);
    }
    let files = lake.catalog.files(at(8)).await.unwrap().etag;
    assert!(files.is_some() && files != first);
    let open = lake.catalog.changes(window(3, None)).await.unwrap().etag;
    assert_eq!(open, None);
    let closed = lake.catalog.changes(window(3, Some(8))).await.unwrap().etag;
    let again = ChangesRequest { if_none_match: closed.clone(), ..window(3, Some(8)) };
    let again = lake.catalog.changes(again).await.unwrap();
    assert!(closed.is_some() && again.etag == closed && again.body.is_none());
}

#[tokio::test]
async fn a_tag_ends_when_statistics_arrive() {
    let lake = Lake::new().await;
    lives(&lake).await;
    let scan = ScanRequest { filter: Some("id < 5".to_owned()), stats: true, ..at(6) };
    let before = tag(&lake, scan.clone()).await;
    assert_eq!(ids(&json(lake.catalog.scan(scan.clone()).await).await), [1, 2, 6, 3]);
    // A commit changes nothing at snapshot 6.
    sqlx::query("update data_file set end_snapshot = 9 where data_file_id = 3").execute(&lake.pool).await.unwrap();
    assert_eq!(tag(&lake, scan.clone()).await, before);
    // Statistics of file 2 arrive: its state shows, and the filter leaves it out.
    sqlx::raw_sql(
        "update data_file set stats_state = 'provided' where data_file_id = 2;
         insert into file_statistics values (1, 2, '{1}', '{10}', '{0}', '{null}', '{1}',
           array['\\x0a00000000000000'::bytea], array['\\x1300000000000000'::bytea])",
    )
    .execute(&lake.pool)
    .await
    .unwrap();
    let after = tag(&lake, scan.clone()).await;
    assert_ne!(after, before);
    assert_eq!(ids(&json(lake.catalog.scan(scan.clone()).await).await), [1, 6, 3]);
    // Back and forth: the answer may be the first one again, but no tag comes twice.
    for state in ["failed", "pending", "provided"] {
        let set = format!("update data_file set stats_state = '{state}' where data_file_id = 2");
        sqlx::raw_sql(sqlx::AssertSqlSafe(set)).execute(&lake.pool).await.unwrap();
        assert_ne!(tag(&lake, scan.clone()).await, after);
    }
}

/// A restore to an earlier moment gives snapshot ids again: what a client holds of the lost snapshot is not the new one's.
#[tokio::test]
async fn a_tag_does_not_outlive_a_restore() {
    let lake = Lake::new().await;
    lives(&lake).await;
    let tags = async || {
        [
            lake.catalog.scan(at(8)).await.unwrap().etag.unwrap(),
            lake.catalog.files(at(8)).await.unwrap().etag.unwrap(),
            lake.catalog.changes(window(3, Some(8))).await.unwrap().etag.unwrap(),
        ]
    };
    let lost = tags().await;
    let again = "update snapshot set snapshot_time = snapshot_time + interval '1 hour' where snapshot_id >= 8";
    sqlx::query(again).execute(&lake.pool).await.unwrap();
    for (lost, new) in lost.iter().zip(tags().await) {
        assert_ne!(*lost, new);
    }
}
