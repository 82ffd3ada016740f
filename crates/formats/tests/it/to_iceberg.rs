//! Delta tables of other engines converted to Iceberg, read by PyIceberg and DuckDB, compared with what delta-rs and
//! DuckDB see in the source.

use crate::corpus::root;
use crate::judged::Trial;
use crate::judges::see;
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use hoglake_formats::delta::DeltaSource;
use hoglake_formats::iceberg::{IcebergTarget, IcebergTargetOptions};
use hoglake_formats::sync::{Error, Options, Report, Result, Target, sync};
use parquet::arrow::{ArrowWriter, PARQUET_FIELD_ID_META_KEY};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
            // Hudi's timeline is ordered by it.
            let modified = entry.metadata().unwrap().modified().unwrap();
            std::fs::File::options().write(true).open(target).unwrap().set_modified(modified).unwrap();
        }
    }
}

async fn convert(table: &Path) -> Result<Report> {
    let source = DeltaSource::new(root(table));
    let mut target = IcebergTarget::new(root(table), IcebergTargetOptions::default());
    sync(&source, &mut target, &Options::default()).await
}

/// Tables that one of the readers cannot compare, with the reason.
const EXCEPTIONS: [(&str, &str); 10] = [
    ("delta-0.8.0-numeric-partition", "PyIceberg reads partition values of type double as floats"),
    ("dremio-columnMappingConvertedIceberg", "delta-rs and DuckDB read null where only the column ids of the log help"),
    ("duckdb-variant_basic", "PyIceberg does not know variant"),
    ("golden-parquet-all-types", "PyIceberg reads lists of structs that are null as empty ones"),
    ("golden-table-with-icebegCompatV2Enabled", "PyIceberg reads lists of structs that are null as empty ones"),
    ("golden-time-travel-partition-changes-b", "PyIceberg lists no files by a spec of a column that is gone"),
    ("issue_1374", "its log names a minimum that is larger than the smallest value"),
    ("krs-void-column", "DuckDB does not know unknown columns"),
    ("spark-variant-checkpoint", "PyIceberg does not know variant"),
    ("table_with_edge_timestamps", "PyIceberg overflows nanoseconds"),
];

/// Tables that Iceberg cannot express, or does not share.
const REFUSED: [(&str, &str); 5] = [
    ("dremio-columnMappingComplexTypes", "files give field ids to columns, but none to this"),
    ("golden-table-with-columnmapping-mode-id", "files give field ids to columns, but none to this"),
    ("golden-type-widening", "from int to double, which Iceberg has no promotion for"),
    ("krs-stats-writing-all-types", "files give field ids to columns, but none to this"),
    ("uc-marksheet_uniform", "the table belongs to a catalog"),
];

/// Converts the table as it was at version 0, then lets the target follow; `None` when the log does not go back.
async fn follow(table: &Path) -> Option<Result<Report>> {
    let log = table.join("_delta_log");
    let first = log.join("00000000000000000000.json");
    let later = table.with_extension("later");
    let names: Vec<_> = std::fs::read_dir(&log).unwrap().map(|e| e.unwrap().file_name()).collect();
    if !first.exists() || !log.join("00000000000000000001.json").exists() {
        return None;
    }
    std::fs::create_dir_all(&later).unwrap();
    let moved: Vec<_> = names.iter().filter(|n| *n != first.file_name().unwrap()).collect();
    moved.iter().for_each(|n| std::fs::rename(log.join(n), later.join(n)).unwrap());
    let started = convert(table).await;
    moved.iter().for_each(|n| std::fs::rename(later.join(n), log.join(n)).unwrap());
    std::fs::remove_dir_all(&later).unwrap();
    started.ok()?;
    Some(convert(table).await)
}

#[tokio::test]
async fn other_engines_see_the_same_rows() {
    let trial = Trial {
        source: "delta",
        target: "iceberg",
        readers: ["pyiceberg", "duckdb"],
        exceptions: &EXCEPTIONS,
        convert: |table| Box::pin(convert(table)),
        follow: |table| Box::pin(follow(table)),
        refused: &REFUSED,
        histories: 10,
    };
    trial.run().await;
}

#[tokio::test]
async fn elements_that_files_give_no_ids_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    copy(&crate::corpus::case("delta", "golden-table-with-columnmapping-mode-id").root, folder.path());
    let Err(Error::Unsupported(found)) = convert(folder.path()).await else { panic!("was not refused") };
    let places: Vec<_> = found.iter().map(|f| f.place.as_str()).collect();
    assert!(places.contains(&"array_of_prims.element") && places.contains(&"map_of_prims.key"), "{places:?}");
    assert!(!places.iter().any(|place| place.ends_with("Type")), "{places:?}");
    assert!(!folder.path().join("metadata").exists());
}

#[tokio::test]
async fn a_loaded_target_knows_where_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let case = crate::corpus::case("delta", "dat-nested_types");
    copy(&case.root, folder.path());
    convert(folder.path()).await.unwrap();
    let mut target = IcebergTarget::new(root(folder.path()), IcebergTargetOptions::default());
    let loaded = target.load().await.unwrap();
    assert_eq!(loaded.watermark.unwrap().version.unwrap().0, "0");
}

/// A Delta table whose files an engine has written that gives field ids: `b` had the second one and is gone.
#[tokio::test]
async fn files_of_a_delta_table_that_have_field_ids_are_read_by_them() {
    let folder = tempfile::tempdir().unwrap();
    let write = |table: &Path, name: &str, columns: &[(&str, i32, i64)]| {
        let field = |name: &str, id: i32| {
            let metadata = HashMap::from([(PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string())]);
            arrow::datatypes::Field::new(name, arrow::datatypes::DataType::Int64, true).with_metadata(metadata)
        };
        let fields: Vec<_> = columns.iter().map(|(name, id, _)| field(name, *id)).collect();
        let values = columns.iter().map(|(.., value)| Arc::new(Int64Array::from(vec![*value])) as ArrayRef).collect();
        let batch = RecordBatch::try_new(Arc::new(arrow::datatypes::Schema::new(fields)), values).unwrap();
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        std::fs::write(table.join(name), &bytes).unwrap();
        let size = bytes.len();
        format!(
            r#"{{"add":{{"path":"{name}","partitionValues":{{}},"size":{size},"modificationTime":1,"dataChange":true,"stats":"{{\"numRecords\":1}}"}}}}"#
        )
    };
    let delta = |table: &Path, adds: &dyn Fn(&Path) -> Vec<String>| {
        std::fs::create_dir_all(table.join("_delta_log")).unwrap();
        let column =
            |name: &str| format!(r#"{{\"name\":\"{name}\",\"type\":\"long\",\"nullable\":true,\"metadata\":{{}}}}"#);
        let schema = format!(r#"{{\"type\":\"struct\",\"fields\":[{},{}]}}"#, column("a"), column("C"));
        let mut lines = vec![
            r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}"#.to_owned(),
            format!(
                r#"{{"metaData":{{"id":"5f0a3b1e-0000-4000-8000-000000000001","format":{{"provider":"parquet","options":{{}}}},"schemaString":"{schema}","partitionColumns":[],"configuration":{{}}}}}}"#
            ),
        ];
        lines.extend(adds(table));
        std::fs::write(table.join("_delta_log/00000000000000000000.json"), lines.join("\n")).unwrap();
    };
    let good = folder.path().join("good");
    delta(&good, &|table| {
        let first = write(table, "1.parquet", &[("a", 1, 10), ("b", 2, 20), ("c", 3, 30)]);
        vec![first, write(table, "2.parquet", &[("a", 1, 11), ("c", 3, 31)])]
    });
    let metadata = convert(&good).await.unwrap().metadata_path.unwrap();
    let seen = see(folder.path(), &[("iceberg", metadata)]);
    for reader in ["pyiceberg", "duckdb"] {
        let rows = serde_json::json!([r#"{"C": 30, "a": 10}"#, r#"{"C": 31, "a": 11}"#]);
        assert_eq!(seen[0][reader], rows, "{}", seen[0]["error"]);
    }
    // Files that contradict each other have no ids that a table could take.
    let bad = folder.path().join("bad");
    delta(&bad, &|table| {
        vec![
            write(table, "1.parquet", &[("a", 1, 10), ("c", 3, 30)]),
            write(table, "2.parquet", &[("a", 1, 11), ("c", 2, 31)]),
        ]
    });
    let refused = convert(&bad).await.unwrap_err().to_string();
    assert!(refused.contains("parquet gives it the field id") && refused.contains('C'), "{refused}");
    assert!(!bad.join("metadata").exists());
}
