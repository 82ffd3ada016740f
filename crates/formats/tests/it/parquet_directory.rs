//! Directories of Parquet files as a source.

use crate::corpus;
use futures::StreamExt;
use hoglake_formats::parquet_directory::{ParquetDirectoryOptions, ParquetDirectorySource};
use hoglake_formats::sync::{Changes, Error, Result, Source};
use hoglake_model::table::{DataFile, FieldIds, FilePath, Primitive, TableState, Value};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Tables that other readers read and we refuse, with the words that must say why.
const REFUSED: [(&str, &str); 8] = [
    // The files store other values than their directories say: Iceberg and Delta readers would disagree.
    ("hive-hive_col_also_in_file", "`a`"),
    ("pt-float16_nonzeros_and_nans", "16-bit float"),
    ("pt-byte_stream_split_extended_gzip", "16-bit float"),
    ("pt-concatenated_gzip_members", "unsigned 64-bit"),
    // Its footer is none that the Parquet library takes.
    ("pt-dict-page-offset-zero", "list element type"),
    ("pt-geospatial_crs-projjson", "geometry"),
    // Levels of directories that other files do not have.
    ("hive-mismatching_count", "key=value"),
    ("pt-bad-PARQUET-1481", "parquet"),
];

/// Damage in pages, which metadata alone does not show.
const DAMAGED_PAGES: [&str; 3] = ["pt-bad-ARROW-GH-41317", "pt-bad-ARROW-GH-45185", "pt-bad-ARROW-RS-GH-6229-LEVELS"];

fn open(path: &Path) -> ParquetDirectorySource {
    ParquetDirectorySource::new(corpus::root(path), ParquetDirectoryOptions::default())
}

async fn live(path: &Path) -> Result<(Arc<TableState>, BTreeMap<FilePath, DataFile>)> {
    corpus::live(&open(path)).await
}

#[tokio::test]
async fn the_corpus_reads_as_other_readers_read_it() {
    let (mut read, mut refused) = (0, 0);
    for case in corpus::cases("parquet") {
        let result = live(&case.root).await;
        if let Some((_, why)) = REFUSED.iter().find(|(name, _)| *name == case.name) {
            let message = result.unwrap_err().to_string();
            assert!(message.contains(why), "{}: {message}", case.name);
            refused += 1;
            continue;
        }
        if DAMAGED_PAGES.contains(&case.name.as_str()) {
            continue;
        }
        let (state, files) = result.unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let rows: u64 = files.values().map(|f| f.record_count.unwrap()).sum();
        assert_eq!(Some(rows), case.expected["rows"].as_u64(), "{}", case.name);
        assert_eq!(Some(files.len() as u64), case.expected["live_files"].as_u64(), "{}", case.name);
        // The columns by name, without the partition columns' second spelling in another case.
        let expected = case.expected["schema"].as_array().unwrap();
        let names: Vec<&str> = expected.iter().map(|c| c.as_str().unwrap().split(": ").next().unwrap()).collect();
        for field in &state.schema.fields {
            assert!(names.contains(&field.name.as_str()), "{}: {} is not in {names:?}", case.name, field.name);
        }
        if case.name != "hive-ci-column-names" {
            assert_eq!(state.schema.fields.len(), names.len(), "{}", case.name);
        }
        let partitions = state.specs[0].fields.len();
        let expected = case.expected["partition"].as_str().map_or(0, |p| p.split(", ").count());
        assert_eq!(partitions, expected, "{}", case.name);
        for file in files.values() {
            assert_eq!(file.partition.len(), partitions, "{}", case.name);
            assert!(file.columns.is_sorted_by_key(|c| c.field), "{}", case.name);
        }
        read += 1;
    }
    assert!(read == 43 && refused == REFUSED.len(), "{read} read, {refused} refused");
}

#[tokio::test]
async fn bounds_hold_every_value_that_pyarrow_reads() {
    for name in ["pt-alltypes_plain", "rapids-decimal-test-legacy", "pt-int32_decimal", "rapids-partitioned-parquet"] {
        let case = corpus::case("parquet", name);
        let (state, files) = live(&case.root).await.unwrap();
        let rows = case.expected["sample_rows"].as_array().unwrap();
        let mut bounded = 0;
        for field in &state.schema.fields {
            let bound = |upper: bool| {
                let side = |f: &DataFile| {
                    f.column(field.id).and_then(|c| if upper { c.upper.clone() } else { c.lower.clone() })
                };
                files.values().map(side).collect::<Option<Vec<_>>>()
            };
            let (Some(lower), Some(upper)) = (bound(false), bound(true)) else { continue };
            for row in rows {
                let number = match &row[&field.name] {
                    serde_json::Value::Number(n) => n.as_f64().unwrap(),
                    serde_json::Value::String(text) => match text.parse() {
                        Ok(number) => number,
                        Err(_) => continue,
                    },
                    _ => continue,
                };
                let inside = lower.iter().zip(&upper).any(|(l, u)| match (float(l), float(u)) {
                    (Some(l), Some(u)) => l <= number && number <= u,
                    _ => true,
                });
                assert!(inside, "{name} {}: {number} is not within {lower:?} and {upper:?}", field.name);
                bounded += 1;
            }
        }
        assert!(bounded > 0 || name == "pt-alltypes_plain", "{name} has no bounds at all");
    }
}

fn float(value: &Value) -> Option<f64> {
    Some(match value {
        Value::Int(v) => f64::from(*v),
        Value::Long(v) => *v as f64,
        Value::Float(v) => f64::from(*v),
        Value::Double(v) => *v,
        Value::Decimal { unscaled, scale } => *unscaled as f64 / 10f64.powi(i32::from(*scale)),
        _ => return None,
    })
}

fn copy(case: &str, file: &str, to: &Path) {
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::copy(corpus::case("parquet", case).root.join(file), to).unwrap();
}

fn touch(path: &Path, seconds: u64) {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000 + seconds);
    std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[tokio::test]
async fn appends_are_replayed_and_removals_are_not_guessed() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    copy(
        "rapids-partitioned-parquet",
        "partKey=100/part-00000-7404bd47-cd68-43cf-b78e-5f1c5fba912d.c000.snappy.parquet",
        &file("k=1/a.parquet"),
    );
    touch(&file("k=1/a.parquet"), 1);
    std::fs::create_dir_all(file("_delta_log")).unwrap();
    std::fs::write(file("_delta_log/00000000000000000000.checkpoint.parquet"), b"no data").unwrap();
    let first = open(folder.path()).head().await.unwrap();
    assert_eq!(first.warnings.len(), 1, "the Delta log is mentioned");
    assert_eq!(first.version, open(folder.path()).head().await.unwrap().version, "the same files, the same version");

    copy(
        "rapids-partitioned-parquet",
        "partKey=102/part-00000-7404bd47-cd68-43cf-b78e-5f1c5fba912d.c000.snappy.parquet",
        &file("k=2/b.parquet"),
    );
    touch(&file("k=2/b.parquet"), 2);
    let source = open(folder.path());
    let second = source.head().await.unwrap();
    let Changes::Replay(mut changes) = source.changes(&first.watermark(), &second).await.unwrap() else {
        panic!("an append is replayed");
    };
    let change = changes.next().await.unwrap().unwrap();
    assert!(changes.next().await.is_none());
    let added: Vec<&str> = change.files.added.iter().map(|f| f.path.as_str()).collect();
    assert_eq!((added, change.files.removed.len(), &change.state.version), (vec!["k=2/b.parquet"], 0, &second.version));
    assert_eq!(change.files.added[0].partition, [Some(Value::Int(2))]);
    assert_eq!(change.files.added[0].record_count, Some(2));

    std::fs::remove_file(file("k=1/a.parquet")).unwrap();
    let source = open(folder.path());
    let third = source.head().await.unwrap();
    let gone = source.changes(&second.watermark(), &third).await.unwrap();
    assert!(matches!(gone, Changes::HistoryGone { reason } if reason.contains("removed")));

    // A value that is no number makes the column text: files that were converted before would keep the old type.
    copy(
        "rapids-partitioned-parquet",
        "partKey=102/part-00000-7404bd47-cd68-43cf-b78e-5f1c5fba912d.c000.snappy.parquet",
        &file("k=x/c.parquet"),
    );
    touch(&file("k=x/c.parquet"), 3);
    let source = open(folder.path());
    let fourth = source.head().await.unwrap();
    assert_eq!(fourth.schema.column("k").and_then(|f| f.ty.primitive()), Some(Primitive::String));
    let gone = source.changes(&third.watermark(), &fourth).await.unwrap();
    assert!(matches!(gone, Changes::HistoryGone { reason } if reason.contains("types")));
}

#[tokio::test]
async fn field_ids_of_the_files_are_kept() {
    let case = corpus::case("parquet", "pt-byte_array_decimal");
    let (state, _) = live(&case.root).await.unwrap();
    assert_eq!((state.schema.fields[0].id.0, state.field_ids), (6, FieldIds::Assigned));
    let (state, _) = live(&corpus::case("parquet", "pt-alltypes_plain").root).await.unwrap();
    assert_eq!((state.schema.fields[0].id.0, state.field_ids), (1, FieldIds::Positional));
}

#[tokio::test]
async fn what_is_no_parquet_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = live(folder.path()).await.unwrap_err();
    assert!(matches!(error, Error::NotATable { .. }));
    let broken = folder.path().join("x.parquet");
    let footer = |length: u32, magic: &[u8]| [&[0u8; 40][..], &length.to_le_bytes(), magic].concat();
    for bytes in [
        Vec::new(),
        b"PAR1".to_vec(),
        vec![0; 100],
        footer(0, b"PAR1"),
        footer(20, b"PAR1"),
        footer(u32::MAX, b"PAR1"),
        footer(20, b"PARE"),
    ] {
        std::fs::write(&broken, &bytes).unwrap();
        let message = live(folder.path()).await.unwrap_err().to_string();
        assert!(message.contains("x.parquet"), "{message}");
    }
    // Every prefix of a real file is refused, none brings the reader down.
    let whole = std::fs::read(corpus::case("parquet", "pt-list_columns").root.join("list_columns.parquet")).unwrap();
    for cut in (0..whole.len()).step_by(7) {
        std::fs::write(&broken, &whole[..cut]).unwrap();
        assert!(live(folder.path()).await.is_err(), "{cut}");
    }
    // A byte of the footer changed: an error or another reading, never a panic.
    for at in whole.len().saturating_sub(900)..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        std::fs::write(&broken, &bytes).unwrap();
        let _ = live(folder.path()).await;
    }
}
