//! Rewriting of files of other writers: dictionaries, delta encodings, split bytes, v2 pages, `INT96`, decimals in every
//! physical form, nested neighbours. pyarrow and DuckDB read every row of the outputs, row ids included.

use crate::judges::{data, judge};
use hoglake_formats::deletion_vector::DeletionVector;
use hoglake_formats::parquet::Column;
use hoglake_formats::parquet::footer::RegisteredFile;
use hoglake_formats::parquet::rewrite::{RewriteInput, RewriteOptions, RowIds, SortField, rewrite};
use hoglake_formats::store::{Object, StoreConfig, Stores};
use hoglake_model::{ColumnType, DecimalType, FieldId, Location};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// Where the rows of the second of two copies begin.
const SECOND: i64 = 1_000_000;

fn object(path: &Path) -> Object {
    let stores = Stores::new(StoreConfig { local: true, ..StoreConfig::default() });
    stores.open(&Location::parse(path.to_str().unwrap()).unwrap()).unwrap()
}

fn parse_type(text: &str) -> ColumnType {
    let Some(inner) = text.strip_prefix("decimal(").and_then(|t| t.strip_suffix(')')) else {
        return ColumnType::parse(text, None).unwrap();
    };
    let (precision, scale) = inner.split_once(',').unwrap();
    ColumnType::Decimal(DecimalType { precision: precision.parse().unwrap(), scale: scale.parse().unwrap() })
}

/// The columns that a catalog would give to a file, by what pyarrow says of it.
fn columns(truth: &Value) -> Vec<Column> {
    let found = truth["columns"].as_array().unwrap();
    let has_ids = found.iter().any(|column| !column["id"].is_null());
    let known = found.iter().enumerate().filter(|(_, column)| !has_ids || !column["id"].is_null());
    known
        .map(|(index, column)| Column {
            field_id: FieldId(column["id"].as_i64().unwrap_or(index as i64 + 1)),
            name: column["name"].as_str().unwrap().to_owned(),
            ty: parse_type(column["type"].as_str().unwrap()),
            nullable: true,
        })
        .collect()
}

/// One copy of the file, without the rows at `deleted`.
fn input(path: &Path, rows: i64, first: i64, deleted: &[u64]) -> RewriteInput {
    RewriteInput {
        object: object(path),
        file: RegisteredFile {
            file_size_bytes: std::fs::metadata(path).unwrap().len(),
            footer_size: None,
            record_count: Some(rows),
            max_whole_object_bytes: 1 << 20,
        },
        row_ids: RowIds::Positional(first),
        deletions: (!deleted.is_empty()).then(|| DeletionVector::from_positions(deleted.iter().copied())),
        names: Vec::new(),
    }
}

struct Rewriting<'a> {
    path: &'a Path,
    rows: i64,
    columns: &'a [Column],
    sort: &'a [SortField],
    folder: &'a Path,
}

impl Rewriting<'_> {
    /// Rewrites two copies into one file; what a judge needs to know of it, or why a column cannot be converted.
    async fn done(&self, name: &str) -> Result<Value, String> {
        let deleted: Vec<u64> = (0..self.rows.unsigned_abs()).step_by(3).skip(1).collect();
        let inputs = vec![input(self.path, self.rows, SECOND, &[]), input(self.path, self.rows, 7, &deleted)];
        let output = self.folder.join(name);
        let done = rewrite(inputs, self.columns, self.sort, &object(&output), &RewriteOptions::default()).await;
        let rewritten = match done {
            Ok(rewritten) => rewritten.unwrap(),
            Err(error) if error.is_unconvertible() => {
                assert!(!output.exists());
                return Err(error.to_string());
            }
            Err(error) => panic!("{}: {error:?}", self.path.display()),
        };
        let expected = 2 * self.rows - i64::try_from(deleted.len()).unwrap();
        assert_eq!(rewritten.record_count, expected, "{}", self.path.display());
        Ok(json!({
            "inputs": [
                {"path": self.path, "first_row_id": SECOND, "deleted": []},
                {"path": self.path, "first_row_id": 7, "deleted": deleted},
            ],
            "columns": self.columns.iter().map(|c| json!({
                "id": c.field_id.0, "name": c.name, "type": c.ty.to_string()})).collect::<Vec<_>>(),
            "sort": self.sort.iter().map(|s| json!({
                "id": s.field_id.0, "descending": s.descending, "nulls_first": s.nulls_first})).collect::<Vec<_>>(),
            "output": output,
            "rows": expected,
        }))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_other_writers_are_rewritten_row_by_row() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = data("parquet");
    let all = judge("parquet_truth.py", &["truth", corpus.to_str().unwrap()]);
    let (mut done, mut refused, mut specs) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for (file, truth) in all.as_object().unwrap() {
        // the latter has a test of its own
        if file.starts_with("pt-bad") || truth.get("error").is_some() || file.starts_with("pt-int96_from_spark") {
            continue;
        }
        let path = corpus.join(file);
        let mut kept = columns(truth);
        let rows = truth["rows"].as_i64().unwrap();
        let mut sort: Vec<SortField> = Vec::new();
        while !kept.is_empty() && rows > 0 {
            let rewriting = Rewriting { path: &path, rows, columns: &kept, sort: &sort, folder: folder.path() };
            match rewriting.done(&format!("output-{}.parquet", specs.len())).await {
                Ok(spec) if sort.is_empty() => {
                    specs.push(spec);
                    sort.push(SortField { field_id: kept[0].field_id, descending: true, nulls_first: false });
                }
                Ok(spec) => {
                    specs.push(spec);
                    done.extend(kept.drain(..).map(|column| format!("{file}/{}", column.name)));
                }
                Err(words) => {
                    // it names the column
                    let column = kept.iter().position(|c| words.contains(&format!("column `{}`", c.name)));
                    let column = kept.remove(column.unwrap_or_else(|| panic!("{file}: {words}")));
                    refused.insert(format!("{file}/{}", column.name));
                }
            }
        }
    }
    let list = folder.path().join("specs.json");
    std::fs::write(&list, json!(specs).to_string()).unwrap();
    let seen = judge("rewrite.py", &["check", list.to_str().unwrap()]);
    let rows = |of: &Value| of.as_array().unwrap().iter().map(|one| one["rows"].clone()).collect::<Vec<_>>();
    assert_eq!(rows(&seen), rows(&json!(specs)));
    for column in [
        "delta-golden-all-types-spark.parquet/TimestampType",
        "delta-golden-all-types-spark.parquet/decimal",
        "icebergenc-BYTE_STREAM_SPLIT_float_with_nulls.parquet/data",
        "icebergenc-DELTA_BINARY_PACKED_int64.parquet/data",
        "icebergenc-PLAIN_uuid_with_nulls.parquet/data",
        "icebergenc-RLE_DICTIONARY_string.parquet/data",
        "pt-alltypes_plain.parquet/timestamp_col",
        "pt-byte_array_decimal.parquet/value",
        "pt-byte_stream_split_extended_gzip.parquet/decimal_byte_stream_split",
        "pt-datapage_v2_snappy.parquet/a",
        "pt-delta_byte_array.parquet/c_login",
        "pt-fixed_length_decimal_legacy.parquet/value",
        "pt-int32_decimal.parquet/value",
        "pt-nested_maps_snappy.parquet/b",
        "pt-rle_boolean_encoding.parquet/datatype_boolean",
        "rapids-decimal-test-legacy.parquet/c_0",
    ] {
        assert!(done.contains(column), "{column} was not rewritten; refused: {refused:#?}, done: {done:#?}");
    }
    // a type that nobody knows, and unsigned values of which some writers meant negative ones
    let without_counterpart =
        ["pt-unknown-logical-type.parquet/column with unknown type", "rapids-nested-unsigned.parquet/_col2"];
    assert_eq!(refused, BTreeSet::from(without_counterpart.map(String::from)));
}

#[tokio::test]
async fn a_timestamp_of_twelve_bytes_beyond_microseconds_is_refused_and_not_wrapped() {
    let folder = tempfile::tempdir().unwrap();
    // Spark wrote the year 290000 as a day before the first that 64 bits of microseconds reach
    let path = data("parquet/pt-int96_from_spark.parquet");
    for ty in [ColumnType::Timestamptz, ColumnType::Timestamp] {
        let columns = [Column { field_id: FieldId(1), name: "a".to_owned(), ty, nullable: true }];
        let rewriting = Rewriting { path: &path, rows: 6, columns: &columns, sort: &[], folder: folder.path() };
        let words = rewriting.done("output.parquet").await.unwrap_err();
        assert!(words.contains("column `a`") && words.contains("near second -9357363680509"), "{words}");
    }
}
