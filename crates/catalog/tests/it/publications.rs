//! Who publishes what: leases, and the fence that holds off a server that has lost one.

use crate::lake::Lake;
use hoglake_catalog::publications::CreatePublication;
use hoglake_model::SnapshotId;
use std::time::Duration;
use uuid::Uuid;

const LONG: Duration = Duration::from_secs(600);
const OVER: Duration = Duration::ZERO;

async fn create(lake: &Lake, name: &str) {
    let request: CreatePublication = serde_json::from_value(serde_json::json!({
        "name": name, "namespace": "ns", "table": "t", "from_snapshot": 0,
        "sink": {"type": "kafka", "bootstrap_servers": "127.0.0.1:9092", "topic": name, "format": "json"},
    }))
    .unwrap();
    lake.catalog.publication_create("demo", request, None).await.unwrap();
}

#[tokio::test]
async fn a_server_that_lost_its_lease_changes_nothing() {
    let lake = Lake::new().await;
    create(&lake, "p").await;
    let (first, second) = (Uuid::new_v4(), Uuid::new_v4());
    let before = lake.catalog.publication_claim(first, LONG, 4).await.unwrap().remove(0);
    assert!(lake.catalog.publication_claim(second, LONG, 4).await.unwrap().is_empty(), "it is taken");
    assert!(lake.catalog.publication_advance(&before, SnapshotId(1)).await.unwrap());

    // it hangs until its lease is over, and another one takes it
    lake.catalog.publication_renew(first, OVER, &[before.id]).await.unwrap();
    let now = lake.catalog.publication_claim(second, LONG, 4).await.unwrap().remove(0);
    assert_eq!((now.id, now.committed, now.fence), (before.id, SnapshotId(1), before.fence + 1));

    assert!(!lake.catalog.publication_advance(&before, SnapshotId(3)).await.unwrap());
    assert!(!lake.catalog.publication_wait(&before, "late").await.unwrap());
    assert!(!lake.catalog.publication_halt(&before, "late").await.unwrap());
    assert!(lake.catalog.publication_renew(first, LONG, &[before.id]).await.unwrap().is_empty());
    let shown = lake.catalog.publication_get("demo", "p").await.unwrap();
    assert_eq!(serde_json::to_value(&shown).unwrap()["committed_snapshot"], 1);
    assert!(lake.catalog.publication_advance(&now, SnapshotId(2)).await.unwrap());
    assert!(lake.catalog.publication_halt(&now, "enough").await.unwrap());
}

#[tokio::test]
async fn what_a_server_holds_and_does_not_publish_is_not_prolonged() {
    let lake = Lake::new().await;
    create(&lake, "p").await;
    create(&lake, "q").await;
    let holder = Uuid::new_v4();
    // the answer about one of them was lost
    let claims = lake.catalog.publication_claim(holder, OVER, 4).await.unwrap();
    assert_eq!(claims.len(), 2);
    let held = lake.catalog.publication_claim(holder, Duration::from_millis(300), 4).await.unwrap();
    let renewed = lake.catalog.publication_renew(holder, LONG, &[held[0].id]).await.unwrap();
    assert_eq!(renewed, [(held[0].id, held[0].fence)]);
    tokio::time::sleep(Duration::from_millis(350)).await;
    let free = lake.catalog.publication_claim(Uuid::new_v4(), LONG, 4).await.unwrap();
    assert_eq!(free.iter().map(|claim| claim.id).collect::<Vec<_>>(), [held[1].id]);
}
