//! Timers: each task goes through all catalogs now and then.

use super::{Trigger, WorkError, Worker, in_words};
use hoglake_catalog::catalogs::CatalogIdentity;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long a hydration may go on in one catalog before the next has its turn.
const HYDRATION_TURN: Duration = Duration::from_secs(30);
/// How long a sweep of one catalog keeps other servers from beginning the same.
const LEASE: Duration = Duration::from_secs(120);
/// Idempotency keys that one transaction deletes at most.
const KEYS_PAGE: i64 = 1_000;
/// How long tasks have to end when the server stops.
const GOODBYE: Duration = Duration::from_secs(5);

/// The timers, running.
pub struct Driver {
    stop: watch::Sender<bool>,
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
}

impl Task {
    const fn name(self) -> &'static str {
        match self {
            Self::Hydrate => "hydrate",
            Self::Expire => "expire",
            Self::Clean => "cleanup",
            Self::Compact => "compact",
            Self::FoldTotals => "partition_totals",
        }
    }

    /// Sweeps that two servers need not begin at the same time. The others share work file by file.
    const fn is_exclusive(self) -> bool {
        matches!(self, Self::Expire | Self::FoldTotals)
    }
}

impl Driver {
    /// Starts the timers that `worker`'s settings ask for.
    pub fn start(worker: &Worker) -> Self {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let settings = &worker.settings;
        for (task, interval) in [
            (Task::Hydrate, settings.hydrator_interval_ms),
            (Task::Expire, settings.expiry_interval_ms),
            (Task::Clean, settings.cleanup_interval_ms),
            (Task::Compact, settings.compaction_interval_ms),
            (Task::FoldTotals, settings.expiry_interval_ms),
        ] {
            if !interval.is_zero() {
                tasks.spawn(run(worker.clone(), task, interval, stopped.clone()));
            }
        }
        Self { stop, tasks }
    }

    /// Stops the timers. A task that does not end in five seconds is dropped: its claims end by themselves.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(GOODBYE, ended).await;
    }
}

async fn run(worker: Worker, task: Task, interval: Duration, mut stopped: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            _ = stopped.wait_for(|stop| *stop) => return,
        }
        // in a task of its own: a sweep that panics is a failure of that sweep, not the end of the timer
        let mut turn = tokio::spawn({
            let worker = worker.clone();
            async move { sweep(&worker, task).await }
        });
        tokio::select! {
            ended = &mut turn => {
                if let Err(error) = ended {
                    metrics::counter!("hoglake_background_loop_failures_total", "loop" => task.name()).increment(1);
                    tracing::error!(task = task.name(), %error, "background work panicked; it is tried again");
                }
            }
            _ = stopped.wait_for(|stop| *stop) => {
                turn.abort();
                return;
            }
        }
    }
}

/// One turn through all catalogs. What fails in one does not keep the others waiting.
async fn sweep(worker: &Worker, task: Task) {
    let names = match worker.catalog.catalog_names().await {
        Ok(names) => names,
        Err(error) => return failed(task, "", &error.into()),
    };
    for name in names {
        let done = async {
            let catalog = worker.catalog.catalog_find(&name).await?;
            worker.turn(task, &catalog).await
        };
        if let Err(error) = done.await {
            failed(task, &name, &error);
        }
    }
    if task == Task::Expire
        && let Err(error) = worker.forget_keys_of_no_catalog().await
    {
        failed(task, "", &error);
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
        let done = self.turn_alone(task, catalog).await;
        self.catalog.lease_release(&lease).await?;
        done
    }

    async fn turn_alone(&self, task: Task, catalog: &CatalogIdentity) -> Result<(), WorkError> {
        let settings = &self.settings;
        match task {
            Task::Hydrate => {
                self.hydrate(catalog, HYDRATION_TURN, Trigger::Timer).await?;
            }
            Task::Expire => {
                self.expire(catalog, settings.expiry_batch, false, Trigger::Timer).await?;
            }
            Task::Clean => {
                self.clean(catalog, settings.cleanup_batch, false, Trigger::Timer).await?;
            }
            Task::Compact => {
                let groups = settings.compaction_max_groups_per_run;
                self.compact(catalog, groups, false, Trigger::Timer).await?;
            }
            Task::FoldTotals => while self.catalog.partition_totals_fold(catalog.id, None).await? {},
        }
        Ok(())
    }
}
