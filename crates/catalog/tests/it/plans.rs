//! Plans of the hot queries, on a catalog large enough that a wrong plan would show: every one goes through an index.
//!
//! The plans are checked in under `plans/` (those of a database with nothing in it under `plans/empty/`), as Postgres 15 makes them; other versions are held to "no sequential scan"
//! only. After a change: `HOGLAKE_BLESS=1 cargo test -p hoglake-catalog plans` on Postgres 15, and read the difference.

use crate::lake::{Lake, append, file};
use hoglake_catalog::idempotency::IdempotencyKey;
use sqlx::{AssertSqlSafe, PgConnection};

/// A statement of the store and values for its parameters, as SQL.
struct Hot {
    name: &'static str,
    sql: &'static str,
    values: &'static str,
}

macro_rules! hot {
    ($name:literal, $values:literal) => {
        Hot { name: $name, sql: include_str!(concat!("../../sql/", $name, ".sql")), values: $values }
    };
}

const HOT: &[Hot] = &[
    hot!("catalog/get", "1"),
    hot!("catalog/lock_head", "1"),
    hot!("catalog/overlapping", "'s3://lake/other'"),
    hot!("consumer/get_offset", "1, 'c7', '00000000-0000-4000-8000-000000000001'"),
    hot!("consumer/list_offsets", "1, 'c7'"),
    hot!("consumer/put_offset", "1, 'c7', '00000000-0000-4000-8000-000000000001', 5"),
    hot!("export/head", "1"),
    hot!("idempotency/find", "1, 'k7'"),
    hot!("idempotency/settle", "1, 'k7', 200, '{}'"),
    hot!("namespace/at", "1, 'n7', 900"),
    hot!("namespace/live", "1, 'n7'"),
    hot!("snapshot/list_after", "1, 500, 100"),
    hot!("snapshot/list_before", "1, 500, 100"),
    hot!("snapshot/resolve", "1, 500, null"),
    hot!("snapshot/time", "1, 500"),
    hot!("table/definition", "1, 77, 19000"),
    hot!("table/end_columns", "1, 77, 30001, null"),
    hot!("table/end_version", "1, 77, 30001"),
    hot!("table/find_at", "1, 'ns', 't77', 19000"),
    hot!("table/live_name", "1, 1, 't77'"),
    hot!("table/mark_dropped", "1, 77, 30001"),
    hot!("table/surroundings", "1, 77, 1, array['x'], true"),
    hot!("table/totals", "1, 77"),
    hot!("table/totals_at", "1, 77, 900"),
    hot!("view/find_live", "1, 1, 'v7'"),
];

/// What the group committer runs under the lock, with the settings of its connections.
const UNDER_THE_LOCK: &[Hot] = &[
    hot!("commit/load", "1, '{ns}', '{t77}', '{s3://lake/x}'"),
    Hot {
        name: "commit/load_conflicts",
        // together with load.sql, whose parameters it shares
        sql: concat!(
            "select * from (",
            include_str!("../../sql/commit/load.sql"),
            ") as state cross join (",
            include_str!("../../sql/commit/load_conflicts.sql"),
            ") as conflicts"
        ),
        values: "1, '{ns}', '{t77}', '{s3://lake/x}', '{19000}', '{5}', '{k7}'",
    },
    hot!("commit/schemas", "1, '{77}'"),
    hot!(
        "commit/write",
        "1, 2, 1, '{ann}', '{why}', '{30001}', '{1}', '{table_inserted_into}', '{77}', '{900001}', '{77}', '{30001}', \
         '{s3://lake/x}', '{1}', '{1}', '{1}', '{0}', '{null}', '{null}', '{t}', '{77}', '{1}', '{1}', '{1}', '{1}', \
         '{900001}', '{\"{1}\"}', '{\"{1}\"}', '{\"{0}\"}', '{\"{0}\"}', '{\"{1}\"}', '{\"{null}\"}', '{\"{null}\"}'"
    ),
    hot!("commit/replace_vectors", "1, '{5}', '{30001}'"),
    hot!("commit/committed", "1, 30000, now(), '700'"),
];

/// What background work runs every few seconds, whatever the size of the catalog.
const MAINTENANCE: &[Hot] = &[
    hot!("compaction/candidates", "1, 77, 1000000, '{0}', array[md5('')::uuid], 4096"),
    hot!("compaction/check", "1, 77, '{76,2076}', '{100076,null}'"),
    hot!("compaction/claim", "1, '00000000-0000-4000-8000-000000000001', 900, '{30001,30002}'"),
    hot!("compaction/debts", "1, 100"),
    hot!("compaction/discard", "500, '00000000-0000-4000-8000-000000000001'"),
    hot!("compaction/fail", "1, '{30001,30002}', 60, 21600, 'why'"),
    hot!("compaction/forget", "1"),
    hot!("compaction/held", "1"),
    hot!("compaction/hold", "1, '{30001,30002}', '00000000-0000-4000-8000-000000000001'"),
    hot!("compaction/release", "'00000000-0000-4000-8000-000000000001', 77"),
    hot!("compaction/renew", "'00000000-0000-4000-8000-000000000001', 900, 77"),
    hot!("compaction/specs", "1, 77"),
    hot!("compaction/ticket", "77, '00000000-0000-4000-8000-000000000001'"),
    hot!(
        "compaction/write",
        "1, 77, '{76,2076}', 50000, 's3://lake/demo/out', 10, 100, 10, 760, 1, null, '{1}', '{10}', '{0}', '{null}', \
         '{80}', '{null}', '{null}', 500"
    ),
    hot!("expiry/advance", "1, 1000"),
    hot!("expiry/dropped_tables", "1, 1000, 100"),
    hot!("expiry/due", "1, 1000"),
    hot!("expiry/forget_dropped_table", "1, 7"),
    hot!("expiry/inspect", "1"),
    hot!("expiry/preview", "1, 1000"),
    hot!("expiry/purge_versions", "1, 1000"),
    hot!("hydration/claim", "1, '00000000-0000-4000-8000-000000000001', 300, 1024"),
    hot!("hydration/columns", "1, '{77,78}', '{19000,19001}'"),
    hot!("hydration/fail", "1, '00000000-0000-4000-8000-000000000001', '{50,100}', '{a,b}'"),
    hot!("hydration/failures", "1, 20"),
    hot!("hydration/release", "1, '00000000-0000-4000-8000-000000000001', '{50,100}'"),
    hot!("hydration/requeue", "1, 77"),
    hot!("hydration/retry", "1, '00000000-0000-4000-8000-000000000001', '{50,100}', '{5,5}', '{a,b}'"),
    hot!(
        "hydration/settle",
        "1, '00000000-0000-4000-8000-000000000001', '{50,100}', '{f,f}', '{9,9}', '{50}', '{\"{1}\"}', '{\"{1}\"}', \
         '{\"{0}\"}', '{\"{null}\"}', '{\"{8}\"}', '{\"{null}\"}', '{\"{null}\"}'"
    ),
    hot!("lease/acquire", "1, 'expire', '00000000-0000-4000-8000-000000000001', 120"),
    hot!("lease/release", "1, 'expire', '00000000-0000-4000-8000-000000000001', 7"),
    hot!("lease/renew", "1, 'expire', '00000000-0000-4000-8000-000000000001', 7, 120"),
    hot!("maintenance_run/abandon", "1, 60, 'why'"),
    hot!("maintenance_run/finish", "500, '{}', null"),
    hot!("maintenance_run/give_up", "500, 'why'"),
    hot!("maintenance_run/list", "1, null, 100, 60"),
    hot!("maintenance_run/recent", "1, 'verify', 86400"),
    hot!("maintenance_run/seen", "500"),
    hot!("maintenance_run/verified", "'2100-01-01T00:00:00Z', 1000"),
    hot!("maintenance_run/purge", "1, 86400, 100"),
    hot!("partition_total/clear", "1"),
    hot!("partition_total/declare", "1"),
    hot!("partition_total/fold", "1, 19990, 1000, 2000"),
    hot!("partition_total/lock", "1"),
    hot!("partition_total/report", "1, null, null, 100"),
    Hot { name: "partition_total/report of a table", ..hot!("partition_total/report", "1, 'ns', 't77', 100") },
    hot!("partition_total/scope", "1, 'ns', 't77'"),
    hot!("partition_total/state", "1"),
    hot!("partition_total/sweep", "1"),
    hot!("removal/claim", "1, '00000000-0000-4000-8000-000000000001', 900, 0, 1000, '2100-01-01T00:00:00Z'"),
    hot!("removal/hold", "'00000000-0000-4000-8000-000000000001', '{5,6}', 600, 900"),
    hot!("removal/list", "1, null, null, 100, 900"),
    hot!("removal/preview", "1, 0, 1000, '2100-01-01', null, null"),
    hot!("removal/purge", "1, 86400, 1000"),
    hot!("removal/referenced", "'{s3://lake/demo/5,s3://lake/demo/gone5}'"),
    hot!("removal/give_back", "'00000000-0000-4000-8000-000000000001', '{5,6}'"),
    hot!("removal/release", "'00000000-0000-4000-8000-000000000001', '{5,6}', '{a,b}'"),
    hot!("removal/settle", "'00000000-0000-4000-8000-000000000001', '{5,6}', 'deleted'"),
];

/// Pages of a purge, with the settings of its transactions.
const PURGES: &[Hot] = &[
    hot!("expiry/purge_vectors", "1, 1000, 5000"),
    hot!("expiry/purge_files", "1, 1000, 5000, null"),
    Hot { name: "expiry/purge_files of a table", ..hot!("expiry/purge_files", "1, 1000, 5000, 77") },
    hot!("expiry/purge_snapshots", "1, 1000, 5000"),
    hot!("expiry/purge_keys", "1, 1000, 5000"),
];

/// A moment is looked up on another path than an id.
const AT_TIMESTAMP: &str = "1, null, '2026-01-01T00:00:00Z'";

/// Where the plan of a statement is checked in.
fn checked_in(folder: &str, name: &str) -> String {
    format!("{}/tests/it/{folder}/{}.txt", env!("CARGO_MANIFEST_DIR"), name.replace(['/', ' '], "_"))
}

/// Compares `plan` with the one at `file`, or writes it there when told to.
fn compare(file: &str, name: &str, plan: &str, problems: &mut Vec<String>) {
    if std::env::var_os("HOGLAKE_BLESS").is_some() {
        std::fs::write(file, format!("{plan}\n")).unwrap();
    } else if std::fs::read_to_string(file).unwrap_or_default().trim_end() != plan {
        problems.push(format!("{name} has another plan than the one checked in at {file}:\n{plan}"));
    }
}

async fn version(connection: &mut PgConnection) -> i32 {
    let version = "select current_setting('server_version_num')::int / 10000";
    sqlx::query_scalar(version).fetch_one(connection).await.unwrap()
}

async fn explain(connection: &mut PgConnection, sql: &str, values: &str) -> String {
    let prepare = format!("prepare hot as {sql}");
    sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut *connection).await.unwrap();
    let explain = format!("explain (costs off) execute hot({values})");
    let lines: Vec<String> =
        sqlx::query_scalar(AssertSqlSafe(explain)).persistent(false).fetch_all(&mut *connection).await.unwrap();
    sqlx::raw_sql("deallocate hot").execute(&mut *connection).await.unwrap();
    // two indexes that begin with the catalog: for all tables of one they cost the same, and either is taken
    let lines = lines.join("\n");
    lines.replace("Bitmap Index Scan on table_uuid_unique", "Bitmap Index Scan on table_identity_pkey")
}

/// Compares the plans of `statements` with those checked in, and collects what is wrong with them.
async fn hold(connection: &mut PgConnection, statements: impl Iterator<Item = &Hot>, problems: &mut Vec<String>) {
    let version = version(connection).await;
    for hot in statements {
        let plan = explain(connection, hot.sql, hot.values).await;
        if plan.contains("Seq Scan") {
            problems.push(format!("{} reads a whole table:\n{plan}", hot.name));
        }
        if version == 15 {
            compare(&checked_in("plans", hot.name), hot.name, &plan, problems);
        }
    }
}

#[tokio::test]
async fn hot_queries_go_through_indexes() {
    let lake = Lake::new().await;
    sqlx::raw_sql(include_str!("plans/seed.sql")).execute(&lake.pool).await.unwrap();
    let mut connection = lake.pool.acquire().await.unwrap();
    let mut committer = lake.catalog.commit_pool().acquire().await.unwrap();
    let moment = Hot { name: "snapshot/resolve at_timestamp", values: AT_TIMESTAMP, ..hot!("snapshot/resolve", "") };
    let mut problems = Vec::new();
    hold(&mut connection, HOT.iter().chain([&moment]), &mut problems).await;
    hold(&mut committer, UNDER_THE_LOCK.iter(), &mut problems).await;
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

#[tokio::test]
async fn maintenance_goes_through_indexes() {
    let lake = Lake::new().await;
    sqlx::raw_sql(include_str!("plans/seed.sql")).execute(&lake.pool).await.unwrap();
    sqlx::raw_sql(include_str!("plans/maintenance.sql")).execute(&lake.pool).await.unwrap();
    let mut problems = Vec::new();
    hold(&mut lake.pool.acquire().await.unwrap(), MAINTENANCE.iter(), &mut problems).await;
    // it reads the whole manifest of a catalog, each table of it once, and no index for each file
    let rebuild = hot!("partition_total/rebuild", "1, 1000");
    let plan = explain(&mut lake.pool.acquire().await.unwrap(), rebuild.sql, rebuild.values).await;
    let counting = plan.split("\n  ->").next().unwrap();
    assert!(counting.contains("HashAggregate") && !counting.contains("Nested Loop"), "{plan}");
    let mut purger = lake.pool.acquire().await.unwrap();
    let settings = hoglake_catalog::expiry::PAGE_SETTINGS.replace("set local", "set");
    sqlx::raw_sql(AssertSqlSafe(settings)).execute(&mut *purger).await.unwrap();
    hold(&mut purger, PURGES.iter(), &mut problems).await;
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

/// A committer plans once, as a rule on a database with nothing in it, and keeps that plan while the catalog grows.
#[tokio::test]
async fn a_plan_made_on_an_empty_database_serves_a_full_one() {
    let lake = Lake::new().await;
    let mut committer = lake.catalog.commit_pool().acquire().await.unwrap();
    if version(&mut committer).await != 15 {
        return;
    }
    let mut problems = Vec::new();
    for hot in UNDER_THE_LOCK {
        let plan = explain(&mut committer, hot.sql, hot.values).await;
        // a loop that reads all that a catalog has, to find what is asked for, filters by what it is asked for
        if plan.contains("Join Filter") || plan.contains("Seq Scan") {
            problems.push(format!("{} would read a whole catalog:\n{plan}", hot.name));
        }
        compare(&checked_in("plans/empty", hot.name), hot.name, &plan, &mut problems);
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

/// Expiry queues faster than the planner is told; every commit looks its paths up there.
#[tokio::test]
async fn a_queue_known_to_be_empty_is_searched_by_path() {
    let lake = Lake::new().await;
    sqlx::raw_sql("vacuum analyze").execute(&lake.pool).await.unwrap();
    let mut committer = lake.catalog.commit_pool().acquire().await.unwrap();
    for hot in &UNDER_THE_LOCK[..2] {
        let plan = explain(&mut committer, hot.sql, hot.values).await;
        assert!(plan.contains("using file_removal_queued_path"), "{plan}");
        assert!(!plan.contains("using file_removal_queue on"), "{plan}");
    }
}

/// The plan that the committer has for `load_conflicts.sql`. Takes the committer's own connection, once it is given back.
async fn plan_in_use(lake: &Lake) -> String {
    tokio::time::sleep(std::time::Duration::from_millis(400)).await;
    let mut committer = lake.catalog.commit_pool().acquire().await.unwrap();
    let name: String =
        sqlx::query_scalar("select name from pg_prepared_statements where statement ~ 'a group needs[ ]besides'")
            .fetch_one(&mut *committer)
            .await
            .unwrap();
    let explain =
        format!("explain (costs off) execute {name}(1, '{{ns}}', '{{t}}', '{{}}', '{{null}}', '{{}}', '{{k}}')");
    let lines: Vec<String> =
        sqlx::query_scalar(AssertSqlSafe(explain)).persistent(false).fetch_all(&mut *committer).await.unwrap();
    lines.join("\n")
}

/// Of tables known to be empty the planner reads whatever a catalog has; which is not to last until it is told otherwise.
#[tokio::test]
async fn a_wrong_plan_does_not_outlive_ten_thousand_rows() {
    let lake = Lake::with(|options| options.commit_pool_size = 1).await;
    sqlx::raw_sql("vacuum analyze").execute(&lake.pool).await.unwrap();
    let commit = async |name: &str, files: std::ops::Range<usize>| {
        let key = IdempotencyKey::new(name, "POST", "/v1/catalogs/demo/commit", name.as_bytes()).unwrap();
        let files = files.map(|number| file(&format!("{number}"), 1)).collect();
        lake.catalog.commit("demo", append("t", files), Some(key)).await.unwrap();
    };
    commit("first", 0..1).await;
    let before = plan_in_use(&lake).await;
    if !before.contains("using idempotency_key_by_snapshot") {
        return; // a Postgres that chose well
    }
    // as other servers leave them
    let keys = "insert into idempotency_key (catalog_id, key, request_hash, status)
                select 1, 'other ' || k, decode(repeat('00', 32), 'hex'), 200 from generate_series(1, 10000) k";
    sqlx::raw_sql(keys).execute(&lake.pool).await.unwrap();
    commit("many", 1..10_001).await;
    commit("last", 10_001..10_002).await;
    let after = plan_in_use(&lake).await;
    assert!(after.contains("using idempotency_key_pkey") && after.contains("using data_file_pkey"), "{after}");
}
