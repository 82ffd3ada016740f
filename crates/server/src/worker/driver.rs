//! Timers: each task goes through all catalogs now and then.

use super::{Trigger, WorkError, Worker, in_words};
use crate::audit::{Action, Outcome};
use hoglake_catalog::catalogs::CatalogIdentity;
use hoglake_catalog::leases::Lease;
use hoglake_catalog::verify::Status;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

/// How long a hydration may go on in one catalog before the next has its turn.
const HYDRATION_TURN: Duration = Duration::from_secs(30);
/// How long a sweep of one catalog keeps other servers from beginning the same, should its server die.
const LEASE: Duration = Duration::from_secs(30);
/// Idempotency keys that one transaction deletes at most.
const KEYS_PAGE: i64 = 1_000;
/// How long tasks have to end when the server stops.
const GOODBYE: Duration = Duration::from_secs(5);

/// The timers, running.
pub struct Driver {
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

/// A task that a timer starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Hydrate,
    Expire,
    Clean,
    Compact,
    FoldTotals,
    Verify,
}

impl Task {
    const fn name(self) -> &'static str {
        match self {
            Self::Hydrate => "hydrate",
            Self::Expire => "expire",
            Self::Clean => "cleanup",
            Self::Compact => "compact",
            Self::FoldTotals => "partition_totals",
            Self::Verify => "verify",
        }
    }

    /// Catalogs that have their turn at the same time: more where a turn may wait for an object store that does not answer,
    /// which is not to keep the others waiting.
    const fn catalogs_at_a_time(self) -> usize {
        match self {
            Self::Hydrate => 16,
            Self::Clean => 4,
            Self::Expire | Self::Compact | Self::FoldTotals | Self::Verify => 1,
        }
    }

    /// Sweeps that two servers need not begin at the same time. The others share work file by file.
    const fn is_exclusive(self) -> bool {
        matches!(self, Self::Expire | Self::FoldTotals | Self::Verify)
    }
}

impl Driver {
    /// Starts the timers that `worker`'s settings ask for.
    pub fn start(worker: &Worker) -> Self {
        let (worker, stop) = worker.apart();
        let mut tasks = JoinSet::new();
        let settings = &worker.settings;
        for (task, interval) in [
            (Task::Hydrate, settings.hydrator_interval_ms),
            (Task::Expire, settings.expiry_interval_ms),
            (Task::Clean, settings.cleanup_interval_ms),
            (Task::Compact, settings.compaction_interval_ms),
            (Task::FoldTotals, settings.expiry_interval_ms),
            (Task::Verify, settings.verify_interval_ms),
        ] {
            if !interval.is_zero() {
                tasks.spawn(run(worker.clone(), task, interval));
            }
        }
        Self { stop, tasks }
    }

    /// Tells the timers that it is time to stop.
    pub fn stopper(&self) -> impl FnOnce() + use<> {
        let stop = self.stop.clone();
        move || stop.cancel()
    }

    /// Stops the timers: work under way ends between two steps, and gives back what it has claimed. What does not end in
    /// five seconds is dropped: its claims end by themselves.
    pub async fn stop(mut self) {
        self.stop.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(GOODBYE, ended).await;
    }
}

/// Begins turns, as often as `interval` says.
async fn run(worker: Worker, task: Task, interval: Duration) {
    let mut turns = Turns::new(worker.clone(), task);
    let mut ticks = interval_at(Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            Some(ended) = turns.running.join_next_with_id(), if !turns.running.is_empty() => {
                turns.note(ended);
                continue;
            }
            () = worker.stopping() => break,
        }
        turns.begin().await;
    }
    while let Some(ended) = turns.running.join_next_with_id().await {
        turns.note(ended);
    }
}

/// The turns of one task under way, each in a task of its own: one that panics is a failure of that turn, not the end of
/// the timer, and one that is slow keeps no other catalog waiting while there are places.
struct Turns {
    worker: Worker,
    task: Task,
    places: Arc<Semaphore>,
    running: JoinSet<()>,
    /// Whose turn it is: a catalog has one at a time.
    catalogs: HashMap<Id, String>,
}

impl Turns {
    fn new(worker: Worker, task: Task) -> Self {
        let places = Arc::new(Semaphore::new(task.catalogs_at_a_time()));
        Self { worker, task, places, running: JoinSet::new(), catalogs: HashMap::new() }
    }

    /// Queues a turn of every catalog that has none under way. What fails in one concerns no other.
    async fn begin(&mut self) {
        let names = match self.worker.catalog.catalog_names().await {
            Ok(names) => names,
            Err(error) => return failed(self.task, "", &error.into()),
        };
        for name in names {
            if self.catalogs.values().any(|busy| *busy == name) {
                continue;
            }
            let (worker, task, places, catalog) =
                (self.worker.clone(), self.task, Arc::clone(&self.places), name.clone());
            let turn = self.running.spawn(async move {
                // in the order in which they were queued; closed never
                let _place = places.acquire().await;
                if worker.is_stopping() {
                    return;
                }
                let done = async {
                    let catalog = worker.catalog.catalog_find(&catalog).await?;
                    worker.turn(task, &catalog).await
                };
                match done.await {
                    Ok(()) | Err(WorkError::Stopped) => {}
                    Err(error) => failed(task, &catalog, &error),
                }
            });
            self.catalogs.insert(turn.id(), name);
        }
        if self.task == Task::Expire
            && let Err(error) = self.worker.forget_keys_of_no_catalog().await
        {
            failed(self.task, "", &error);
        }
    }

    fn note(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match &ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        let catalog = self.catalogs.remove(&id).unwrap_or_default();
        if let Err(error) = ended {
            metrics::counter!("hoglake_background_loop_failures_total", "loop" => self.task.name()).increment(1);
            tracing::error!(task = self.task.name(), catalog, %error, "background work panicked; it is tried again");
        }
    }
}

fn failed(task: Task, catalog: &str, error: &WorkError) {
    metrics::counter!("hoglake_background_loop_failures_total", "loop" => task.name()).increment(1);
    tracing::warn!(task = task.name(), catalog, error = in_words(error), "background work failed; it is tried again");
}

impl Worker {
    /// Idempotency keys of a catalog go when it is expired; those of requests that make a catalog go here.
    async fn forget_keys_of_no_catalog(&self) -> Result<(), WorkError> {
        while self.catalog.idempotency_purge(KEYS_PAGE).await? == KEYS_PAGE {}
        Ok(())
    }

    async fn turn(&self, task: Task, catalog: &CatalogIdentity) -> Result<(), WorkError> {
        if !task.is_exclusive() {
            return self.turn_alone(task, catalog).await;
        }
        let Some(lease) = self.catalog.lease_acquire(catalog.id, task.name(), LEASE).await? else { return Ok(()) };
        let done = self.while_leased(&lease, self.turn_alone(task, catalog)).await;
        self.catalog.lease_release(&lease).await?;
        done
    }

    /// Keeps a lease until `work` is done, however long that takes.
    async fn while_leased<T>(&self, lease: &Lease, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(LEASE / 4) => {
                    // another server may begin the same then, which costs time and nothing else
                    if let Err(error) = self.catalog.lease_renew(lease, LEASE).await {
                        tracing::warn!(task = lease.task, error = in_words(&error), "a lease was not renewed");
                    }
                }
            }
        }
    }

    async fn turn_alone(&self, task: Task, catalog: &CatalogIdentity) -> Result<(), WorkError> {
        let settings = &self.settings;
        match task {
            Task::Hydrate => {
                self.hydrate(catalog, HYDRATION_TURN, Trigger::Timer).await?;
            }
            Task::Expire => {
                // nobody else might have anything to do in this catalog, and notice
                self.close_abandoned(catalog.id).await?;
                self.expire(catalog, settings.expiry_batch, false, Trigger::Timer).await?;
            }
            Task::Clean => {
                self.clean(catalog, settings.cleanup_batch, false, Trigger::Timer).await?;
            }
            Task::Compact => {
                let groups = settings.compaction_max_groups_per_run;
                self.compact(catalog, groups, false, Trigger::Timer).await?;
            }
            Task::FoldTotals => self.unless_stopping(self.catalog.partition_totals_follow(catalog.id)).await?,
            Task::Verify => self.verify_on_time(catalog).await?,
        }
        Ok(())
    }

    /// Verifies a catalog that nobody has verified for an interval, whichever server did.
    async fn verify_on_time(&self, catalog: &CatalogIdentity) -> Result<(), WorkError> {
        // a little less, since timers are not exact
        let interval = self.settings.verify_interval_ms.mul_f64(0.9);
        if self.catalog.run_is_recent(catalog.id, "verify", interval).await? {
            return Ok(());
        }
        let report = self.verify(catalog, false).await?;
        if report.status == Status::Fail {
            let broken = report.checks.iter().filter(|check| check.violations > 0);
            let broken: Vec<String> = broken.map(|check| format!("{}: {}", check.check, check.violations)).collect();
            let detail = broken.join(", ");
            tracing::error!(catalog = %catalog.name, violations = detail, "the catalog violates its invariants");
            self.audit_line(Action::Verify, Outcome::InvariantViolation, &catalog.name, None, Some(&detail));
        }
        Ok(())
    }
}
