//! Probes, metrics, the contract and its page, audit lines.

use crate::stage::{server, server_with};
use hoglake_testkit::postgres::Cluster;
use hoglake_testkit::server::ServerCommand;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

#[tokio::test]
async fn health_follows_the_database_within_its_deadline() {
    let (mut cluster, server) = tokio::task::spawn_blocking(|| {
        let cluster = Cluster::start();
        let command = ServerCommand::serve().database(&cluster.url()).env("HOGLAKE_HEALTH_TIMEOUT_MS", "500");
        let server = command.start();
        (cluster, server)
    })
    .await
    .unwrap();
    assert_eq!(server.request("GET", "/healthz").send().await.text(), "ok\n");
    cluster.stop();
    // probes share a young attempt, so that the last good answer may be given out for a moment longer
    tokio::time::sleep(Duration::from_secs(2)).await;
    let begin = Instant::now();
    let probes = futures::future::join_all((0..20).map(|_| server.request("GET", "/healthz").send())).await;
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert!(probes.iter().all(|probe| probe.failure() == (503, "unavailable".to_owned())));
    assert_eq!(probes[0].header("retry-after"), Some("1"));
    assert_eq!(server.request("GET", "/livez").send().await.status, 200);
    assert_eq!(server.request("GET", "/v1/catalogs").send().await.failure(), (503, "unavailable".to_owned()));
    cluster.restart();
    let mut status = 0;
    for _ in 0..100 {
        status = server.request("GET", "/healthz").send().await.status;
        if status == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(status, 200);
}

#[tokio::test]
async fn requests_are_counted_by_operation_and_status() {
    let (server, _database) = server().await;
    for _ in 0..3 {
        server.request("GET", "/v1/info").send().await;
    }
    server.request("GET", "/v1/catalogs/nope").send().await;
    server.request("GET", "/nowhere").send().await;
    let metrics = server.request("GET", "/metrics").send().await;
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    let text = metrics.text();
    for line in [
        "hoglake_http_requests_total{operation=\"getInstanceInfo\",status=\"200\"} 3",
        "hoglake_http_requests_total{operation=\"getCatalog\",status=\"404\"} 1",
        "hoglake_http_requests_total{operation=\"unmatched\",status=\"404\"} 1",
        "hoglake_http_requests_in_flight 1",
        "hoglake_http_request_duration_seconds_bucket{operation=\"getInstanceInfo\",le=\"+Inf\"} 3",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn gauges_follow_the_catalogs() {
    let (server, _database) = server_with(|command| command.env("HOGLAKE_METRICS_INTERVAL_MS", "100")).await;
    let body = json!({"name": "lake", "data_path": "s3://b/lake"});
    assert_eq!(server.request("POST", "/v1/catalogs").json(&body).send().await.status, 201);
    let namespace = server.request("POST", "/v1/catalogs/lake/namespaces").json(&json!({"name": "ns"})).send().await;
    assert_eq!(namespace.status, 201);
    let mut text = String::new();
    for _ in 0..100 {
        text = server.request("GET", "/metrics").send().await.text();
        if text.contains("hoglake_head_snapshot_id{catalog=\"lake\"} 1") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for line in [
        "hoglake_head_snapshot_id{catalog=\"lake\"} 1",
        "hoglake_earliest_snapshot_id{catalog=\"lake\"} 0",
        "hoglake_snapshot_count{catalog=\"lake\"} 2",
        "hoglake_table_count{catalog=\"lake\"} 0",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn the_contract_and_its_page_are_served() {
    let (server, _database) = server().await;
    let contract = server.request("GET", "/openapi.yaml").send().await;
    assert_eq!(contract.header("content-type"), Some("application/yaml"));
    assert!(contract.text().starts_with("openapi:") && contract.text().contains("operationId: planScan"));
    let conversion = server.request("GET", "/openapi/conversion.yaml").send().await;
    assert!(conversion.text().contains("operationId: convertTable"));
    let page = server.request("GET", "/docs").send().await;
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    let html = page.text();
    for id in hoglake_server::router::operations().iter().map(|operation| operation.id) {
        assert!(html.contains(&format!("id=\"{id}\"")), "{id} is not on the page");
    }
    assert!(!html.contains("https://cdn") && !html.contains("<script src"), "the page needs the internet");
}

#[tokio::test]
async fn consequential_actions_leave_an_audit_line() {
    let (server, _database) = server().await;
    let body = json!({"name": "lake", "data_path": "s3://b/lake"});
    for id in ["first", "second"] {
        server.request("POST", "/v1/catalogs").header("X-Request-Id", id).json(&body).send().await;
    }
    let mut lines: Vec<Value> = Vec::new();
    for _ in 0..100 {
        lines = server.printed().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        if lines.len() >= 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(lines.len(), 2, "{lines:?}");
    for (line, outcome, id) in [(&lines[0], "ok", "first"), (&lines[1], "conflict", "second")] {
        assert_eq!(line["action"], "catalog_create");
        assert_eq!((&line["outcome"], &line["request_id"]), (&json!(outcome), &json!(id)));
        assert_eq!((&line["actor"], &line["catalog"]), (&json!("anonymous"), &json!("lake")));
    }
}

#[tokio::test]
async fn idle_memory_is_small() {
    let (server, _database) = server().await;
    for _ in 0..20 {
        server.request("GET", "/healthz").send().await;
        server.request("GET", "/v1/catalogs").send().await;
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    // What the process has allocated. Resident code counts for little in a release build and for most in this one; the whole
    // of a release build is measured by `bench/run small`.
    let allocated = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap().trim();
    let kibibytes: u64 = allocated.trim_end_matches(" kB").trim().parse().unwrap();
    assert!(kibibytes < 16 * 1024, "{kibibytes} KiB");
}
