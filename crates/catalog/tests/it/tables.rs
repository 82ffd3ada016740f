//! Tables: create, show, list, drop; evolution in [`alter`].

mod alter;

use crate::answer::{body, refusal};
use crate::lake::{Lake, append, file};
use hoglake_catalog::Result;
use hoglake_catalog::idempotency::Answer;
use hoglake_model::{ErrorCode, SnapshotId, SnapshotSelector};
use serde_json::{Value, json};

pub async fn create(lake: &Lake, namespace: &str, request: Value) -> Result<Answer> {
    let request = serde_json::from_value(request).unwrap();
    lake.catalog.table_create("demo", namespace.to_owned(), request, None, None).await
}

pub async fn drop_table(lake: &Lake, table: &str) -> Result<Answer> {
    lake.catalog.table_drop("demo", "ns".to_owned(), table.to_owned(), None, Some("ann".to_owned())).await
}

/// The table as the API shows it.
pub async fn show(lake: &Lake, table: &str, selector: SnapshotSelector) -> Result<Value> {
    let (_, table) = lake.catalog.table_get("demo", "ns", table, selector, true).await?;
    Ok(serde_json::to_value(table).unwrap())
}

pub const fn at(snapshot: i64) -> SnapshotSelector {
    SnapshotSelector::At(SnapshotId(snapshot))
}

#[tokio::test]
async fn a_new_table_has_ids_from_one_ordinals_from_zero_and_no_rows() {
    let lake = Lake::new().await;
    let params = r#"{"scale": 2,"precision":9, "deep": [{"a": 1.50}]}"#;
    let request = format!(
        r#"{{"name": "new", "columns": [
            {{"name": "team", "type": "long", "nullable": false}}, {{"name": "Team", "type": "string"}},
            {{"name": "amount", "type": "decimal", "type_params": {params}}}]}}"#
    );
    let request = serde_json::from_str(&request).unwrap();
    let answer = lake.catalog.table_create("demo", "ns".to_owned(), request, None, None).await.unwrap();
    assert_eq!(answer.status, 201);
    assert!(answer.body.as_deref().unwrap().contains(params), "type_params come back letter by letter");
    let made = body(&answer);
    assert_eq!(
        made["columns"][0],
        json!({"name": "team", "type": "long", "nullable": false, "field_id": 1, "ordinal": 0})
    );
    assert_eq!(made["columns"][1]["nullable"], true);
    assert_eq!((&made["record_count"], &made["file_count"], &made["snapshot_id"]), (&0.into(), &0.into(), &4.into()));
    assert!(made.get("partition_spec").is_none() && made.get("sort_spec").is_none());
    let mut shown = show(&lake, "new", SnapshotSelector::Head).await.unwrap();
    shown["snapshot_id"] = 4.into();
    assert_eq!(shown, made);
    let (_, light) = lake.catalog.table_get("demo", "ns", "new", at(4), false).await.unwrap();
    assert!(serde_json::to_value(light).unwrap().get("record_count").is_none());
}

#[tokio::test]
async fn bad_tables_are_refused_in_order() {
    let lake = Lake::new().await;
    let id = json!({"name": "id", "type": "long"});
    for (request, code) in [
        (json!({"name": "a b", "columns": []}), "table name"),
        (json!({"name": "x", "columns": []}), "at least one column"),
        (json!({"name": "x", "columns": [{"name": "9", "type": "nope"}]}), "column name"),
        (json!({"name": "x", "columns": [{"name": "_HOG_id", "type": "long"}]}), "reserved"),
        (json!({"name": "x", "columns": [{"name": "a", "type": "nope"}, id, id]}), "column type"),
        (json!({"name": "x", "columns": [{"name": "a", "type": "decimal"}]}), "precision"),
        (json!({"name": "x", "columns": [id, id]}), "listed twice"),
    ] {
        let refused = refusal(create(&lake, "nope", request).await);
        assert_eq!(refused.code, ErrorCode::Validation);
        assert!(refused.detail.contains(code), "{}", refused.detail);
    }
    let good = |name: &str| json!({"name": name, "columns": [{"name": "id", "type": "long"}]});
    assert_eq!(refusal(create(&lake, "nope", good("t")).await).code, ErrorCode::NotFound);
    assert_eq!(refusal(create(&lake, "ns", good("t")).await).code, ErrorCode::AlreadyExists);
    assert_eq!(lake.head().await, (3, 1, 3));
    assert_eq!(lake.number("select next_table_id from catalog").await, 3);
    create(&lake, "ns", good("T")).await.unwrap();
}

#[tokio::test]
async fn totals_and_names_are_those_of_the_snapshot() {
    let lake = Lake::new().await;
    lake.commit(append("t", vec![file("a", 5)])).await.unwrap();
    lake.commit(append("t", vec![file("b", 7), file("c", 0)])).await.unwrap();
    let totals = async |snapshot| {
        let table = show(&lake, "t", snapshot).await.unwrap();
        ["record_count", "file_count", "file_size_bytes"].map(|field| table[field].as_i64().unwrap())
    };
    assert_eq!(totals(at(3)).await, [0, 0, 0]);
    assert_eq!(totals(at(4)).await, [5, 1, 100]);
    assert_eq!(totals(at(5)).await, [12, 3, 300]);
    assert_eq!(totals(SnapshotSelector::Head).await, [12, 3, 300]);
    assert_eq!(refusal(show(&lake, "t", at(1)).await).code, ErrorCode::NotFound);
    assert_eq!(refusal(show(&lake, "t", at(0)).await).code, ErrorCode::NotFound);
    for (catalog, namespace, table) in
        [("x", "ns", "t"), ("demo", "n\0", "t"), ("demo", "ns", "a/b"), ("demo", "ns", "\0")]
    {
        let found = lake.catalog.table_get(catalog, namespace, table, SnapshotSelector::Head, true).await;
        assert_eq!(refusal(found).code, ErrorCode::NotFound);
    }
}

#[tokio::test]
async fn dropping_touches_no_file_and_history_stays() {
    let lake = Lake::new().await;
    lake.commit(append("t", vec![file("a", 5), file("b", 5)])).await.unwrap();
    let before: Vec<(i64, Option<i64>, String)> = files(&lake).await;
    let dropped = drop_table(&lake, "t").await.unwrap();
    assert_eq!(body(&dropped), json!({"snapshot_id": 5, "schema_version": 4}));
    assert_eq!(files(&lake).await, before, "not even rewritten");
    assert_eq!(refusal(drop_table(&lake, "t").await).code, ErrorCode::NotFound);
    assert_eq!(refusal(show(&lake, "t", SnapshotSelector::Head).await).code, ErrorCode::NotFound);
    assert_eq!(show(&lake, "t", at(4)).await.unwrap()["record_count"], 10);
    let counters: (i64, i64) =
        sqlx::query_as("select live_table_count, live_file_count from catalog").fetch_one(&lake.pool).await.unwrap();
    assert_eq!(counters, (1, 0));
    let identity: (i64, i64, String) =
        sqlx::query_as("select dropped_snapshot, ddl_snapshot, last_name from table_identity where table_id = 1")
            .fetch_one(&lake.pool)
            .await
            .unwrap();
    assert_eq!(identity, (5, 5, "t".to_owned()));
    let live = "select count(*) from table_column where table_id = 1 and end_snapshot is null";
    assert_eq!(lake.number(live).await, 0);
    assert_eq!(
        lake.commit(append("t", vec![file("c", 1)])).await.unwrap_err().refusal().unwrap().code,
        ErrorCode::Validation
    );
}

async fn files(lake: &Lake) -> Vec<(i64, Option<i64>, String)> {
    sqlx::query_as("select data_file_id, end_snapshot, xmin::text from data_file order by 1")
        .fetch_all(&lake.pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn ten_lives_of_one_name_are_ten_tables() {
    let lake = Lake::new().await;
    let mut uuids = std::collections::HashSet::new();
    for life in 0..10 {
        let request = json!({"name": "again", "columns": [{"name": "id", "type": "long"}]});
        let made = body(&create(&lake, "ns", request).await.unwrap());
        uuids.insert(made["table_uuid"].as_str().unwrap().to_owned());
        let snapshot = lake.commit(append("again", vec![file(&format!("{life}"), 3)])).await.unwrap();
        let row_ids = "select row_id_start from data_file order by data_file_id desc limit 1";
        assert_eq!(lake.number(row_ids).await, 0, "row ids start over");
        drop_table(&lake, "again").await.unwrap();
        let old = show(&lake, "again", at(snapshot)).await.unwrap();
        assert_eq!((&old["table_uuid"], &old["record_count"]), (&made["table_uuid"], &3.into()));
    }
    assert_eq!(uuids.len(), 10);
    assert_eq!(refusal(show(&lake, "again", SnapshotSelector::Head).await).code, ErrorCode::NotFound);
}

#[tokio::test]
async fn listings_show_the_names_of_the_snapshot_in_order() {
    let lake = Lake::new().await;
    create(&lake, "ns", json!({"name": "B", "columns": [{"name": "id", "type": "long"}]})).await.unwrap();
    drop_table(&lake, "t").await.unwrap();
    let list = async |selector| {
        let (_, tables) = lake.catalog.table_list("demo", "ns", selector).await.unwrap();
        tables.into_iter().map(|t| t.name).collect::<Vec<_>>()
    };
    assert_eq!(list(SnapshotSelector::Head).await, ["B", "u"]);
    assert_eq!(list(at(4)).await, ["B", "t", "u"]);
    assert_eq!(list(at(2)).await, ["t"]);
    assert!(list(at(1)).await.is_empty());
    assert_eq!(refusal(lake.catalog.table_list("demo", "ns", at(0)).await).code, ErrorCode::NotFound);
    assert_eq!(refusal(lake.catalog.table_list("demo", "ns", at(99)).await).code, ErrorCode::Validation);
}
