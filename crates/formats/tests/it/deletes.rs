//! Row-level deletes: equality deletes refused, resolved to positions or ignored as asked for; deletes of version 2
//! Iceberg targets as position-delete files, of version 3 as vectors.

use crate::corpus::{case, live, root, rows};
use crate::judges::{judge, see};
use crate::to_iceberg::copy;
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use hoglake_formats::delta::{DeltaSource, DeltaTarget, DeltaTargetOptions};
use hoglake_formats::hudi::HudiTarget;
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource, IcebergTarget, IcebergTargetOptions};
use hoglake_formats::sync::{Error, Mode, Options, Plan, Report, Result, Source, UnsupportedDeletes, sync};
use hoglake_model::table::RowDeletes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::path::{Path, PathBuf};

/// Syncs what one metadata file of an Iceberg table says to Delta in the same folder.
pub async fn to_delta(table: &Path, metadata: &str, mode: Mode, how: UnsupportedDeletes) -> Result<Report> {
    let name = metadata.rsplit('/').next().unwrap();
    let options = IcebergOptions { metadata_file: Some(format!("metadata/{name}")), relocated: true };
    let source = IcebergSource::new(root(table), options);
    let mut target = DeltaTarget::new(root(table), DeltaTargetOptions::default());
    let options = Options { mode, on_unsupported_deletes: how, ..Options::default() };
    sync(&source, &mut target, &options).await
}

/// What `equality.py` made: name, folder, and for each version its metadata file and rows.
pub fn equality_tables(folder: &Path) -> Vec<serde_json::Value> {
    judge("equality.py", &[folder.to_str().unwrap()]).as_array().unwrap().clone()
}

#[tokio::test]
async fn equality_deletes_are_resolved_commit_by_commit_and_in_full() {
    let folder = tempfile::tempdir().unwrap();
    let mut asked: Vec<(&str, String)> = Vec::new();
    let mut expected = Vec::new();
    for table in equality_tables(folder.path()) {
        let path = PathBuf::from(table["path"].as_str().unwrap());
        for (number, version) in table["versions"].as_array().unwrap().iter().enumerate() {
            let metadata = version["metadata"].as_str().unwrap();
            let report = to_delta(&path, metadata, Mode::Incremental, UnsupportedDeletes::Materialize).await.unwrap();
            assert_eq!(report.steps.len(), 1, "{metadata}");
            assert!(!report.warnings.iter().any(|w| w.contains("DELETED")), "{report:?}");
            assert_eq!(report.plan == Plan::Incremental, number > 0, "{metadata}");
            // As it is after this commit, and a full sync of the same version into another folder.
            let followed = folder.path().join(format!("{}-{number}", table["name"].as_str().unwrap()));
            copy(&path, &followed);
            let whole = followed.with_extension("whole");
            copy(&path, &whole);
            std::fs::remove_dir_all(whole.join("_delta_log")).unwrap();
            to_delta(&whole, metadata, Mode::Full, UnsupportedDeletes::Materialize).await.unwrap();
            for table in [&followed, &whole] {
                asked.push(("delta", table.to_str().unwrap().to_owned()));
                expected.push(version["rows"].clone());
            }
            // In full on top of what was followed: the same already.
            let again = to_delta(&path, metadata, Mode::Full, UnsupportedDeletes::Materialize).await.unwrap();
            assert_eq!((again.plan, again.steps.len()), (Plan::NoChange, 0), "{metadata}");
        }
    }
    for (((_, path), expected), seen) in asked.iter().zip(&expected).zip(see(folder.path(), &asked)) {
        assert_eq!(&seen["delta-rs"], expected, "{path} {}", seen["error"]);
        assert_eq!(&seen["duckdb"], expected, "{path}");
        assert_eq!(seen["problems"], serde_json::json!([]), "{path}");
    }
}

#[tokio::test]
async fn equality_deletes_of_other_engines_are_resolved() {
    let mut resolved = 0;
    for case in crate::corpus::cases("iceberg") {
        if case.expected["expect"] != "read" || case.name == "duckdbice-equality_delete_cross_partition" {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join(&case.name);
        copy(&case.root, &table);
        let options = || IcebergOptions { relocated: true, ..IcebergOptions::default() };
        let source = IcebergSource::new(root(&table), options());
        let (_, files) = live(&source).await.unwrap();
        if !files.values().any(|f| f.deletes.iter().any(|d| matches!(d, RowDeletes::Equality(_)))) {
            continue;
        }
        assert_eq!(rows(&source, &files).await.unwrap(), case.expected["rows"].as_u64().unwrap(), "{}", case.name);
        let mut target = DeltaTarget::new(root(&table), DeltaTargetOptions::default());
        let refused = sync(&source, &mut target, &Options::default()).await.unwrap_err();
        assert!(matches!(refused, Error::Unsupported(_)), "{}: {refused}", case.name);
        let how = UnsupportedDeletes::Materialize;
        let options = Options { on_unsupported_deletes: how, ..Options::default() };
        sync(&source, &mut target, &options).await.unwrap();
        let asked = [("delta", table.to_str().unwrap().to_owned())];
        let seen = &see(folder.path(), &asked)[0];
        let count = |reader: &str| seen[reader].as_array().map(|rows| rows.len() as u64);
        let expected = case.expected["rows"].as_u64();
        assert_eq!((count("delta-rs"), count("duckdb")), (expected, expected), "{} {}", case.name, seen["error"]);
        resolved += 1;
    }
    assert!(resolved >= 1);
}

#[tokio::test]
async fn refusals_name_the_commit_and_ignoring_is_loud() {
    let folder = tempfile::tempdir().unwrap();
    let tables = equality_tables(folder.path());
    let table = tables.iter().find(|t| t["name"] == "flat").unwrap();
    let path = PathBuf::from(table["path"].as_str().unwrap());
    let metadata = |n: usize| table["versions"][n]["metadata"].as_str().unwrap();
    to_delta(&path, metadata(0), Mode::Incremental, UnsupportedDeletes::Fail).await.unwrap();
    let before = std::fs::read_dir(path.join("_delta_log")).unwrap().count();
    // Commit 1002 brought the first equality deletes.
    for (number, mode) in [(1, Mode::Incremental), (4, Mode::Full)] {
        let error = to_delta(&path, metadata(number), mode, UnsupportedDeletes::Fail).await.unwrap_err().to_string();
        assert!(error.contains("commit 1002") && error.contains("materialize"), "{error}");
    }
    assert_eq!(std::fs::read_dir(path.join("_delta_log")).unwrap().count(), before, "nothing was written");
    let report = to_delta(&path, metadata(1), Mode::Incremental, UnsupportedDeletes::Ignore).await.unwrap();
    assert!(report.warnings.iter().any(|w| w.contains("DELETED ROWS ARE SHOWN: in commit 1002")), "{report:?}");
    let (_, files) = live(&DeltaSource::new(root(&path))).await.unwrap();
    assert_eq!((files.len(), files.values().all(|f| f.deletes.is_empty())), (2, true));

    // Later runs know of it: those that may leave deletes out say so again, the others apply them or refuse.
    let again = to_delta(&path, metadata(1), Mode::Incremental, UnsupportedDeletes::Ignore).await.unwrap();
    assert_eq!(again.plan, Plan::NoChange);
    assert!(again.warnings.iter().any(|w| w.contains("DELETED ROWS MAY BE SHOWN")), "{again:?}");
    let error =
        to_delta(&path, metadata(1), Mode::Incremental, UnsupportedDeletes::Fail).await.unwrap_err().to_string();
    assert!(error.contains("materialize"), "{error}");
    let repaired = to_delta(&path, metadata(1), Mode::Incremental, UnsupportedDeletes::Materialize).await.unwrap();
    assert!(matches!(&repaired.plan, Plan::Full { reason } if reason.contains("left out")), "{repaired:?}");
    assert!(repaired.warnings.iter().all(|w| !w.contains("DELETED")), "{repaired:?}");
    let (_, files) = live(&DeltaSource::new(root(&path))).await.unwrap();
    assert!(files.values().any(|f| !f.deletes.is_empty()), "the deletes are applied");
    let quiet = to_delta(&path, metadata(1), Mode::Incremental, UnsupportedDeletes::Materialize).await.unwrap();
    assert!(quiet.plan == Plan::NoChange && quiet.warnings.iter().all(|w| !w.contains("DELETED")), "{quiet:?}");

    // Nothing makes a copy-on-write table of positions, but leaving them out does.
    let vectors = folder.path().join("vectors");
    copy(&case("delta", "table-with-dv-small").root, &vectors);
    let hudi = async |how| {
        let options = Options { on_unsupported_deletes: how, ..Options::default() };
        sync(&DeltaSource::new(root(&vectors)), &mut HudiTarget::new(root(&vectors)), &options).await
    };
    for how in [UnsupportedDeletes::Fail, UnsupportedDeletes::Materialize] {
        let error = hudi(how).await.unwrap_err().to_string();
        assert!(error.contains("at version 1:") && error.contains("deletion vectors"), "{error}");
    }
    let report = hudi(UnsupportedDeletes::Ignore).await.unwrap();
    assert!(report.warnings.iter().any(|w| w.contains("1 row-level deletes against 1 files")), "{report:?}");
    let again = hudi(UnsupportedDeletes::Ignore).await.unwrap();
    assert!(again.warnings.iter().any(|w| w.contains("DELETED ROWS MAY BE SHOWN")), "{again:?}");
    assert!(hudi(UnsupportedDeletes::Fail).await.is_err());
}

pub async fn to_iceberg(table: &Path, version: Option<i32>, mode: Mode) -> Result<Report> {
    let options = IcebergTargetOptions { format_version: version, ..IcebergTargetOptions::default() };
    let mut target = IcebergTarget::new(root(table), options);
    sync(&DeltaSource::new(root(table)), &mut target, &Options { mode, ..Options::default() }).await
}

fn metadata_of(report: &Report) -> serde_json::Value {
    let path = report.metadata_path.as_deref().unwrap().trim_start_matches("file://");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn delete_files(table: &Path, suffix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(table.join("metadata")).unwrap().map(|e| e.unwrap().path());
    entries.filter(|path| path.to_str().unwrap().ends_with(suffix)).collect()
}

#[tokio::test]
async fn both_versions_of_iceberg_hold_the_same_deletes() {
    let folder = tempfile::tempdir().unwrap();
    let mut asked = Vec::new();
    for name in ["table-with-dv-small", "kernel-basic-dv-with-checkpoint", "golden-log-replay-dv-key-cases"] {
        let case = case("delta", name);
        for version in [None, Some(2), Some(3)] {
            let table = folder.path().join(format!("{name}-{version:?}"));
            copy(&case.root, &table);
            let report = to_iceberg(&table, version, Mode::Incremental).await.unwrap();
            let suffix = if version == Some(3) { "-deletes.puffin" } else { "-deletes.parquet" };
            assert_eq!(metadata_of(&report)["format-version"], version.unwrap_or(2), "{name}");
            let written = delete_files(&table, suffix);
            assert!(!written.is_empty(), "{name} {version:?}");
            for file in written.iter().filter(|_| version != Some(3)) {
                sorted_positions(&table, file);
            }
            // In full after that: nothing changes, nothing is written.
            let again = to_iceberg(&table, version, Mode::Full).await.unwrap();
            assert_eq!(again.metadata_path, report.metadata_path);
            assert_eq!(delete_files(&table, suffix).len(), written.len());
            asked.push(("delta", case.root.to_str().unwrap().to_owned()));
            asked.push(("iceberg", report.metadata_path.unwrap()));
        }
    }
    for (pair, seen) in asked.chunks(2).zip(see(folder.path(), &asked).chunks(2)) {
        for reader in ["pyiceberg", "duckdb"] {
            assert_eq!(seen[1][reader], seen[0]["delta-rs"], "{reader} {} {}", pair[1].1, seen[1]["error"]);
        }
        assert_eq!(seen[1]["problems"], serde_json::json!([]), "{}", pair[1].1);
    }
}

#[tokio::test]
async fn deletes_of_others_in_the_target_go_when_the_source_has_them_not() {
    let folder = tempfile::tempdir().unwrap();
    let tables = equality_tables(folder.path());
    let (mut asked, mut expected) = (Vec::new(), Vec::new());
    for (name, version) in [("nested", 0), ("mixed-equality", 1), ("mixed-positions", 1)] {
        let table = tables.iter().find(|t| t["name"] == name).unwrap();
        let path = PathBuf::from(table["path"].as_str().unwrap());
        let version = &table["versions"][version];
        // The source is the table as it was before some of its deletes.
        let metadata = version["metadata"].as_str().unwrap();
        to_delta(&path, metadata, Mode::Full, UnsupportedDeletes::Materialize).await.unwrap();
        let report = to_iceberg(&path, None, Mode::Full).await.unwrap();
        let again = to_iceberg(&path, None, Mode::Full).await.unwrap();
        assert_eq!(again.metadata_path, report.metadata_path, "{name}");
        asked.push(("iceberg", report.metadata_path.unwrap()));
        expected.push(&version["rows"]);
    }
    for (((_, path), expected), seen) in asked.iter().zip(expected).zip(see(folder.path(), &asked)) {
        assert_eq!((&seen["pyiceberg"], &seen["duckdb"]), (expected, expected), "{path} {}", seen["error"]);
        assert_eq!(seen["problems"], serde_json::json!([]), "{path}");
    }
}

#[tokio::test]
async fn delete_files_that_are_not_there_are_not_taken_for_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let tables = equality_tables(folder.path());
    for (name, version) in [("nested", 1), ("mixed-positions", 1)] {
        let table = tables.iter().find(|t| t["name"] == name).unwrap();
        let path = PathBuf::from(table["path"].as_str().unwrap());
        let mut files: Vec<_> = std::fs::read_dir(path.join("data")).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        // The first ones are the data files.
        let data = if name == "nested" { 1 } else { 2 };
        files.sort_by_key(|f| f.file_name().unwrap().len() > 45);
        files.iter().skip(data).for_each(|f| std::fs::remove_file(f).unwrap());
        let metadata = table["versions"][version]["metadata"].as_str().unwrap();
        let error = to_delta(&path, metadata, Mode::Full, UnsupportedDeletes::Materialize).await.unwrap_err();
        assert!(error.is_not_found(), "{name}: {error:?}");
    }
}

/// The rules for position-delete files: reserved field ids, one data file that exists, ascending positions.
fn sorted_positions(table: &Path, file: &Path) {
    let builder = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(file).unwrap()).unwrap();
    let columns = builder.parquet_schema().columns().to_vec();
    let ids: Vec<_> = columns.iter().map(|c| (c.name().to_owned(), c.self_type().get_basic_info().id())).collect();
    assert_eq!(ids, [("file_path".to_owned(), 2_147_483_546), ("pos".to_owned(), 2_147_483_545)]);
    let mut last = None;
    for batch in builder.build().unwrap() {
        let batch = batch.unwrap();
        for path in batch.column(0).as_string::<i32>() {
            let path = path.unwrap().trim_start_matches("file:").to_owned();
            assert!(path.starts_with(table.to_str().unwrap()) && Path::new(&path).exists(), "{path}");
        }
        for position in batch.column(1).as_primitive::<Int64Type>().values() {
            assert!(last.is_none_or(|last| last < *position));
            last = Some(*position);
        }
    }
    assert!(last.is_some());
}

#[tokio::test]
async fn deletes_of_a_file_replace_those_before_in_either_version() {
    let folder = tempfile::tempdir().unwrap();
    // Its log deletes from the same files again and again.
    let case = case("delta", "kernel-basic-dv-with-checkpoint");
    let log = |table: &Path| table.join("_delta_log");
    let mut asked = Vec::new();
    for (first, then) in [(None, None), (Some(3), None), (None, Some(3))] {
        let table = folder.path().join(format!("{first:?}-{then:?}"));
        copy(&case.root, &table);
        let later = table.with_extension("later");
        std::fs::create_dir(&later).unwrap();
        let keep = ["00000000000000000000.json", "00000000000000000001.json", "00000000000000000002.json"];
        let names: Vec<_> = std::fs::read_dir(log(&table)).unwrap().map(|e| e.unwrap().file_name()).collect();
        let moved: Vec<_> = names.iter().filter(|n| !keep.contains(&n.to_str().unwrap())).collect();
        moved.iter().for_each(|n| std::fs::rename(log(&table).join(n), later.join(n)).unwrap());
        to_iceberg(&table, first, Mode::Incremental).await.unwrap();
        moved.iter().for_each(|n| std::fs::rename(later.join(n), log(&table).join(n)).unwrap());
        let report = to_iceberg(&table, then, Mode::Incremental).await.unwrap();
        assert_eq!(report.plan, Plan::Incremental);
        assert!(report.steps.iter().any(|s| s.committed.redeleted > 0));
        let version = first.or(then).unwrap_or(2);
        assert_eq!(metadata_of(&report)["format-version"], version, "a table never goes back");
        let source = IcebergSource::new(root(&table), IcebergOptions::default());
        let (_, files) = live(&source).await.unwrap();
        assert!(files.values().all(|f| f.deletes.len() <= 1), "one delete file a data file");
        assert_eq!(rows(&source, &files).await.unwrap(), case.expected["rows"].as_u64().unwrap());
        let full = to_iceberg(&table, then, Mode::Full).await.unwrap();
        assert_eq!(full.metadata_path, report.metadata_path, "full after incremental finds nothing to do");
        asked.push(("delta", case.root.to_str().unwrap().to_owned()));
        asked.push(("iceberg", report.metadata_path.unwrap()));
    }
    for (pair, seen) in asked.chunks(2).zip(see(folder.path(), &asked).chunks(2)) {
        for reader in ["pyiceberg", "duckdb"] {
            assert_eq!(seen[1][reader], seen[0]["delta-rs"], "{reader} {} {}", pair[1].1, seen[1]["error"]);
        }
        assert_eq!(seen[1]["problems"], serde_json::json!([]), "{}", pair[1].1);
    }
}

#[tokio::test]
async fn a_version_that_does_not_do_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table");
    copy(&case("delta", "table-with-dv-small").root, &table);
    let refused = to_iceberg(&table, Some(1), Mode::Incremental).await.unwrap_err().to_string();
    assert!(refused.contains("versions 2 and 3 are written"), "{refused}");
    assert!(!table.join("metadata").exists());
    to_iceberg(&table, Some(3), Mode::Incremental).await.unwrap();
    let refused = to_iceberg(&table, Some(2), Mode::Full).await.unwrap_err().to_string();
    assert!(refused.contains("the table has version 3"), "{refused}");
    let source = IcebergSource::new(root(&table), IcebergOptions::default());
    assert_eq!(source.head().await.unwrap().schema.fields.len(), 1);
}
