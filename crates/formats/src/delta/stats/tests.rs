//! Statistics as writers really write them.

use super::super::schema::{Mapping, parse};
use super::*;

fn schema() -> StatsSchema {
    let field = |name: &str, ty: &str| format!(r#"{{"name":"{name}","type":{ty},"nullable":true,"metadata":{{}}}}"#);
    let inner = format!(r#"{{"type":"struct","fields":[{}]}}"#, field("c", r#""long""#));
    let fields = [
        field("i", r#""integer""#),
        field("d", r#""decimal(20,2)""#),
        field("f", r#""double""#),
        field("t", r#""timestamp""#),
        field("s", r#""string""#),
        field("n", &inner),
        field("l", r#"{"type":"array","elementType":"long","containsNull":true}"#),
    ];
    let text = format!(r#"{{"type":"struct","fields":[{}]}}"#, fields.join(","));
    StatsSchema::new(&parse("t", &text, Mapping::None).unwrap().0)
}

fn read(text: &str) -> FileStats {
    schema().parse(text, &mut Scratch::default())
}

fn column(stats: &FileStats, id: i64) -> ColumnStats {
    stats.columns.iter().find(|c| c.field == FieldId(id)).cloned().unwrap_or(ColumnStats::unknown(FieldId(id)))
}

#[test]
fn exact_values_are_read_exactly() {
    let stats = read(
        r#"{"numRecords":3,"minValues":{"i":-1,"d":-8.0,"f":"-Infinity","t":"2020-01-01T00:00:00.000Z","s":"a\"b","n":{"c":9007199254740993}},
            "maxValues":{"i":7,"d":123456789012345678.91,"f":2.5,"t":"2020-01-01T00:00:00.001Z","s":"z","n":{"c":9007199254740995}},
            "nullCount":{"i":0,"d":1,"f":0,"t":0,"s":0,"n":{"c":0},"l":2}}"#,
    );
    assert_eq!(stats.record_count, Some(3));
    let d = column(&stats, 2);
    assert_eq!(d.lower, Some(Value::Decimal { unscaled: -800, scale: 2 }));
    assert_eq!(d.upper, Some(Value::Decimal { unscaled: 12_345_678_901_234_567_891, scale: 2 }));
    assert_eq!((d.value_count, d.null_count), (Some(3), Some(1)));
    assert_eq!(column(&stats, 3).lower, Some(Value::Double(f64::NEG_INFINITY)));
    // The maximum was truncated to milliseconds; the bound must not be.
    assert_eq!(column(&stats, 4).upper, Some(Value::Timestamp(1_577_836_800_001_999)));
    assert_eq!(column(&stats, 5).lower, Some(Value::String("a\"b".into())));
    let nested = stats.columns.iter().find(|c| c.lower == Some(Value::Long(9_007_199_254_740_993)));
    assert_eq!(nested.and_then(|c| c.upper.clone()), Some(Value::Long(9_007_199_254_740_995)));
}

#[test]
fn doubtful_bounds_are_absent() {
    let stats = read(
        r#"{"numRecords":2,"minValues":{"i":5,"f":1.0,"t":"2020-01-01 00:00:00","d":1.234},"maxValues":{"i":4,"f":"NaN"},"nullCount":{"f":0}}"#,
    );
    assert_eq!(column(&stats, 1), ColumnStats::unknown(FieldId(1)), "inverted");
    assert_eq!(column(&stats, 2).lower, None, "more digits than the scale");
    assert_eq!((column(&stats, 3).lower, column(&stats, 3).upper), (None, None), "NaN");
    assert_eq!(column(&stats, 4).lower, None, "no zone");
}

#[test]
fn a_cut_string_still_bounds_what_was_cut() {
    let long = "x".repeat(32);
    let stats = read(&format!(r#"{{"numRecords":1,"minValues":{{"s":"{long}"}},"maxValues":{{"s":"{long}"}}}}"#));
    let Some(Value::String(upper)) = column(&stats, 5).upper else { panic!() };
    assert!(upper.as_ref() > format!("{long}\u{10fffe}").as_str());
    let short = read(r#"{"numRecords":1,"maxValues":{"s":"abc"}}"#);
    assert_eq!(column(&short, 5).upper, Some(Value::String("abc".into())));
}

#[test]
fn wide_bounds_keep_only_none_and_all_nulls() {
    let stats = read(
        r#"{"numRecords":9,"tightBounds":false,"minValues":{"i":1},"maxValues":{"i":2},"nullCount":{"i":3,"f":0,"s":9}}"#,
    );
    assert_eq!((column(&stats, 1).null_count, column(&stats, 1).value_count), (None, None));
    assert_eq!(column(&stats, 1).lower, Some(Value::Int(1)));
    assert_eq!(column(&stats, 3).null_count, Some(0));
    assert_eq!(column(&stats, 5).null_count, Some(9));
}

#[test]
fn absent_and_odd_statistics_say_nothing() {
    assert_eq!(read("not json"), FileStats::default());
    assert_eq!(read("[]"), FileStats::default());
    assert_eq!(read("{}"), FileStats::default());
    let odd =
        read(r#"{"numRecords":-1,"minValues":null,"maxValues":[],"nullCount":{"i":{"x":1},"zz":3,"l":{"element":2}}}"#);
    assert_eq!(odd, FileStats::default());
    // A null count without a record count proves nothing about the file.
    assert!(read(r#"{"nullCount":{"i":0}}"#).columns.iter().all(|c| c.null_count.is_none() && c.value_count.is_none()));
}
