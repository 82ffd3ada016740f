use super::*;
use arrow::array::{ArrayRef, Decimal128Array, Float32Array, Float64Array, TimestampMicrosecondArray};
use arrow::array::{Date32Array, Int32Array, Time64MicrosecondArray};
use arrow::datatypes::Field;
use proptest::prelude::*;
use std::sync::Arc;

fn record(columns: Vec<(&str, ArrayRef)>, row: usize) -> String {
    let rows = columns[0].1.len() as i64;
    let mut fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    fields.push(Field::new("_hog_row_id", DataType::Int64, false));
    let mut arrays: Vec<ArrayRef> = columns.into_iter().map(|(_, array)| array).collect();
    arrays.push(Arc::new(Int64Array::from_iter_values(100..100 + rows)));
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    let encoder = JsonEncoder::new(batch.schema_ref());
    let mut out = Vec::new();
    encoder.batch(&batch).unwrap().push_append(&mut out, 7, row);
    String::from_utf8(out).unwrap()
}

#[test]
fn every_type_has_an_exact_form() {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("b", Arc::new(BooleanArray::from(vec![Some(true), None]))),
        ("i", Arc::new(Int32Array::from(vec![Some(i32::MIN), None]))),
        ("l", Arc::new(Int64Array::from(vec![Some(i64::MAX), None]))),
        ("f", Arc::new(Float32Array::from(vec![Some(0.1), None]))),
        ("d", Arc::new(Float64Array::from(vec![Some(-0.0), None]))),
        (
            "n",
            Arc::new(Decimal128Array::from(vec![Some(-5), None]).with_precision_and_scale(38, 3).unwrap()) as ArrayRef,
        ),
        ("da", Arc::new(Date32Array::from(vec![Some(19_782), None]))),
        ("ti", Arc::new(Time64MicrosecondArray::from(vec![Some(3_723_000_004), None]))),
        ("ts", Arc::new(TimestampMicrosecondArray::from(vec![Some(0), None]))),
        ("tz", Arc::new(TimestampMicrosecondArray::from(vec![Some(1), None]).with_timezone("UTC"))),
        ("s", Arc::new(StringArray::from(vec![Some("a\"\\\n\u{1}é"), None]))),
        ("u", {
            let bytes = [Some(Uuid::from_u128(1).into_bytes()), None];
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes.into_iter(), 16).unwrap())
        }),
        ("x", Arc::new(BinaryArray::from(vec![Some(&b"\xff\x00"[..]), None]))),
    ];
    assert_eq!(
        record(columns.clone(), 0),
        concat!(
            r#"{"op":"append","snapshot_id":7,"row_id":100,"b":true,"i":-2147483648,"l":9223372036854775807,"f":0.1,"#,
            r#""d":-0.0,"n":"-0.005","da":"2024-02-29","ti":"01:02:03.000004","ts":"1970-01-01T00:00:00","#,
            r#""tz":"1970-01-01T00:00:00.000001Z","s":"a\"\\\n\u0001é","u":"00000000-0000-0000-0000-000000000001","#,
            r#""x":"/wA="}"#
        )
    );
    let nulls: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&record(columns, 1)).unwrap();
    assert_eq!(nulls.values().filter(|value| value.is_null()).count(), 13);
    assert_eq!(nulls["row_id"], 101);
}

#[test]
fn what_json_has_no_number_for_is_a_text() {
    let floats = vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -f64::NAN];
    for (row, text) in ["NaN", "Infinity", "-Infinity", "NaN"].into_iter().enumerate() {
        let double: ArrayRef = Arc::new(Float64Array::from(floats.clone()));
        let float: ArrayRef = Arc::new(Float32Array::from_iter_values(floats.iter().map(|v| *v as f32)));
        let record: serde_json::Value = serde_json::from_str(&record(vec![("d", double), ("f", float)], row)).unwrap();
        assert_eq!((&record["d"], &record["f"]), (&text.into(), &text.into()));
    }
}

#[test]
fn decimals_keep_their_scale() {
    for (unscaled, scale, text) in [
        (0, 0, "0"),
        (0, 2, "0.00"),
        (-1, 0, "-1"),
        (12, 2, "0.12"),
        (-123, 2, "-1.23"),
        (i128::from(i64::MAX), 38, "0.00000000000000000009223372036854775807"),
        (-99_999_999_999_999_999_999_999_999_999_999_999_999, 0, "-99999999999999999999999999999999999999"),
    ] {
        let mut out = Vec::new();
        push_decimal(&mut out, unscaled, scale);
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
}

#[test]
fn a_delete_carries_no_column() {
    let mut out = Vec::new();
    push_delete(&mut out, 5);
    assert_eq!(out, br#"{"op":"delete","row_id":5}"#);
}

#[test]
fn a_type_without_a_form_is_named() {
    let array: ArrayRef = Arc::new(arrow::array::UInt8Array::from(vec![1]));
    let schema = Schema::new(vec![Field::new("x", DataType::UInt8, true), Field::new("r", DataType::Int64, false)]);
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![0]));
    let batch = RecordBatch::try_new(Arc::new(schema), vec![array, ids]).unwrap();
    let error = JsonEncoder::new(batch.schema_ref()).batch(&batch).unwrap_err();
    assert_eq!(error.to_string(), "column `x` of type UInt8 has no JSON form");
}

proptest! {
    #[test]
    fn texts_and_numbers_come_back(text in ".*", long in any::<i64>(), double in any::<f64>(), bytes in any::<Vec<u8>>()) {
        let record = record(vec![
            ("s", Arc::new(StringArray::from(vec![text.as_str()])) as ArrayRef),
            ("l", Arc::new(Int64Array::from(vec![long]))),
            ("d", Arc::new(Float64Array::from(vec![double]))),
            ("x", Arc::new(BinaryArray::from(vec![&bytes[..]]))),
        ], 0);
        let read: serde_json::Value = serde_json::from_str(&record).unwrap();
        prop_assert_eq!(read["s"].as_str(), Some(text.as_str()));
        prop_assert_eq!(read["l"].as_i64(), Some(long));
        if double.is_finite() {
            // serde_json's own parser is a digit off at times: the text is what counts
            let text = record.split_once("\"d\":").unwrap().1.split(',').next().unwrap();
            prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), double.to_bits());
        }
        prop_assert_eq!(STANDARD.decode(read["x"].as_str().unwrap()).unwrap(), bytes);
    }
}
