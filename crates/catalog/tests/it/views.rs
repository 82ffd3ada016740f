//! Views.

use crate::answer::{body, refusal};
use crate::lake::Lake;
use hoglake_catalog::views::CreateView;
use hoglake_model::ErrorCode;

fn view(name: &str, sql: &str, dialect: Option<&str>) -> CreateView {
    CreateView { name: name.to_owned(), sql: sql.to_owned(), dialect: dialect.map(str::to_owned) }
}

#[tokio::test]
async fn a_view_keeps_its_sql_letter_by_letter_and_is_new_each_time() {
    let lake = Lake::new().await;
    let sql = format!("select '{}'\n  -- ü \t;", "x".repeat(1 << 20));
    let create = || lake.catalog.view_create("demo", "ns".to_owned(), view("v", &sql, None), None, None);
    let made = create().await.unwrap();
    assert_eq!((made.status, &body(&made)["snapshot_id"]), (201, &4.into()));
    let shown = lake.catalog.view_get("demo", "ns", "v").await.unwrap();
    assert_eq!((shown.sql.as_str(), shown.dialect.as_str(), shown.snapshot_id), (sql.as_str(), "trino", None));
    assert_eq!(refusal(create().await).code, ErrorCode::AlreadyExists);
    let dropped = lake.catalog.view_drop("demo", "ns".to_owned(), "v".to_owned(), None, None).await.unwrap();
    assert_eq!((dropped.status, body(&dropped)), (200, serde_json::json!({"snapshot_id": 5, "schema_version": 5})));
    assert_eq!(refusal(lake.catalog.view_get("demo", "ns", "v").await).code, ErrorCode::NotFound);
    let again = lake.catalog.view_drop("demo", "ns".to_owned(), "v".to_owned(), None, None).await;
    assert_eq!(refusal(again).code, ErrorCode::NotFound);
    create().await.unwrap();
    let second = lake.catalog.view_get("demo", "ns", "v").await.unwrap();
    assert_ne!(second.view_uuid, shown.view_uuid);
    let changes: Vec<(i64, String, i64)> = sqlx::query_as(
        "select snapshot_id, kind::text, object_id from snapshot_change where snapshot_id > 3 order by snapshot_id",
    )
    .fetch_all(&lake.pool)
    .await
    .unwrap();
    let changes: Vec<_> = changes.iter().map(|(id, kind, object)| (*id, kind.as_str(), *object)).collect();
    assert_eq!(changes, [(4, "view_created", 1), (5, "view_dropped", 1), (6, "view_created", 2)]);
}

#[tokio::test]
async fn bad_views_are_refused_in_order() {
    let lake = Lake::new().await;
    let create = |catalog: &'static str, namespace: &str, view| {
        lake.catalog.view_create(catalog, namespace.to_owned(), view, None, None)
    };
    for bad in [view("9", "x", None), view("v", " \n", None), view("v", "x", Some(" ")), view("v", "x\0", None)] {
        assert_eq!(refusal(create("nope", "nope", bad).await).code, ErrorCode::Validation);
    }
    assert_eq!(refusal(create("nope", "ns", view("v", "x", None)).await).code, ErrorCode::NotFound);
    assert_eq!(refusal(create("demo", "nope", view("v", "x", None)).await).code, ErrorCode::NotFound);
    assert_eq!(lake.head().await, (3, 1, 3));
    // a view may have the name of a table
    create("demo", "ns", view("t", "x", Some("duckdb"))).await.unwrap();
    create("demo", "ns", view("a", "y", None)).await.unwrap();
    let names: Vec<String> = lake.catalog.view_list("demo", "ns").await.unwrap().into_iter().map(|v| v.name).collect();
    assert_eq!(names, ["a", "t"]);
    assert_eq!(refusal(lake.catalog.view_list("demo", "nope").await).code, ErrorCode::NotFound);
}
