//! Random histories over real files: verify passes after every step, and every retained snapshot shows the same rows.

use super::lake::{Lake, Row, live_files};
use hoglake_catalog::Error;
use hoglake_model::ErrorCode;
use hoglake_server::worker::Trigger;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use std::collections::BTreeMap;
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

async fn apply(lake: &mut Lake, step: &Step) {
    match step {
        Step::Append(rows) => {
            let names: Vec<Option<String>> = rows.iter().map(|r| r.1.map(|n| format!("n{n}"))).collect();
            let rows: Vec<_> = rows.iter().zip(&names).map(|(r, name)| (r.0, name.as_deref())).collect();
            lake.append(&rows).await;
        }
        Step::Delete { nth, rows } => {
            let live = live_files(lake).await;
            let candidates: Vec<_> = live.into_iter().filter(|(_, (rows, _))| *rows > 0).collect();
            let Some((id, (count, mut deleted))) = candidates.get(nth % candidates.len().max(1)).cloned() else {
                return;
            };
            let before = deleted.len();
            deleted.extend(rows.iter().map(|row| *row as u64 % count));
            if deleted.len() > before {
                lake.delete(id, &deleted).await;
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
    let mut seen: BTreeMap<i64, Vec<Row>> = BTreeMap::new();
    for step in &steps {
        let before = lake.head().await;
        let rows_before = lake.rows_at(before).await;
        apply(&mut lake, step).await;
        let head = lake.head().await;
        if !matches!(step, Step::Append(_) | Step::Delete { .. } | Step::DropColumn(_)) {
            assert_eq!(lake.rows_at(head).await, rows_before, "{step:?} changed rows");
        }
        seen.insert(head, lake.rows_at(head).await);
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
