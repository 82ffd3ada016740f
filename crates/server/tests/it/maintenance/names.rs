//! Files without field ids are bound by name: by the names that their table's columns had when they were registered.

use super::deep_verify::file;
use super::lake::Lake;
use hoglake_catalog::Error;
use hoglake_model::ErrorCode;
use hoglake_server::worker::Trigger;
use serde_json::json;
use std::time::Duration;

async fn hydrate(lake: &Lake) {
    let status = lake.worker.hydrate(&lake.catalog, Duration::from_secs(60), Trigger::Request).await.unwrap();
    assert_eq!((status.hydrated, status.failed, status.retried), (1, 0, 0), "{status:?}");
}

/// Refused while any live file binds by name, or may: before its footer is read and after.
async fn rename_is_refused(lake: &mut Lake) {
    let refused = lake.try_alter(json!({"op": "rename_column", "from": "x", "to": "y"})).await;
    let Err(Error::Refused(refusal)) = refused else { panic!("{refused:?}") };
    assert_eq!(refusal.code, ErrorCode::IdlessFilesPresent, "{refusal:?}");
}

/// A file's statistics: field id, and the bounds as numbers.
async fn statistics(lake: &Lake, data_file_id: i64) -> Vec<(i64, i64, i64)> {
    let (fields, lower, upper): (Vec<i32>, Vec<Vec<u8>>, Vec<Vec<u8>>) =
        sqlx::query_as("select field_ids, lower_bounds, upper_bounds from file_statistics where data_file_id = $1")
            .bind(data_file_id)
            .fetch_one(&lake.pool)
            .await
            .unwrap();
    let number = |bytes: &Vec<u8>| i64::from_le_bytes(bytes.as_slice().try_into().unwrap());
    let bounds = lower.iter().zip(&upper);
    fields.iter().zip(bounds).map(|(id, (low, high))| (i64::from(*id), number(low), number(high))).collect()
}

#[tokio::test]
async fn a_column_of_the_same_name_that_came_later_is_another() {
    let mut lake = Lake::new(false).await;
    let x = json!({"op": "add_column", "column": {"name": "x", "type": "long"}});
    // `x` is field 3 when the first file comes, and field 4 when the second does
    lake.alter(x.clone()).await;
    lake.register(vec![file(&lake, "before", &[("id", None), ("x", None)])]).await;
    rename_is_refused(&mut lake).await;
    lake.alter(json!({"op": "drop_column", "name": "x"})).await;
    lake.alter(x).await;
    assert_eq!(lake.added, [(4, "x".to_owned(), "long".to_owned())]);
    rename_is_refused(&mut lake).await;
    hydrate(&lake).await;
    assert_eq!(statistics(&lake, 1).await, [(1, 7, 8)], "what it calls `x` is field 3, which is gone");
    rename_is_refused(&mut lake).await;

    lake.register(vec![file(&lake, "after", &[("id", None), ("x", None)])]).await;
    hydrate(&lake).await;
    assert_eq!(statistics(&lake, 2).await, [(1, 7, 8), (4, 7, 8)]);
    assert_eq!(lake.number("select count(*) from data_file where missing_field_ids").await, 2);
    lake.verified().await;

    // compaction binds as hydration does: the first file has no value of the new column
    for name in ["more", "most"] {
        lake.register(vec![file(&lake, name, &[("id", None)])]).await;
    }
    assert_eq!(lake.compact().await, 1);
    let rows = lake.rows_at(lake.head().await).await;
    let found: Vec<_> = rows.iter().map(|(id, values)| (*id, values.get(&4).map(String::as_str))).collect();
    let expected = [(0, None), (1, None), (2, Some("7")), (3, Some("8")), (4, None), (5, None), (6, None), (7, None)];
    assert_eq!(found, expected);
    assert!(rows.iter().all(|(_, values)| !values.contains_key(&3)), "{rows:?}");
    lake.verified().await;
    // what binds by name is gone
    lake.alter(json!({"op": "rename_column", "from": "x", "to": "y"})).await;
}
