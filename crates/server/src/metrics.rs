//! Prometheus metrics: recorded everywhere through the `metrics` crate, rendered here. docs/OPERATIONS.md lists them.

mod sample;

pub use sample::sample;

use crate::app::App;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use metrics::{describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use std::time::Duration;

/// From half a millisecond (a cached read) to the longest wait for a commit lock.
const SECONDS: [f64; 16] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
/// Sizes of batches and depths of queues.
const COUNTS: [f64; 13] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];

/// Starts recording for the whole process.
///
/// # Errors
/// When something else records already.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_size".to_owned()), &COUNTS)?
        .install_recorder()?;
    describe_counter!("hoglake_http_requests_total", "Requests by operation and status (499: the client went away)");
    describe_histogram!("hoglake_http_request_duration_seconds", "From the head of a request to the end of its answer");
    describe_gauge!("hoglake_http_requests_in_flight", "Requests whose answer is not sent yet");
    describe_gauge!("hoglake_request_body_bytes", "Memory that large request bodies hold of their budget");
    describe_gauge!("hoglake_db_pool_connections", "Connections to Postgres by pool and state");
    describe_counter!("hoglake_tokens_reload_failures_total", "Changes of the tokens file that could not be read");
    describe_counter!("hoglake_audit_lines_dropped_total", "Audit lines that their destination did not take in time");
    describe_counter!("hoglake_commits_total", "Commits by catalog and result");
    describe_histogram!("hoglake_commit_lock_wait_seconds", "Wait for a catalog's commit lock");
    describe_histogram!("hoglake_commit_batch_size", "Requests in one group commit");
    describe_gauge!("hoglake_commit_queue_depth", "Requests that wait for the group committer, by catalog id");
    describe_histogram!("hoglake_request_queue_wait_seconds", "Wait of a commit or DDL for the group committer");
    describe_counter!("hoglake_requests_shed_total", "Requests answered 503 instead of waiting on, by reason");
    describe_counter!("hoglake_conversions_total", "Targets of conversions over REST, by formats and result");
    describe_histogram!("hoglake_conversion_duration_seconds", "Time of conversions over REST, all targets together");
    describe_gauge!("hoglake_conversion_jobs", "Conversions that wait and run on all servers together");
    describe_gauge!("hoglake_conversion_oldest_waiting_seconds", "Age of the oldest conversion that waits");
    describe_counter!("hoglake_conversion_takeovers_total", "Conversions taken over from a server that ended");
    describe_counter!("hoglake_conversion_jobs_lost_total", "Conversions whose credentials went with their server");
    describe_counter!("hoglake_publication_records_total", "Records produced by publication and operation");
    describe_counter!("hoglake_publication_bytes_total", "Bytes of those records, uncompressed");
    describe_counter!("hoglake_publication_errors_total", "Times that a publication had to wait or halted");
    describe_histogram!("hoglake_publication_delay_seconds", "From a commit to the acknowledgement of its records");
    describe_gauge!("hoglake_build_info", "Always 1; the version is a label");
    describe_gauge!("process_resident_memory_bytes", "Resident memory of the server, without Postgres");
    gauge!("hoglake_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Ok(handle)
}

/// Folds recorded histogram samples together while nobody scrapes, so that they do not pile up.
pub async fn upkeep(handle: PrometheusHandle) {
    loop {
        tokio::time::sleep(Duration::from_secs(5)).await;
        handle.run_upkeep();
    }
}

/// GET /metrics
pub async fn render(State(app): State<App>) -> impl IntoResponse {
    for (name, pool) in [("requests", app.catalog.pool()), ("commits", app.catalog.commit_pool())] {
        let idle = pool.num_idle() as f64;
        gauge!("hoglake_db_pool_connections", "pool" => name, "state" => "idle").set(idle);
        gauge!("hoglake_db_pool_connections", "pool" => name, "state" => "used").set(f64::from(pool.size()) - idle);
    }
    if let Some(bytes) = resident_memory() {
        gauge!("process_resident_memory_bytes").set(bytes as f64);
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], app.metrics.render())
}

fn resident_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
