//! The rules of the commit protocol, one test each, and random histories against a plain model.

use super::*;
use crate::{ColumnType, ErrorCode, FieldId, FileId, Refusal, SnapshotId, SpecId, TableId};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

const ROOT: &str = "s3://lake/demo";

fn name(table: &str) -> TableName {
    ("ns".to_owned(), table.to_owned())
}

fn live(id: i64, created: i64) -> LiveTable {
    LiveTable {
        id: TableId(id),
        uuid: Uuid::from_u128(id as u128),
        named_since: SnapshotId(created),
        created: SnapshotId(created),
        last_ddl: SnapshotId(created),
        last_ddl_author: None,
        schema: Arc::new(TableSchema {
            columns: HashMap::from([(FieldId(1), ColumnType::Int), (FieldId(2), ColumnType::String)]),
            partition: None,
        }),
        next_row_id: 0,
        record_count: 0,
        file_size_bytes: 0,
    }
}

fn state() -> CatalogState {
    CatalogState {
        head: 10,
        schema_version: 2,
        earliest: 3,
        next_file_id: 1,
        tables: HashMap::from([(name("t"), live(1, 2)), (name("u"), live(2, 2))]),
        ..CatalogState::default()
    }
}

fn file(path: &str, record_count: i64) -> FileRegistration {
    FileRegistration {
        path: format!("{ROOT}/{path}"),
        record_count,
        file_size_bytes: 100,
        footer_size: None,
        column_stats: None,
        partition_values: None,
    }
}

fn append(table: &str, files: Vec<FileRegistration>) -> TableAppend {
    TableAppend { namespace: "ns".to_owned(), table: table.to_owned(), expected_table_uuid: None, files }
}

fn appends(read_snapshot: Option<i64>, appends: Vec<TableAppend>) -> CommitRequest {
    CommitRequest { read_snapshot, appends, ..CommitRequest::default() }
}

fn delete(read_snapshot: i64, data_file_id: i64, delete_count: i64) -> CommitRequest {
    let vector =
        DeleteFileRegistration { data_file_id, path: format!("{ROOT}/dv.puffin"), delete_count, file_size_bytes: 50 };
    let deletes = TableDeletes {
        namespace: "ns".to_owned(),
        table: "t".to_owned(),
        expected_table_uuid: None,
        files: vec![vector],
    };
    CommitRequest { read_snapshot: Some(read_snapshot), deletes: vec![deletes], ..CommitRequest::default() }
}

fn target(begin: i64, end: Option<i64>, vector: Option<(i64, i64)>) -> TargetFile {
    TargetFile {
        table: TableId(1),
        begin: SnapshotId(begin),
        compacted: false,
        begin_author: Some("bob".to_owned()),
        end: end.map(SnapshotId),
        end_author: Some("compaction".to_owned()),
        record_count: 10,
        vector: vector.map(|(begin, delete_count)| LiveVector {
            id: FileId(90),
            begin: SnapshotId(begin),
            author: Some("ann".to_owned()),
            delete_count,
        }),
    }
}

/// Judges against a copy and asserts that a refusal leaves no trace.
fn refused(state: &CatalogState, request: &CommitRequest) -> Refusal {
    let mut after = state.clone();
    let refusal = judge(&mut after, request).unwrap_err();
    assert_eq!(format!("{after:?}"), format!("{state:?}"), "a refused request left a trace");
    refusal
}

#[test]
fn files_get_dense_ids_and_contiguous_rows_in_request_order() {
    let mut state = state();
    let request = appends(
        None,
        vec![
            append("t", vec![file("a", 5), file("b", 0)]),
            append("u", vec![file("c", 7)]),
            append("t", vec![file("d", 2)]),
        ],
    );
    let accepted = judge(&mut state, &request).unwrap();
    let placed: Vec<_> = accepted.files.iter().map(|f| (f.id.0, f.table.0, f.row_id_start)).collect();
    // entries for one table are merged under the first; a file without rows has a zero-width range
    assert_eq!(placed, [(1, 1, 0), (2, 1, 5), (3, 1, 5), (4, 2, 0)]);
    assert_eq!(accepted.snapshot, SnapshotId(11));
    assert_eq!(accepted.changes, [("table_inserted_into", TableId(1)), ("table_inserted_into", TableId(2))]);
    assert_eq!((state.head, state.next_file_id, state.tables[&name("t")].next_row_id), (11, 5, 7));
}

#[test]
fn read_snapshots_outside_history_are_refused() {
    let state = state();
    let at = |s| appends(Some(s), vec![append("t", vec![file("a", 1)])]);
    assert_eq!(refused(&state, &at(11)).code, ErrorCode::Validation);
    let expired = refused(&state, &at(2));
    assert_eq!(expired.code, ErrorCode::Expired);
    assert!(expired.detail.contains("earliest retained snapshot is 3"), "{}", expired.detail);
}

#[test]
fn ddl_since_the_read_snapshot_conflicts_and_explains_itself() {
    let mut state = state();
    let table = state.tables.get_mut(&name("t")).unwrap();
    table.last_ddl = SnapshotId(8);
    table.last_ddl_author = Some("bob".to_owned());
    let request = appends(Some(7), vec![append("t", vec![file("a", 1)])]);
    let refusal = refused(&state, &request);
    assert_eq!(refusal.code, ErrorCode::CommitConflict);
    for part in ["`ns.t`", "table_altered", "snapshot 8", "`bob`", "Repeating as is cannot succeed"] {
        assert!(refusal.detail.contains(part), "{part}: {}", refusal.detail);
    }
    for read in [None, Some(8), Some(10)] {
        assert!(judge(&mut state.clone(), &appends(read, vec![append("t", vec![file("a", 1)])])).is_ok(), "{read:?}");
    }
}

#[test]
fn a_table_created_after_the_read_snapshot_may_be_the_writers_own() {
    let mut state = state();
    state.tables.insert(name("new"), live(3, 9));
    assert!(judge(&mut state, &appends(Some(5), vec![append("new", vec![file("a", 1)])])).is_ok());
}

#[test]
fn a_name_that_changed_hands_is_noticed_without_the_incarnation_guard() {
    let mut state = state();
    let past =
        PastName { table: TableId(1), begin: SnapshotId(2), end: SnapshotId(6), ended: Ended::Dropped, author: None };
    state.tables.insert(name("t"), live(7, 8));
    state.past.push((name("t"), past.clone()));
    let stale = appends(Some(5), vec![append("t", vec![file("a", 1)])]);
    let refusal = refused(&state, &stale);
    assert_eq!(refusal.code, ErrorCode::CommitConflict);
    for part in ["the table was recreated", "`ns.t`", "table_dropped", "snapshot 6", "Repeating as is cannot succeed"] {
        assert!(refusal.detail.contains(part), "{part}: {}", refusal.detail);
    }

    state.tables.remove(&name("t"));
    assert_eq!(refused(&state, &stale).code, ErrorCode::CommitConflict);
    let fresh = appends(Some(7), vec![append("t", vec![file("a", 1)])]);
    assert_eq!(refused(&state, &fresh).code, ErrorCode::Validation);
}

#[test]
fn another_incarnation_than_expected_conflicts() {
    let mut request = appends(None, vec![append("t", vec![file("a", 1)])]);
    request.appends[0].expected_table_uuid = Some(Uuid::from_u128(99));
    let mut state = state();
    let table = state.tables.get_mut(&name("t")).unwrap();
    let created = table.created;
    (table.last_ddl, table.last_ddl_author) = (created, Some("bob".to_owned()));
    let refusal = refused(&state, &request);
    assert_eq!(refusal.code, ErrorCode::CommitConflict);
    let snapshot = format!("table_created in snapshot {created} by `bob`");
    for part in ["the table was recreated", "`ns.t`", &snapshot, "Repeating as is cannot succeed"] {
        assert!(refusal.detail.contains(part), "{part}: {}", refusal.detail);
    }
}

#[test]
fn row_ids_and_totals_never_overflow() {
    let mut state = state();
    state.tables.get_mut(&name("t")).unwrap().next_row_id = i64::MAX - 5;
    let request = appends(None, vec![append("t", vec![file("a", 5), file("b", 1)])]);
    assert_eq!(refused(&state, &request).code, ErrorCode::Validation);
    let mut big = file("a", 1);
    big.file_size_bytes = i64::MAX; // no request may say so, but sums may come to it
    let request = appends(None, vec![append("u", vec![big, file("b", 1)])]);
    assert_eq!(refused(&state, &request).code, ErrorCode::Validation);
}

#[test]
fn partition_values_match_the_live_spec() {
    let mut state = state();
    let with = |values: Option<Vec<Option<String>>>| {
        let mut f = file("a", 1);
        f.partition_values = values;
        appends(None, vec![append("t", vec![f])])
    };
    assert_eq!(refused(&state, &with(Some(vec![]))).code, ErrorCode::Validation);
    let table = state.tables.get_mut(&name("t")).unwrap();
    table.schema = Arc::new(TableSchema { partition: Some((SpecId(4), 2)), ..(*table.schema).clone() });
    assert_eq!(refused(&state, &with(None)).code, ErrorCode::Validation);
    assert_eq!(refused(&state, &with(Some(vec![None]))).code, ErrorCode::Validation);
    let request = with(Some(vec![None, Some("x".to_owned())]));
    assert_eq!(judge(&mut state, &request).unwrap().files[0].spec, Some(SpecId(4)));
}

#[test]
fn statistics_bind_to_live_columns_and_doubtful_bounds_go() {
    let mut state = state();
    let stats = |field_id, lower: &[u8], upper: &[u8]| super::ColumnStats {
        field_id,
        value_count: 1,
        null_count: 0,
        nan_count: None,
        size_bytes: None,
        lower_bound: Some(lower.to_vec()),
        upper_bound: Some(upper.to_vec()),
    };
    let with = |s| {
        let mut f = file("a", 1);
        f.column_stats = Some(vec![s]);
        appends(None, vec![append("t", vec![f])])
    };
    assert_eq!(refused(&state, &with(stats(3, &[], &[]))).code, ErrorCode::Validation);
    let inverted = with(stats(1, &9i32.to_le_bytes(), &3i32.to_le_bytes()));
    let kept = judge(&mut state, &inverted).unwrap().files[0].statistics.clone().unwrap();
    assert!(kept[0].bounds.is_unknown());
    let good = with(stats(1, &3i32.to_le_bytes(), &9i32.to_le_bytes()));
    let kept = judge(&mut state, &good).unwrap().files[0].statistics.clone().unwrap();
    assert_eq!(kept[0].bounds.lower(), Some(&3i32.to_le_bytes()[..]));
}

#[test]
fn vectors_follow_their_target() {
    let cases = [
        ("unknown", None, 1, Some(ErrorCode::Validation)),
        ("first vector", Some(target(4, None, None)), 10, None),
        ("more than the rows", Some(target(4, None, None)), 11, Some(ErrorCode::Validation)),
        ("equal count", Some(target(4, None, Some((6, 3)))), 3, None),
        ("shrinking", Some(target(4, None, Some((6, 3)))), 2, Some(ErrorCode::Validation)),
        (
            "vector since, checked before shrinking",
            Some(target(4, None, Some((9, 3)))),
            2,
            Some(ErrorCode::CommitConflict),
        ),
        ("file since", Some(target(9, None, None)), 1, Some(ErrorCode::CommitConflict)),
        ("compacted since", Some(target(4, Some(9), None)), 1, Some(ErrorCode::CommitConflict)),
        ("dead already", Some(target(4, Some(8), None)), 1, Some(ErrorCode::Validation)),
    ];
    for (case, target, delete_count, expected) in cases {
        let mut state = state();
        state.targets.extend(target.map(|t| (FileId(40), t)));
        let request = delete(8, 40, delete_count);
        match expected {
            None => {
                let accepted = judge(&mut state, &request).unwrap();
                assert_eq!(accepted.changes, [("table_deleted_from", TableId(1))], "{case}");
            }
            Some(code) => assert_eq!(refused(&state, &request).code, code, "{case}"),
        }
    }
}

#[test]
fn of_two_deletes_with_one_read_snapshot_the_second_conflicts() {
    let mut state = state();
    state.targets.insert(FileId(40), target(4, None, None));
    assert!(judge(&mut state, &delete(10, 40, 2)).is_ok());
    let refusal = refused(&state, &delete(10, 40, 3));
    assert_eq!(refusal.code, ErrorCode::CommitConflict);
    assert!(refusal.detail.contains("snapshot 11"), "{}", refusal.detail);
    assert!(judge(&mut state, &delete(11, 40, 3)).unwrap().vectors[0].replaces.is_some());
}

#[test]
fn a_path_about_to_be_removed_is_not_registered() {
    let mut state = state();
    let queued = QueuedRemoval { reason: "snapshot_expiry".to_owned(), since: "2026-01-01T00:00:00Z".to_owned() };
    state.queued_for_removal.insert(format!("{ROOT}/a"), queued);
    let request = appends(None, vec![append("t", vec![file("b", 1), file("a", 1)])]);
    let refusal = refused(&state, &request);
    assert_eq!(refusal.code, ErrorCode::CommitConflict);
    for part in ["/a`", "`ns.t`", "since 2026-01-01T00:00:00Z", "snapshot_expiry", "repeating as is"] {
        assert!(refusal.detail.contains(part), "{part}: {}", refusal.detail);
    }
}

#[test]
fn what_needs_no_database_is_checked_first() {
    let ok = appends(None, vec![append("t", vec![file("a", 1)])]);
    assert_eq!(ok.check(&format!("{ROOT}//")), Ok(()));
    let path = |p: &str| {
        let mut r = ok.clone();
        r.appends[0].files[0].path = p.to_owned();
        r
    };
    let stats = |null_count| {
        let mut r = ok.clone();
        let stat = super::ColumnStats {
            field_id: 1,
            value_count: 1,
            null_count,
            nan_count: None,
            size_bytes: None,
            lower_bound: None,
            upper_bound: None,
        };
        r.appends[0].files[0].column_stats = Some(vec![stat.clone(), super::ColumnStats { field_id: 2, ..stat }]);
        r
    };
    assert_eq!(stats(0).check(ROOT), Ok(()));
    let mut twice = stats(0);
    twice.appends[0].files[0].column_stats.as_mut().unwrap()[1].field_id = 1;
    let mut two_vectors = delete(5, 1, 1);
    let again = two_vectors.deletes[0].files[0].clone();
    two_vectors.deletes[0].files.push(again);
    let rows = |n| appends(None, vec![append("t", vec![file("a", n)])]);
    for (case, request) in [
        ("nothing", CommitRequest::default()),
        ("no files", appends(None, vec![append("t", vec![])])),
        ("negative read_snapshot", appends(Some(-1), vec![append("t", vec![file("a", 1)])])),
        ("deletes without read_snapshot", CommitRequest { read_snapshot: None, ..delete(1, 1, 1) }),
        ("sibling of data_path", path("s3://lake/demo-other/x")),
        ("data_path itself", path("s3://lake/demo")),
        ("data_path and slash", path("s3://lake/demo/")),
        ("parent", path("s3://lake/demo/../x")),
        ("empty segment", path("s3://lake/demo//x")),
        ("slash at the end", path("s3://lake/demo/x/")),
        ("control character", path("s3://lake/demo/a\nb")),
        ("blank", path(" ")),
        ("too many rows", rows(MAX_RECORD_COUNT + 1)),
        ("negative rows", rows(-1)),
        ("negative count", stats(-1)),
        ("field twice", twice),
        ("same target twice", two_vectors),
        ("no deleted rows", delete(5, 1, 0)),
    ] {
        assert_eq!(request.check(ROOT).unwrap_err().code, ErrorCode::Validation, "{case}");
    }
    assert_eq!(rows(MAX_RECORD_COUNT).check(ROOT), Ok(()));
}

#[test]
fn the_wire_form_is_strict() {
    for good in [
        r#"{"appends":[{"namespace":"n","table":"t","files":[{"path":"p","record_count":9223372036854775807,"file_size_bytes":1}]}]}"#,
        r#"{"read_snapshot":null,"appends":null,"deletes":null,"author":"","message":null}"#,
    ] {
        serde_json::from_str::<CommitRequest>(good).unwrap();
    }
    for bad in [
        r#"{"surprise":1}"#,
        r#"{"appends":[{"namespace":"n","table":"t","files":[{"path":"p","record_count":1,"file_size_bytes":1,"x":1}]}]}"#,
        r#"{"appends":[{"namespace":"n","table":"t","files":[{"path":"p","record_count":9223372036854775808,"file_size_bytes":1}]}]}"#,
        r#"{"appends":[{"namespace":"n","table":"t","files":[{"path":"p","record_count":1.0,"file_size_bytes":1}]}]}"#,
        r#"{"appends":[{"namespace":"n","table":"t","files":[{"path":"p","record_count":"1","file_size_bytes":1}]}]}"#,
        r#"{"appends":[{"namespace":"n","table":"t","expected_table_uuid":"nope","files":[]}]}"#,
        r#"{"appends":[{"namespace":"n","table":"t","files":[{"path":"p","record_count":1,"file_size_bytes":1,"column_stats":[{"field_id":1,"value_count":1,"null_count":0,"lower_bound":"%%"}]}]}]}"#,
    ] {
        assert!(serde_json::from_str::<CommitRequest>(bad).is_err(), "{bad}");
    }
}

proptest! {
    /// Whatever is accepted: snapshots dense, file ids dense, row ids tiled per table; whatever is refused: no trace.
    #[test]
    fn accepted_histories_tile(requests in proptest::collection::vec(
        (prop::bool::ANY, prop::option::of(0i64..14), 0i64..6, prop::bool::ANY), 1..40)
    ) {
        let mut state = state();
        let (mut head, mut next_id) = (state.head, state.next_file_id);
        let mut next_row = HashMap::from([("t", 0i64), ("u", 0i64)]);
        for (first, read, rows, two) in requests {
            let table = if first { "t" } else { "u" };
            let mut entries = vec![append(table, vec![file("a", rows), file("b", rows + 1)])];
            if two {
                entries.push(append(if first { "u" } else { "missing" }, vec![file("c", 1)]));
            }
            let request = appends(read, entries);
            let before = format!("{state:?}");
            match judge(&mut state, &request) {
                Err(_) => prop_assert_eq!(before, format!("{:?}", state)),
                Ok(accepted) => {
                    head += 1;
                    prop_assert_eq!(accepted.snapshot.0, head);
                    for f in &accepted.files {
                        prop_assert_eq!(f.id.0, next_id);
                        next_id += 1;
                        let table = if f.table.0 == 1 { "t" } else { "u" };
                        let next = next_row.get_mut(table).unwrap();
                        prop_assert_eq!(f.row_id_start, *next);
                        *next += f.registration.record_count;
                    }
                }
            }
            prop_assert_eq!((state.head, state.next_file_id), (head, next_id));
        }
    }
}

#[test]
fn a_target_that_appeared_later_says_where_it_came_from() {
    let mut state = state();
    state.targets.insert(FileId(40), target(9, None, None));
    state.targets.insert(FileId(41), TargetFile { compacted: true, begin_author: None, ..target(9, None, None) });
    for (file, parts) in [
        (40, ["`ns.t`", "table_inserted_into in snapshot 9 by `bob`", "cannot succeed"]),
        (41, ["`ns.t`", "table_compacted in snapshot 9 by an unnamed author", "cannot succeed"]),
    ] {
        let refusal = refused(&state, &delete(8, file, 1));
        assert_eq!(refusal.code, ErrorCode::CommitConflict);
        for part in parts {
            assert!(refusal.detail.contains(part), "{part}: {}", refusal.detail);
        }
    }
}

#[test]
fn no_file_can_fill_a_table_by_its_claims() {
    let ok = appends(None, vec![append("t", vec![file("a", 1)])]);
    let changed = |change: &dyn Fn(&mut CommitRequest)| {
        let mut request = ok.clone();
        change(&mut request);
        request.check(ROOT).err().map(|refusal| (refusal.code, refusal.detail))
    };
    let path = |bytes: usize| format!("{ROOT}/{}", "x".repeat(bytes - ROOT.len() - 1));
    assert_eq!(changed(&|r| r.appends[0].files[0].file_size_bytes = MAX_FILE_SIZE_BYTES), None);
    assert_eq!(changed(&|r| r.appends[0].files[0].path = path(MAX_PATH_BYTES)), None);
    let size = |bytes: i64| changed(&|r| r.appends[0].files[0].file_size_bytes = bytes);
    let named = |path: String| changed(&|r| r.appends[0].files[0].path = path.clone());
    for (refused, told) in [
        (size(MAX_FILE_SIZE_BYTES + 1), "0..="),
        (size(i64::MAX), "0..="),
        (named(path(MAX_PATH_BYTES + 1)), "2049 bytes"),
        (named(format!("{ROOT}/{}", "ü".repeat(MAX_PATH_BYTES / 2))), "too long"),
    ] {
        let (code, detail) = refused.expect("it is refused");
        assert_eq!(code, ErrorCode::Validation);
        assert!(detail.contains(told) && detail.len() < 400, "{detail}");
    }
    let mut vector = delete(1, 1, 1);
    vector.deletes[0].files[0].file_size_bytes = i64::MAX;
    assert_eq!(vector.check(ROOT).map_err(|refusal| refusal.code), Err(ErrorCode::Validation));
}
