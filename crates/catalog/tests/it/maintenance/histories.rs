//! Random histories: whatever happens in whatever order, verify passes after each step and every retained snapshot shows
//! the same rows as when it was made.

use super::{DEMO, delete};
use crate::lake::{Lake, append, file};
use crate::maintenance::compaction::output;
use hoglake_catalog::expiry::ExpiryLimits;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
enum Step {
    Append { table: bool, files: usize, rows: i64 },
    Delete { nth: usize, more: i64 },
    Compact { groups: usize },
    AbandonCompaction,
    Expire { keep: i64, page: i64 },
    Fold,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (any::<bool>(), 1_usize..5, 0_i64..9).prop_map(|(table, files, rows)| Step::Append { table, files, rows }),
        3 => (0_usize..40, 1_i64..4).prop_map(|(nth, more)| Step::Delete { nth, more }),
        2 => (1_usize..3).prop_map(|groups| Step::Compact { groups }),
        1 => Just(Step::AbandonCompaction),
        2 => (0_i64..6, 1_i64..5).prop_map(|(keep, page)| Step::Expire { keep, page }),
        1 => Just(Step::Fold),
    ];
    proptest::collection::vec(step, 8..30)
}

/// Live rows a table at a snapshot: files minus vectors.
async fn rows_at(lake: &Lake, snapshot: i64) -> Vec<(i64, i64)> {
    sqlx::query_as(
        "select f.table_id, sum(f.record_count - coalesce(d.delete_count, 0))::bigint
         from data_file f left join delete_file d on d.data_file_id = f.data_file_id
           and d.begin_snapshot <= $1 and (d.end_snapshot is null or $1 < d.end_snapshot)
         where f.begin_snapshot <= $1 and (f.end_snapshot is null or $1 < f.end_snapshot)
         group by f.table_id order by f.table_id",
    )
    .bind(snapshot)
    .fetch_all(&lake.pool)
    .await
    .unwrap()
    .into_iter()
    .filter(|(_, rows)| *rows > 0)
    .collect()
}

async fn head(lake: &Lake) -> i64 {
    lake.head().await.0
}

async fn apply(lake: &Lake, step: &Step, serial: usize) {
    match step {
        Step::Append { table, files, rows } => {
            let files = (0..*files).map(|i| file(&format!("s{serial}-{i}"), *rows)).collect();
            lake.commit(append(if *table { "t" } else { "u" }, files)).await.unwrap();
        }
        Step::Delete { nth, more } => {
            let live: Vec<(i64, i64, i64, i64)> = sqlx::query_as(
                "select f.data_file_id, f.table_id, f.record_count, coalesce(d.delete_count, 0)
                 from data_file f left join delete_file d
                   on d.data_file_id = f.data_file_id and d.end_snapshot is null
                 where f.end_snapshot is null and f.record_count > coalesce(d.delete_count, 0) order by 1",
            )
            .fetch_all(&lake.pool)
            .await
            .unwrap();
            if live.is_empty() {
                return;
            }
            let (id, table, records, deleted) = live[nth % live.len()];
            let count = (deleted + more).min(records);
            let table = if table == 1 { "t" } else { "u" };
            lake.commit(delete(table, head(lake).await, id, count)).await.unwrap();
        }
        Step::Compact { groups } => {
            for group in lake.catalog.compaction_plan(DEMO, 2, *groups).await.unwrap() {
                let mut claimed = lake.catalog.compaction_claim(DEMO, group).await.unwrap().unwrap();
                if claimed.group.live_rows() == 0 {
                    lake.catalog.compaction_commit(&claimed, None).await.unwrap();
                } else {
                    let path = format!("s3://lake/demo/compacted-{}", claimed.claimant);
                    lake.catalog.compaction_stage(&mut claimed, &path).await.unwrap();
                    lake.catalog.compaction_commit(&claimed, Some(&output(&claimed))).await.unwrap();
                }
            }
        }
        Step::AbandonCompaction => {
            for group in lake.catalog.compaction_plan(DEMO, 2, 1).await.unwrap() {
                let mut claimed = lake.catalog.compaction_claim(DEMO, group).await.unwrap().unwrap();
                let path = format!("s3://lake/demo/abandoned-{}", claimed.claimant);
                lake.catalog.compaction_stage(&mut claimed, &path).await.unwrap();
                lake.catalog.compaction_release(&claimed).await.unwrap();
            }
        }
        Step::Expire { keep, page } => {
            sqlx::query("update snapshot set snapshot_time = case when snapshot_id > $1 then now() else now() - interval '1 hour' end")
                .bind(head(lake).await - keep)
                .execute(&lake.pool)
                .await
                .unwrap();
            lake.execute("update catalog set snapshot_retention_seconds = 60").await;
            let limits = ExpiryLimits { page: *page, ..ExpiryLimits::default() };
            lake.catalog.expire(DEMO, limits).await.unwrap();
        }
        Step::Fold => {
            lake.catalog.partition_totals_fold(DEMO, None).await.unwrap();
        }
    }
}

async fn replay(steps: Vec<Step>) {
    let lake = Lake::new().await;
    let mut seen: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
    for (serial, step) in steps.iter().enumerate() {
        apply(&lake, step, serial).await;
        lake.verified().await;
        let now = head(&lake).await;
        let floor = lake.number("select earliest_snapshot from catalog").await;
        let rows = rows_at(&lake, now).await;
        seen.entry(now).or_insert(rows);
        for (snapshot, rows) in seen.range(floor..) {
            assert_eq!(&rows_at(&lake, *snapshot).await, rows, "snapshot {snapshot} after {step:?}");
        }
        let report = lake.catalog.partition_report("demo", None, None, 500).await.unwrap();
        let live = lake.number("select count(*) from data_file where end_snapshot is null").await;
        assert_eq!(report.partitions.iter().map(|p| p.file_count).sum::<i64>(), live);
        let vectors = lake.number("select count(*) from delete_file where end_snapshot is null").await;
        assert_eq!(report.partitions.iter().map(|p| p.dv_count).sum::<i64>(), vectors);
        assert_eq!(lake.number("select live_file_count from catalog").await, live);
    }
}

#[test]
fn verify_passes_and_history_stands_still() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = Config { cases: 12, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&steps(), |steps| {
            runtime.block_on(replay(steps));
            Ok(())
        })
        .unwrap();
}
