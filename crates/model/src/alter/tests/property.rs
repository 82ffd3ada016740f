//! Random requests against invariants, and the written versions against the definitions they stand for.

use super::*;
use crate::definition::Column;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Few names, so that operations meet.
fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "ts", "d", "f", "x", "y", "_hog_z", "9"]).prop_map(str::to_owned)
}

fn op() -> impl Strategy<Value = AlterOp> {
    let literal = || prop::sample::select(vec!["int", "long", "float", "double", "date", "timestamptz", "nope"]);
    let transform = prop::sample::select(vec!["identity", "day", "hour", "bucket"]);
    let partition = (1..12i64, transform).prop_map(|(id, transform)| PartitionFieldDef {
        source_field_id: FieldId(id),
        transform: transform.to_owned(),
        transform_param: (transform == "bucket").then_some(4),
    });
    let sort = (1..12i64).prop_map(|id| SortFieldDef {
        source_field_id: FieldId(id),
        direction: "asc".to_owned(),
        null_order: "nulls_last".to_owned(),
    });
    prop_oneof![
        3 => (name(), literal()).prop_map(|(name, literal)| AlterOp::AddColumn(ColumnDef {
            name,
            type_literal: literal.to_owned(),
            type_params: None,
            nullable: None,
        })),
        3 => name().prop_map(|name| AlterOp::DropColumn { name }),
        3 => (name(), name()).prop_map(|(from, to)| AlterOp::RenameColumn { from, to }),
        1 => (name(), literal()).prop_map(|(name, to)| AlterOp::PromoteColumn { name, to: to.to_owned() }),
        1 => name().prop_map(|new_name| AlterOp::RenameTable { new_name }),
        1 => prop::collection::vec(partition, 0..3).prop_map(|fields| AlterOp::SetPartitionSpec { fields }),
        1 => prop::collection::vec(sort, 0..3).prop_map(|fields| AlterOp::SetSortOrder { fields }),
    ]
}

/// One row of `table_column`.
#[derive(Debug)]
struct Row {
    column: Column,
    begin: usize,
    end: Option<usize>,
}

/// The rows visible at `snapshot`, as the database would show them.
fn visible(rows: &[Row], snapshot: usize) -> Vec<Column> {
    let visible = |row: &&Row| row.begin <= snapshot && row.end.is_none_or(|end| snapshot < end);
    let mut columns: Vec<Column> = rows.iter().filter(visible).map(|row| row.column.clone()).collect();
    columns.sort_by_key(|column| column.ordinal);
    columns
}

fn check_invariants(before: &TableDefinition, after: &TableDefinition) {
    let mut names: Vec<&str> = after.columns.iter().map(|c| c.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), after.columns.len(), "two live columns of one name");
    assert!(!after.columns.is_empty(), "no columns");
    assert!(after.columns.is_sorted_by(|a, b| a.ordinal < b.ordinal), "ordinals out of order");
    assert!(after.columns.iter().all(|c| c.field_id.0 < after.next_field_id), "an id past the allocator");
    assert!(before.next_field_id <= after.next_field_id && before.next_spec_id <= after.next_spec_id);
    for column in &after.columns {
        let old = before.column_by_id(column.field_id);
        assert!(old.is_some() || column.field_id.0 >= before.next_field_id, "an id given twice");
        let kept =
            |old: &Column| old.column_type == column.column_type || old.column_type.promotes_to(column.column_type);
        assert!(old.is_none_or(kept), "a type changed");
    }
    let partition = after.partition_spec.iter().flat_map(|s| &s.fields).map(|f| (f.source_field_id, Some(f.transform)));
    let sort = after.sort_spec.iter().flat_map(|s| &s.fields).map(|f| (f.source_field_id, None));
    for (source, transform) in partition.chain(sort) {
        let column = after.column_by_id(source).expect("a spec stands on a column that is not there");
        assert!(transform.is_none_or(|t| t.accepts(column.column_type)), "a spec no longer takes its column");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn requests_keep_the_invariants_and_history_stays_readable(
        requests in prop::collection::vec(prop::collection::vec(op(), 1..6), 1..8)
    ) {
        let mut current = table();
        let mut rows: Vec<Row> =
            current.columns.iter().map(|column| Row { column: column.clone(), begin: 0, end: None }).collect();
        let mut history = vec![current.clone()];
        let mut ever = BTreeMap::from_iter(current.columns.iter().map(|c| (c.field_id, 0)));
        for request in &requests {
            let snapshot = history.len();
            let Ok(after) = apply(&current, request, &Surroundings::default()) else {
                // refused: as if one by one up to the failing operation, and then undone
                let stepwise = request.iter().try_fold(current.clone(), |t, op| {
                    apply(&t, std::slice::from_ref(op), &Surroundings::default())
                });
                prop_assert!(stepwise.is_err());
                continue;
            };
            check_invariants(&current, &after);
            let difference = ColumnDifference::between(&current, &after);
            for id in &difference.ended {
                let row = rows.iter_mut().find(|row| row.column.field_id == *id && row.end.is_none()).unwrap();
                prop_assert!(row.begin < snapshot);
                row.end = Some(snapshot);
            }
            for column in difference.begun {
                rows.push(Row { column: column.clone(), begin: snapshot, end: None });
            }
            for column in &after.columns {
                // an id that was gone never comes back
                let last_seen = ever.insert(column.field_id, snapshot);
                prop_assert!(last_seen.is_none_or(|seen| seen + 1 == snapshot));
            }
            history.push(after.clone());
            current = after;
        }
        for (snapshot, definition) in history.iter().enumerate() {
            prop_assert_eq!(&visible(&rows, snapshot), &definition.columns);
        }
    }
}
