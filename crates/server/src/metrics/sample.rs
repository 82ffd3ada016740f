//! Gauges of every catalog, sampled on a timer and never at a scrape.

use crate::api::error::chain;
use chrono::{DateTime, TimeDelta, Utc};
use hoglake_catalog::Catalog;
use metrics::{counter, describe_counter, describe_gauge, gauge};
use serde::Deserialize;
use std::time::{Duration, SystemTime};

/// How far back a sample of verifications looks beyond the newest that was seen.
const VERIFIED_OVERLAP: TimeDelta = TimeDelta::seconds(10);

/// Samples every `interval`, for as long as it is polled.
pub async fn sample(catalog: Catalog, interval: Duration) {
    describe();
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut verified_until = DateTime::UNIX_EPOCH;
    loop {
        ticks.tick().await;
        if let Err(error) = publications(&catalog).await {
            tracing::warn!(error = chain(&error), "publications could not be sampled");
        }
        if let Err(error) = verifications(&catalog, &mut verified_until).await {
            tracing::warn!(error = chain(&error), "verifications could not be sampled");
        }
        match catalog.catalog_gauges().await {
            Ok(catalogs) => {
                for sampled in &catalogs {
                    let set =
                        |name: &'static str, value: f64| gauge!(name, "catalog" => sampled.name.clone()).set(value);
                    set("hoglake_head_snapshot_id", sampled.head_snapshot as f64);
                    set("hoglake_earliest_snapshot_id", sampled.earliest_snapshot as f64);
                    set("hoglake_snapshot_count", (sampled.head_snapshot - sampled.earliest_snapshot + 1) as f64);
                    set("hoglake_head_age_seconds", sampled.head_age_seconds);
                    set("hoglake_table_count", sampled.live_table_count as f64);
                    set("hoglake_file_count", sampled.live_file_count as f64);
                    set("hoglake_consumer_lag_max_snapshots", sampled.consumer_lag.unwrap_or(0) as f64);
                }
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                gauge!("hoglake_metrics_last_sample_epoch").set(now.as_secs_f64());
            }
            Err(error) => {
                counter!("hoglake_metrics_sample_errors_total").increment(1);
                tracing::warn!(error = chain(&error), "metrics could not be sampled");
            }
        }
    }
}

/// What a verification answered, as far as it is shown.
#[derive(Deserialize)]
struct Report {
    checks: Vec<Check>,
}

#[derive(Deserialize)]
struct Check {
    check: String,
    violations: f64,
}

/// What the ledger says of verifications since the last time, so that all servers show the same, whichever made them.
async fn verifications(catalog: &Catalog, until: &mut DateTime<Utc>) -> hoglake_catalog::Result<()> {
    // what ended at almost the same moment may have been stored in another order
    for verified in catalog.verified_since(*until - VERIFIED_OVERLAP).await? {
        let Ok(report) = serde_json::from_str::<Report>(&verified.report) else { continue };
        for Check { check, violations } in report.checks {
            gauge!("hoglake_verify_violations", "catalog" => verified.catalog.clone(), "check" => check)
                .set(violations);
        }
        let epoch = verified.finished_at.timestamp_millis() as f64 / 1e3;
        gauge!("hoglake_verify_last_epoch", "catalog" => verified.catalog).set(epoch);
        *until = verified.finished_at.max(*until);
    }
    Ok(())
}

/// Every publication, in each of the states that it may be in.
async fn publications(catalog: &Catalog) -> hoglake_catalog::Result<()> {
    for sampled in catalog.publication_gauges().await? {
        let labels = [("catalog", sampled.catalog), ("publication", sampled.name)];
        gauge!("hoglake_publication_lag_snapshots", &labels).set(sampled.lag.max(0) as f64);
        gauge!("hoglake_publication_troubled", &labels).set(f64::from(u8::from(sampled.troubled)));
        for state in ["pending", "active", "halted"] {
            let [catalog, publication] = labels.clone();
            let is = f64::from(u8::from(sampled.state == state));
            gauge!("hoglake_publication_state", &[catalog, publication, ("state", state.to_owned())]).set(is);
        }
    }
    Ok(())
}

fn describe() {
    describe_gauge!("hoglake_verify_violations", "What the last verification of a catalog found");
    describe_gauge!("hoglake_verify_last_epoch", "When a catalog was last verified, Unix time");
    describe_gauge!("hoglake_publication_lag_snapshots", "Snapshots between the offset of a publication and head");
    describe_gauge!("hoglake_publication_troubled", "Whether a publication has a last error: it waits or is halted");
    describe_gauge!("hoglake_publication_state", "1 for the state that a publication is in");
    describe_gauge!("hoglake_head_snapshot_id", "Newest snapshot of a catalog");
    describe_gauge!("hoglake_earliest_snapshot_id", "Oldest snapshot of a catalog that can be read: its floor");
    describe_gauge!("hoglake_snapshot_count", "Snapshots of a catalog that can be read");
    describe_gauge!("hoglake_head_age_seconds", "Time since the newest snapshot of a catalog");
    describe_gauge!("hoglake_table_count", "Live tables of a catalog");
    describe_gauge!("hoglake_file_count", "Live data files of a catalog");
    describe_gauge!(
        "hoglake_consumer_lag_max_snapshots",
        "Snapshots between the slowest consumer of a catalog and head"
    );
    describe_gauge!(
        "hoglake_metrics_last_sample_epoch",
        "When the gauges of the catalogs were last sampled, Unix time"
    );
    describe_counter!("hoglake_metrics_sample_errors_total", "Samples that failed");
}
