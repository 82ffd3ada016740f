//! Deep verify compares what files carry with what the catalog knows.

use super::lake::Lake;
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use hoglake_model::commit::FileRegistration;
use hoglake_server::worker::Trigger;
use parquet::arrow::ArrowWriter;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// A file with these columns of numbers, each with an id or without.
pub fn file(lake: &Lake, name: &str, columns: &[(&str, Option<i64>)]) -> FileRegistration {
    let fields: Vec<_> = columns
        .iter()
        .map(|(name, id)| {
            let id = id.map(|id| ("PARQUET:field_id".to_owned(), id.to_string()));
            Field::new(*name, DataType::Int64, false).with_metadata(id.into_iter().collect::<HashMap<_, _>>())
        })
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let values = columns.iter().map(|_| Arc::new(Int64Array::from(vec![7, 8])) as ArrayRef).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), values).unwrap();
    let path = format!("{}/data/{name}", lake.catalog.data_path);
    std::fs::create_dir_all(lake.file(&path).parent().unwrap()).unwrap();
    let mut writer = ArrowWriter::try_new(std::fs::File::create(lake.file(&path)).unwrap(), schema, None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    FileRegistration {
        file_size_bytes: i64::try_from(std::fs::metadata(lake.file(&path)).unwrap().len()).unwrap(),
        path,
        record_count: 2,
        footer_size: None,
        column_stats: None,
        partition_values: None,
    }
}

/// The samples of the check of data files, and of that of vectors.
async fn found(lake: &Lake) -> [Vec<String>; 2] {
    let report = serde_json::to_value(lake.worker.verify(&lake.catalog, true).await.unwrap()).unwrap();
    let samples = |check: &Value, name: &str, remedy: &str| {
        let samples: Vec<String> = serde_json::from_value(check["samples"].clone()).unwrap();
        assert_eq!((check["check"].as_str(), &check["violations"]), (Some(name), &samples.len().into()));
        assert!(samples.iter().all(|sample| sample.ends_with(remedy)), "{samples:?}");
        samples
    };
    let restore = "Restore the object from a backup or the store's versions, or delete the file's rows from the table";
    let commit = "Restore the object, or commit a vector with all deleted positions of the file again";
    [samples(&report["checks"][6], "data_objects", restore), samples(&report["checks"][7], "vector_objects", commit)]
}

async fn hydrate(lake: &Lake) {
    lake.worker.hydrate(&lake.catalog, Duration::from_secs(60), Trigger::Request).await.unwrap();
}

#[tokio::test]
async fn files_without_ids_are_fine_before_and_after_hydration() {
    let lake = Lake::new(false).await;
    lake.register(vec![file(&lake, "none", &[("id", None)])]).await;
    lake.verified().await;
    hydrate(&lake).await;
    lake.verified().await;
    lake.execute("update data_file set missing_field_ids = false").await;
    let [data, _] = found(&lake).await;
    assert!(data[0].contains("some column carries no field id"), "{data:?}");
}

#[tokio::test]
async fn files_whose_ids_are_no_columns_are_found() {
    let mut lake = Lake::new(false).await;
    let strange = file(&lake, "strange", &[("id", Some(77))]);
    lake.register(vec![strange, file(&lake, "more", &[("id", Some(1)), ("mine", Some(78))])]).await;
    let [data, vectors] = found(&lake).await;
    assert_eq!((data.len(), vectors.len()), (1, 0), "{data:?}");
    assert!(data[0].contains("field id 77 never was one's"), "{data:?}");
    // a column that has gone is no strange one, and one that came later is not missed
    lake.execute("delete from data_file").await;
    lake.register(vec![file(&lake, "old", &[("name", Some(2))])]).await;
    hydrate(&lake).await;
    lake.alter(serde_json::json!({"op": "drop_column", "name": "name"})).await;
    lake.alter(serde_json::json!({"op": "add_column", "column": {"name": "late", "type": "long"}})).await;
    assert_eq!(found(&lake).await, [Vec::<String>::new(), Vec::new()]);
}

#[tokio::test]
async fn row_ids_are_where_the_catalog_says() {
    let mut lake = Lake::new(false).await;
    for i in 0..4 {
        lake.append(&[(i, Some("x")), (i + 10, None)]).await;
    }
    assert_eq!(lake.compact().await, 1);
    lake.append(&[(5, None)]).await;
    lake.verified().await;
    lake.execute("update data_file set explicit_row_ids = not explicit_row_ids where end_snapshot is null").await;
    let [data, _] = found(&lake).await;
    assert_eq!(data.len(), 2, "{data:?}");
    assert!(data.iter().any(|sample| sample.contains("registered as a file without")), "{data:?}");
    assert!(data.iter().any(|sample| sample.contains("registered as a file with one")), "{data:?}");
}

#[tokio::test]
async fn a_vector_of_another_file_is_found() {
    let mut lake = Lake::new(false).await;
    lake.append(&[(1, Some("x")), (2, None)]).await;
    lake.append(&[(3, Some("y")), (4, None)]).await;
    lake.delete(1, &BTreeSet::from([0])).await;
    lake.verified().await;
    // the same object, named in another way
    lake.execute("update data_file set path = 'file://' || path where data_file_id = 1").await;
    lake.verified().await;
    lake.execute("update delete_file set data_file_id = 2").await;
    let [data, vectors] = found(&lake).await;
    assert_eq!((data.len(), vectors.len()), (0, 1), "{vectors:?}");
    assert!(vectors[0].contains("it belongs to "), "{vectors:?}");
}

#[tokio::test]
async fn a_strange_field_is_ignored_and_one_with_a_columns_id_is_not() {
    let lake = Lake::new(false).await;
    // readers that bind by id pass over what is no column of theirs
    lake.register(vec![file(&lake, "more", &[("id", Some(1)), ("mine", Some(78)), ("his", None)])]).await;
    hydrate(&lake).await;
    lake.verified().await;
    // two fields of one id, a number under the id of a string
    lake.execute("delete from data_file").await;
    lake.register(vec![
        file(&lake, "twice", &[("id", Some(1)), ("again", Some(1))]),
        file(&lake, "twice-strange", &[("id", Some(1)), ("mine", Some(78)), ("his", Some(78))]),
        file(&lake, "number", &[("id", Some(1)), ("name", Some(2))]),
    ])
    .await;
    let [data, _] = found(&lake).await;
    assert_eq!(data.len(), 3, "{data:?}");
    assert!(data.iter().any(|sample| sample.contains("two fields of the file carry field id 1")), "{data:?}");
    assert!(data.iter().any(|sample| sample.contains("two fields of the file carry field id 78")), "{data:?}");
    let number = "its field 2 stores INT64, which is no string and cannot be widened to one";
    assert!(data.iter().any(|sample| sample.contains(number)), "{data:?}");
}

#[tokio::test]
async fn a_field_of_a_promoted_column_may_be_narrower() {
    let mut lake = Lake::new(false).await;
    lake.alter(serde_json::json!({"op": "add_column", "column": {"name": "small", "type": "int"}})).await;
    lake.append(&[(1, Some("x")), (2, None)]).await;
    lake.alter(serde_json::json!({"op": "promote_column", "name": "small", "to": "long"})).await;
    lake.append(&[(3, Some("y"))]).await;
    lake.verified().await;
    // the other way round no reader can go
    lake.execute("update table_column set type = 'int' where field_id = 3 and end_snapshot is null").await;
    let [data, _] = found(&lake).await;
    assert_eq!(data.len(), 1, "{data:?}");
    assert!(data[0].contains("its field 3 stores INT64, which is no int"), "{data:?}");
}
