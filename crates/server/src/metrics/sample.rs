//! Gauges of every catalog, sampled on a timer and never at a scrape.

use crate::api::error::chain;
use hoglake_catalog::Catalog;
use metrics::{counter, describe_counter, describe_gauge, gauge};
use std::time::{Duration, SystemTime};

/// Samples every `interval`, for as long as it is polled.
pub async fn sample(catalog: Catalog, interval: Duration) {
    describe();
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = publications(&catalog).await {
            tracing::warn!(error = chain(&error), "publications could not be sampled");
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
