//! Syntax, errors that point at the place, and the property that matters: no file is left out that holds a matching row.

mod property;

use super::*;
use crate::DecimalType;

pub(super) fn columns() -> Vec<FilterColumn> {
    let column = |id, name: &str, ty| FilterColumn { field_id: FieldId(id), name: name.to_owned(), ty };
    vec![
        column(1, "id", ColumnType::Long),
        column(2, "name", ColumnType::String),
        column(3, "ts", ColumnType::Timestamptz),
        column(4, "flag", ColumnType::Boolean),
        column(5, "price", ColumnType::Decimal(DecimalType { precision: 5, scale: 2 })),
        column(6, "small", ColumnType::Int),
        column(7, "ratio", ColumnType::Float),
        column(8, "uid", ColumnType::Uuid),
        column(9, "raw", ColumnType::Binary),
        column(10, "day", ColumnType::Date),
        column(11, "local", ColumnType::Timestamp),
        column(12, "is", ColumnType::Double),
        column(13, "with-hyphen", ColumnType::Time),
    ]
}

fn bound(text: &str) -> Result<Predicate, Refusal> {
    Filter::parse(text).and_then(|filter| filter.bind(&columns()))
}

fn complaint(text: &str) -> String {
    match bound(text) {
        Ok(predicate) => panic!("{text} was accepted as {predicate:?}"),
        Err(refusal) => refusal.detail,
    }
}

#[test]
fn the_whole_grammar_is_read() {
    for text in [
        "ts >= '2026-01-01T00:00:00Z' AND id = 7 AND name IS NOT NULL",
        "id=1 or id<>2 Or NOT(id != 3)",
        "id IN (1, 2, 3) AND id NOT IN (4)",
        "id BETWEEN -1 AND +5 AND name NOT BETWEEN 'a' AND 'b'",
        "name STARTS WITH 'it''s' OR name NOT STARTS WITH ''",
        "flag = TRUE AND flag != false",
        "price < 1.005 AND price >= 1e2 AND price < .5",
        "small <= 99999999999 AND ratio > 0.1 AND ratio != 'NaN'",
        "uid = 'f79c3e09-677c-4bbd-a479-3f349cb785e7' AND raw STARTS WITH 'AAE='",
        "day > '2026-01-31' AND local = '2026-01-31 10:00:00.5' AND \"is\" IS NULL",
        "with-hyphen < '12:30' AND \"with-hyphen\" >= '00:00:00.123'",
        "ts < '2026-01-01 00:00:00+05:30' AND ts > '2026-01-01T00:00Z'",
        "not not id is null",
    ] {
        assert!(bound(text).is_ok(), "{text}: {:?}", bound(text));
    }
}

#[test]
fn precedence_is_not_and_or() {
    let text = "id = 1 OR NOT id = 2 AND id = 3";
    let Ok(predicate) = bound(text) else { panic!("{text}") };
    assert_eq!(predicate.root, Node::Any(vec![Node::Leaf(0), Node::All(vec![Node::Leaf(1), Node::Leaf(2)])]));
}

#[test]
fn a_bad_filter_points_at_the_place() {
    for (text, at, what) in [
        ("", 1, "expected a column name"),
        ("id", 3, "expected a comparison"),
        ("id =", 5, "found the end"),
        ("id = = 1", 6, "expected a literal"),
        ("id = 1 name = 'x'", 8, "expected AND, OR or the end, found `name`"),
        ("(id = 1", 8, "expected `)`"),
        ("id = 1)", 7, "found `)`"),
        ("name = 'open", 8, "never closed"),
        ("id = 12abc", 6, "`12abc` is no number"),
        ("id = 1 AND ; drop", 12, "`;` means nothing here"),
        ("id = NULL", 6, "IS NULL"),
        ("id IN ()", 8, "expected a literal"),
        ("id IN (1, 2", 12, "expected `,` or `)`"),
        ("id BETWEEN 1 OR 2", 14, "AND between"),
        ("id IS 5", 7, "NULL after IS"),
        ("name STARTS 'x'", 13, "WITH after STARTS"),
        ("id NOT = 5", 8, "expected IN, BETWEEN or STARTS WITH"),
        ("missing = 1", 1, "column `missing` is unknown"),
        ("name = 'naïve' AND Id = 1", 20, "did you mean `id`"),
        ("id = '7'", 6, "without quotes"),
        ("name = 7", 8, "in single quotes"),
        ("flag = 1", 8, "TRUE or FALSE"),
        ("day = '2026-02-30'", 7, "is no date"),
        ("ts = '2026-01-01T00:00:00'", 6, "has no offset"),
        ("local = '2026-01-01T00:00:00+01:00'", 9, "has an offset"),
        ("uid = 'x'", 7, "is no UUID"),
        ("raw = 'x'", 7, "base64"),
        ("id STARTS WITH '1'", 16, "string or binary"),
        ("\"is\" < 1e400", 8, "beyond the range"),
        ("id = 1e999", 6, "is no number"),
    ] {
        let detail = complaint(text);
        assert!(detail.starts_with(&format!("filter, character {at}: ")), "{text}: {detail}");
        assert!(detail.contains(what), "{text}: {detail}");
        let lines: Vec<&str> = detail.lines().collect();
        assert_eq!(
            lines[lines.len() - 1].chars().count(),
            lines[lines.len() - 2].chars().take(2 + at).count().max(2 + at)
        );
    }
}

#[test]
fn a_long_filter_is_shown_in_part() {
    let text = format!("{}id = ? {}", "id = 1 AND ".repeat(20), "x".repeat(50));
    let detail = complaint(&text);
    assert!(detail.starts_with("filter, character 226: `?` means nothing here"), "{detail}");
    let [_, excerpt, caret] = detail.lines().collect::<Vec<_>>()[..] else { panic!("{detail}") };
    let position = caret.chars().position(|c| c == '^');
    assert_eq!(position.and_then(|p| excerpt.chars().nth(p)), Some('?'));
    assert!(excerpt.contains('…') && excerpt.chars().count() < 70);
}

#[test]
fn size_and_depth_are_bounded() {
    let deep = |n: usize| format!("{}id = 1{}", "(".repeat(n), ")".repeat(n));
    assert!(bound(&deep(Filter::MAX_DEPTH - 1)).is_ok());
    assert!(complaint(&deep(Filter::MAX_DEPTH)).contains("deeper than 64"));
    assert!(complaint(&deep(20_000)).contains("deeper than 64"));
    assert!(complaint(&format!("{}id = 1", "NOT ".repeat(1000))).contains("deeper than 64"));
    let many = |n: usize| format!("id IN ({})", vec!["1"; n].join(","));
    assert!(bound(&many(Filter::MAX_TERMS)).is_ok());
    assert!(complaint(&many(Filter::MAX_TERMS + 1)).contains("more than 4096"));
    assert!(complaint(&format!("name = '{}'", "x".repeat(Filter::MAX_BYTES))).contains("the limit is 65536"));
}

#[test]
fn literals_outside_the_column_are_settled_at_once() {
    let leaf = |text: &str| bound(text).map(|p| (p.root, p.leaves.into_iter().map(|l| l.test).next()));
    assert_eq!(leaf("small = 1.5"), Ok((Node::Never, None)));
    assert_eq!(leaf("small > 99999999999"), Ok((Node::Never, None)));
    assert_eq!(leaf("small < 99999999999"), Ok((Node::Leaf(0), Some(Test::NotNull))));
    assert_eq!(leaf("price > 999.99"), leaf("NOT price <= 999.99"));
    assert_eq!(leaf("price >= 999.991"), Ok((Node::Never, None)));
    assert_eq!(leaf("small IN (1.5, 99999999999)"), Ok((Node::Never, None)));
    assert_eq!(leaf("small BETWEEN 5 AND 1"), Ok((Node::Never, None)));
    assert_eq!(leaf("NOT small NOT BETWEEN 5 AND 1"), Ok((Node::Never, None)));
    assert_eq!(
        leaf("ratio BETWEEN 0.0 AND -0.0").map(|(root, _)| root),
        Ok(Node::All(vec![Node::Leaf(0), Node::Leaf(1)]))
    );
    assert_eq!(leaf("small NOT IN (1.5)"), Ok((Node::Leaf(0), Some(Test::NotNull))));
    assert_eq!(leaf("small < 1.5"), leaf("small <= 1"));
    assert_eq!(leaf("small >= 1.5"), leaf("small > 1"));
    assert_eq!(leaf("small > -1.5"), leaf("small > -2"));
    assert_eq!(leaf("ts >= '2026-01-01T00:00:00.0000005Z'"), leaf("ts > '2026-01-01T00:00:00Z'"));
    assert_eq!(leaf("ts = '2026-01-01T01:00:00+01:00'"), leaf("ts = '2026-01-01T00:00:00Z'"));
}
