//! Two servers on one database share the work, and do none of it twice: counted in the ledger, and by what they ask the
//! object store for.

use super::lake::Lake;
use hoglake_testkit::server::{ServerCommand, ServerProcess};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Files, registered a few at a time, so that there is work for both servers at any moment.
const FILES: i64 = 240;
const AT_A_TIME: i64 = 8;

/// Two servers that do these tasks on their own, and no others.
fn servers(lake: &Lake, tasks: &[&str]) -> Vec<ServerProcess> {
    let server = || {
        let mut command = lake
            .reaches_its_objects(ServerCommand::serve())
            .env("HOGLAKE_COMPACTION_MAX_GROUPS_PER_RUN", "2")
            .env("HOGLAKE_TEMP_DIR", lake.folder.path().to_string_lossy());
        for timer in ["HYDRATOR", "EXPIRY", "CLEANUP", "COMPACTION"] {
            let interval = if tasks.contains(&timer) { "20" } else { "0" };
            command = command.env(&format!("HOGLAKE_{timer}_INTERVAL_MS"), interval);
        }
        tokio::task::block_in_place(|| command.start())
    };
    vec![server(), server()]
}

/// Waits until `left` is none; while it is, `servers` go on.
async fn until_none(lake: &Lake, servers: &[ServerProcess], left: &'static str) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while lake.number(left).await > 0 {
        assert!(Instant::now() < deadline, "{left}\n{}\n{}", servers[0].log(), servers[1].log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn stop(servers: Vec<ServerProcess>) {
    for server in servers {
        assert!(tokio::task::block_in_place(|| server.stop()).success());
    }
}

/// The sum of a count over all runs of a task.
async fn sum(lake: &Lake, task: &str, name: &str) -> i64 {
    let sum = "select coalesce(sum((result->>$2)::bigint), 0)::bigint from maintenance_run where task = $1";
    sqlx::query_scalar(sum).bind(task).bind(name).fetch_one(&lake.pool).await.unwrap()
}

/// How often each object below `data/` was asked for by this method.
fn asked(lake: &Lake, method: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in lake.store.as_ref().unwrap().lines() {
        let (found, target) = line.split_once(' ').unwrap();
        let key = target.split('?').next().unwrap();
        if found == method && key.contains("/data/") {
            *counts.entry(key.to_owned()).or_default() += 1;
        }
    }
    counts
}

async fn nothing_went_wrong(lake: &Lake) {
    assert_eq!(lake.number("select count(*) from maintenance_run where result is null or error is not null").await, 0);
    lake.verified().await;
    assert!(lake.orphans().await.is_empty());
    lake.store.as_ref().unwrap().forget();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_share_the_work_and_do_none_of_it_twice() {
    let mut lake = Lake::on_s3(false).await;
    // a group takes four of the files
    let hydrators = servers(&lake, &["HYDRATOR"]);
    for batch in 0..FILES / AT_A_TIME {
        let ids = batch * AT_A_TIME..(batch + 1) * AT_A_TIME;
        let files = ids.map(|i| lake.write(&[(i, Some("x")), (i + 1_000, None)])).collect();
        lake.register(files).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let before = lake.rows_at(lake.head().await).await;
    until_none(&lake, &hydrators, "select count(*) from data_file where stats_state = 'pending'").await;
    stop(hydrators);
    assert_eq!((sum(&lake, "hydrate", "hydrated").await, sum(&lake, "hydrate", "failed").await), (FILES, 0));
    assert_eq!(sum(&lake, "hydrate", "retried").await, 0);
    let footers = asked(&lake, "GET");
    assert_eq!(footers.len() as i64, FILES);
    assert!(footers.values().all(|reads| *reads == 1), "{footers:?}");
    nothing_went_wrong(&lake).await;

    // whatever is not compacted yet may be compacted into one with others; so may outputs
    let compactors = servers(&lake, &["COMPACTION"]);
    let small = "select count(*) - 1 from data_file where end_snapshot is null";
    until_none(&lake, &compactors, small).await;
    stop(compactors);
    let commits = lake.number("select count(*) from snapshot_change where kind = 'table_compacted'").await;
    let replaced = lake.number("select count(*) from data_file where end_snapshot is not null").await;
    let mut compacted = Vec::new();
    for name in ["groups_compacted", "files_in", "files_out", "skipped_conflicts", "dv_superseded"] {
        compacted.push(sum(&lake, "compact", name).await);
    }
    assert_eq!(compacted, [commits, replaced, commits, 0, 0]);
    // each output was written once, and none in vain
    let written: BTreeMap<_, _> =
        asked(&lake, "PUT").into_iter().filter(|(key, _)| key.contains("/compacted-")).collect();
    assert_eq!(written.len() as i64, commits);
    assert!(written.values().all(|uploads| *uploads == 1), "{written:?}");
    // each input was read by one of the servers: as often as any other
    let read: BTreeSet<usize> = asked(&lake, "GET").into_values().collect();
    assert_eq!(read.len(), 1, "{read:?}");
    assert_eq!(lake.number("select count(*) from file_removal where settled_at is null").await, 0);
    assert_eq!(lake.rows_at(lake.head().await).await, before);
    nothing_went_wrong(&lake).await;

    lake.age(0).await;
    let cleaners = servers(&lake, &["EXPIRY", "CLEANUP"]);
    until_none(&lake, &cleaners, "select count(*) - 1 from data_file").await;
    until_none(&lake, &cleaners, "select count(*) from file_removal where settled_at is null").await;
    // the last of them writes its run down
    until_none(&lake, &cleaners, "select count(*) from maintenance_run where finished_at is null").await;
    stop(cleaners);
    let mut cleaned = Vec::new();
    for name in ["removed", "missing", "still_referenced", "failed"] {
        cleaned.push(sum(&lake, "cleanup", name).await);
    }
    assert_eq!(cleaned, [replaced, 0, 0, 0]);
    assert_eq!(sum(&lake, "expire", "data_files_queued").await, replaced);
    let deleted = lake.store.as_ref().unwrap().deleted();
    let distinct: BTreeSet<&String> = deleted.iter().collect();
    assert_eq!((deleted.len() as i64, distinct.len() as i64), (replaced, replaced));
    assert!(asked(&lake, "DELETE").is_empty());
    let once =
        "select count(*) from file_removal where reason = 'snapshot_expiry' and outcome = 'deleted' and attempts = 1";
    assert_eq!(lake.number(once).await, replaced);
    assert_eq!(lake.rows_at(lake.head().await).await, before);
    nothing_went_wrong(&lake).await;
}
