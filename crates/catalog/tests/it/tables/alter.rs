//! Evolution: what the rules decided is what the database shows, at every snapshot.

use super::{at, create, drop_table, show};
use crate::answer::{body, refusal};
use crate::lake::{Lake, append, file};
use hoglake_catalog::Result;
use hoglake_catalog::idempotency::Answer;
use hoglake_model::{ErrorCode, SnapshotSelector};
use serde_json::{Value, json};

async fn alter(lake: &Lake, table: &str, ops: Value) -> Result<Answer> {
    let request = serde_json::from_value(json!({ "ops": ops })).unwrap();
    lake.catalog.table_alter("demo", "ns".to_owned(), table.to_owned(), request, None, None).await
}

fn columns(table: &Value) -> Vec<(i64, &str, &str)> {
    let column = |c: &'_ Value| c["field_id"].as_i64().unwrap();
    let columns = table["columns"].as_array().unwrap();
    columns.iter().map(|c| (column(c), c["name"].as_str().unwrap(), c["type"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn every_operation_in_one_request_is_one_snapshot() {
    let lake = Lake::new().await;
    let evolved = alter(
        &lake,
        "t",
        json!([
            {"op": "add_column", "column": {"name": "x", "type": "int"}},
            {"op": "rename_column", "from": "x", "to": "n"},
            {"op": "promote_column", "name": "n", "to": "long"},
            {"op": "rename_column", "from": "id", "to": "x"},
            {"op": "rename_column", "from": "name", "to": "id"},
            {"op": "rename_column", "from": "x", "to": "name"},
            {"op": "add_column", "column": {"name": "ts", "type": "timestamptz"}},
            {"op": "set_partition_spec", "fields": [{"source_field_id": 1, "transform": "identity"}]},
            {"op": "set_partition_spec", "fields": [
                {"source_field_id": 4, "transform": "hour"},
                {"source_field_id": 3, "transform": "bucket", "transform_param": 16}]},
            {"op": "set_sort_order", "sort_fields": [
                {"source_field_id": 1, "direction": "desc", "null_order": "nulls_first"}]},
            {"op": "rename_table", "new_name": "renamed"}
        ]),
    )
    .await
    .unwrap();
    let evolved = body(&evolved);
    let expected = [(1, "name", "long"), (2, "id", "string"), (3, "n", "long"), (4, "ts", "timestamptz")];
    assert_eq!(columns(&evolved), expected);
    assert_eq!(
        evolved["partition_spec"],
        json!({"spec_id": 2, "fields": [
            {"source_field_id": 4, "transform": "hour"},
            {"source_field_id": 3, "transform": "bucket", "transform_param": 16}]})
    );
    let sort = json!({"source_field_id": 1, "direction": "desc", "null_order": "nulls_first"});
    assert_eq!(evolved["sort_spec"], json!({"sort_id": 1, "fields": [sort]}));
    assert_eq!((&evolved["name"], &evolved["snapshot_id"]), (&"renamed".into(), &4.into()));
    let mut shown = show(&lake, "renamed", SnapshotSelector::Head).await.unwrap();
    shown["snapshot_id"] = 4.into();
    assert_eq!(shown, evolved);
    assert_eq!(lake.head().await, (4, 1, 4));
    assert_eq!(lake.number("select count(*) from snapshot_change where snapshot_id = 4").await, 1);
    let old = show(&lake, "t", at(3)).await.unwrap();
    assert_eq!(columns(&old), [(1, "id", "long"), (2, "name", "string")]);
    assert!(old.get("partition_spec").is_none());
    assert_eq!(refusal(show(&lake, "t", SnapshotSelector::Head).await).code, ErrorCode::NotFound);
    assert_eq!(refusal(show(&lake, "renamed", at(3)).await).code, ErrorCode::NotFound);
    // the spec that nothing was ever written under does not exist
    assert_eq!(lake.number("select count(*) from partition_spec").await, 1);
}

#[tokio::test]
async fn a_failing_operation_undoes_those_before_it() {
    let lake = Lake::new().await;
    let before = show(&lake, "t", SnapshotSelector::Head).await.unwrap();
    let refused = alter(
        &lake,
        "t",
        json!([
            {"op": "add_column", "column": {"name": "x", "type": "int"}},
            {"op": "set_partition_spec", "fields": [{"source_field_id": 3, "transform": "identity"}]},
            {"op": "drop_column", "name": "nope"}
        ]),
    )
    .await;
    assert!(refusal(refused).detail.starts_with("ops[2] drop_column"));
    assert_eq!(show(&lake, "t", SnapshotSelector::Head).await.unwrap(), before);
    assert_eq!(lake.head().await, (3, 1, 3));
    alter(&lake, "t", json!([{"op": "add_column", "column": {"name": "x", "type": "int"}}])).await.unwrap();
    let after = show(&lake, "t", SnapshotSelector::Head).await.unwrap();
    assert_eq!(columns(&after)[2].0, 3, "the allocator was rolled back, too");
}

#[tokio::test]
async fn spec_and_field_ids_are_never_given_twice() {
    let lake = Lake::new().await;
    let partition = |fields: Value| json!([{"op": "set_partition_spec", "fields": fields}]);
    let by_id = json!([{"source_field_id": 1, "transform": "identity"}]);
    for (snapshot, fields) in [(4, by_id.clone()), (5, json!([])), (6, by_id.clone())] {
        alter(&lake, "t", partition(fields)).await.unwrap();
        let shown = show(&lake, "t", at(snapshot)).await.unwrap();
        let spec = shown.get("partition_spec").map(|s| s["spec_id"].as_i64().unwrap());
        assert_eq!(spec, [Some(1), None, Some(3)][usize::try_from(snapshot - 4).unwrap()]);
    }
    // what expiry may delete is not what the next id hangs on
    sqlx::raw_sql("delete from partition_spec where end_snapshot is not null").execute(&lake.pool).await.unwrap();
    let again = body(&alter(&lake, "t", partition(by_id)).await.unwrap());
    assert_eq!(again["partition_spec"]["spec_id"], 4);
    for n in 0..3 {
        alter(&lake, "u", json!([{"op": "add_column", "column": {"name": "x", "type": "int"}}])).await.unwrap();
        let dropped = body(&alter(&lake, "u", json!([{"op": "drop_column", "name": "x"}])).await.unwrap());
        assert_eq!(dropped["columns"].as_array().unwrap().len(), 2, "{n}");
    }
    sqlx::raw_sql("delete from table_column where end_snapshot is not null").execute(&lake.pool).await.unwrap();
    let added = alter(&lake, "u", json!([{"op": "add_column", "column": {"name": "x", "type": "int"}}])).await.unwrap();
    assert_eq!(columns(&body(&added))[2].0, 6);
}

#[tokio::test]
async fn files_that_may_bind_by_name_stop_a_rename_until_they_are_gone() {
    let lake = Lake::new().await;
    let rename = || alter(&lake, "t", json!([{"op": "rename_column", "from": "name", "to": "title"}]));
    lake.commit(append("t", vec![file("pending", 1), file("idless", 1)])).await.unwrap();
    lake.commit(append("u", vec![file("elsewhere", 1)])).await.unwrap();
    let read = "update data_file set stats_state = 'provided', missing_field_ids = true where path like '%idless'";
    sqlx::query(read).execute(&lake.pool).await.unwrap();
    let refused = refusal(rename().await);
    assert_eq!(refused.code, ErrorCode::IdlessFilesPresent);
    assert!(refused.detail.contains("1 without field ids, 1 with their footer"), "{}", refused.detail);
    alter(&lake, "t", json!([{"op": "rename_table", "new_name": "t2"}])).await.unwrap();
    alter(&lake, "t2", json!([{"op": "rename_table", "new_name": "t"}])).await.unwrap();
    sqlx::query("update data_file set end_snapshot = 7 where path like '%idless'").execute(&lake.pool).await.unwrap();
    assert!(refusal(rename().await).detail.contains("0 without field ids, 1 with"));
    sqlx::query("update data_file set stats_state = 'provided' where path like '%pending'")
        .execute(&lake.pool)
        .await
        .unwrap();
    assert_eq!(columns(&body(&rename().await.unwrap()))[1].1, "title");
}

#[tokio::test]
async fn a_table_takes_no_name_of_another_live_one() {
    let lake = Lake::new().await;
    let rename = |to: &str| json!([{"op": "rename_table", "new_name": to}]);
    assert_eq!(refusal(alter(&lake, "t", rename("u")).await).code, ErrorCode::AlreadyExists);
    assert_eq!(refusal(alter(&lake, "t", rename("\0")).await).code, ErrorCode::Validation);
    alter(&lake, "t", rename("t")).await.unwrap();
    assert_eq!(lake.head().await, (4, 1, 4), "its own name is no change, and yet a snapshot");
    drop_table(&lake, "u").await.unwrap();
    alter(&lake, "t", rename("u")).await.unwrap();
    let column = json!([{"name": "id", "type": "long"}]);
    create(&lake, "ns", json!({"name": "t", "columns": column})).await.unwrap();
    let last: (String, i64) = sqlx::query_as("select last_name, ddl_snapshot from table_identity where table_id = 1")
        .fetch_one(&lake.pool)
        .await
        .unwrap();
    assert_eq!(last, ("u".to_owned(), 6));
}

#[tokio::test]
async fn twenty_names_of_one_table_each_answer_at_their_snapshot() {
    let lake = Lake::new().await;
    let uuid = show(&lake, "t", SnapshotSelector::Head).await.unwrap()["table_uuid"].clone();
    let mut name = "t".to_owned();
    for n in 0..20 {
        let next = format!("n{n}");
        alter(&lake, &name, json!([{"op": "rename_table", "new_name": next}])).await.unwrap();
        name = next;
    }
    for n in 0..20 {
        assert_eq!(show(&lake, &format!("n{n}"), at(4 + n)).await.unwrap()["table_uuid"], uuid);
    }
    assert_eq!(refusal(show(&lake, "n19", at(4)).await).code, ErrorCode::NotFound);
}

#[tokio::test]
async fn commits_after_an_alter_see_the_new_spec() {
    let lake = Lake::new().await;
    lake.commit(append("t", vec![file("before", 1)])).await.unwrap();
    alter(
        &lake,
        "t",
        json!([{"op": "set_partition_spec", "fields": [{"source_field_id": 1, "transform": "identity"}]}]),
    )
    .await
    .unwrap();
    let stale = lake.commit(append("t", vec![file("unpartitioned", 1)])).await;
    assert_eq!(stale.unwrap_err().refusal().unwrap().code, ErrorCode::Validation);
    let mut fresh = append("t", vec![file("after", 1)]);
    fresh.appends[0].files[0].partition_values = Some(vec![Some("1".to_owned())]);
    lake.commit(fresh).await.unwrap();
    let missing = alter(&lake, "nope", json!([{"op": "drop_column", "name": "id"}])).await;
    assert_eq!(refusal(missing).code, ErrorCode::NotFound);
}
