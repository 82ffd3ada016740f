//! Rewriting: inputs of every vintage, judged row by row by pyarrow and DuckDB.

use crate::judges::judge;
use hoglake_formats::deletion_vector::DeletionVector;
use hoglake_formats::parquet::Column;
use hoglake_formats::parquet::footer::{RegisteredFile, footer_statistics};
use hoglake_formats::parquet::rewrite::{
    MakeWay, RewriteError, RewriteInput, RewriteOptions, Rewritten, RowIds, SortField, rewrite,
};
use hoglake_formats::store::{Object, StoreConfig, Stores};
use hoglake_model::{ColumnType, DecimalType, FieldId, Location};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// One input of a case: file name, first row id (none for explicit ones), deleted positions.
type Case<'a> = (&'a str, Option<i64>, Vec<u64>);

struct Bench {
    dir: tempfile::TempDir,
    stores: Stores,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        judge("rewrite.py", &["make", dir.path().to_str().unwrap()]);
        Self { dir, stores: Stores::new(StoreConfig { local: true, ..StoreConfig::default() }) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn object(&self, path: &Path) -> Object {
        self.stores.open(&Location::parse(path.to_str().unwrap()).unwrap()).unwrap()
    }

    fn input(&self, (name, first, deleted): &Case<'_>) -> RewriteInput {
        let path = self.path(name);
        let bytes = std::fs::metadata(&path).unwrap().len();
        RewriteInput {
            object: self.object(&path),
            file: RegisteredFile {
                file_size_bytes: bytes,
                footer_size: None,
                record_count: None,
                max_whole_object_bytes: 1 << 20,
            },
            row_ids: first.map_or(RowIds::Explicit, RowIds::Positional),
            deletions: (!deleted.is_empty()).then(|| DeletionVector::from_positions(deleted.iter().copied())),
            names: Vec::new(),
        }
    }

    async fn rewrite(
        &self,
        cases: &[Case<'_>],
        columns: &[Column],
        sort: &[SortField],
        options: &RewriteOptions,
    ) -> Result<Option<Rewritten>, RewriteError> {
        let inputs = cases.iter().map(|case| self.input(case)).collect();
        rewrite(inputs, columns, sort, &self.object(&self.path("out/o.parquet")), options).await
    }

    /// Rewrites and has every row judged; gives the result and what the judge saw.
    async fn judged(
        &self,
        cases: &[Case<'_>],
        columns: &[Column],
        sort: &[SortField],
        options: &RewriteOptions,
    ) -> (Rewritten, Value) {
        let rewritten = self.rewrite(cases, columns, sort, options).await.unwrap().unwrap();
        let output = self.path("out/o.parquet");
        let spec = json!({
            "inputs": cases.iter().map(|(name, first, deleted)| json!({
                "path": self.path(name), "first_row_id": first, "deleted": deleted})).collect::<Vec<_>>(),
            "columns": columns.iter().map(|c| json!({
                "id": c.field_id.0, "name": c.name, "type": c.ty.to_string()})).collect::<Vec<_>>(),
            "sort": sort.iter().map(|s| json!({
                "id": s.field_id.0, "descending": s.descending, "nulls_first": s.nulls_first})).collect::<Vec<_>>(),
            "output": output,
        });
        std::fs::write(self.path("spec.json"), spec.to_string()).unwrap();
        let seen = judge("rewrite.py", &["check", self.path("spec.json").to_str().unwrap()]);
        assert_eq!(seen["rows"], rewritten.record_count);
        assert_eq!(seen["min_row_id"], rewritten.min_row_id);
        // What is reported of the file is what the file says, and more exact.
        let file = RegisteredFile {
            file_size_bytes: rewritten.file_size_bytes,
            footer_size: Some(rewritten.footer_size),
            record_count: Some(rewritten.record_count),
            max_whole_object_bytes: 1 << 20,
        };
        let footer = footer_statistics(&self.object(&output), file, columns).await.unwrap();
        assert!(!footer.missing_field_ids && !footer.bound_by_name);
        assert_eq!(footer.footer_size, rewritten.footer_size);
        for (exact, read) in rewritten.statistics.iter().zip(&footer.columns) {
            assert_eq!(
                (exact.field_id, exact.null_count, exact.size_bytes),
                (read.field_id, read.null_count, read.size_bytes)
            );
            assert_eq!(exact.bounds, read.bounds, "{exact:?}");
        }
        (rewritten, seen)
    }
}

fn columns() -> Vec<Column> {
    let decimal = ColumnType::Decimal(DecimalType { precision: 20, scale: 2 });
    [
        ("k", ColumnType::String),
        ("n", ColumnType::Long),
        ("x", ColumnType::Double),
        ("dec", decimal),
        ("day", ColumnType::Date),
        ("t", ColumnType::Time),
        ("ts", ColumnType::Timestamp),
        ("tz", ColumnType::Timestamptz),
        ("u", ColumnType::Uuid),
        ("bin", ColumnType::Binary),
        ("flag", ColumnType::Boolean),
    ]
    .into_iter()
    .zip(1..)
    .map(|((name, ty), id)| Column { field_id: FieldId(id), name: name.to_owned(), ty, nullable: true })
    .collect()
}

fn by(id: i64, descending: bool, nulls_first: bool) -> SortField {
    SortField { field_id: FieldId(id), descending, nulls_first }
}

fn all_inputs() -> Vec<Case<'static>> {
    vec![
        ("plain.parquet", Some(10_000), (0..5000).step_by(7).collect()),
        ("old.parquet", Some(0), vec![0, 1, 2, 2999]),
        ("by-name.parquet", Some(50_000), vec![]),
        ("explicit.parquet", None, (100..200).collect()),
        ("empty.parquet", Some(60_000), vec![]),
        ("duckdb.parquet", Some(70_000), vec![5]),
    ]
}

/// Little memory: runs of a few thousand rows spill, and are merged in several passes.
fn cramped() -> RewriteOptions {
    RewriteOptions { memory_bytes: 0, row_group_rows: 3000, ..RewriteOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_vintage_is_mapped_and_sorted() {
    let bench = Bench::new();
    for sort in [
        vec![by(1, false, true), by(2, false, true)],
        vec![by(1, true, false), by(3, false, false)],
        vec![by(3, true, true), by(4, false, true)],
        vec![by(9, false, false)],
        vec![by(11, true, true), by(5, true, false), by(6, false, true), by(10, true, true), by(7, true, true)],
    ] {
        let (rewritten, _) = bench.judged(&all_inputs(), &columns(), &sort, &RewriteOptions::default()).await;
        assert_eq!(rewritten.record_count, 5000 - 715 + 3000 - 4 + 2500 + 1000 - 100 + 4000 - 1);
        assert_eq!(rewritten.min_row_id, 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn spilled_runs_give_the_same_rows() {
    let bench = Bench::new();
    let sort = [by(2, false, false), by(1, true, true)];
    let (_, seen) = bench.judged(&all_inputs(), &columns(), &sort, &cramped()).await;
    assert!(seen["row_groups"].as_i64().unwrap() > 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewrite_that_makes_way_gives_the_same_rows() {
    let bench = Bench::new();
    let make_way = MakeWay::when(Arc::new(AtomicBool::new(true)));
    for options in [RewriteOptions::default(), cramped()] {
        let options = RewriteOptions { make_way: make_way.clone(), ..options };
        bench.judged(&all_inputs(), &columns(), &[by(2, false, false)], &options).await;
        bench.judged(&all_inputs()[..3], &columns(), &[], &options).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unsorted_tables_keep_row_id_order() {
    let bench = Bench::new();
    // Disjoint ranges need no sort, whatever their order; explicit ids that jump do.
    let positional: Vec<Case<'_>> = all_inputs().into_iter().filter(|(_, first, _)| first.is_some()).collect();
    bench.judged(&positional, &columns(), &[], &cramped()).await;
    bench.judged(&all_inputs(), &columns(), &[], &RewriteOptions::default()).await;
    // Compacted once more: its ids ascend, as its metadata says, and are kept.
    std::fs::rename(bench.path("out/o.parquet"), bench.path("compacted.parquet")).unwrap();
    let again = [("compacted.parquet", None, vec![0, 17]), ("plain.parquet", Some(2_000_000), vec![])];
    let (rewritten, seen) = bench.judged(&again, &columns(), &[], &RewriteOptions::default()).await;
    assert_eq!(seen["types"].as_array().unwrap().len(), 12);
    assert_eq!(rewritten.min_row_id, 4);
    // Sorted first, then without a sort order: the metadata no longer promises row-id order.
    bench.judged(&all_inputs(), &columns(), &[by(1, false, true)], &cramped()).await;
    std::fs::rename(bench.path("out/o.parquet"), bench.path("sorted.parquet")).unwrap();
    bench.judged(&[("sorted.parquet", None, vec![3])], &columns(), &[], &cramped()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn field_ids_win_over_names_and_missing_columns_are_null() {
    let bench = Bench::new();
    let wanted = [
        columns()[1].clone(),
        Column { field_id: FieldId(99), name: "k".to_owned(), ty: ColumnType::String, nullable: false },
    ];
    let (rewritten, _) =
        bench.judged(&[("decoy.parquet", Some(7), vec![])], &wanted, &[], &RewriteOptions::default()).await;
    // The required column is written as optional, since the inputs cannot fill it.
    assert_eq!(rewritten.statistics[1].null_count, Some(3));
    assert_eq!(rewritten.statistics[0].bounds.lower(), Some(&1_i64.to_le_bytes()[..]));
    // Renamed since it was registered without ids: bound by the names of then.
    let renamed: Vec<Column> =
        columns()[..2].iter().map(|c| Column { name: format!("new_{}", c.name), ..c.clone() }).collect();
    let mut input = bench.input(&("by-name.parquet", Some(0), vec![]));
    input.names = columns();
    let output = bench.object(&bench.path("out/o.parquet"));
    let rewritten = rewrite(vec![input], &renamed, &[], &output, &RewriteOptions::default()).await.unwrap().unwrap();
    assert!(rewritten.statistics.iter().all(|s| s.null_count < Some(2500)));
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_without_survivors_write_nothing() {
    let bench = Bench::new();
    let gone = [("decoy.parquet", Some(0), vec![0, 1, 2]), ("empty.parquet", Some(3), vec![])];
    for sort in [vec![], vec![by(2, false, true)]] {
        let result = bench.rewrite(&gone, &columns(), &sort, &RewriteOptions::default()).await.unwrap();
        assert_eq!(result, None);
        assert!(!bench.path("out/o.parquet").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_that_do_not_fit_are_refused_by_kind() {
    let bench = Bench::new();
    let options = RewriteOptions::default();
    let refused = async |case: Case<'_>, columns: &[Column]| {
        let error = bench.rewrite(&[case], columns, &[], &options).await.unwrap_err();
        assert!(!error.is_transient() && !bench.path("out/o.parquet").exists());
        error
    };
    for ty in [ColumnType::Int, ColumnType::Timestamp, ColumnType::String, ColumnType::Double] {
        let columns = [Column { ty, ..columns()[1].clone() }];
        let error = refused(("plain.parquet", Some(0), vec![]), &columns).await;
        assert!(error.is_unconvertible() && error.to_string().contains("column `n`"), "{error}");
    }
    let decimal = ColumnType::Decimal(DecimalType { precision: 20, scale: 3 });
    let error = refused(("plain.parquet", Some(0), vec![]), &[Column { ty: decimal, ..columns()[3].clone() }]).await;
    assert!(error.is_unconvertible());
    for (case, what) in [
        (("plain.parquet", None, vec![]), "no row ids of its own"),
        (("explicit.parquet", Some(0), vec![]), "registered without"),
        (("plain.parquet", Some(0), vec![5000]), "deletes row 5000"),
        (("plain.parquet", Some(i64::MAX - 10), vec![]), "64-bit"),
    ] {
        let error = refused(case, &columns()).await;
        assert!(matches!(error, RewriteError::Mismatch { .. }) && error.to_string().contains(what), "{error}");
    }
    let error =
        bench.rewrite(&[("plain.parquet", Some(0), vec![])], &columns(), &[by(77, false, true)], &options).await;
    assert!(matches!(error, Err(RewriteError::Internal(_))));
}
