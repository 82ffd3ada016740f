//! Random histories over real files, against a model of their rows: verify passes after every step, and every retained
//! snapshot shows the same rows.

use super::lake::{Lake, Row, live_files};
use hoglake_catalog::Error;
use hoglake_model::ErrorCode;
use hoglake_server::worker::Trigger;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Debug, Clone)]
enum Step {
    Append(Vec<(i64, Option<u8>)>),
    Delete { nth: usize, rows: Vec<usize> },
    AddColumn(&'static str),
    PromoteColumn(usize),
    RenameColumn(usize),
    DropColumn(usize),
    Hydrate,
    Compact,
    Expire { keep: i64 },
    Clean,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let rows = proptest::collection::vec((any::<i64>(), proptest::option::of(0_u8..5)), 0..6);
    let step = prop_oneof![
        5 => rows.prop_map(Step::Append),
        3 => (0_usize..20, proptest::collection::vec(0_usize..6, 1..4)).prop_map(|(nth, rows)| Step::Delete { nth, rows }),
        1 => prop_oneof![Just("int"), Just("float"), Just("string")].prop_map(Step::AddColumn),
        1 => (0_usize..9).prop_map(Step::PromoteColumn),
        1 => (0_usize..9).prop_map(Step::RenameColumn),
        1 => (0_usize..9).prop_map(Step::DropColumn),
        1 => Just(Step::Hydrate),
        2 => Just(Step::Compact),
        2 => (0_i64..5).prop_map(|keep| Step::Expire { keep }),
        1 => Just(Step::Clean),
    ];
    proptest::collection::vec(step, 6..24)
}

/// What a delete step is about: a file with rows, and all of its deleted positions afterwards, if there are new ones.
async fn deletion(lake: &Lake, nth: usize, rows: &[usize]) -> Option<(i64, BTreeSet<u64>)> {
    let live = live_files(lake).await;
    let candidates: Vec<_> = live.into_iter().filter(|(_, (rows, _))| *rows > 0).collect();
    let (id, (count, mut deleted)) = candidates.get(nth % candidates.len().max(1)).cloned()?;
    let before = deleted.len();
    deleted.extend(rows.iter().map(|row| *row as u64 % count));
    (deleted.len() > before).then_some((id, deleted))
}

/// A row that is appended now, with what [`Lake::write`] makes up for added columns.
fn row(lake: &Lake, row_id: i64, id: i64, name: Option<u8>) -> Row {
    let mut values = BTreeMap::from([(1, id.to_string())]);
    values.extend(name.map(|n| (2, format!("n{n}"))));
    for (field, _, ty) in lake.added.iter().filter(|_| id % 3 != 0) {
        let small = id % 1000 - field;
        let is_real = ty == "float" || ty == "double";
        let text = if is_real { format!("{:?}", small as f64 / 4.0) } else { small.to_string() };
        values.insert(*field, text);
    }
    (row_id, values)
}

/// The model: the rows after a step, by what it does to those before.
async fn model(lake: &Lake, mut rows: Vec<Row>, step: &Step) -> Vec<Row> {
    match step {
        Step::Append(appended) => {
            let next = lake.number("select next_row_id from table_counter where table_id = 1").await;
            rows.extend((next..).zip(appended).map(|(row_id, (id, name))| row(lake, row_id, *id, *name)));
        }
        Step::Delete { nth, rows: positions } => {
            if let Some((file, deleted)) = deletion(lake, *nth, positions).await {
                let of_file = lake.row_ids_of(file).await;
                let gone: BTreeSet<i64> = deleted.iter().map(|at| of_file[usize::try_from(*at).unwrap()]).collect();
                rows.retain(|(row_id, _)| !gone.contains(row_id));
            }
        }
        Step::DropColumn(nth) => {
            if let Some((field, ..)) = lake.added.get(nth % lake.added.len().max(1)) {
                rows.iter_mut().for_each(|(_, values)| drop(values.remove(field)));
            }
        }
        _ => {}
    }
    rows.sort();
    rows
}

async fn apply(lake: &mut Lake, step: &Step) {
    match step {
        Step::Append(rows) => {
            let names: Vec<Option<String>> = rows.iter().map(|r| r.1.map(|n| format!("n{n}"))).collect();
            let rows: Vec<_> = rows.iter().zip(&names).map(|(r, name)| (r.0, name.as_deref())).collect();
            lake.append(&rows).await;
        }
        Step::Delete { nth, rows } => {
            if let Some((file, deleted)) = deletion(lake, *nth, rows).await {
                lake.delete(file, &deleted).await;
            }
        }
        Step::AddColumn(ty) => {
            let name = format!("added_{}", lake.head().await);
            lake.alter(json!({"op": "add_column", "column": {"name": name, "type": ty}})).await;
        }
        Step::PromoteColumn(nth) => {
            let narrow: Vec<_> = lake.added.iter().filter(|(_, _, ty)| ty == "int" || ty == "float").collect();
            let Some((_, name, ty)) = narrow.get(nth % narrow.len().max(1)) else { return };
            let to = if ty == "int" { "long" } else { "double" };
            let op = json!({"op": "promote_column", "name": name, "to": to});
            lake.alter(op).await;
        }
        Step::RenameColumn(nth) => {
            let names = "select name from table_column where field_id > 1 and end_snapshot is null order by field_id";
            let names: Vec<String> = sqlx::query_scalar(names).fetch_all(&lake.pool).await.unwrap();
            let to = format!("renamed_{}", lake.head().await);
            let op = json!({"op": "rename_column", "from": names[nth % names.len()], "to": to});
            let pending = "select count(*) from data_file where stats_state = 'pending' and end_snapshot is null";
            if lake.number(pending).await > 0 {
                // nobody knows yet whether those carry field ids
                let refused = lake.try_alter(op.clone()).await;
                let Err(Error::Refused(refusal)) = refused else { panic!("{op}: {refused:?}") };
                assert_eq!(refusal.code, ErrorCode::IdlessFilesPresent, "{refusal:?}");
                lake.worker.hydrate(&lake.catalog, Duration::from_secs(9), Trigger::Timer).await.unwrap();
            }
            lake.alter(op).await;
        }
        Step::DropColumn(nth) => {
            let Some((_, name, _)) = lake.added.get(nth % lake.added.len().max(1)) else { return };
            let op = json!({"op": "drop_column", "name": name});
            lake.alter(op).await;
        }
        Step::Hydrate => {
            let status = lake.worker.hydrate(&lake.catalog, Duration::from_secs(9), Trigger::Timer).await.unwrap();
            assert_eq!((status.failed, status.retried), (0, 0), "{status:?}");
        }
        Step::Compact => {
            let status = lake.worker.compact(&lake.catalog, 4, false, Trigger::Timer).await.unwrap();
            assert!(status.failures.is_empty(), "{status:?}");
            assert_eq!(status.skipped_conflicts + status.dv_superseded + status.unconvertible_schema, 0);
        }
        Step::Expire { keep } => {
            lake.age(*keep).await;
            lake.worker.expire(&lake.catalog, 1000, false, Trigger::Timer).await.unwrap();
        }
        Step::Clean => {
            let status = lake.worker.clean(&lake.catalog, 1000, false, Trigger::Timer).await.unwrap();
            assert_eq!((status.missing, status.still_referenced, status.failed), (0, 0, 0), "{status:?}");
        }
    }
}

async fn replay(steps: Vec<Step>) {
    let mut lake = Lake::new(steps.len().is_multiple_of(2)).await;
    let mut rows = Vec::new();
    let mut seen: BTreeMap<i64, Vec<Row>> = BTreeMap::new();
    for step in &steps {
        rows = model(&lake, rows, step).await;
        apply(&mut lake, step).await;
        let head = lake.head().await;
        seen.insert(head, rows.clone());
        let floor = lake.number("select earliest_snapshot from catalog").await;
        for (snapshot, rows) in seen.range(floor..) {
            assert_eq!(&lake.rows_at(*snapshot).await, rows, "snapshot {snapshot} after {step:?}");
        }
        lake.verified().await;
        assert!(lake.orphans().await.is_empty());
    }
}

#[test]
fn maintenance_never_changes_what_a_snapshot_shows() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = Config { cases: 16, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&steps(), |steps| {
            runtime.block_on(replay(steps));
            Ok(())
        })
        .unwrap();
}
