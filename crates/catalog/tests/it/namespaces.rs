//! Namespaces.

use crate::answer::{body, refusal};
use crate::lake::Lake;
use hoglake_catalog::namespaces::CreateNamespace;
use hoglake_model::{ErrorCode, SnapshotId, SnapshotSelector};

fn named(name: &str) -> CreateNamespace {
    CreateNamespace { name: name.to_owned() }
}

#[tokio::test]
async fn a_namespace_is_one_snapshot_with_its_author() {
    let lake = Lake::new().await;
    let author = Some("ann".to_owned());
    let answer = lake.catalog.namespace_create("demo", named("Second-9"), None, author).await.unwrap();
    assert_eq!((answer.status, body(&answer)), (201, serde_json::json!({"name": "Second-9", "snapshot_id": 4})));
    assert_eq!(lake.head().await, (4, 1, 4));
    let made: (String, i64, String) = sqlx::query_as(
        "select kind::text, object_id, author from snapshot_change join snapshot using (catalog_id, snapshot_id)
         where snapshot_id = 4",
    )
    .fetch_one(&lake.pool)
    .await
    .unwrap();
    assert_eq!(made, ("namespace_created".to_owned(), 2, "ann".to_owned()));
}

#[tokio::test]
async fn names_are_checked_then_the_catalog_then_duplicates() {
    let lake = Lake::new().await;
    let create = |catalog, name| lake.catalog.namespace_create(catalog, named(name), None, None);
    assert_eq!(refusal(create("nope", "a b").await).code, ErrorCode::Validation);
    assert_eq!(refusal(create("nope", "a").await).code, ErrorCode::NotFound);
    assert_eq!(refusal(create("demo", "ns").await).code, ErrorCode::AlreadyExists);
    assert_eq!(lake.head().await, (3, 1, 3));
    create("demo", "NS").await.unwrap();
}

#[tokio::test]
async fn listings_are_ordered_and_go_back_in_time() {
    let lake = Lake::new().await;
    for name in ["b", "B", "_a"] {
        lake.catalog.namespace_create("demo", named(name), None, None).await.unwrap();
    }
    let list = async |selector| {
        let (_, namespaces) = lake.catalog.namespace_list("demo", selector).await.unwrap();
        namespaces.into_iter().map(|n| n.name).collect::<Vec<_>>()
    };
    assert_eq!(list(SnapshotSelector::Head).await, ["B", "_a", "b", "ns"]);
    assert_eq!(list(SnapshotSelector::At(SnapshotId(4))).await, ["b", "ns"]);
    assert!(list(SnapshotSelector::At(SnapshotId(0))).await.is_empty());
    assert_eq!(lake.catalog.namespace_get("demo", "b").await.unwrap().name, "b");
    for name in ["nope", "a/b", "a\0", "'; --"] {
        assert_eq!(refusal(lake.catalog.namespace_get("demo", name).await).code, ErrorCode::NotFound);
    }
}
