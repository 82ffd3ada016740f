//! Claims publications, keeps their leases alive, and looks for new snapshots for all of them at once.

use super::tail::Tail;
use super::{LeaseClock, Publisher};
use crate::api::error::chain;
use crate::config::kafka::KafkaConfig;
use crate::worker::Worker;
use hoglake_catalog::publications::lease::{Claim, Due};
use hoglake_catalog::{Catalog, Result};
use hoglake_model::SnapshotId;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How often free publications are looked for, and how many are taken at a time: servers that start together share.
const CLAIM_INTERVAL: Duration = Duration::from_millis(500);
const CLAIM_LIMIT: i64 = 4;
/// Pause after the database failed.
const PAUSE: Duration = Duration::from_secs(1);
/// How long tails have to end when the server stops.
const GOODBYE: Duration = Duration::from_secs(5);

/// The publisher, running.
pub struct Driver {
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

struct Running {
    claim: Claim,
    read: Arc<AtomicI64>,
    due: watch::Sender<Option<Due>>,
    cancelled: CancellationToken,
    task: JoinHandle<()>,
}

struct Rounds {
    publisher: Publisher,
    holder: Uuid,
    running: HashMap<i64, Running>,
    claimed: Option<Instant>,
    renewed: Instant,
}

impl Driver {
    /// Starts publishing, unless the settings say otherwise.
    pub fn start(worker: &Worker, settings: &KafkaConfig) -> Self {
        let stop = CancellationToken::new();
        if settings.publication_interval_ms.is_zero() {
            return Self { stop, task: None };
        }
        let publisher = Publisher {
            worker: worker.clone(),
            settings: Arc::new(settings.clone()),
            lease: Arc::new(LeaseClock::new()),
        };
        let rounds = Rounds {
            publisher,
            holder: Uuid::new_v4(),
            running: HashMap::new(),
            claimed: None,
            renewed: Instant::now(),
        };
        let task = tokio::spawn(rounds.run(stop.clone()));
        Self { stop, task: Some(task) }
    }

    /// Stops publishing and gives the leases back, so that others can go on at once.
    pub async fn stop(self) {
        self.stop.cancel();
        if let Some(task) = self.task {
            let _ = tokio::time::timeout(GOODBYE * 2, task).await;
        }
    }
}

impl Rounds {
    async fn run(mut self, stop: CancellationToken) {
        let interval = self.publisher.settings.publication_interval_ms;
        loop {
            let pause = match self.round().await {
                Ok(()) => interval,
                Err(error) => {
                    metrics::counter!("hoglake_background_loop_failures_total", "loop" => "publication").increment(1);
                    tracing::warn!(error = chain(&error), "publications could not be looked after; it is tried again");
                    PAUSE.max(interval)
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => break,
            }
        }
        self.running.values().for_each(|running| running.cancelled.cancel());
        let tails = self.running.drain().map(|(_, running)| running.task);
        let _ = tokio::time::timeout(GOODBYE, futures::future::join_all(tails)).await;
        if let Err(error) = self.publisher.worker.catalog.publication_release(self.holder, None).await {
            tracing::warn!(error = chain(&error), "leases could not be given back; they end by themselves");
        }
    }

    async fn round(&mut self) -> Result<()> {
        self.reap().await?;
        self.renew().await?;
        self.claim().await?;
        self.look().await
    }

    fn catalog(&self) -> &Catalog {
        &self.publisher.worker.catalog
    }

    /// Forgets tails that have ended. One that ended without saying why gives its lease back.
    async fn reap(&mut self) -> Result<()> {
        let ended: Vec<i64> = self.running.iter().filter(|(_, r)| r.task.is_finished()).map(|(id, _)| *id).collect();
        for id in ended {
            self.running.remove(&id);
            self.catalog().publication_release(self.holder, Some(id)).await?;
        }
        Ok(())
    }

    async fn renew(&mut self) -> Result<()> {
        let lease = self.publisher.settings.publication_lease_ms;
        if self.running.is_empty() || self.renewed.elapsed() < lease / 4 {
            return Ok(());
        }
        let asked = Instant::now();
        let ids: Vec<i64> = self.running.keys().copied().collect();
        let held = self.catalog().publication_renew(self.holder, lease, &ids).await?;
        let held: HashMap<i64, i64> = held.into_iter().collect();
        self.publisher.lease.prolong(asked, lease);
        self.renewed = asked;
        for (id, running) in &self.running {
            if held.get(id) != Some(&running.claim.fence) {
                running.cancelled.cancel();
            }
        }
        Ok(())
    }

    async fn claim(&mut self) -> Result<()> {
        if self.claimed.is_some_and(|claimed| claimed.elapsed() < CLAIM_INTERVAL) {
            return Ok(());
        }
        let lease = self.publisher.settings.publication_lease_ms;
        let asked = Instant::now();
        let claims = self.catalog().publication_claim(self.holder, lease, CLAIM_LIMIT).await?;
        self.claimed = Some(asked);
        if !claims.is_empty() && self.running.is_empty() {
            self.publisher.lease.prolong(asked, lease);
            self.renewed = asked;
        }
        for claim in claims {
            self.start(claim);
        }
        Ok(())
    }

    fn start(&mut self, claim: Claim) {
        let (due, seen) = watch::channel(None);
        let read = Arc::new(AtomicI64::new(claim.committed.0));
        let cancelled = CancellationToken::new();
        let tail = Tail {
            publisher: self.publisher.clone(),
            claim: claim.clone(),
            read: Arc::clone(&read),
            due: seen,
            cancelled: cancelled.clone(),
        };
        let task = tokio::spawn(tail.run());
        // one that we had and lost in between
        if let Some(before) = self.running.insert(claim.id, Running { claim, read, due, cancelled, task }) {
            before.cancelled.cancel();
        }
    }

    /// Tells each tail what is new, in one statement for all.
    async fn look(&self) -> Result<()> {
        if self.running.is_empty() {
            return Ok(());
        }
        let read: Vec<(&Claim, SnapshotId)> =
            self.running.values().map(|r| (&r.claim, SnapshotId(r.read.load(Ordering::Relaxed)))).collect();
        for due in self.catalog().publication_due(&read).await? {
            if let Some(running) = self.running.get(&due.publication_id) {
                running.due.send_replace(Some(due));
            }
        }
        Ok(())
    }
}
