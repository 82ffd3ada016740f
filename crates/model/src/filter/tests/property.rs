//! Random rows make files, random statistics describe them, random filters are asked of them; rows are evaluated directly,
//! by rank and not by the code under test, under both orders of NaN.

use super::super::*;
use crate::literal::Constant;
use crate::partition::transform;
use crate::table::Transform;
use crate::{BoundsBuilder, ColumnStats, Comparison, DecimalType};
use proptest::prelude::*;
use std::cmp::Ordering;

/// A value of a column: where it lies among the others, and its text for strings.
#[derive(Debug, Clone)]
struct Value {
    constant: Constant,
    rank: f64,
    text: &'static str,
}

/// A column's type, the values that rows draw from, and the literals that filters draw from.
struct Domain {
    ty: ColumnType,
    values: Vec<Value>,
    literals: Vec<(String, f64)>,
}

fn ranked(constant: Constant, rank: f64) -> Value {
    Value { constant, rank, text: "" }
}

fn domain(index: usize) -> Domain {
    let numbers = |extra: &[&str]| -> Vec<(String, f64)> {
        let texts = ["-3", "-1.5", "-1", "-0.0", "0", "0.5", "1", "1.0e0", "2", "2.5", "7"];
        texts.iter().chain(extra).map(|t| ((*t).to_owned(), t.parse().unwrap())).collect()
    };
    const STRINGS: [&str; 9] = ["", "a", "ab", "abcdefghi", "abcdefghij", "abcdefghz", "b", "zé", "z\u{10ffff}"];
    match index % 9 {
        0 => Domain {
            ty: ColumnType::Int,
            values: (-2..=2).map(|v| ranked(Constant::Int(v), f64::from(v))).collect(),
            literals: numbers(&["99999999999", "-99999999999"]),
        },
        1 => Domain {
            ty: ColumnType::Long,
            values: (-2..=2).map(|v| ranked(Constant::Long(v), v as f64)).collect(),
            literals: numbers(&["1e30", "-1e30"]),
        },
        2 => Domain {
            ty: ColumnType::Double,
            values: [-1.5, -1.0, -0.0, 0.0, 0.5, 2.0, f64::INFINITY, f64::NAN, -f64::NAN]
                .map(|v| ranked(Constant::Double(v), v))
                .into(),
            literals: [numbers(&[]), vec![("'NaN'".to_owned(), f64::NAN), ("'-inf'".to_owned(), f64::NEG_INFINITY)]]
                .concat(),
        },
        3 => Domain {
            ty: ColumnType::Float,
            values: [-1.0, -0.0, 0.0, 0.1_f32, 0.5, 2.0, f32::NAN]
                .map(|v| ranked(Constant::Float(v), f64::from(v)))
                .into(),
            literals: [numbers(&["0.1", "0.10000000149011612"]), vec![("'nan'".to_owned(), f64::NAN)]].concat(),
        },
        4 => Domain {
            ty: ColumnType::Decimal(DecimalType { precision: 3, scale: 1 }),
            values: [-15, -10, 0, 5, 10, 999].map(|v| ranked(Constant::Decimal(v), v as f64 / 10.0)).into(),
            literals: numbers(&["99.9", "99.91", "-1.50", "1e9"]),
        },
        5 => Domain {
            ty: ColumnType::String,
            values: (0..9)
                .map(|i| Value { constant: Constant::String(STRINGS[i].into()), rank: i as f64, text: STRINGS[i] })
                .collect(),
            literals: (0..9).map(|i| (format!("'{}'", STRINGS[i]), i as f64)).collect(),
        },
        6 => Domain {
            ty: ColumnType::Timestamptz,
            values: [-1, 0, 1, 3_600_000_000].map(|v| ranked(Constant::Timestamptz(v), v as f64)).into(),
            literals: vec![
                ("'1969-12-31T23:59:59.999999Z'".to_owned(), -1.0),
                ("'1970-01-01T01:00:00+01:00'".to_owned(), 0.0),
                ("'1970-01-01T00:00:00.0000005Z'".to_owned(), 0.5),
                ("'1970-01-01 00:00+00'".to_owned(), 0.0),
                ("'1970-01-01T01:00:00Z'".to_owned(), 3_600_000_000.0),
            ],
        },
        7 => Domain {
            ty: ColumnType::Boolean,
            values: vec![ranked(Constant::Boolean(false), 0.0), ranked(Constant::Boolean(true), 1.0)],
            literals: vec![("FALSE".to_owned(), 0.0), ("TRUE".to_owned(), 1.0)],
        },
        _ => Domain {
            ty: ColumnType::Date,
            values: [-1, 0, 1, 400].map(|v| ranked(Constant::Date(v), f64::from(v))).into(),
            literals: vec![
                ("'1969-12-31'".to_owned(), -1.0),
                ("'1970-01-01'".to_owned(), 0.0),
                ("'1971-02-05'".to_owned(), 400.0),
            ],
        },
    }
}

/// A filter that can be printed and evaluated.
#[derive(Debug, Clone)]
enum Shape {
    Compare(usize, Comparison, prop::sample::Index),
    In(usize, bool, Vec<prop::sample::Index>),
    Between(usize, bool, prop::sample::Index, prop::sample::Index),
    Null(usize, bool),
    Starts(usize, bool, prop::sample::Index),
    And(Vec<Shape>),
    Or(Vec<Shape>),
    Not(Box<Shape>),
}

fn shapes() -> impl Strategy<Value = Shape> {
    use Comparison::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    let column = 0..2_usize;
    let index = any::<prop::sample::Index>;
    let comparison = prop::sample::select(vec![Eq, NotEq, Lt, LtEq, Gt, GtEq]);
    let leaf = prop_oneof![
        4 => (column.clone(), comparison, index()).prop_map(|(c, o, l)| Shape::Compare(c, o, l)),
        1 => (column.clone(), any::<bool>(), prop::collection::vec(index(), 1..4)).prop_map(|(c, n, l)| Shape::In(c, n, l)),
        1 => (column.clone(), any::<bool>(), index(), index()).prop_map(|(c, n, a, b)| Shape::Between(c, n, a, b)),
        1 => (column.clone(), any::<bool>()).prop_map(|(c, n)| Shape::Null(c, n)),
        1 => (column, any::<bool>(), index()).prop_map(|(c, n, l)| Shape::Starts(c, n, l)),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Shape::And),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Shape::Or),
            inner.prop_map(|s| Shape::Not(Box::new(s))),
        ]
    })
}

fn print(shape: &Shape, domains: &[Domain; 2]) -> String {
    let literal = |c: usize, i: &prop::sample::Index| i.get(&domains[c].literals).0.clone();
    let not = |n: bool| if n { "NOT " } else { "" };
    let join = |list: &[Shape], word: &str| {
        list.iter().map(|s| format!("({})", print(s, domains))).collect::<Vec<_>>().join(word)
    };
    match shape {
        Shape::Compare(c, comparison, l) => {
            let symbol = match comparison {
                Comparison::Eq => "=",
                Comparison::NotEq => "<>",
                Comparison::Lt => "<",
                Comparison::LtEq => "<=",
                Comparison::Gt => ">",
                Comparison::GtEq => ">=",
            };
            format!("c{c} {symbol} {}", literal(*c, l))
        }
        Shape::In(c, n, list) => {
            format!("c{c} {}IN ({})", not(*n), list.iter().map(|l| literal(*c, l)).collect::<Vec<_>>().join(", "))
        }
        Shape::Between(c, n, a, b) => format!("c{c} {}BETWEEN {} AND {}", not(*n), literal(*c, a), literal(*c, b)),
        Shape::Null(c, n) => format!("c{c} IS {}NULL", not(*n)),
        Shape::Starts(c, n, l) if domains[*c].ty == ColumnType::String => {
            format!("c{c} {}STARTS WITH {}", not(*n), literal(*c, l))
        }
        Shape::Starts(c, n, _) => format!("c{c} IS {}NULL", not(*n)),
        Shape::And(list) => join(list, " AND "),
        Shape::Or(list) => join(list, " OR "),
        Shape::Not(inner) => format!("NOT ({})", print(inner, domains)),
    }
}

type Row = [Option<Value>; 2];

/// Three-valued: `None` is unknown. `total`: NaN equals itself and is above everything, else IEEE. `narrow`: literals of
/// float columns are rounded to float.
fn evaluate(shape: &Shape, domains: &[Domain; 2], row: &Row, total: bool, narrow: bool) -> Option<bool> {
    let truth = |shape: &Shape| evaluate(shape, domains, row, total, narrow);
    let compare = |c: usize, comparison: Comparison, l: &prop::sample::Index| -> Option<bool> {
        let value = row[c].as_ref()?.rank;
        let mut literal = l.get(&domains[c].literals).1;
        if narrow && domains[c].ty == ColumnType::Float {
            literal = f64::from(literal as f32);
        }
        let order = match (value.is_nan(), literal.is_nan()) {
            (false, false) => value.partial_cmp(&literal),
            (true, true) if total => Some(Ordering::Equal),
            (true, false) if total => Some(Ordering::Greater),
            (false, true) if total => Some(Ordering::Less),
            _ => None,
        };
        Some(match comparison {
            Comparison::Eq => order == Some(Ordering::Equal),
            Comparison::NotEq => order != Some(Ordering::Equal),
            Comparison::Lt => order == Some(Ordering::Less),
            Comparison::LtEq => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Comparison::Gt => order == Some(Ordering::Greater),
            Comparison::GtEq => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        })
    };
    match shape {
        Shape::Compare(c, comparison, l) => compare(*c, *comparison, l),
        Shape::In(c, n, list) => {
            row[*c].as_ref()?;
            Some(list.iter().any(|l| compare(*c, Comparison::Eq, l) == Some(true)) != *n)
        }
        Shape::Between(c, n, a, b) => {
            Some((compare(*c, Comparison::GtEq, a)? && compare(*c, Comparison::LtEq, b)?) != *n)
        }
        Shape::Starts(c, n, l) if domains[*c].ty == ColumnType::String => {
            let literal = &l.get(&domains[*c].literals).0;
            Some(row[*c].as_ref()?.text.starts_with(literal.trim_matches('\'')) != *n)
        }
        Shape::Null(c, n) | Shape::Starts(c, n, _) => Some(row[*c].is_none() != *n),
        Shape::And(list) => {
            let truths: Vec<_> = list.iter().map(truth).collect();
            if truths.contains(&Some(false)) {
                Some(false)
            } else {
                truths.into_iter().collect::<Option<Vec<_>>>().map(|_| true)
            }
        }
        Shape::Or(list) => {
            let truths: Vec<_> = list.iter().map(truth).collect();
            if truths.contains(&Some(true)) {
                Some(true)
            } else {
                truths.into_iter().collect::<Option<Vec<_>>>().map(|_| false)
            }
        }
        Shape::Not(inner) => truth(inner).map(|t| !t),
    }
}

/// Statistics of a column over rows: true, and as vague as `vagueness` says (bit 0 drops the lower bound, 1 the upper, 2
/// the value count, 3 the null count, 4 the NaN count, 5 truncates).
fn describe(domain: &Domain, rows: &[Row], c: usize, vagueness: u8) -> ColumnStats {
    let mut builder = BoundsBuilder::new();
    rows.iter().filter_map(|row| row[c].as_ref()).for_each(|v| builder.value(domain.ty, v.constant.datum()));
    let mut bounds = builder.finish();
    if vagueness & 32 != 0 {
        bounds = bounds.truncated(domain.ty, 2);
    }
    let (lower, upper) = bounds.into_parts();
    let keep = |bit: u8| vagueness & bit == 0;
    let is_nan = |row: &&Row| row[c].as_ref().is_some_and(|v| v.rank.is_nan());
    ColumnStats {
        field_id: FieldId(c as i64),
        value_count: keep(4).then_some(rows.len() as i64),
        null_count: keep(8).then(|| rows.iter().filter(|row| row[c].is_none()).count() as i64),
        nan_count: keep(16).then(|| rows.iter().filter(is_nan).count() as i64),
        size_bytes: None,
        bounds: Bounds::stored(domain.ty, lower.filter(|_| keep(1)).as_deref(), upper.filter(|_| keep(2)).as_deref()),
    }
}

use crate::Bounds;

/// The partition values that a file may carry whose rows all hold `value`.
fn partitions(value: Option<&Value>) -> Vec<(Transform, Option<String>)> {
    let Some(value) = value else { return vec![(Transform::Identity, None), (Transform::Bucket(3), None)] };
    let datum = value.constant.datum();
    let identity = match &value.constant {
        Constant::Boolean(v) => v.to_string(),
        Constant::Int(v) => v.to_string(),
        Constant::Long(v) => v.to_string(),
        Constant::Float(v) => v.to_string(),
        Constant::Double(v) => v.to_string(),
        Constant::Decimal(v) => format!("{v}e-1"),
        Constant::String(v) => v.to_string(),
        Constant::Date(v) => chrono::NaiveDate::from_num_days_from_ce_opt(v + 719_163).unwrap().to_string(),
        Constant::Timestamptz(v) => chrono::DateTime::from_timestamp_micros(*v).unwrap().to_rfc3339(),
        other => panic!("{other:?} is in no domain"),
    };
    let derived = [
        (Transform::Bucket(3), transform::bucket(datum, 3).map(i64::from)),
        (Transform::Year, transform::year(datum)),
        (Transform::Month, transform::month(datum)),
        (Transform::Day, transform::day(datum)),
        (Transform::Hour, transform::hour(datum)),
    ];
    let mut all = vec![(Transform::Identity, Some(identity)), (Transform::Identity, Some("?".to_owned()))];
    all.extend(derived.into_iter().filter_map(|(t, v)| Some((t, Some(v?.to_string())))));
    if matches!(value.constant, Constant::String(_)) {
        all.retain(|(_, v)| v.as_deref() != Some("?"));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn no_file_with_a_matching_row_is_left_out(
        types in (0..9_usize, 0..9_usize),
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..8_u8), 0..5),
        vagueness in (any::<u8>(), any::<u8>()),
        common in prop::sample::select(vec!["", "a", "abcdefg", "abcdefghi", "x"]),
        shape in shapes(),
    ) {
        let domains = [domain(types.0), domain(types.1)];
        let rows: Vec<Row> = picks.iter().map(|(a, b, nulls)| [
            (nulls & 3 != 0).then(|| a.get(&domains[0].values).clone()),
            (nulls & 6 != 0).then(|| b.get(&domains[1].values).clone()),
        ]).collect();
        let columns = [0, 1].map(|c| FilterColumn {
            field_id: FieldId(c as i64), name: format!("c{c}"), ty: domains[c].ty,
        });
        let text = print(&shape, &domains);
        let predicate = Filter::parse(&text).and_then(|f| f.bind(&columns)).unwrap();
        let matches = |row: &Row| [(false, false), (false, true), (true, false), (true, true)].iter()
            .any(|(total, narrow)| evaluate(&shape, &domains, row, *total, *narrow) == Some(true));

        let stats = [describe(&domains[0], &rows, 0, vagueness.0), describe(&domains[1], &rows, 1, vagueness.1)];
        let column = |leaf: usize| predicate.leaves()[leaf].field_id.0 as usize;
        let by_stats = predicate.may_match(|leaf| predicate.leaves()[leaf].may_match(&stats[column(leaf)]));
        let keys = Keys::new(common.as_bytes());
        let files = [0, 1].map(|c| {
            let s: &ColumnStats = &stats[c];
            keys.of_file(domains[c].ty, s.value_count, s.null_count, s.nan_count, s.bounds.lower(), s.bounds.upper())
        });
        let by_keys = predicate.may_match(|leaf| keys.test(&predicate.leaves()[leaf]).may_match(files[column(leaf)]));
        if rows.iter().any(matches) {
            prop_assert!(by_stats, "statistics left {} out", text);
            prop_assert!(by_keys, "keys left {} out", text);
        }
        for leaf in predicate.leaves() {
            let c = leaf.field_id.0 as usize;
            let test = keys.test(leaf);
            let (coarse, fine) = (test.may_match(files[c]), leaf.may_match(&stats[c]));
            prop_assert!(coarse || !fine, "a key is stricter than the bounds for {:?}", leaf);
            prop_assert!(!test.is_exact() || coarse == fine, "a key that claims to be exact is not, for {:?}", leaf);
        }
        // Each row as a file of its own, under every transform of its columns.
        for row in &rows {
            for a in partitions(row[0].as_ref()) {
                for b in partitions(row[1].as_ref()) {
                    let kept = predicate.may_match(|leaf| {
                        let (transform, value) = if column(leaf) == 0 { &a } else { &b };
                        predicate.leaves()[leaf].may_match_partition(*transform, value.as_deref())
                    });
                    prop_assert!(kept || !matches(row), "partition values {:?} and {:?} left {} out", a, b, text);
                }
            }
        }
    }

    #[test]
    fn parsing_never_panics(text in "\\PC{0,80}", glued in "[a-z'\"()<>=!,. 0-9-]{0,60}") {
        let _ = Filter::parse(&text).and_then(|f| f.bind(&super::columns()));
        let _ = Filter::parse(&glued).and_then(|f| f.bind(&super::columns()));
    }
}

/// Pruning must prune: a filter outside the bounds leaves the file out, by bounds and by keys alike.
#[test]
fn files_outside_the_bounds_are_left_out() {
    let stats = |lower: &str, upper: &str| ColumnStats {
        value_count: Some(2),
        null_count: Some(0),
        bounds: Bounds::stored(ColumnType::String, Some(lower.as_bytes()), Some(upper.as_bytes())),
        ..ColumnStats::unknown(FieldId(2))
    };
    let file = stats("user-000100", "user-000199");
    let keys = Keys::new(*b"user-000");
    for (text, kept) in [
        ("name = 'user-000150'", true),
        ("name = 'user-000250'", false),
        ("name STARTS WITH 'user-0001'", true),
        ("name STARTS WITH 'user-0002'", false),
        ("name NOT STARTS WITH 'user-'", false),
        ("name IN ('a', 'b', 'user-0003')", false),
        ("name < 'user-0001'", false),
        ("name > 'user-0002'", false),
        ("name IS NULL", false),
        ("NOT name >= 'a'", false),
    ] {
        let predicate = Filter::parse(text).and_then(|f| f.bind(&super::columns())).unwrap();
        let leaf = &predicate.leaves()[0];
        assert_eq!(leaf.may_match(&file), kept, "{text}");
        let file = keys.of_file(leaf.ty, Some(2), Some(0), None, file.bounds.lower(), file.bounds.upper());
        if !text.contains("NOT STARTS") {
            assert_eq!(keys.test(leaf).may_match(file), kept, "{text} by keys");
        }
    }
}
