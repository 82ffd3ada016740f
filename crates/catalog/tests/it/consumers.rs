//! Consumers and their offsets.

use crate::answer::{body, refusal};
use crate::lake::{Lake, append, file};
use hoglake_catalog::consumers::{self, CommitOffset};
use hoglake_catalog::expiry::ExpiryLimits;
use hoglake_catalog::idempotency::Answer;
use hoglake_catalog::{Result, lock};
use hoglake_model::{CatalogId, ErrorCode, SnapshotId};
use std::time::Duration;
use uuid::Uuid;

const T: Uuid = Uuid::from_u128(0x0000_0000_0000_4000_8000_0000_0000_0001);
const U: Uuid = Uuid::from_u128(0x0000_0000_0000_4000_8000_0000_0000_0002);

async fn put(lake: &Lake, consumer: &str, table: Uuid, snapshot_id: i64) -> Result<Answer> {
    lake.catalog.consumer_commit_offset("demo", consumer.to_owned(), table, CommitOffset { snapshot_id }, None).await
}

#[tokio::test]
async fn offsets_only_grow() {
    let lake = Lake::new().await;
    let stored = body(&put(&lake, "c", T, 2).await.unwrap());
    assert_eq!((&stored["consumer_id"], &stored["committed_snapshot"]), (&"c".into(), &2.into()));
    put(&lake, "c", T, 2).await.unwrap();
    put(&lake, "c", T, 3).await.unwrap();
    let back = refusal(put(&lake, "c", T, 1).await);
    assert_eq!(back.code, ErrorCode::OffsetRegression);
    assert!(back.detail.contains("already committed snapshot 3"), "{}", back.detail);
    assert_eq!(lake.catalog.consumer_offset("demo", "c", T).await.unwrap().committed_snapshot, 3);
    assert_eq!(lake.head().await, (3, 1, 3), "offsets make no snapshot");
}

#[tokio::test]
async fn rules_are_checked_in_order() {
    let lake = Lake::new().await;
    let long = "é".repeat(129);
    for consumer in ["", &long, "publication:p", "a\0"] {
        let refused = lake
            .catalog
            .consumer_commit_offset("nope", consumer.to_owned(), T, CommitOffset { snapshot_id: -1 }, None)
            .await;
        assert_eq!(refusal(refused).code, ErrorCode::Validation, "{consumer}");
    }
    let unknown = lake.catalog.consumer_commit_offset("nope", "c".to_owned(), T, CommitOffset { snapshot_id: 1 }, None);
    assert_eq!(refusal(unknown.await).code, ErrorCode::NotFound);
    sqlx::query("update catalog set earliest_snapshot = 2").execute(&lake.pool).await.unwrap();
    let nobody = Uuid::nil();
    for snapshot in [-1, 4, 1 << 62] {
        assert_eq!(refusal(put(&lake, "c", nobody, snapshot).await).code, ErrorCode::Validation);
    }
    assert_eq!(refusal(put(&lake, "c", nobody, 1).await).code, ErrorCode::Expired);
    assert!(refusal(put(&lake, "c", nobody, 2).await).detail.contains("no table of this catalog ever had the uuid"));
    let longest = "é".repeat(128);
    for consumer in [longest.as_str(), "a/b'; drop table snapshot --\n", "🦔"] {
        put(&lake, consumer, T, 2).await.unwrap();
        let offsets = lake.catalog.consumer_offsets("demo", consumer).await.unwrap();
        assert_eq!(offsets.len(), 1);
        assert_eq!(offsets[0].consumer_id, consumer);
    }
    assert!(lake.catalog.consumer_offsets("demo", "nobody").await.unwrap().is_empty());
    assert_eq!(refusal(lake.catalog.consumer_offset("demo", "nobody", T).await).code, ErrorCode::NotFound);
}

#[tokio::test]
async fn racing_writers_end_at_the_largest() {
    let lake = Lake::new().await;
    for n in 0..4 {
        lake.commit(append("t", vec![file(&format!("f{n}"), 1)])).await.unwrap();
    }
    let races = (0..72).map(|n| put(&lake, "c", T, 2 + (n * 7) % 6));
    for outcome in futures::future::join_all(races).await {
        assert!(outcome.is_ok() || refusal(outcome).code == ErrorCode::OffsetRegression);
    }
    assert_eq!(lake.catalog.consumer_offset("demo", "c", T).await.unwrap().committed_snapshot, 7);
}

#[tokio::test]
async fn dropped_tables_keep_their_last_name() {
    let lake = Lake::new().await;
    for (consumer, table) in [("b", U), ("b", T), ("a", T)] {
        put(&lake, consumer, table, 3).await.unwrap();
    }
    let ops = serde_json::from_value(serde_json::json!({"ops": [{"op": "rename_table", "new_name": "z"}]})).unwrap();
    lake.catalog.table_alter("demo", "ns".to_owned(), "t".to_owned(), ops, None, None).await.unwrap();
    lake.catalog.table_drop("demo", "ns".to_owned(), "z".to_owned(), None, None).await.unwrap();
    put(&lake, "a", T, 4).await.unwrap();
    let listed = serde_json::to_value(lake.catalog.consumer_list("demo").await.unwrap()).unwrap();
    let shown: Vec<(String, String, String, bool)> = listed["consumers"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|c| c["offsets"].as_array().unwrap().iter().map(move |o| (c, o)))
        .map(|(c, o)| {
            let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
            (text(&c["consumer_id"]), text(&o["namespace"]), text(&o["table_name"]), o["table_dropped"] == true)
        })
        .collect();
    let expect =
        |consumer: &str, table: &str, dropped| (consumer.to_owned(), "ns".to_owned(), table.to_owned(), dropped);
    assert_eq!(shown, [expect("a", "z", true), expect("b", "u", false), expect("b", "z", true)]);
}

/// Whoever moves the floor waits for accepted offsets, and offsets wait for whoever moves it.
#[tokio::test]
async fn an_offset_is_never_accepted_behind_the_back_of_expiry() {
    let lake = Lake::with(|options| options.commit_lock_timeout = Some(Duration::from_millis(300))).await;
    let mut expiry = lake.pool.begin().await.unwrap();
    lock::move_floor(&mut expiry, CatalogId(1)).await.unwrap();
    sqlx::query("update catalog set earliest_snapshot = 3 where catalog_id = 1").execute(&mut *expiry).await.unwrap();
    let blocked = refusal(put(&lake, "c", T, 2).await);
    assert_eq!(blocked.code, ErrorCode::CommitQueueTimeout);
    let (outcome, ()) = tokio::join!(put(&lake, "c", T, 2), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        expiry.commit().await.unwrap();
    });
    assert_eq!(refusal(outcome).code, ErrorCode::Expired);
}

#[tokio::test]
async fn expiry_waits_for_an_offset_that_is_being_accepted() {
    let lake = Lake::new().await;
    sqlx::raw_sql(
        "update catalog set snapshot_retention_seconds = 1;
         update snapshot set snapshot_time = snapshot_time - interval '1 day'",
    )
    .execute(&lake.pool)
    .await
    .unwrap();
    let mut accepting = lake.pool.begin().await.unwrap();
    consumers::put_offset(&mut accepting, CatalogId(1), "slow", T, SnapshotId(2)).await.unwrap();
    let (expired, ()) = tokio::join!(lake.catalog.expire(CatalogId(1), ExpiryLimits::default()), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        accepting.commit().await.unwrap();
    });
    let expired = expired.unwrap();
    assert_eq!((expired.new_earliest_snapshot_id, expired.floored_by_consumer.as_deref()), (2, Some("slow")));
}
