//! Timers: what they do of themselves, on several servers, and however slow a catalog is.

use super::lake::Lake;
use hoglake_catalog::catalogs::CreateCatalog;
use hoglake_testkit::server::{ServerCommand, ServerProcess};
use serde_json::json;
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// A server with these timers; others are off.
fn serve(lake: &Lake, timers: &[(&str, &str)], more: impl FnOnce(ServerCommand) -> ServerCommand) -> ServerProcess {
    let mut command = ServerCommand::serve()
        .database(lake.database.url())
        .env("HOGLAKE_LOCAL_FILES", "true")
        .env("HOGLAKE_METRICS_INTERVAL_MS", "200");
    for timer in ["HYDRATOR", "EXPIRY", "CLEANUP", "COMPACTION", "VERIFY"] {
        let interval = timers.iter().find(|(name, _)| *name == timer).map_or("0", |(_, interval)| interval);
        command = command.env(&format!("HOGLAKE_{timer}_INTERVAL_MS"), interval);
    }
    let command = more(command);
    tokio::task::block_in_place(|| command.start())
}

async fn wait(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so().await {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Violations that a server shows, all checks together; none before the first verification.
async fn violations(server: &ServerProcess) -> Option<f64> {
    let text = server.request("GET", "/metrics").send().await.text();
    let shown = text.lines().filter(|line| line.starts_with("hoglake_verify_violations{"));
    let shown: Vec<f64> = shown.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    (!shown.is_empty()).then(|| shown.iter().sum())
}

#[tokio::test(flavor = "multi_thread")]
async fn catalogs_are_verified_by_one_server_at_a_time_and_all_show_the_result() {
    let mut lake = Lake::new(false).await;
    lake.append(&[(1, None)]).await;
    let servers = [0, 1].map(|_| serve(&lake, &[("VERIFY", "500")], |command| command));
    wait("both say that all is well", async || {
        violations(&servers[0]).await == Some(0.0) && violations(&servers[1]).await == Some(0.0)
    })
    .await;
    lake.execute("insert into file_removal (catalog_id, path, kind, reason) select 1, path, 'data', 'snapshot_expiry' from data_file").await;
    wait("both say what is wrong", async || {
        violations(&servers[0]).await == Some(1.0) && violations(&servers[1]).await == Some(1.0)
    })
    .await;
    wait("the trail tells of it", async || {
        servers.iter().any(|server| {
            let printed = server.printed();
            printed.lines().any(|line| line.contains("invariant_violation") && line.contains("\"verify\""))
        })
    })
    .await;
    lake.execute("delete from file_removal").await;
    wait("both take it back", async || {
        violations(&servers[0]).await == Some(0.0) && violations(&servers[1]).await == Some(0.0)
    })
    .await;
    for server in servers {
        assert!(tokio::task::block_in_place(|| server.stop()).success());
    }
    // once in an interval, not once a server
    let early = "select count(*) from (
                   select started_at - lag(started_at) over (order by run_id) as after,
                          started_at - lag(finished_at) over (order by run_id) as idle
                   from maintenance_run where task = 'verify') r
                 where after < interval '440 milliseconds' or idle < interval '0'";
    assert_eq!(lake.number(early).await, 0);
    assert!(
        lake.number("select count(*) from maintenance_run where task = 'verify' and result is not null").await >= 3
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn catalogs_whose_store_does_not_answer_keep_no_other_waiting() {
    let mut lake = Lake::new(false).await;
    // it takes connections, and says nothing
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    for slow in 2..=4 {
        let create = json!({"name": format!("slow{slow}"), "data_path": format!("s3://slow/{slow}")});
        let create: CreateCatalog = serde_json::from_value(create).unwrap();
        lake.worker.catalog.catalog_create(create, None).await.unwrap();
    }
    lake.execute(
        "insert into table_identity (catalog_id, table_id, table_uuid, created_snapshot, ddl_snapshot, last_namespace,
           last_name, next_field_id) select c, 1, gen_random_uuid(), 1, 1, 'ns', 't', 2 from generate_series(2, 4) c;
         insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, path, record_count, file_size_bytes,
           row_id_start, stats_state)
           select c, 1, 1, 1, 's3://slow/' || c || '/f', 1, 1000, 0, 'pending' from generate_series(2, 4) c",
    )
    .await;
    let server = serve(&lake, &[("HYDRATOR", "100")], |command| {
        command
            .env("HOGLAKE_S3_ENDPOINT", &endpoint)
            .env("HOGLAKE_S3_ACCESS_KEY", "key")
            .env("HOGLAKE_S3_SECRET_KEY", "secret")
    });
    wait("the slow ones are begun", async || {
        lake.number("select count(*) from hydration where claimed_by is not null and catalog_id > 1").await == 3
    })
    .await;
    for round in 1..=2 {
        let began = Instant::now();
        lake.append(&[(round, None)]).await;
        wait("the quick one has its turn", async || {
            lake.number("select count(*) from data_file where catalog_id = 1 and stats_state = 'provided'").await
                == round
        })
        .await;
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
    let waiting = "select count(*) from data_file where catalog_id > 1 and stats_state = 'pending'";
    assert_eq!(lake.number(waiting).await, 3, "those are still waited for");
    assert!(tokio::task::block_in_place(|| server.stop()).success());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expiry_that_was_killed_is_in_the_ledger() {
    let mut lake = Lake::new(false).await;
    for row in 1..4 {
        lake.append(&[(row, None)]).await;
    }
    lake.execute("update catalog set snapshot_retention_seconds = 1").await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let mut server = serve(&lake, &[("EXPIRY", "1000")], |command| {
        command.env("HOGLAKE_FAULT_POINT", "expiry.before_snapshots_commit")
    });
    assert!(!tokio::task::block_in_place(|| server.wait()).success(), "{}", server.log());
    let expired = "select count(*) from maintenance_run where task = 'expire'";
    assert_eq!(lake.number(expired).await, 1);
    assert_eq!(lake.number("select count(*) from maintenance_run where finished_at is not null").await, 0);
    assert!(lake.number("select earliest_snapshot from catalog").await > 0, "the floor had moved");
}
