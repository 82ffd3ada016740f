//! Iceberg tables of other engines converted to Delta, read by delta-rs and DuckDB, compared with what was found in the
//! source by others.

use crate::corpus::root;
use crate::judged::Trial;
use hoglake_formats::delta::{DeltaTarget, DeltaTargetOptions};
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource};
use hoglake_formats::sync::{Options, Report, Result, sync};
use std::path::Path;

async fn convert(table: &Path) -> Result<Report> {
    convert_at(table, None).await
}

async fn convert_at(table: &Path, metadata_file: Option<String>) -> Result<Report> {
    let source = IcebergSource::new(root(table), IcebergOptions { relocated: true, metadata_file });
    let mut target = DeltaTarget::new(root(table), DeltaTargetOptions::default());
    sync(&source, &mut target, &Options::default()).await
}

/// Converts the table as its oldest metadata file with a snapshot has it, then lets the target follow; `None` when
/// there is only one such file.
async fn follow(table: &Path) -> Option<Result<Report>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(table.join("metadata")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.ends_with(".metadata.json")
            && let Ok(json) = serde_json::from_slice::<serde_json::Value>(&std::fs::read(entry.path()).unwrap())
            && json["current-snapshot-id"].as_i64().is_some_and(|id| id != -1)
        {
            files.push((json["last-updated-ms"].as_i64().unwrap_or(0), name));
        }
    }
    files.sort();
    let (_, oldest) = files.first().filter(|_| files.len() > 1)?;
    convert_at(table, Some(format!("metadata/{oldest}"))).await.ok()?;
    Some(convert(table).await)
}

/// Tables that one of the readers cannot compare, with the reason.
const EXCEPTIONS: [(&str, &str); 11] = [
    ("duckdbice-equality_delete_cross_partition", "its snapshot ids are larger than a long"),
    ("duckdbice-hive_partitioned_table", "its manifest names other file sizes than the files have"),
    ("duckdbice-large_partitioned_table", "its manifest names other file sizes than the files have"),
    ("duckdbice-partition_binary", "its manifest names other file sizes than the files have"),
    ("duckdbice-partition_decimal_bigint", "its manifest names other file sizes than the files have"),
    ("duckdbice-partition_double", "its manifest names other file sizes than the files have"),
    ("duckdbice-partition_fixed_length_binary", "its manifest names other file sizes than the files have"),
    ("duckdbice-partition_timestamptz", "its manifest names other file sizes than the files have"),
    ("impala-iceberg_column_case_sensitivity_issue", "its files spell the columns in another case, without ids"),
    ("impala-iceberg_multiple_storage_locations", "its files lie in other folders of the machine that wrote it"),
    ("impala-iceberg_v3_trino_variant", "DuckDB does not read variant from Delta"),
];

#[tokio::test]
async fn other_engines_see_the_same_rows() {
    let trial = Trial {
        source: "iceberg",
        target: "delta",
        readers: ["delta-rs", "duckdb"],
        exceptions: &EXCEPTIONS,
        convert: |table| Box::pin(convert(table)),
        follow: |table| Box::pin(follow(table)),
        may_refuse: true,
        histories: 5,
        source_is_read: false,
    };
    trial.run().await;
}
