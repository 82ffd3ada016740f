//! Which files, in which order, with which fields.

use super::{at, ids, json, lives, numbers, table_t};
use crate::lake::Lake;
use hoglake_catalog::scan::ScanRequest;
use serde_json::json;

#[tokio::test]
async fn a_scan_shows_what_was_visible_then() {
    let lake = Lake::new().await;
    lives(&lake).await;
    for (snapshot, files) in [
        (3, vec![]),
        (4, vec![1, 2, 6]),
        (5, vec![1, 2, 6, 3]),
        (6, vec![1, 2, 6, 3]),
        (7, vec![1, 4, 6, 3]),
        (8, vec![1, 4, 6, 3, 5]),
        (9, vec![1, 4, 6, 3]),
    ] {
        if snapshot >= 2 {
            assert_eq!(ids(&json(lake.catalog.scan(at(snapshot)).await).await), files, "at {snapshot}");
        }
    }
    assert_eq!(ids(&json(lake.catalog.scan(table_t()).await).await), [1, 4, 6, 3]);
}

#[tokio::test]
async fn files_are_listed_as_they_came() {
    let lake = Lake::new().await;
    lives(&lake).await;
    for (request, files) in
        [(at(4), vec![1, 2, 6]), (at(8), vec![1, 6, 3, 4, 5]), (at(9), vec![1, 6, 3, 4]), (table_t(), vec![1, 6, 3, 4])]
    {
        assert_eq!(numbers(&json(lake.catalog.files(request).await).await, "data_file_id"), files);
    }
}

#[tokio::test]
async fn a_file_comes_with_the_vector_of_its_snapshot() {
    let lake = Lake::new().await;
    lives(&lake).await;
    for (snapshot, vectors) in
        [(4, vec![]), (5, vec![(2, 22)]), (6, vec![(1, 20), (2, 22)]), (7, vec![(1, 20)]), (8, vec![(1, 21)])]
    {
        let scan = json(lake.catalog.scan(at(snapshot)).await).await;
        let found: Vec<(i64, i64)> = scan
            .as_array()
            .unwrap()
            .iter()
            .filter(|file| file.get("delete_file").is_some())
            .map(|file| {
                assert_eq!(file["delete_file"]["data_file_id"], file["data_file"]["data_file_id"]);
                (
                    file["data_file"]["data_file_id"].as_i64().unwrap(),
                    file["delete_file"]["delete_file_id"].as_i64().unwrap(),
                )
            })
            .collect();
        assert_eq!(found, vectors, "at {snapshot}");
    }
    let scan = json(lake.catalog.scan(table_t()).await).await;
    let vector = json!({"delete_file_id": 21, "data_file_id": 1, "path": "s3://lake/demo/21.puffin",
        "file_format": "puffin-dv", "delete_count": 2, "file_size_bytes": 51, "begin_snapshot": 8});
    assert_eq!(scan[0]["delete_file"], vector);
}

#[tokio::test]
async fn many_vectors_are_joined_to_their_files() {
    let lake = Lake::new().await;
    lives(&lake).await;
    sqlx::raw_sql(
        "insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, path, record_count, file_size_bytes,
           row_id_start, stats_state)
         select 1, 1000 + i, 1, 9, 'p' || i, 1, 1, 1000 + i, 'pending' from generate_series(1, 20000) i;
         insert into delete_file (catalog_id, delete_file_id, table_id, data_file_id, begin_snapshot, path, delete_count,
           file_size_bytes)
         select 1, 100000 + i, 1, 1000 + i, 9, 'v' || i, 1, 1 from generate_series(1, 20000, 1) i where i % 10 <> 0",
    )
    .execute(&lake.pool)
    .await
    .unwrap();
    let request = ScanRequest { stats: true, ..table_t() };
    let scan = json(lake.catalog.scan(request).await).await;
    let files = scan.as_array().unwrap();
    assert_eq!(files.len(), 20_004);
    assert_eq!(files[0]["column_stats"][0]["field_id"], 1);
    assert_eq!(files[5].get("column_stats"), None);
    for file in &files[4..] {
        let id = file["data_file"]["data_file_id"].as_i64().unwrap();
        let vector = file.get("delete_file").map(|v| v["delete_file_id"].as_i64().unwrap());
        assert_eq!(vector, (id % 10 != 0).then_some(id - 1000 + 100_000));
    }
}

#[tokio::test]
async fn fields_are_absent_where_nothing_is_known() {
    let lake = Lake::new().await;
    lives(&lake).await;
    let files = json(lake.catalog.files(at(8)).await).await;
    assert_eq!(
        files[0],
        json!({"data_file_id": 1, "path": "s3://lake/demo/\"q\" \\ é\t.parquet", "file_format": "parquet",
            "record_count": 10, "file_size_bytes": 9_223_372_036_854_775_807_i64, "footer_size": 7, "row_id_start": 0,
            "stats_state": "provided", "begin_snapshot": 4, "explicit_row_ids": false})
    );
    assert_eq!(
        files[3],
        json!({"data_file_id": 4, "path": "s3://lake/demo/4.parquet", "file_format": "parquet", "record_count": 9,
            "file_size_bytes": 100, "row_id_start": 10, "stats_state": "provided", "begin_snapshot": 7, "spec_id": 1,
            "partition_values": ["a", null, "null", ""], "explicit_row_ids": true})
    );
}

#[tokio::test]
async fn statistics_come_in_the_type_of_the_column() {
    let lake = Lake::new().await;
    lives(&lake).await;
    let scan = json(lake.catalog.scan(ScanRequest { stats: true, ..table_t() }).await).await;
    // The upper bound was stored when the column was an int; column 2 lacks a count, column 99 is not of the table.
    assert_eq!(
        scan[0]["column_stats"],
        json!([{"field_id": 1, "value_count": 10, "null_count": 0, "size_bytes": 64, "lower_bound": "AAAAAAAAAAA=",
            "upper_bound": "CQAAAAAAAAA="}])
    );
    // File 3 failed; files 4 and 6 were registered with statistics of no column.
    let others: Vec<_> = scan.as_array().unwrap()[1..].iter().map(|file| file.get("column_stats")).collect();
    assert_eq!(others, [Some(&json!([])), Some(&json!([])), None]);
    let without = json(lake.catalog.scan(table_t()).await).await;
    assert!(without.as_array().unwrap().iter().all(|file| file.get("column_stats").is_none()));
}
