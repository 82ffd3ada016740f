//! Two servers on one database share the work, and do none of it twice.

use super::lake::Lake;
use hoglake_testkit::server::ServerCommand;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_share_the_work() {
    let mut lake = Lake::new(false).await;
    let mut files = Vec::new();
    for i in 0..48 {
        files.push(lake.write(&[(i, Some("x")), (i + 100, None)]));
    }
    lake.register(files).await;
    let before = lake.rows_at(lake.head().await).await;
    lake.age(0).await;
    let target = (lake.number("select max(file_size_bytes) from data_file").await * 8).to_string();
    let servers: Vec<_> = (0..2)
        .map(|_| {
            let mut command = ServerCommand::serve().database(lake.database.url()).env("HOGLAKE_LOCAL_FILES", "true");
            for timer in ["HYDRATOR", "EXPIRY", "CLEANUP", "COMPACTION"] {
                command = command.env(&format!("HOGLAKE_{timer}_INTERVAL_MS"), "100");
            }
            command.env("HOGLAKE_COMPACTION_TARGET_BYTES", &target).env("HOGLAKE_COMPACTION_MAX_GROUPS_PER_RUN", "2")
        })
        .map(|command| tokio::task::block_in_place(|| command.start()))
        .collect();
    let deadline = Instant::now() + Duration::from_secs(60);
    while lake.number("select count(*) from data_file where not explicit_row_ids").await > 0
        || lake.number("select count(*) from file_removal where settled_at is null").await > 0
    {
        assert!(Instant::now() < deadline, "{}", servers[0].log());
        lake.age(0).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    for server in servers {
        assert!(tokio::task::block_in_place(|| server.stop()).success());
    }
    assert_eq!(lake.rows_at(lake.head().await).await, before);
    lake.verified().await;
    assert!(lake.orphans().await.is_empty());
    // each input went into one committed group, and no group was given up because the other server had done it
    let sum = |name: &str| {
        format!(
            "select coalesce(sum((result->>'{name}')::bigint), 0)::bigint from maintenance_run where task = 'compact'"
        )
    };
    let compacted: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(sum("files_in"))).fetch_one(&lake.pool).await.unwrap();
    let conflicts: i64 =
        sqlx::query_scalar(sqlx::AssertSqlSafe(sum("skipped_conflicts"))).fetch_one(&lake.pool).await.unwrap();
    assert!(compacted >= 48, "{compacted}");
    assert_eq!(conflicts, 0);
    let hydrated =
        "select coalesce(sum((result->>'hydrated')::bigint), 0)::bigint from maintenance_run where task = 'hydrate'";
    assert!(lake.number(hydrated).await <= 48);
    assert_eq!(lake.number("select count(*) from file_removal where outcome = 'absent'").await, 0);
}
