//! The history checker against servers and a Postgres that die in the middle of commits.

use hoglake_testkit::history::{Plan, Report, check};
use hoglake_testkit::postgres::Cluster;
use hoglake_testkit::server::{ServerCommand, ServerProcess};
use std::net::TcpListener;
use std::time::Duration;

fn assert_holds(report: &Report) {
    assert!(report.passed(), "{} breaches: {:#?}", report.breaches.len(), report.breaches);
    assert!(report.commits > 20 && report.ddl > 5 && report.reads > 5, "the load was too light: {report:?}");
}

/// A port that keeps its server's address across restarts.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

fn start(url: &str, port: u16) -> ServerProcess {
    ServerCommand::serve().database(url).env("HOGLAKE_LISTEN", format!("127.0.0.1:{port}")).start()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_on_one_database_tell_one_history() {
    let cluster = Cluster::start();
    let servers = [free_port(), free_port()].map(|port| start(&cluster.url(), port));
    let mut plan = Plan::new(servers.iter().map(ServerProcess::url).collect());
    plan.duration = Duration::from_secs(5);
    assert_holds(&check(&plan).await.expect("a verdict"));
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_servers_and_of_postgres_lose_and_double_nothing() {
    let mut cluster = Cluster::start();
    let url = cluster.url();
    let ports = [free_port(), free_port()];
    let mut servers = ports.map(|port| Some(start(&url, port)));
    let mut plan = Plan::new(ports.iter().map(|port| format!("http://127.0.0.1:{port}")).collect());
    plan.duration = Duration::from_secs(14);
    let checking = tokio::spawn(async move { check(&plan).await });
    let killing = tokio::task::spawn_blocking(move || {
        for round in 0..6 {
            std::thread::sleep(Duration::from_millis(1100));
            if round % 3 == 2 {
                cluster.kill();
                cluster.restart();
            } else {
                let victim = round % 2;
                if let Some(server) = servers[victim].take() {
                    server.kill();
                }
                std::thread::sleep(Duration::from_millis(200));
                servers[victim] = Some(start(&url, ports[victim]));
            }
        }
        // both stay up for the verdict
        (cluster, servers)
    });
    let standing = killing.await.expect("the killer");
    let report = checking.await.expect("the checker").expect("a verdict");
    assert_holds(&report);
    assert!(report.retried > 0, "no mutation met a kill: {report:?}");
    drop(standing);
}
