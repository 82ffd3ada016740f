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
const EXCEPTIONS: [(&str, &str); 13] = [
    ("duckdbice-hive_partitioned_table", "its manifest names other file sizes than the files have"),
    ("duckdbice-large_partitioned_table", "its manifest names other file sizes than the files have"),
    ("duckdbice-partition_binary", "its manifest names other file sizes than the files have"),
    ("duckdbice-partition_decimal_bigint", "its manifest names other file sizes than the files have"),
    ("duckdbice-partition_double", "its manifest names other file sizes than the files have"),
    ("duckdbice-partition_fixed_length_binary", "its manifest names other file sizes than the files have"),
    ("duckdbice-partition_timestamptz", "its manifest names other file sizes than the files have"),
    ("duckdbice-struct_filter_issue", "PyIceberg reads lists of structs that are null as empty ones"),
    ("impala-iceberg_alltypes_part", "PyIceberg reads partition values of type double as floats"),
    ("impala-iceberg_column_case_sensitivity_issue", "its files spell the columns in another case, without ids"),
    ("impala-iceberg_multiple_storage_locations", "its files lie in other folders of the machine that wrote it"),
    ("impala-iceberg_v3_trino_variant", "DuckDB does not read variant from Delta"),
    ("made-schema_evolution_full", "delta-rs knows no type widening, DuckDB maps renamed columns by name"),
];

/// Tables that Delta cannot express, and one with ids that no long holds.
const REFUSED: [(&str, &str); 18] = [
    ("dremio-v2_products_with_eq_deletes", "equality deletes compare values"),
    ("duckdbice-add_columns_with_defaults", "a column of type time has no counterpart"),
    ("duckdbice-case_sensitive_names", "another column has the name, or differs from it in case only"),
    ("duckdbice-equality_delete_cross_partition", "invalid value: integer `9876543210123456789`, expected i64"),
    ("duckdbice-equality_deletes_partitioned", "equality deletes compare values"),
    ("duckdbice-name_mapping_t1", "the table has a name mapping for files without field ids"),
    ("duckdbice-partition_time", "a column of type time has no counterpart"),
    ("duckdbice-timestamptz_ns", "a column of type timestamptz_ns has no counterpart"),
    ("gluten-flink_test_upsert_query", "equality deletes compare values"),
    ("icecxx-bucket_partitioning", "a column of type time has no counterpart"),
    ("icecxx-identity_partitioning", "a column of type time has no counterpart"),
    ("impala-iceberg_v2_delete_both_eq_and_pos", "equality deletes compare values"),
    ("impala-iceberg_v2_delete_equality_multi_eq_ids", "equality deletes compare values"),
    ("impala-iceberg_v2_delete_equality_partition_evolution", "equality deletes compare values"),
    ("impala-iceberg_v2_equality_delete_schema_evolution", "equality deletes compare values"),
    ("impala-iceberg_v3_all_types", "read as its initial default"),
    ("impala-iceberg_v3_default_value", "read as its initial default"),
    ("impala-iceberg_v3_test_default_part", "read as its initial default"),
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
        refused: &REFUSED,
        histories: 5,
    };
    trial.run().await;
}
