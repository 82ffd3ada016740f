//! Each rule by example, then all of them against a simple model.

use super::*;
use crate::definition::Transform;
use crate::{ColumnType, SpecId};
use serde_json::json;

mod property;

/// Columns 1 `a` int, 2 `b` string, 3 `ts` timestamptz, 4 `d` date, 5 `f` float.
fn table() -> TableDefinition {
    let column = |(name, literal): (&str, &str)| ColumnDef {
        name: name.to_owned(),
        type_literal: literal.to_owned(),
        type_params: None,
        nullable: None,
    };
    let columns = [("a", "int"), ("b", "string"), ("ts", "timestamptz"), ("d", "date"), ("f", "float")].map(column);
    TableDefinition::create("t", &columns).unwrap()
}

fn ops(json: serde_json::Value) -> Vec<AlterOp> {
    serde_json::from_value::<AlterRequest>(json!({ "ops": json })).unwrap().ops
}

fn alter(table: &TableDefinition, json: serde_json::Value) -> Result<TableDefinition, Refusal> {
    apply(table, &ops(json), &Surroundings::default())
}

fn refused(json: serde_json::Value) -> Refusal {
    let refusal = alter(&table(), json.clone()).expect_err(&json.to_string());
    assert_eq!(refusal.code, ErrorCode::Validation, "{json}");
    refusal
}

#[test]
fn bodies_that_say_no_operation_are_malformed() {
    let parse = serde_json::from_str::<AlterRequest>;
    for bad in [
        "{}",
        r#"{"ops": []}"#,
        r#"{"ops": null}"#,
        r#"{"ops": [{}]}"#,
        r#"{"ops": [{"op": "explode_table"}]}"#,
        r#"{"ops": [{"op": "drop_column"}]}"#,
        r#"{"ops": [{"op": "drop_column", "name": null}]}"#,
        r#"{"ops": [{"op": "drop_column", "name": "a", "why": 1}]}"#,
        r#"{"ops": [{"op": "set_partition_spec"}]}"#,
        r#"{"ops": [{"op": "set_sort_order", "fields": []}]}"#,
        r#"{"ops": [{"op": "add_column", "column": {"name": "x"}}]}"#,
        r#"{"ops": [{"op": "set_partition_spec", "fields": [{"source_field_id": "1", "transform": "day"}]}]}"#,
    ] {
        assert!(parse(bad).is_err(), "{bad}");
    }
    // operands of other operations do no harm
    assert!(parse(r#"{"ops": [{"op": "drop_column", "name": "a", "to": "b", "fields": []}]}"#).is_ok());
}

#[test]
fn added_columns_get_fresh_ids_and_the_last_place() {
    let after = alter(
        &table(),
        json!([
            {"op": "drop_column", "name": "f"},
            {"op": "add_column", "column": {"name": "f", "type": "double", "nullable": false}}
        ]),
    )
    .unwrap();
    let added = after.column("f").unwrap();
    assert_eq!((added.field_id, added.ordinal, added.nullable), (FieldId(6), 4, false));
    assert_eq!(after.next_field_id, 7);
}

#[test]
fn columns_that_come_and_go_within_a_request_leave_only_a_gap_in_the_ids() {
    let before = table();
    let after = alter(
        &before,
        json!([
            {"op": "add_column", "column": {"name": "x", "type": "int"}},
            {"op": "rename_column", "from": "x", "to": "y"},
            {"op": "drop_column", "name": "y"}
        ]),
    )
    .unwrap();
    assert_eq!(ColumnDifference::between(&before, &after), ColumnDifference::default());
    assert_eq!(after.next_field_id, 7);
}

#[test]
fn names_may_change_hands() {
    let before = table();
    let after = alter(
        &before,
        json!([
            {"op": "rename_column", "from": "a", "to": "x"},
            {"op": "rename_column", "from": "b", "to": "a"},
            {"op": "rename_column", "from": "x", "to": "b"}
        ]),
    )
    .unwrap();
    assert_eq!(after.column("a").map(|c| c.field_id), Some(FieldId(2)));
    let difference = ColumnDifference::between(&before, &after);
    assert_eq!(difference.ended, [FieldId(1), FieldId(2)]);
}

#[test]
fn columns_are_refused_by_name_type_and_use() {
    for op in [
        json!({"op": "add_column", "column": {"name": "a", "type": "int"}}),
        json!({"op": "add_column", "column": {"name": "_hog_x", "type": "int"}}),
        json!({"op": "add_column", "column": {"name": "9", "type": "int"}}),
        json!({"op": "add_column", "column": {"name": "x", "type": "varchar2"}}),
        json!({"op": "add_column", "column": {"name": "x", "type": "decimal"}}),
        json!({"op": "drop_column", "name": "A"}),
        json!({"op": "rename_column", "from": "nope", "to": "x"}),
        json!({"op": "rename_column", "from": "a", "to": "a"}),
        json!({"op": "rename_column", "from": "a", "to": "b"}),
        json!({"op": "rename_column", "from": "a", "to": "_HOG"}),
        json!({"op": "rename_table", "new_name": "a b"}),
    ] {
        assert!(refused(json!([op])).detail.starts_with("ops[0] "), "{op}");
    }
    let all = json!([
        {"op": "drop_column", "name": "a"}, {"op": "drop_column", "name": "b"}, {"op": "drop_column", "name": "ts"},
        {"op": "drop_column", "name": "d"}, {"op": "drop_column", "name": "f"}
    ]);
    assert!(refused(all).detail.contains("ops[4] drop_column: column `f` is the last one"));
    let partitioned = json!([
        {"op": "set_partition_spec", "fields": [{"source_field_id": 3, "transform": "day"}]},
        {"op": "drop_column", "name": "ts"}
    ]);
    assert!(refused(partitioned).detail.contains("partition spec stands on column `ts`"));
    let sorted = json!([
        {"op": "set_sort_order", "sort_fields": [{"source_field_id": 2, "direction": "asc", "null_order": "nulls_last"}]},
        {"op": "drop_column", "name": "b"}
    ]);
    assert!(refused(sorted).detail.contains("sort order stands on column `b`"));
}

#[test]
fn specs_may_let_go_of_a_column_that_is_then_dropped() {
    let after = alter(
        &table(),
        json!([
            {"op": "set_partition_spec", "fields": [{"source_field_id": 3, "transform": "day"}]},
            {"op": "set_partition_spec", "fields": []},
            {"op": "drop_column", "name": "ts"}
        ]),
    )
    .unwrap();
    assert_eq!(after.partition_spec.map(|s| (s.spec_id, s.fields.len())), Some((SpecId(2), 0)));
    assert_eq!(after.next_spec_id, 3);
}

#[test]
fn a_column_added_again_is_not_the_old_source() {
    for (op, fields) in [
        ("set_partition_spec", json!([{"source_field_id": 1, "transform": "identity"}])),
        ("set_sort_order", json!([{"source_field_id": 1, "direction": "asc", "null_order": "nulls_last"}])),
    ] {
        let key = if op == "set_sort_order" { "sort_fields" } else { "fields" };
        let refusal = refused(json!([
            {"op": "drop_column", "name": "a"},
            {"op": "add_column", "column": {"name": "a", "type": "int"}},
            {"op": op, key: fields}
        ]));
        assert!(refusal.detail.contains("no live column has field id 1"), "{}", refusal.detail);
    }
}

#[test]
fn only_two_promotions_exist() {
    let decimal = json!({"precision": 9, "scale": 2});
    for from in ColumnType::LITERALS {
        for to in ColumnType::LITERALS.into_iter().chain(["hugeint", "LONG", ""]) {
            let column = json!({"name": "x", "type": from, "type_params": decimal});
            let table = alter(&table(), json!([{"op": "add_column", "column": column}])).unwrap();
            let promoted = alter(&table, json!([{"op": "promote_column", "name": "x", "to": to}]));
            let legal = matches!((from, to), ("int", "long") | ("float", "double"));
            assert_eq!(promoted.is_ok(), legal, "{from} to {to}");
        }
    }
}

#[test]
fn promotion_keeps_every_transform_legal() {
    for (narrow, wide) in [(ColumnType::Int, ColumnType::Long), (ColumnType::Float, ColumnType::Double)] {
        for transform in [
            Transform::Identity,
            Transform::Bucket(4),
            Transform::Year,
            Transform::Month,
            Transform::Day,
            Transform::Hour,
        ] {
            assert!(!transform.accepts(narrow) || transform.accepts(wide), "{transform} {narrow}");
        }
    }
}

#[test]
fn specs_are_checked_against_the_live_columns() {
    let partition = |field: serde_json::Value| json!([{"op": "set_partition_spec", "fields": [field]}]);
    for field in [
        json!({"source_field_id": 9, "transform": "identity"}),
        json!({"source_field_id": 4, "transform": "hour"}),
        json!({"source_field_id": 5, "transform": "bucket", "transform_param": 4}),
        json!({"source_field_id": 1, "transform": "bucket"}),
        json!({"source_field_id": 1, "transform": "bucket", "transform_param": 0}),
        json!({"source_field_id": 1, "transform": "identity", "transform_param": 1}),
        json!({"source_field_id": 1, "transform": "truncate", "transform_param": 1}),
        json!({"source_field_id": 1, "transform": "day"}),
    ] {
        refused(partition(field));
    }
    let sort = |direction: &str, null_order: &str, twice: bool| {
        let field = json!({"source_field_id": 1, "direction": direction, "null_order": null_order});
        let fields = if twice { vec![field.clone(), field] } else { vec![field] };
        json!([{"op": "set_sort_order", "sort_fields": fields}])
    };
    refused(sort("up", "nulls_last", false));
    refused(sort("asc", "nulls_middle", false));
    refused(sort("asc", "nulls_last", true));
    assert!(alter(&table(), sort("desc", "nulls_first", false)).is_ok());
}

#[test]
fn files_that_bind_by_name_stop_changes_of_names() {
    let guarded = |json, idless_files, pending_files| {
        let former_columns = HashSet::from(["old".to_owned()]);
        let surroundings = Surroundings { idless_files, pending_files, former_columns, ..Surroundings::default() };
        apply(&table(), &ops(json), &surroundings).map_err(|refusal| (refusal.code, refusal.detail))
    };
    let rename = json!([{"op": "rename_column", "from": "a", "to": "x"}]);
    for (idless, pending) in [(2, 0), (0, 3), (2, 3)] {
        let (code, detail) = guarded(rename.clone(), idless, pending).unwrap_err();
        assert_eq!(code, ErrorCode::IdlessFilesPresent);
        assert!(detail.contains(&format!("{idless} without field ids, {pending} with their footer")), "{detail}");
    }
    assert!(guarded(rename, 0, 0).is_ok());
    // 422 comes first
    let bad = json!([{"op": "rename_column", "from": "nope", "to": "x"}]);
    assert_eq!(guarded(bad, 1, 0).unwrap_err().0, ErrorCode::Validation);
    // what is known to bind by name would fill a new column of an old name with old values
    let old = json!([{"op": "add_column", "column": {"name": "old", "type": "int"}}]);
    assert_eq!(guarded(old.clone(), 1, 0).unwrap_err().0, ErrorCode::IdlessFilesPresent);
    assert!(guarded(old, 0, 1).is_ok());
    let again =
        json!([{"op": "drop_column", "name": "a"}, {"op": "add_column", "column": {"name": "a", "type": "int"}}]);
    assert_eq!(guarded(again, 1, 0).unwrap_err().0, ErrorCode::IdlessFilesPresent);
    assert!(guarded(json!([{"op": "add_column", "column": {"name": "new", "type": "int"}}]), 1, 1).is_ok());
    assert!(guarded(json!([{"op": "rename_table", "new_name": "u"}]), 1, 1).is_ok());
}

#[test]
fn a_table_takes_a_free_name_or_keeps_its_own() {
    let surroundings = Surroundings { taken_tables: HashSet::from(["u".to_owned()]), ..Surroundings::default() };
    let rename = |name: &str| apply(&table(), &ops(json!([{"op": "rename_table", "new_name": name}])), &surroundings);
    assert_eq!(rename("u").unwrap_err().code, ErrorCode::AlreadyExists);
    assert_eq!(rename("t").unwrap(), table());
    assert_eq!(rename("v").unwrap().name, "v");
}

#[test]
fn a_table_that_has_used_up_its_field_ids_takes_no_more() {
    let mut table = table();
    table.next_field_id = FieldId::LAST_COLUMN.0;
    let add = json!([{"op": "add_column", "column": {"name": "x", "type": "int"}}]);
    let full = alter(&table, add).unwrap();
    assert_eq!(full.column("x").map(|c| c.field_id), Some(FieldId::LAST_COLUMN));
    let add = json!([{"op": "add_column", "column": {"name": "y", "type": "int"}}]);
    assert_eq!(alter(&full, add).unwrap_err().code, ErrorCode::Validation);
}
