//! Snapshots: what a read means, and the listing.

use crate::answer::refusal;
use crate::lake::{Lake, append, file};
use chrono::{DateTime, Duration, Utc};
use hoglake_catalog::snapshots::{ResolvedSnapshot, SnapshotCursor, resolve};
use hoglake_model::{CatalogId, ErrorCode, SnapshotId, SnapshotSelector};

const DEMO: CatalogId = CatalogId(1);

async fn resolved(lake: &Lake, selector: SnapshotSelector) -> hoglake_catalog::Result<ResolvedSnapshot> {
    let mut transaction = lake.catalog.read().await.unwrap();
    resolve(&mut transaction, DEMO, selector).await
}

async fn at(lake: &Lake, id: i64) -> hoglake_catalog::Result<i64> {
    resolved(lake, SnapshotSelector::At(SnapshotId(id))).await.map(|s| s.id.0)
}

async fn then(lake: &Lake, moment: DateTime<Utc>) -> hoglake_catalog::Result<i64> {
    resolved(lake, SnapshotSelector::AtTimestamp(moment)).await.map(|s| s.id.0)
}

async fn time(lake: &Lake, id: i64) -> DateTime<Utc> {
    sqlx::query_scalar("select snapshot_time from snapshot where catalog_id = 1 and snapshot_id = $1")
        .bind(id)
        .fetch_one(&lake.pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn ids_must_be_retained() {
    let lake = Lake::new().await;
    for _ in 0..2 {
        lake.commit(append("t", vec![file("a", 1)])).await.unwrap();
    }
    for id in 0..=5 {
        assert_eq!(at(&lake, id).await.unwrap(), id);
    }
    // the rows below the floor go later, in pages
    let reached = "update catalog set earliest_snapshot = 3, earliest_snapshot_time = '2026-01-02T03:04:05Z'";
    sqlx::query(reached).execute(&lake.pool).await.unwrap();
    for (id, code) in [(6, ErrorCode::Validation), (-1, ErrorCode::Validation), (1 << 62, ErrorCode::Validation)] {
        assert_eq!(refusal(at(&lake, id).await).code, code, "{id}");
    }
    let expired = refusal(at(&lake, 2).await);
    assert_eq!(expired.code, ErrorCode::Expired);
    assert!(expired.detail.contains("is 3, reached at 2026-01-02T03:04:05.000000Z"), "{}", expired.detail);
    assert_eq!(at(&lake, 3).await.unwrap(), 3);
    let head = resolved(&lake, SnapshotSelector::Head).await.unwrap();
    assert_eq!((head.id, head.is_head(), head.pinned), (SnapshotId(5), true, false));
    assert!(resolved(&lake, SnapshotSelector::At(SnapshotId(5))).await.unwrap().pinned);
}

#[tokio::test]
async fn moments_mean_the_snapshot_that_was_head() {
    let lake = Lake::new().await;
    let tick = Duration::microseconds(1);
    for id in 1..=3 {
        let moment = time(&lake, id).await;
        assert_eq!(then(&lake, moment).await.unwrap(), id);
        assert_eq!(then(&lake, moment - tick).await.unwrap(), id - 1);
    }
    assert_eq!(then(&lake, Utc::now() + Duration::days(1)).await.unwrap(), 3);
    let genesis = time(&lake, 0).await;
    assert_eq!(refusal(then(&lake, genesis - tick).await).code, ErrorCode::Expired);
    sqlx::query("update catalog set earliest_snapshot = 2").execute(&lake.pool).await.unwrap();
    assert_eq!(refusal(then(&lake, time(&lake, 1).await).await).code, ErrorCode::Expired);
    assert_eq!(then(&lake, time(&lake, 2).await).await.unwrap(), 2);
    sqlx::query("update snapshot set snapshot_time = '2026-01-01T00:00:00Z'").execute(&lake.pool).await.unwrap();
    let moment = "2026-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(then(&lake, moment).await.unwrap(), 3, "the largest of equals");
    let shown = lake.catalog.snapshot_resolve("demo", moment).await.unwrap();
    let json = serde_json::json!({"snapshot_id": 3, "snapshot_time": "2026-01-01T00:00:00.000000Z"});
    assert_eq!(serde_json::to_value(shown).unwrap(), json);
}

async fn page(lake: &Lake, after: Option<i64>, before: Option<i64>, limit: Option<i64>) -> (Vec<i64>, bool) {
    let page = lake.catalog.snapshot_list("demo", SnapshotCursor { after, before, limit }).await.unwrap();
    (page.snapshots.iter().map(|s| s.snapshot_id).collect(), page.has_more)
}

#[tokio::test]
async fn pages_walk_up_and_down() {
    let lake = Lake::new().await;
    lake.commit(append("t", vec![file("a", 1)])).await.unwrap();
    assert_eq!(page(&lake, None, None, None).await, (vec![1, 2, 3, 4], false));
    assert_eq!(page(&lake, Some(-5), None, Some(2)).await, (vec![0, 1], true));
    assert_eq!(page(&lake, Some(2), None, Some(2)).await, (vec![3, 4], false));
    assert_eq!(page(&lake, Some(100_000), None, None).await, (vec![], false));
    assert_eq!(page(&lake, Some(4), None, None).await, (vec![], false));
    assert_eq!(page(&lake, None, Some(5), Some(3)).await, (vec![4, 3, 2], true));
    assert_eq!(page(&lake, Some(0), Some(1), None).await, (vec![0], false));
    assert_eq!(page(&lake, None, None, Some(99_999)).await.0.len(), 4);
    let mut walked = Vec::new();
    loop {
        let (ids, more) = page(&lake, Some(walked.last().copied().unwrap_or(-1)), None, Some(1)).await;
        walked.extend(ids);
        if !more {
            break;
        }
    }
    assert_eq!(walked, [0, 1, 2, 3, 4]);
    for (after, before, limit) in [(Some(2), Some(5), None), (None, None, Some(0)), (None, None, Some(-3))] {
        let refused = lake.catalog.snapshot_list("demo", SnapshotCursor { after, before, limit }).await;
        assert_eq!(refusal(refused).code, ErrorCode::Validation);
    }
    sqlx::query("update catalog set earliest_snapshot = 3").execute(&lake.pool).await.unwrap();
    assert_eq!(page(&lake, Some(-1), None, None).await, (vec![3, 4], false));
    assert_eq!(page(&lake, None, Some(5), Some(9)).await, (vec![4, 3], false));
}

#[tokio::test]
async fn snapshots_show_their_changes_author_and_message() {
    let lake = Lake::new().await;
    let mut request = append("t", vec![file("a", 1)]);
    request.author = Some(String::new());
    request.message = Some("'); --".to_owned());
    lake.commit(request).await.unwrap();
    let page = lake.catalog.snapshot_list("demo", SnapshotCursor { after: Some(-1), ..Default::default() }).await;
    let page = serde_json::to_value(page.unwrap()).unwrap();
    assert_eq!(page["snapshots"][0]["changes"], serde_json::json!([]));
    let last = &page["snapshots"][4];
    assert_eq!((&last["author"], &last["message"]), (&"".into(), &"'); --".into()));
    assert_eq!(last["changes"], serde_json::json!([{"kind": "table_inserted_into", "object_id": 1}]));
    assert!(page["snapshots"][3].get("author").is_none());
}
