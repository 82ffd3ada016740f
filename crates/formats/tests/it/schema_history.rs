//! Files written under earlier schemas: columns that were renamed, dropped and added anew, or widened.

use crate::corpus::{self, root};
use crate::judges::{judge, see};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use hoglake_formats::delta::{DeltaSource, DeltaTarget, DeltaTargetOptions};
use hoglake_formats::hudi::{HudiOptions, HudiSource, HudiTarget};
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource, IcebergTarget, IcebergTargetOptions};
use hoglake_formats::parquet_directory::{ParquetDirectoryOptions, ParquetDirectorySource};
use hoglake_formats::sync::{Error, Mode, Options, Outcome, Plan, Report, Result, Source, Target, sync};
use hoglake_model::table::FieldIds;
use hoglake_model::table::TableFormat::{self, Delta, Hudi, Iceberg};
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Tables of PyIceberg: see `tests/judges/schema_history.py`.
fn tables(folder: &Path) -> Value {
    judge("schema_history.py", &[folder.to_str().unwrap()])
}

fn path(table: &Value) -> PathBuf {
    PathBuf::from(table["path"].as_str().unwrap())
}

/// The table after one of its steps; the last when there is none of this number.
fn source(table: &Value, step: usize) -> IcebergSource {
    let metadata_file = table["versions"][step].as_str().map(|name| format!("metadata/{name}"));
    IcebergSource::new(root(&path(table)), IcebergOptions { metadata_file, ..IcebergOptions::default() })
}

/// To Hudi, whose files must lie in the table's folder.
async fn to_hudi(table: &Value, step: usize, mode: Mode) -> Result<Report> {
    let mut target = HudiTarget::new(root(&path(table).join("data")));
    sync(&source(table, step), &mut target, &Options { mode, ..Options::default() }).await
}

fn refused(result: Result<Report>) -> Vec<(String, String)> {
    match result {
        Err(Error::Unsupported(found)) => found.into_iter().map(|f| (f.place, f.detail)).collect(),
        other => panic!("not refused: {other:?}"),
    }
}

async fn hudi_files(table: &Path) -> usize {
    corpus::live(&HudiSource::new(root(table), HudiOptions::default())).await.unwrap().1.len()
}

fn parsed(row: &Value) -> Value {
    serde_json::from_str(row.as_str().unwrap()).unwrap()
}

fn sorted(rows: impl Iterator<Item = String>) -> Vec<String> {
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    rows
}

const LAST: usize = usize::MAX;

#[tokio::test]
async fn hudi_refuses_columns_that_only_ids_find() {
    let folder = tempfile::tempdir().unwrap();
    let tables = tables(folder.path());
    for (name, column) in
        [("renamed", "b"), ("readded", "a"), ("readded_in_another_case", "A"), ("renamed_inside", "s.b")]
    {
        let table = &tables[name];
        for mode in [Mode::Incremental, Mode::Full] {
            let found = refused(to_hudi(table, LAST, mode).await);
            assert_eq!(found.len(), 1, "{name}: {found:?}");
            assert_eq!(found[0].0, column, "{name}");
            assert!(found[0].1.contains("by name"), "{name}: {found:?}");
        }
        assert!(!path(table).join("data/.hoodie").exists(), "{name}: refused late");
        // A target from before the change stays as it is.
        to_hudi(table, 0, Mode::Incremental).await.unwrap();
        for mode in [Mode::Incremental, Mode::Full] {
            assert_eq!(refused(to_hudi(table, LAST, mode).await)[0].0, column, "{name} followed");
        }
        assert_eq!(hudi_files(&path(table).join("data")).await, 1, "{name}");
    }
    // Columns that only come and go are found by name.
    let grown = &tables["grown"];
    to_hudi(grown, 0, Mode::Incremental).await.unwrap();
    let report = to_hudi(grown, LAST, Mode::Incremental).await.unwrap();
    assert_eq!((report.plan, report.outcome), (Plan::Incremental, Outcome::Committed));
    assert_eq!(hudi_files(&path(grown).join("data")).await, 2);
}

#[tokio::test]
async fn hudi_takes_the_promotions_of_its_readers_alone() {
    let folder = tempfile::tempdir().unwrap();
    let tables = tables(folder.path());
    let widened = &tables["widened"];
    to_hudi(widened, 0, Mode::Incremental).await.unwrap();
    to_hudi(widened, LAST, Mode::Incremental).await.unwrap();
    assert_eq!(hudi_files(&path(widened).join("data")).await, 2);
    let found = refused(to_hudi(&tables["widened_decimal"], LAST, Mode::Incremental).await);
    assert_eq!((found.len(), found[0].0.as_str()), (1, "d"));
    assert!(found[0].1.contains("decimal(5,2)") && found[0].1.contains("decimal(12,2)"), "{found:?}");
}

#[tokio::test]
async fn what_was_widened_is_remembered_on_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let tables = tables(folder.path());
    for (name, is_refused) in [("widened", false), ("widened_decimal", true)] {
        // Iceberg to Delta at once or step by step, and on to Hudi.
        for steps in [&[LAST][..], &[0, LAST]] {
            let (table, log) = (&tables[name], path(&tables[name]).join("_delta_log"));
            for step in steps {
                let mut delta = DeltaTarget::new(root(&path(table)), DeltaTargetOptions::default());
                sync(&source(table, *step), &mut delta, &Options::default()).await.unwrap();
            }
            declares(&path(table), if is_refused { DECIMAL } else { NUMBERS });
            let delta = DeltaSource::new(root(&path(table)));
            let mut hudi = HudiTarget::new(root(&path(table).join("data")));
            let result = sync(&delta, &mut hudi, &Options::default()).await;
            if is_refused {
                let found = refused(result);
                assert!(found[0].0 == "d" && found[0].1.contains("decimal(5,2)"), "{found:?}");
            } else {
                result.unwrap();
                std::fs::remove_dir_all(path(table).join("data/.hoodie")).unwrap();
            }
            std::fs::remove_dir_all(log).unwrap();
        }
    }
}

/// Columns of the tables `widened` and `widened_decimal`, and what they went through.
const NUMBERS: &[(&str, &str, &str)] = &[("i", "integer", "long"), ("f", "float", "double")];
const DECIMAL: &[(&str, &str, &str)] = &[("d", "decimal(5,2)", "decimal(12,2)")];

/// The newest protocol and metadata of a Delta table without a checkpoint.
fn definition(table: &Path) -> (Value, Value) {
    let mut names: Vec<_> = std::fs::read_dir(table.join("_delta_log")).unwrap().map(|e| e.unwrap().path()).collect();
    names.retain(|name| name.extension().is_some_and(|end| end == "json"));
    names.sort();
    let (mut protocol, mut metadata) = (Value::Null, Value::Null);
    for line in
        names.iter().flat_map(|n| std::fs::read_to_string(n).unwrap().lines().map(str::to_owned).collect::<Vec<_>>())
    {
        let mut line: Value = serde_json::from_str(&line).unwrap();
        for (key, found) in [("protocol", &mut protocol), ("metaData", &mut metadata)] {
            if line[key].is_object() {
                *found = line[key].take();
            }
        }
    }
    (protocol, metadata)
}

/// Checks that a Delta table says what type widening asks for, of these columns and no others.
fn declares(table: &Path, columns: &[(&str, &str, &str)]) {
    let (protocol, metadata) = definition(table);
    let schema: Value = serde_json::from_str(metadata["schemaString"].as_str().unwrap()).unwrap();
    for field in schema["fields"].as_array().unwrap() {
        let widened = columns.iter().find(|(name, ..)| field["name"] == *name);
        let changes = widened.map(|(_, from, to)| json!([{"fromType": from, "toType": to}]));
        assert_eq!(field["metadata"].get("delta.typeChanges"), changes.as_ref(), "{field}");
        assert_eq!(field["metadata"].get("hoglake.olderTypes"), None);
    }
    let has = |list: &str| protocol[list].as_array().is_some_and(|l| l.contains(&"typeWidening".into()));
    let expected = !columns.is_empty();
    assert_eq!((has("readerFeatures"), has("writerFeatures")), (expected, expected), "{protocol}");
    let enabled = metadata["configuration"].get("delta.enableTypeWidening");
    assert_eq!(enabled, expected.then(|| json!("true")).as_ref());
    if expected {
        assert_eq!((&protocol["minReaderVersion"], &protocol["minWriterVersion"]), (&3.into(), &7.into()));
    } else {
        assert_eq!((&protocol["minReaderVersion"], &protocol["minWriterVersion"]), (&1.into(), &2.into()));
    }
}

#[tokio::test]
async fn type_widening_is_declared_when_there_is_any() {
    let folder = tempfile::tempdir().unwrap();
    let tables = tables(folder.path());
    let mut asked = Vec::new();
    for (name, columns) in [("widened", NUMBERS), ("widened_decimal", DECIMAL)] {
        let table = &tables[name];
        let convert = async |step, mode| {
            let mut delta = DeltaTarget::new(root(&path(table)), DeltaTargetOptions::default());
            sync(&source(table, step), &mut delta, &Options { mode, ..Options::default() }).await.unwrap()
        };
        convert(0, Mode::Incremental).await;
        declares(&path(table), &[]);
        convert(LAST, Mode::Incremental).await;
        declares(&path(table), columns);
        asked.push(("delta", path(table).to_str().unwrap().to_owned()));

        // As former versions of hoglake have written it: with the next commit it is as it has to be.
        let log = path(table).join("_delta_log");
        for entry in std::fs::read_dir(&log).unwrap().map(|e| e.unwrap().path()) {
            let text = std::fs::read_to_string(&entry).unwrap();
            let text = text.replace("delta.typeChanges", "hoglake.olderTypes").replace("delta.enableTypeWidening", "x");
            let text = text.replace(r#""minReaderVersion":3"#, r#""minReaderVersion":1"#);
            let text = text.replace(r#""minWriterVersion":7"#, r#""minWriterVersion":2"#);
            let lines = text.lines().map(|line| match serde_json::from_str::<Value>(line).unwrap() {
                mut line if line["protocol"].is_object() => {
                    let protocol = line["protocol"].as_object_mut().unwrap();
                    protocol.retain(|key, _| key.starts_with("min"));
                    line.to_string()
                }
                _ => line.to_owned(),
            });
            let lines: Vec<_> = lines.collect();
            std::fs::write(&entry, lines.join("\n")).unwrap();
        }
        convert(LAST, Mode::Full).await;
        let (protocol, metadata) = definition(&path(table));
        assert!(protocol["readerFeatures"].as_array().unwrap().contains(&"typeWidening".into()), "{protocol}");
        let schema = metadata["schemaString"].as_str().unwrap();
        assert!(schema.contains("delta.typeChanges") && !schema.contains("hoglake.olderTypes"), "{schema}");
    }
    for (seen, name) in see(folder.path(), &asked).iter().zip(["widened", "widened_decimal"]) {
        assert_eq!(seen["duckdb"], tables[name]["rows"], "{}", seen["error"]);
        // It reads no table with the feature.
        assert!(seen["error"].as_str().is_some_and(|e| e.contains("TypeWidening")), "{seen}");
    }
}

#[tokio::test]
async fn type_widening_stays_undeclared_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let tables = tables(folder.path());
    let table = &tables["widened"];
    let convert = async |step, mode, type_widening| {
        let options = DeltaTargetOptions { type_widening, ..DeltaTargetOptions::default() };
        let mut delta = DeltaTarget::new(root(&path(table)), options);
        sync(&source(table, step), &mut delta, &Options { mode, ..Options::default() }).await.unwrap()
    };
    convert(0, Mode::Incremental, false).await;
    let report = convert(LAST, Mode::Incremental, false).await;
    assert!(report.warnings.iter().any(|w| w.contains("column i as int") && w.contains("as asked for")), "{report:?}");
    let (protocol, metadata) = definition(&path(table));
    assert_eq!((&protocol["minReaderVersion"], &protocol["minWriterVersion"]), (&1.into(), &2.into()));
    assert!(!metadata.to_string().contains("delta.typeChanges"), "{metadata}");
    let head = DeltaSource::new(root(&path(table))).head().await.unwrap();
    assert_eq!(head.binding.older_types.len(), 2, "{:?}", head.binding);
    let seen = see(folder.path(), &[("delta", path(table).to_str().unwrap().to_owned())]);
    for reader in ["delta-rs", "duckdb"] {
        assert_eq!(seen[0][reader], table["rows"], "{reader} {}", seen[0]["error"]);
    }
    convert(LAST, Mode::Full, true).await;
    declares(&path(table), NUMBERS);
    convert(LAST, Mode::Full, false).await;
    declares(&path(table), NUMBERS);
}

/// A file with the columns `id` and `v`.
fn plain_file(folder: &Path, name: &str, v: ArrayRef) {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1; v.len()]));
    let fields = vec![Field::new("id", DataType::Int64, true), Field::new("v", v.data_type().clone(), true)];
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![ids, v]).unwrap();
    let file = std::fs::File::create(folder.join(name)).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// A Hudi table whose only file holds its column `v` as it was before it became `now`.
async fn hudi_with_older_file(table: &Path, now: &str, v: ArrayRef) -> HudiSource {
    std::fs::create_dir_all(table.join("_delta_log")).unwrap();
    plain_file(table, "one.parquet", v);
    let size = std::fs::metadata(table.join("one.parquet")).unwrap().len();
    let field = |name: &str, ty: &str| json!({"name": name, "type": ty, "nullable": true, "metadata": {}});
    let schema = json!({"type": "struct", "fields": [field("id", "long"), field("v", now)]});
    let lines = [
        json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}),
        json!({"metaData": {"id": "5f0a3b1e-0000-4000-8000-000000000003", "schemaString": schema.to_string(),
            "format": {"provider": "parquet", "options": {}}, "partitionColumns": [], "configuration": {}}}),
        json!({"add": {"path": "one.parquet", "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": true}}),
    ];
    let text = lines.map(|line| line.to_string()).join("\n");
    std::fs::write(table.join("_delta_log/00000000000000000000.json"), text).unwrap();
    sync(&DeltaSource::new(root(table)), target(Hudi, table).as_mut(), &Options::default()).await.unwrap();
    std::fs::remove_dir_all(table.join("_delta_log")).unwrap();
    HudiSource::new(root(table), HudiOptions::default())
}

#[tokio::test]
async fn type_changes_that_delta_does_not_know_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let days: ArrayRef = Arc::new(arrow::array::Date32Array::from(vec![19_000]));
    let hudi = hudi_with_older_file(&table, "timestamp", days).await;
    for mode in [Mode::Incremental, Mode::Full] {
        let options = Options { mode, ..Options::default() };
        let found = refused(sync(&hudi, target(Delta, &table).as_mut(), &options).await);
        assert_eq!((found.len(), found[0].0.as_str()), (1, "v"), "{found:?}");
        assert!(found[0].1.contains("was date and is timestamptz"), "{found:?}");
    }
    assert!(!table.join("_delta_log").exists());
}

/// A Delta table that was created with its column `v` as `was` and a file of it, and the commit that widened it.
fn widened_delta(table: &Path, (was, now): (&str, &str), partitioned: bool, v: ArrayRef) -> [String; 2] {
    std::fs::create_dir_all(table.join("_delta_log")).unwrap();
    plain_file(table, "one.parquet", v);
    let size = std::fs::metadata(table.join("one.parquet")).unwrap().len();
    let metadata = |ty: &str, changes: Value| {
        let field =
            |name: &str, ty: &str, metadata| json!({"name": name, "type": ty, "nullable": true, "metadata": metadata});
        let schema = json!({"type": "struct", "fields": [field("id", "long", json!({})), field("v", ty, changes)]});
        json!({"metaData": {"id": "5f0a3b1e-0000-4000-8000-000000000004", "schemaString": schema.to_string(),
            "format": {"provider": "parquet", "options": {}}, "configuration": {},
            "partitionColumns": if partitioned { json!(["v"]) } else { json!([]) }}})
    };
    let protocol = |features| json!({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}});
    let values = if partitioned { json!({"v": "2020-01-01"}) } else { json!({}) };
    let add = json!({"add": {"path": "one.parquet", "partitionValues": values, "size": size, "modificationTime": 1, "dataChange": true}});
    let created = [protocol(json!([])), metadata(was, json!({})), add];
    let changes = json!({"delta.typeChanges": [{"fromType": was, "toType": now}]});
    let widened = [protocol(json!(["typeWidening", "timestampNtz"])), metadata(now, changes)];
    [&created[..], &widened].map(|lines| lines.iter().map(|line| format!("{line}\n")).collect())
}

#[tokio::test]
async fn type_changes_that_iceberg_readers_do_not_follow_are_refused_once() {
    let days: ArrayRef = Arc::new(arrow::array::Date32Array::from(vec![18_262]));
    let ints: ArrayRef = Arc::new(arrow::array::Int32Array::from(vec![7]));
    let unpromoted = "from int to double, which Iceberg has no promotion for";
    let unread = "from date to timestamp, which Iceberg promotes from version 3 on";
    for (was, now, partitioned, v, words) in [
        ("integer", "double", false, &ints, unpromoted),
        ("date", "timestamp_ntz", false, &days, unread),
        ("date", "timestamp_ntz", true, &days, unread),
    ] {
        for format_version in [None, Some(3)] {
            for follows in [false, true] {
                let folder = tempfile::tempdir().unwrap();
                let table = folder.path().join("t");
                let log = |version| table.join(format!("_delta_log/{version:020}.json"));
                let [created, widened] = widened_delta(&table, (was, now), partitioned, Arc::clone(v));
                let convert = async |mode| {
                    let options = IcebergTargetOptions { format_version, ..IcebergTargetOptions::default() };
                    let mut target = IcebergTarget::new(root(&table), options);
                    sync(&DeltaSource::new(root(&table)), &mut target, &Options { mode, ..Options::default() }).await
                };
                std::fs::write(log(0), created).unwrap();
                if follows {
                    convert(Mode::Incremental).await.unwrap();
                }
                std::fs::write(log(1), widened).unwrap();
                for mode in [Mode::Incremental, Mode::Full] {
                    let place = format!("{was} to {now}, {partitioned}, {format_version:?}, {follows}, {mode:?}");
                    let found = refused(convert(mode).await);
                    assert_eq!((found.len(), found[0].0.as_str()), (1, "v"), "{place}: {found:?}");
                    assert!(found[0].1.contains(words), "{place}: {found:?}");
                }
                assert_eq!(table.join("metadata/v1.metadata.json").exists(), follows);
                assert!(!table.join("metadata/v2.metadata.json").exists());
            }
        }
    }
}

/// Iceberg targets of a column that was a date: one that shows it as one, and one that a former version has widened.
#[tokio::test]
async fn refusals_of_type_changes_name_what_helps() {
    for widened_before in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("t");
        let log = |version| table.join(format!("_delta_log/{version:020}.json"));
        let days: ArrayRef = Arc::new(arrow::array::Date32Array::from(vec![18_262]));
        let [created, widened] = widened_delta(&table, ("date", "timestamp_ntz"), false, days);
        std::fs::write(log(0), created).unwrap();
        let convert = async |mode| {
            let mut target = IcebergTarget::new(root(&table), IcebergTargetOptions::default());
            sync(&DeltaSource::new(root(&table)), &mut target, &Options { mode, ..Options::default() }).await
        };
        convert(Mode::Incremental).await.unwrap();
        let metadata = table.join("metadata/v1.metadata.json");
        if widened_before {
            let text = std::fs::read_to_string(&metadata).unwrap();
            let changed = text.replace("\"date\"", "\"timestamp\"");
            assert_ne!(text, changed);
            std::fs::write(&metadata, changed).unwrap();
        }
        std::fs::write(log(1), &widened).unwrap();
        let found = refused(convert(Mode::Incremental).await);
        assert!(found.len() == 1 && found[0].1.contains("DROP FEATURE typeWidening"), "{found:?}");

        // The source's files are written anew, as that does.
        let moments: ArrayRef = Arc::new(arrow::array::TimestampMicrosecondArray::from(vec![1_577_836_800_000_000]));
        std::fs::rename(table.join("one.parquet"), table.join("then.parquet")).unwrap();
        plain_file(&table, "one.parquet", moments);
        std::fs::rename(table.join("one.parquet"), table.join("two.parquet")).unwrap();
        std::fs::rename(table.join("then.parquet"), table.join("one.parquet")).unwrap();
        let size = std::fs::metadata(table.join("two.parquet")).unwrap().len();
        let mut lines: Vec<Value> = widened.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let schema = lines[1]["metaData"]["schemaString"].as_str().unwrap();
        let mut schema: Value = serde_json::from_str(schema).unwrap();
        schema["fields"][1]["metadata"] = json!({});
        lines[1]["metaData"]["schemaString"] = json!(schema.to_string());
        lines.push(json!({"remove": {"path": "one.parquet", "deletionTimestamp": 1, "dataChange": false}}));
        lines.push(json!({"add": {"path": "two.parquet", "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": false}}));
        std::fs::write(log(2), lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        if !widened_before {
            let found = refused(convert(Mode::Full).await);
            assert!(found.len() == 1 && found[0].1.contains("`metadata` folder"), "{found:?}");
            std::fs::remove_dir_all(table.join("metadata")).unwrap();
        }
        let metadata = convert(Mode::Full).await.unwrap().metadata_path.unwrap();
        let seen = &see(folder.path(), &[("iceberg", metadata)])[0];
        let rows = json!([r#"{"id": 1, "v": "2020-01-01T00:00:00.000000"}"#]);
        assert_eq!((&seen["pyiceberg"], &seen["duckdb"]), (&rows, &rows), "{}", seen["error"]);
    }
}

#[tokio::test]
async fn older_types_in_the_files_of_hudi_tables_are_noticed() {
    for (now, is_promoted) in [("long", true), ("double", false)] {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("t");
        hudi_with_older_file(&table, now, Arc::new(arrow::array::Int32Array::from(vec![7]))).await;
        let hudi = || HudiSource::new(root(&table), HudiOptions::default());
        let delta = sync(&hudi(), target(Delta, &table).as_mut(), &Options::default()).await.unwrap();
        declares(&table, &[("v", "integer", now)]);
        let words = format!("column v as int instead of {now}");
        assert!(delta.warnings.iter().any(|w| w.contains(&words)), "{:?}", delta.warnings);
        let head = DeltaSource::new(root(&table)).head().await.unwrap();
        assert_eq!(head.binding.older_types.len(), 1, "{:?}", head.binding);
        let iceberg = sync(&hudi(), target(Iceberg, &table).as_mut(), &Options::default()).await;
        if is_promoted {
            let asked =
                [("iceberg", iceberg.unwrap().metadata_path.unwrap()), ("delta", table.to_str().unwrap().to_owned())];
            let seen = see(folder.path(), &asked);
            let rows = json!([r#"{"id": 1, "v": 7}"#]);
            assert_eq!((&seen[0]["pyiceberg"], &seen[0]["duckdb"]), (&rows, &rows), "{}", seen[0]["error"]);
            assert_eq!(seen[1]["duckdb"], rows, "{}", seen[1]["error"]);
        } else {
            let found = refused(iceberg);
            assert!(found[0].0 == "v" && found[0].1.contains("from int to double"), "{found:?}");
            assert!(!table.join("metadata/v1.metadata.json").exists());
        }
    }
}

#[tokio::test]
async fn delta_readers_find_columns_of_older_files() {
    let folder = tempfile::tempdir().unwrap();
    let tables = tables(folder.path());
    let (mut asked, mut expected) = (Vec::new(), Vec::new());
    for (name, table) in tables.as_object().unwrap() {
        let mut target = DeltaTarget::new(root(&path(table)), DeltaTargetOptions::default());
        for step in [0, LAST] {
            sync(&source(table, step), &mut target, &Options::default()).await.unwrap();
        }
        let log = std::fs::read_to_string(path(table).join("_delta_log/00000000000000000000.json")).unwrap();
        assert!(!log.contains("columnMapping"), "{name}: it began without");
        asked.push(("delta", table["path"].as_str().unwrap().to_owned()));
        let (_, files) = corpus::live(&DeltaSource::new(root(&path(table)))).await.unwrap();
        assert!(files.values().all(|f| f.record_count == Some(1) && f.columns.iter().any(|c| c.lower.is_some())));
        expected.push((name, table["rows"].as_array().unwrap()));
    }
    for ((name, rows), seen) in expected.into_iter().zip(see(folder.path(), &asked)) {
        if name == "renamed_inside" {
            // delta-rs finds no member of the struct by name, and says so.
            assert!(seen["error"].as_str().unwrap().contains("col-3"), "{seen}");
            continue;
        }
        // These readers map by name what the table maps by id: null, never the values of another column.
        let moved = match name.as_str() {
            "renamed" => "b",
            "readded" => "a",
            "readded_in_another_case" => "A",
            _ => "",
        };
        let shown = |row: &Value| {
            let mut row = parsed(row);
            row.as_object_mut().unwrap().entry(moved).and_modify(|value| *value = Value::Null);
            row.to_string()
        };
        let seen_by = |reader: &str| {
            let rows = seen[reader].as_array().unwrap_or_else(|| panic!("{name}: {}", seen["error"])).iter();
            sorted(rows.map(|row| parsed(row).to_string()))
        };
        let expected = sorted(rows.iter().map(shown));
        assert_eq!(seen_by("duckdb"), expected, "{name}");
        if !name.starts_with("widened") {
            // delta-rs opens no table with the feature typeWidening.
            assert_eq!(seen_by("delta-rs"), expected, "{name}");
        }
    }
}

#[tokio::test]
async fn what_delta_has_no_place_for_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let tables = tables(folder.path());
    for (name, words) in [
        ("keyed", &["identified by id", "sort order"][..]),
        ("widened", &["column i as int instead of long"]),
        ("renamed", &["column b has other names"]),
    ] {
        let mut target = DeltaTarget::new(root(&path(&tables[name])), DeltaTargetOptions::default());
        let report = sync(&source(&tables[name], LAST), &mut target, &Options::default()).await.unwrap();
        for words in words {
            assert!(report.warnings.iter().any(|w| w.contains(words)), "{name}: {:?}", report.warnings);
        }
    }
}

fn target(format: TableFormat, table: &Path) -> Box<dyn Target> {
    match format {
        Delta => Box::new(DeltaTarget::new(root(table), DeltaTargetOptions::default())),
        Iceberg => Box::new(IcebergTarget::new(root(table), IcebergTargetOptions::default())),
        _ => Box::new(HudiTarget::new(root(table))),
    }
}

/// A file of three rows whose second column has id 2 and this name.
fn write(folder: &Path, name: &str, column: &str, seconds: u64) {
    let field = |name: &str, ty, id: &str| {
        let metadata = [("PARQUET:field_id".to_owned(), id.to_owned())];
        Field::new(name, ty, true).with_metadata(HashMap::from(metadata))
    };
    let fields = vec![field("id", DataType::Int64, "1"), field(column, DataType::Utf8, "2")];
    let columns: [ArrayRef; 2] =
        [Arc::new(Int64Array::from(vec![1, 2, 3])), Arc::new(StringArray::from(vec![name, "y", "z"]))];
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.to_vec()).unwrap();
    let path = folder.join(format!("{name}.parquet"));
    let mut writer = ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000 + seconds);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
}

#[tokio::test]
async fn parquet_files_that_agree_by_id_alone_are_read_by_id() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    std::fs::create_dir(&table).unwrap();
    let source = || ParquetDirectorySource::new(root(&table), ParquetDirectoryOptions::default());
    write(&table, "one", "a", 1);
    for format in [Delta, Iceberg, Hudi] {
        sync(&source(), target(format, &table).as_mut(), &Options::default()).await.unwrap();
    }
    write(&table, "two", "b", 2);
    let head = source().head().await.unwrap();
    assert_eq!(head.binding.by_id.iter().map(|id| id.0).collect::<Vec<_>>(), [2]);
    assert!(!head.binding.ids_may_be_absent);
    let mut paths = Vec::new();
    for format in [Delta, Iceberg] {
        let report = sync(&source(), target(format, &table).as_mut(), &Options::default()).await.unwrap();
        paths.push(report.metadata_path.unwrap());
    }
    let found = refused(sync(&source(), target(Hudi, &table).as_mut(), &Options::default()).await);
    assert_eq!(found[0].0, "b");
    let asked = [("delta", table.to_str().unwrap().to_owned()), ("iceberg", paths[1].clone())];
    let seen = see(folder.path(), &asked);
    let rows = |names: [&str; 2]| {
        let mut rows = Vec::new();
        for (id, b) in names.into_iter().map(|n| (1, n)).chain([(2, "y"), (2, "y"), (3, "z"), (3, "z")]) {
            rows.push(format!(r#"{{"b": "{b}", "id": {id}}}"#));
        }
        rows.sort();
        json!(rows)
    };
    for reader in ["pyiceberg", "duckdb"] {
        assert_eq!(seen[1][reader], rows(["one", "two"]), "{reader}: {}", seen[1]["error"]);
    }
    // By id, which these readers of Delta tables do not look at: null in `b`, and the others are there.
    for reader in ["delta-rs", "duckdb"] {
        let found: Vec<Value> = seen[0][reader].as_array().unwrap().iter().map(parsed).collect();
        assert_eq!(found.iter().map(|row| row["id"].as_i64().unwrap()).collect::<Vec<_>>(), [1, 1, 2, 2, 3, 3]);
        assert!(found.iter().all(|row| row["b"].is_null()), "{found:?}");
    }
    let (state, files) = corpus::live(&DeltaSource::new(root(&table))).await.unwrap();
    let field = state.schema.column("b").unwrap();
    assert_eq!((field.id.0, field.stored_name(), state.field_ids), (2, "col-2", FieldIds::Assigned));
    assert!(files.values().all(|f| f.column(field.id).is_some_and(|c| c.lower.is_some())), "{files:?}");
}
