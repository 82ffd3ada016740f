//! `/v1/catalogs/{catalog}/namespaces`, its tables and views.

use super::{get, lake, send};
use serde_json::json;

const TABLES: &str = "/v1/catalogs/lake/namespaces/ns/tables";

#[tokio::test]
async fn reads_pinned_to_a_snapshot_carry_an_etag() {
    let (server, _database) = lake().await;
    let table = json!({"name": "t", "columns": [{"name": "id", "type": "int"}]});
    assert_eq!(send(&server, "POST", TABLES, &table).await.status, 201);
    for target in ["/v1/catalogs/lake/namespaces", TABLES, &format!("{TABLES}/t")] {
        assert_eq!(get(&server, target).await.header("etag"), None, "{target}");
        let pinned = format!("{target}?snapshot=2");
        let first = get(&server, &pinned).await;
        let etag = first.header("etag").expect(&pinned).to_owned();
        let again = server.request("GET", &pinned).header("If-None-Match", &etag).send().await;
        assert_eq!((again.status, again.header("etag"), again.body.len()), (304, Some(etag.as_str()), 0));
        let both = get(&server, &format!("{pinned}&at_timestamp=2999-01-01T00:00:00Z")).await;
        assert_eq!(both.failure(), (422, "validation".to_owned()));
        assert_eq!(get(&server, &format!("{target}?snapshot=9223372036854775808")).await.status, 400);
        assert_eq!(get(&server, &format!("{target}?snapshot=3")).await.status, 422);
    }
    // an unknown catalog is unknown whatever the parameters say
    assert_eq!(get(&server, "/v1/catalogs/nope/namespaces?snapshot=x").await.status, 404);
    let light = get(&server, &format!("{TABLES}/t?totals=false")).await.json();
    assert!(light.get("record_count").is_none() && light["columns"][0]["field_id"] == 1);
}

#[tokio::test]
async fn tables_evolve_and_go() {
    let (server, _database) = lake().await;
    let table = json!({"name": "t", "columns": [{"name": "id", "type": "int"}, {"name": "x", "type": "double"}]});
    send(&server, "POST", TABLES, &table).await;
    let alter = async |ops| send(&server, "POST", &format!("{TABLES}/t/alter"), &json!({ "ops": ops })).await;
    let evolved = alter(json!([{"op": "promote_column", "name": "id", "to": "long"}])).await;
    assert_eq!((evolved.status, &evolved.json()["columns"][0]["type"]), (200, &"long".into()));
    assert_eq!(evolved.json()["snapshot_id"], 3);
    for (ops, status) in [
        (json!([]), 400),
        (json!([{"op": "explode_table"}]), 400),
        (json!([{"op": "drop_column"}]), 400),
        (json!([{"op": "promote_column", "name": "id", "to": "hugeint"}]), 422),
        (json!([{"op": "set_partition_spec", "fields": [{"source_field_id": 1, "transform": "truncate"}]}]), 422),
        (json!([{"op": "rename_column", "from": "id", "to": "_hog_row_id"}]), 422),
    ] {
        assert_eq!(alter(ops.clone()).await.status, status, "{ops}");
    }
    let dropped = server.request("DELETE", &format!("{TABLES}/t")).header("Idempotency-Key", "d").send().await;
    assert_eq!((dropped.status, dropped.json()), (200, json!({"snapshot_id": 4, "schema_version": 4})));
    let again = server.request("DELETE", &format!("{TABLES}/t")).header("Idempotency-Key", "d").send().await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (200, Some("true")));
    assert_eq!(server.request("DELETE", &format!("{TABLES}/t")).send().await.status, 404);
    for hostile in ["a%2Fb", "%27%3B--", "%00", "%F0%9F%A6%94"] {
        assert_eq!(get(&server, &format!("{TABLES}/{hostile}")).await.status, 404, "{hostile}");
    }
}

#[tokio::test]
async fn views_come_and_go() {
    let (server, _database) = lake().await;
    let views = "/v1/catalogs/lake/namespaces/ns/views";
    let made = send(&server, "POST", views, &json!({"name": "v", "sql": "select  1", "dialect": null})).await;
    assert_eq!((made.status, &made.json()["dialect"]), (201, &"trino".into()));
    assert_eq!(get(&server, &format!("{views}/v")).await.json()["sql"], "select  1");
    assert_eq!(get(&server, views).await.json().as_array().map(Vec::len), Some(1));
    assert_eq!(server.request("DELETE", &format!("{views}/v")).send().await.json()["snapshot_id"], 3);
    assert_eq!(get(&server, &format!("{views}/v")).await.status, 404);
}
