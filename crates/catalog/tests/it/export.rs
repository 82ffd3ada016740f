//! The export: complete, in order, consistent, and without what is not live.

use crate::lake::Lake;
use futures::StreamExt;
use hoglake_catalog::listing::Body;
use serde_json::{Value, json};

async fn text(lake: &Lake, unlisted: bool) -> Vec<u8> {
    match lake.catalog.export("demo", unlisted).await.unwrap() {
        Body::Whole(text) => text.to_vec(),
        Body::Stream(mut chunks) => {
            let mut text = Vec::new();
            while let Some(chunk) = chunks.next().await {
                text.extend_from_slice(&chunk.unwrap());
            }
            text
        }
    }
}

async fn export(lake: &Lake, unlisted: bool) -> Value {
    serde_json::from_slice(&text(lake, unlisted).await).unwrap()
}

fn ids(list: &Value, key: &str) -> Vec<i64> {
    list.as_array().unwrap().iter().map(|element| element[key].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn a_new_catalog_has_tables_without_files() {
    let lake = Lake::new().await;
    let export = export(&lake, true).await;
    let table = |name: &str, n: i64| {
        json!({"namespace": "ns", "table": name, "table_uuid": format!("00000000-0000-4000-8000-00000000000{n}"),
               "files": [], "delete_files": []})
    };
    assert_eq!(export["tables"], json!([table("t", 1), table("u", 2)]));
    for (field, value) in [
        ("catalog", json!("demo")),
        ("data_path", json!("s3://lake/demo/")),
        ("head_snapshot_id", json!(3)),
        ("earliest_snapshot_id", json!(0)),
        ("earliest_snapshot_time", Value::Null),
        ("consumer_offsets", json!([])),
        ("unlisted", json!([])),
    ] {
        assert_eq!(export.get(field), Some(&value), "{field}");
    }
    assert!(export["head_snapshot_time"].as_str().is_some_and(|time| time.ends_with('Z')));
    let unknown = lake.catalog.export("absent", false).await.err().and_then(|e| e.refusal()).unwrap();
    assert_eq!(unknown.code.status(), 404);
}

#[tokio::test]
async fn live_files_and_vectors_are_listed_and_nothing_else_is() {
    let lake = Lake::new().await;
    crate::reads::lives(&lake).await;
    sqlx::raw_sql(
        "insert into consumer_offset (catalog_id, consumer_id, table_uuid, committed_snapshot, updated_at)
         values (1, 'b', '00000000-0000-4000-8000-000000000001', 5, '2026-01-02T03:04:05.678901Z'),
                (1, 'B', '00000000-0000-4000-8000-000000000002', 4, '2026-01-02T03:04:05Z');
         insert into file_removal (catalog_id, path, kind, reason, settled_at, outcome)
         values (1, 's3://lake/demo/gone', 'data', 'snapshot_expiry', now(), 'deleted'),
                (1, 's3://lake/demo/queued', 'delete', 'snapshot_expiry', null, null),
                (1, 's3://lake/demo/staged', 'data', 'compaction_staging', null, null);
         insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, path, record_count, file_size_bytes,
                                row_id_start, stats_state)
         values (1, 50, 2, 4, 's3://lake/demo/dropped', 1, 77, 0, 'pending');
         insert into delete_file (catalog_id, delete_file_id, table_id, data_file_id, begin_snapshot, path, delete_count,
                                  file_size_bytes)
         values (1, 51, 2, 50, 5, 's3://lake/demo/dropped-vector', 1, 7);
         update table_version set end_snapshot = 6 where table_id = 2;
         update table_identity set dropped_snapshot = 6 where table_id = 2;
         update catalog set earliest_snapshot = 4, earliest_snapshot_time = '2026-01-01T00:00:00Z'",
    )
    .execute(&lake.pool)
    .await
    .unwrap();
    let plain = export(&lake, false).await;
    assert_eq!(plain.get("unlisted"), None);
    let all = export(&lake, true).await;
    assert_eq!(
        (&all["earliest_snapshot_id"], &all["earliest_snapshot_time"]),
        (&json!(4), &json!("2026-01-01T00:00:00.000000Z"))
    );
    assert_eq!(plain["tables"], all["tables"]);
    let tables = all["tables"].as_array().unwrap();
    assert_eq!(tables.len(), 1, "the dropped one is not live");
    assert_eq!(ids(&tables[0]["files"], "data_file_id"), [1, 4, 6, 3], "as a scan of it");
    assert_eq!(
        tables[0]["delete_files"],
        json!([{"delete_file_id": 21, "data_file_id": 1, "path": "s3://lake/demo/21.puffin", "file_format": "puffin-dv",
                "delete_count": 2, "file_size_bytes": 51, "begin_snapshot": 8}])
    );
    let files = super::reads::json(lake.catalog.scan(super::reads::table_t()).await).await;
    let scanned: Vec<&Value> = files.as_array().unwrap().iter().map(|file| &file["data_file"]).collect();
    assert_eq!(tables[0]["files"].as_array().unwrap().iter().collect::<Vec<_>>(), scanned, "field by field");
    assert_eq!(
        all["consumer_offsets"],
        json!([
            {"consumer_id": "B", "table_uuid": "00000000-0000-4000-8000-000000000002", "committed_snapshot": 4,
             "updated_at": "2026-01-02T03:04:05.000000Z"},
            {"consumer_id": "b", "table_uuid": "00000000-0000-4000-8000-000000000001", "committed_snapshot": 5,
             "updated_at": "2026-01-02T03:04:05.678901Z"}
        ])
    );
    let mut unlisted = all["unlisted"].as_array().unwrap().clone();
    unlisted.sort_by_key(|object| object["path"].as_str().unwrap().to_owned());
    let object = |state: &str, kind: &str, name: &str, size: Option<i64>| {
        let mut object = json!({"state": state, "kind": kind, "path": format!("s3://lake/demo/{name}")});
        if let Some(size) = size {
            object["file_size_bytes"] = json!(size);
        }
        object
    };
    let states: Vec<(&str, &str)> =
        unlisted.iter().map(|o| (o["state"].as_str().unwrap(), &o["path"].as_str().unwrap()[15..])).collect();
    let wanted = [
        ("retained", "2.parquet"),
        ("retained", "20.puffin"),
        ("retained", "22.puffin"),
        ("retained", "5.parquet"),
        ("retained", "dropped"),
        ("retained", "dropped-vector"),
        ("retained", "other.parquet"),
        ("queued", "queued"),
        ("staged", "staged"),
    ];
    assert_eq!(states, wanted);
    assert_eq!(unlisted[4], object("retained", "data", "dropped", Some(77)));
    assert_eq!(unlisted[5], object("retained", "delete", "dropped-vector", Some(7)));
    assert_eq!(unlisted[7], object("queued", "delete", "queued", None));
    assert_eq!(unlisted[8], object("staged", "data", "staged", None));
}

/// Tables of all sizes: some share a statement, some have their own, and some have nothing.
#[tokio::test]
async fn tables_of_all_sizes_are_complete_and_in_order() {
    let lake = Lake::new().await;
    let files = |table: i64| match table % 7 {
        0 => 0,
        1 if table == 8 => 6_000,
        n => n * 20,
    };
    let (tables, counts): (Vec<i64>, Vec<i64>) = (3..2_503).map(|table| (table, files(table))).unzip();
    sqlx::query(
        "with made as materialized (select * from unnest($1::bigint[], $2::bigint[]) x(id, files)),
         identity as (
           insert into table_identity (catalog_id, table_id, table_uuid, created_snapshot, ddl_snapshot, last_namespace,
                                       last_name, next_field_id)
           select 1, id, gen_random_uuid(), 3, 3, 'ns', 'x' || id, 3 from made returning table_id),
         version as (
           insert into table_version (catalog_id, table_id, begin_snapshot, namespace_id, name)
           select 1, id, 3, 1, 'x' || lpad(id::text, 5, '0') from made),
         counter as (insert into table_counter (catalog_id, table_id, file_count) select 1, id, files from made),
         vector as (
           insert into delete_file (catalog_id, delete_file_id, table_id, data_file_id, begin_snapshot, path, delete_count,
                                    file_size_bytes)
           select 1, 100000000 + id * 10000 + n, id, id * 10000 + n, 3, 'v', 1, 1
           from made, generate_series(1, files) n where n % 3 = 0)
         insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, path, record_count, file_size_bytes,
                                row_id_start, stats_state)
         select 1, id * 10000 + n, id, 3, 'f', 1, 1, n, 'pending' from made, generate_series(1, files) n",
    )
    .bind(&tables)
    .bind(&counts)
    .execute(&lake.pool)
    .await
    .unwrap();
    sqlx::raw_sql("analyze").execute(&lake.pool).await.unwrap();
    let export = export(&lake, false).await;
    let found = export["tables"].as_array().unwrap();
    assert_eq!(found.len(), 2_502);
    for (table, found) in tables.iter().zip(&found[2..]) {
        assert_eq!(found["table"], format!("x{table:05}"));
        let wanted: Vec<i64> = (1..=files(*table)).map(|n| table * 10_000 + n).collect();
        assert_eq!(ids(&found["files"], "data_file_id"), wanted);
        let vectors: Vec<i64> = wanted.iter().copied().filter(|id| id % 10_000 % 3 == 0).collect();
        assert_eq!(ids(&found["delete_files"], "data_file_id"), vectors);
    }
}

/// Commits during an export do not show in it.
#[tokio::test]
async fn an_export_is_of_one_moment() {
    use crate::lake::{append, file};
    let lake = Lake::new().await;
    sqlx::raw_sql(
        "insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, path, record_count, file_size_bytes,
           row_id_start, stats_state)
         select 1, 1000 + i, 1, 3, rpad('s3://lake/demo/' || i, 200, 'x'), 1, 1, i, 'pending' from generate_series(1, 30000) i;
         update table_counter set file_count = 30000 where table_id = 1;
         update catalog set next_file_id = 100000",
    )
    .execute(&lake.pool)
    .await
    .unwrap();
    let Body::Stream(mut chunks) = lake.catalog.export("demo", false).await.unwrap() else { panic!("in one chunk") };
    let mut text = chunks.next().await.unwrap().unwrap().to_vec();
    // The rest of `t`, and all of `u`, are read after these.
    for n in 0..3 {
        lake.commit(append("u", vec![file(&format!("later-{n}"), 1)])).await.unwrap();
    }
    while let Some(chunk) = chunks.next().await {
        text.extend_from_slice(&chunk.unwrap());
    }
    let export: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(export["head_snapshot_id"], 3);
    assert_eq!(export["tables"][0]["files"].as_array().unwrap().len(), 30_000);
    assert_eq!(export["tables"][1]["files"], json!([]));
    assert_eq!(lake.head().await.0, 6);
}
