//! Footer statistics: of files by pyarrow, DuckDB, Spark, Impala and others against what pyarrow reads out of them, and
//! of files that are not what they were registered as.

use crate::judges::{data, judge};
use hoglake_formats::parquet::Column;
use hoglake_formats::parquet::footer::{FooterError, FooterStatistics, RegisteredFile, footer_statistics};
use hoglake_formats::store::{Object, S3Config, Secret, StoreConfig, Stores};
use hoglake_model::{ColumnStats, ColumnType, Datum, DecimalType, FieldId, Location};
use serde_json::Value;
use std::cmp::Ordering;
use std::path::Path;

const CAP: u64 = 1 << 20;

fn object(path: &Path) -> Object {
    Stores::new(StoreConfig::local()).open(&Location::parse(path.to_str().unwrap()).unwrap()).unwrap()
}

/// The file as a careful client would register it.
fn registered(path: &Path) -> RegisteredFile {
    let bytes = std::fs::read(path).unwrap();
    let trailer: [u8; 4] = bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap();
    RegisteredFile {
        file_size_bytes: bytes.len() as u64,
        footer_size: Some(u64::from(u32::from_le_bytes(trailer))),
        record_count: None,
        max_whole_object_bytes: CAP,
    }
}

fn parse_type(text: &str) -> ColumnType {
    let Some(inner) = text.strip_prefix("decimal(").and_then(|t| t.strip_suffix(')')) else {
        return ColumnType::parse(text, None).unwrap();
    };
    let (precision, scale) = inner.split_once(',').unwrap();
    ColumnType::Decimal(DecimalType { precision: precision.parse().unwrap(), scale: scale.parse().unwrap() })
}

fn column(id: i64, name: &str, ty: ColumnType) -> Column {
    Column { field_id: FieldId(id), name: name.to_owned(), ty, nullable: true }
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

/// What pyarrow found in one column.
struct Truth<'a> {
    column: Column,
    json: &'a Value,
}

fn truths(file: &Value) -> Vec<Truth<'_>> {
    let columns = file["columns"].as_array().unwrap().iter().enumerate();
    columns
        .map(|(index, json)| {
            let id = json["id"].as_i64().unwrap_or(1000 + index as i64);
            Truth {
                column: column(id, json["name"].as_str().unwrap(), parse_type(json["type"].as_str().unwrap())),
                json,
            }
        })
        .collect()
}

/// Checks that `stats` claims nothing beyond the truth; gives whether both bounds are known.
fn check(file: &str, truth: &Truth<'_>, stats: &ColumnStats) -> bool {
    let (json, ty) = (truth.json, truth.column.ty);
    let context = format!("{file} {} {json} {stats:?}", truth.column.name);
    assert_eq!(stats.null_count, json["nulls"].as_i64(), "{context}");
    if let Some(nans) = stats.nan_count {
        assert_eq!(Some(nans), json["nans"].as_i64(), "{context}");
    }
    let Some(bounds) = json["bounds"].as_array() else {
        assert!(stats.bounds.is_unknown() || json["inexact"] == true, "{context}");
        return false;
    };
    for (side, bytes, wrong) in
        [(stats.bounds.lower(), &bounds[0], Ordering::Greater), (stats.bounds.upper(), &bounds[1], Ordering::Less)]
    {
        let value = unhex(bytes.as_str().unwrap());
        let value = Datum::decode(ty, &value).unwrap();
        if let Some(side) = side {
            assert_ne!(Datum::decode(ty, side).unwrap().compare(value), Some(wrong), "{context}");
        }
    }
    stats.bounds.lower().is_some() && stats.bounds.upper().is_some()
}

async fn read(path: &Path, columns: &[Column]) -> Result<FooterStatistics, FooterError> {
    footer_statistics(&object(path), registered(path), columns).await
}

/// Every column of every file in `dir`: nothing claimed is false. Gives the columns whose bounds are known.
async fn check_directory(dir: &Path) -> Vec<String> {
    let all = judge("parquet_truth.py", &["truth", dir.to_str().unwrap()]);
    let mut bounded = Vec::new();
    for (file, truth) in all.as_object().unwrap() {
        if truth.get("error").is_some() {
            continue;
        }
        let truths = truths(truth);
        let columns: Vec<Column> = truths.iter().map(|t| t.column.clone()).collect();
        let statistics = read(&dir.join(file), &columns).await.unwrap();
        assert_eq!(Some(statistics.record_count), truth["rows"].as_i64(), "{file}");
        for stats in &statistics.columns {
            let truth = truths.iter().find(|t| t.column.field_id == stats.field_id).unwrap();
            if check(file, truth, stats) {
                bounded.push(format!("{file}/{}", truth.column.name));
            }
        }
    }
    bounded
}

#[tokio::test]
async fn nothing_is_claimed_that_pyarrow_does_not_find() {
    let dir = tempfile::tempdir().unwrap();
    judge("parquet_truth.py", &["make", dir.path().to_str().unwrap()]);
    let bounded = check_directory(dir.path()).await;
    let known = |file: &str, columns: &str| {
        for column in columns.split(' ') {
            assert!(bounded.contains(&format!("{file}.parquet/{column}")), "{file} {column}: {bounded:?}");
        }
    };
    let unknown = |file: &str, columns: &str| {
        for column in columns.split(' ') {
            assert!(!bounded.contains(&format!("{file}.parquet/{column}")), "{file} {column}");
        }
    };
    let all = "b i l f d dec day t ts tz s u bin";
    for file in ["pyarrow-ids", "pyarrow-no-ids", "pyarrow-decimal-integers", "duckdb-ids", "duckdb-no-ids"] {
        known(file, all);
    }
    unknown("pyarrow-no-statistics", all);
    unknown("pyarrow-empty", all);
    unknown("pyarrow-int96", "ts tz");
    known("pyarrow-int96", "i t");
    // What NaN touched is unknown, or as exact as its writer made it.
    unknown("pyarrow-floats", "only_nan none");
    known("pyarrow-floats", "zero minus_zero inf");
    known("pyarrow-units", "ms time_ms i8 u8 small_dec mid_dec wide_dec");
    unknown("pyarrow-units", "time_ns u32");
}

#[tokio::test]
async fn nothing_is_claimed_of_files_of_other_writers() {
    let bounded = check_directory(&data("parquet")).await;
    for known in [
        "delta-golden-all-types-spark.parquet/IntegerType",
        "delta-golden-all-types-spark.parquet/decimal",
        "delta-golden-all-types-spark.parquet/StringType",
        "delta-golden-all-types-spark.parquet/TimestampNTZType",
        "icebergenc-DELTA_BINARY_PACKED_int64.parquet/data",
        "icebergenc-RLE_DICTIONARY_string.parquet/data",
        "pt-int32_decimal.parquet/value",
        "rapids-decimal-test-legacy.parquet/c_0",
    ] {
        assert!(bounded.iter().any(|b| b == known), "{known}: {bounded:#?}");
    }
    // INT96 has no order; NaN in the statistics poisons them.
    for unknown in ["pt-int96_from_spark.parquet/a", "pt-nan_in_stats.parquet/x"] {
        assert!(!bounded.iter().any(|b| b == unknown), "{unknown}");
    }
}

#[tokio::test]
async fn zeros_are_stored_with_the_sign_that_includes_both() {
    let dir = tempfile::tempdir().unwrap();
    judge("parquet_truth.py", &["make", dir.path().to_str().unwrap()]);
    let columns = [column(1, "zero", ColumnType::Double), column(2, "minus_zero", ColumnType::Float)];
    let statistics = read(&dir.path().join("pyarrow-floats.parquet"), &columns).await.unwrap();
    assert_eq!(statistics.columns[0].bounds.lower(), Some(&(-0.0_f64).to_le_bytes()[..]));
    assert_eq!(statistics.columns[0].bounds.upper(), Some(&0.0_f64.to_le_bytes()[..]));
    assert_eq!(statistics.columns[1].bounds.lower(), Some(&(-0.0_f32).to_le_bytes()[..]));
    assert_eq!(statistics.columns[1].bounds.upper(), Some(&0.0_f32.to_le_bytes()[..]));
}

#[tokio::test]
async fn promoted_columns_widen_and_other_types_get_no_bound() {
    let dir = tempfile::tempdir().unwrap();
    judge("parquet_truth.py", &["make", dir.path().to_str().unwrap()]);
    let path = dir.path().join("pyarrow-ids.parquet");
    let statistics =
        read(&path, &[column(2, "renamed", ColumnType::Long), column(4, "f", ColumnType::Double)]).await.unwrap();
    assert!(!statistics.bound_by_name && !statistics.missing_field_ids);
    assert_eq!(statistics.columns[0].bounds.lower(), Some(&(-2_992_081_i64).to_le_bytes()[..]));
    let lower: [u8; 8] = statistics.columns[1].bounds.lower().unwrap().try_into().unwrap();
    assert_eq!(f64::from_le_bytes(lower), f64::from(-499.0_f32 / 7.0));
    let decimal = |precision, scale| ColumnType::Decimal(DecimalType { precision, scale });
    for (id, ty) in [
        (3, ColumnType::Int),
        (5, ColumnType::Float),
        (6, decimal(20, 3)),
        (6, decimal(19, 2)),
        (6, ColumnType::Binary),
        (7, ColumnType::Int),
        (8, ColumnType::Long),
        (9, ColumnType::Timestamptz),
        (10, ColumnType::Timestamp),
        (11, ColumnType::Int),
        (13, ColumnType::Uuid),
    ] {
        let statistics = read(&path, &[column(id, "x", ty)]).await.unwrap();
        assert!(statistics.columns[0].bounds.is_unknown(), "{id} {ty}");
        assert!(statistics.columns[0].null_count.is_some(), "{id} {ty}");
    }
    assert!(!read(&path, &[column(6, "dec", decimal(38, 2))]).await.unwrap().columns[0].bounds.is_unknown());
    // A column that the file does not carry has no statistics, not those of its namesake.
    assert!(read(&path, &[column(77, "i", ColumnType::Int)]).await.unwrap().columns.is_empty());
    let no_ids = dir.path().join("pyarrow-no-ids.parquet");
    let statistics = read(&no_ids, &[column(77, "i", ColumnType::Int), column(2, "I", ColumnType::Int)]).await.unwrap();
    assert!(statistics.bound_by_name && statistics.missing_field_ids);
    assert_eq!(statistics.columns.iter().map(|c| c.field_id).collect::<Vec<_>>(), [FieldId(77)]);
}

#[tokio::test]
async fn files_that_are_not_what_was_registered_fail_for_good() {
    let dir = tempfile::tempdir().unwrap();
    judge("parquet_truth.py", &["make", dir.path().to_str().unwrap()]);
    let path = dir.path().join("pyarrow-ids.parquet");
    let good = registered(&path);
    let size = good.file_size_bytes;
    let columns = [column(2, "i", ColumnType::Int)];
    let try_with = async |file: RegisteredFile| footer_statistics(&object(&path), file, &columns).await;
    let expected = try_with(good).await.unwrap();
    assert_eq!(Some(expected.footer_size), good.footer_size);
    // A footer size that is wrong, absent or absurd is repaired by a second request.
    let footer = good.footer_size.unwrap();
    for footer_size in
        [Some(footer + 8), Some(footer - 8), Some(1), Some(0), Some(size), Some(size - 8), Some(u64::MAX), None]
    {
        assert_eq!(try_with(RegisteredFile { footer_size, ..good }).await.unwrap(), expected, "{footer_size:?}");
    }
    let structural = async |file: RegisteredFile, what: &str| match try_with(file).await {
        Err(error @ FooterError::Structural(_)) => {
            assert!(!error.is_transient() && error.to_string().contains(what), "{error}");
        }
        other => panic!("{what}: {other:?}"),
    };
    structural(RegisteredFile { footer_size: None, max_whole_object_bytes: size - 1, ..good }, "footer_size").await;
    structural(RegisteredFile { max_whole_object_bytes: footer, ..good }, "larger than").await;
    structural(RegisteredFile { record_count: Some(999), ..good }, "1000 rows, 999 were registered").await;
    structural(RegisteredFile { file_size_bytes: size + 1, ..good }, "were registered").await;
    structural(RegisteredFile { file_size_bytes: size - 1, ..good }, "were registered").await;
    structural(RegisteredFile { file_size_bytes: size + (1 << 30), ..good }, "were registered").await;
    structural(RegisteredFile { file_size_bytes: 3, ..good }, "too few").await;
    assert_eq!(try_with(RegisteredFile { record_count: Some(1000), ..good }).await.unwrap(), expected);
}

#[tokio::test]
async fn damaged_footers_fail_for_good_and_never_panic() {
    let dir = tempfile::tempdir().unwrap();
    judge("parquet_truth.py", &["make", dir.path().to_str().unwrap()]);
    let good = std::fs::read(dir.path().join("pyarrow-units.parquet")).unwrap();
    let path = dir.path().join("damaged.parquet");
    let columns: Vec<Column> = (1..14).map(|i| column(i, "x", ColumnType::Long)).collect();
    let try_bytes = async |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let file = RegisteredFile { file_size_bytes: bytes.len() as u64, ..registered_or_default(bytes) };
        footer_statistics(&object(&path), file, &columns).await
    };
    for (what, at) in [("magic", good.len() - 1), ("length", good.len() - 5), ("length", good.len() - 6)] {
        let mut bad = good.clone();
        bad[at] ^= 0x55;
        assert!(matches!(try_bytes(&bad).await, Err(FooterError::Structural(_))), "{what}");
    }
    let mut encrypted = good.clone();
    *encrypted.last_mut().unwrap() = b'E';
    assert!(try_bytes(&encrypted).await.unwrap_err().to_string().contains("encrypted"));
    assert!(try_bytes(b"PAR1\0\0\0\0PAR1").await.is_err());
    assert!(try_bytes(&good[..good.len() / 2]).await.is_err());
    // One flipped bit anywhere in the Thrift structure: an error or statistics, never a panic or a huge allocation.
    let start = good.len() - 8 - registered_or_default(&good).footer_size.unwrap() as usize;
    for at in (start..good.len() - 8).step_by(3) {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        match try_bytes(&bad).await {
            Ok(_) | Err(FooterError::Structural(_)) => {}
            Err(error) => panic!("{at}: {error}"),
        }
    }
    // Files that other projects keep as bad examples.
    for bad in ["pt-bad-PARQUET-1481", "pt-bad-ARROW-GH-45185", "pt-bad-ARROW-RS-GH-6229-LEVELS"] {
        let result = read(&data(&format!("parquet/{bad}.parquet")), &columns).await;
        assert!(!result.is_err_and(|e| e.is_transient()), "{bad}");
    }
}

fn registered_or_default(bytes: &[u8]) -> RegisteredFile {
    let trailer: [u8; 4] = bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap();
    RegisteredFile {
        file_size_bytes: bytes.len() as u64,
        footer_size: Some(u64::from(u32::from_le_bytes(trailer))),
        record_count: None,
        max_whole_object_bytes: CAP,
    }
}

#[tokio::test]
async fn stores_that_fail_are_told_from_files_that_do() {
    let file = RegisteredFile {
        file_size_bytes: 1000,
        footer_size: Some(100),
        record_count: None,
        max_whole_object_bytes: CAP,
    };
    let missing = footer_statistics(&object(Path::new("/nowhere/f.parquet")), file, &[]).await.unwrap_err();
    assert!(!missing.is_transient() && missing.to_string().contains("does not exist"), "{missing}");
    // Nobody listens on port 9: the store may be back later.
    let s3 = S3Config {
        endpoint: Some("http://127.0.0.1:9".to_owned()),
        credentials: Some(("k".to_owned(), Secret::new("s"))),
        ..S3Config::default()
    };
    crate::install_crypto_provider();
    let stores = Stores::new(StoreConfig { s3, ..StoreConfig::default() });
    let object = stores.open(&Location::parse("s3://b/f.parquet").unwrap()).unwrap();
    let down = footer_statistics(&object, file, &[]).await.unwrap_err();
    assert!(down.is_transient(), "{down}");
    // Local files need permission.
    assert!(stores.open(&Location::parse("/etc/hosts").unwrap()).is_err());
}
