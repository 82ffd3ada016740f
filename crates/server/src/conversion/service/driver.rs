//! Takes jobs while there are free slots, keeps the leases of this server alive, and clears up after others.

use super::super::lost_credentials;
use super::{Asker, Converter};
use crate::api::error::chain;
use hoglake_catalog::conversions::Turn;
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};

/// How often the table of jobs is looked at when nobody says that there is something to do.
const POLL: Duration = Duration::from_secs(1);
/// Answers that one statement forgets at most.
const PURGE_PAGE: i64 = 1_000;

/// The background work of conversions, running.
pub struct Driver {
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    converter: Converter,
}

impl Driver {
    /// Starts it.
    pub fn start(converter: &Converter) -> Self {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(work(converter.clone(), stopped.clone()));
        tasks.spawn(keep(converter.clone(), stopped));
        Self { stop, tasks, converter: converter.clone() }
    }

    /// Ends it. Jobs that others can do are given back at once: whoever takes one goes on where it stopped. Those that need
    /// this process have `patience`, then they fail.
    pub async fn stop(mut self, patience: Duration) {
        let _ = self.stop.send(true);
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(patience, ended).await.is_err() {
            self.tasks.shutdown().await;
        }
        let (catalog, server) = (&self.converter.0.catalog, self.converter.0.server);
        self.converter.fail_lost(Some(server)).await;
        if let Err(error) = catalog.conversion_release(server).await {
            tracing::warn!(error = chain(&error), "conversions are not given back: their leases end by themselves");
        }
    }
}

/// Takes jobs until told to stop; then drops those that others can do, and waits for the rest.
async fn work(converter: Converter, mut stopped: watch::Receiver<bool>) {
    let mut running: JoinSet<()> = JoinSet::new();
    let mut resumable: HashMap<Id, tokio::task::AbortHandle> = HashMap::new();
    while !*stopped.borrow() {
        let Ok(slot) = std::sync::Arc::clone(&converter.0.slots).try_acquire_owned() else {
            tokio::select! {
                ended = running.join_next_with_id(), if !running.is_empty() => forget(&mut resumable, ended),
                () = tokio::time::sleep(POLL) => {}
                _ = stopped.wait_for(|stop| *stop) => {}
            }
            continue;
        };
        match converter.0.catalog.conversion_take(converter.0.server, converter.0.config.lease()).await {
            Ok(Some(turn)) => {
                let is_private = turn.is_private;
                let work = converter.clone();
                let handle = running.spawn(async move {
                    let _slot = slot;
                    attended(&work, &turn).await;
                });
                if !is_private {
                    resumable.insert(handle.id(), handle);
                }
                continue;
            }
            Ok(None) => {}
            Err(error) => failed("take", &error),
        }
        drop(slot);
        tokio::select! {
            () = converter.0.work.notified() => {}
            ended = running.join_next_with_id(), if !running.is_empty() => forget(&mut resumable, ended),
            () = tokio::time::sleep(POLL) => {}
            _ = stopped.wait_for(|stop| *stop) => {}
        }
    }
    resumable.values().for_each(tokio::task::AbortHandle::abort);
    while running.join_next().await.is_some() {}
    // Those that still wait for a turn will not have one here.
    converter.private().clear();
}

fn forget(
    resumable: &mut HashMap<Id, tokio::task::AbortHandle>,
    ended: Option<Result<(Id, ()), tokio::task::JoinError>>,
) {
    match ended {
        Some(Ok((id, ()))) => drop(resumable.remove(&id)),
        Some(Err(error)) => drop(resumable.remove(&error.id())),
        None => {}
    }
}

/// A turn in a task of its own, so that a panic ends as an answer too.
async fn attended(converter: &Converter, turn: &Turn) {
    struct Abort(tokio::task::AbortHandle);
    impl Drop for Abort {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    let (inner, owned) = (converter.clone(), turn.clone());
    let task = tokio::spawn(async move { inner.turn(&owned).await });
    let _abort = Abort(task.abort_handle());
    if let Err(error) = task.await
        && error.is_panic()
    {
        let failure = super::Failure::fault("the conversion panicked");
        failure.log(&turn.request_id);
        converter.answer(turn, failure.model.code, &failure.body()).await;
        converter.private().remove(&turn.conversion_id);
        converter.0.over.notify_waiters();
    }
}

/// Renews leases, ends what was lost, forgets what is old, until told to stop and everything is over.
async fn keep(converter: Converter, mut stopped: watch::Receiver<bool>) {
    let lease = converter.0.config.lease();
    let mut ticks = tokio::time::interval((lease / 4).min(Duration::from_secs(5)));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let stop = tokio::select! {
            _ = ticks.tick() => false,
            _ = stopped.wait_for(|stop| *stop) => true,
        };
        if stop {
            return converter.see_private_through(lease).await;
        }
        let catalog = &converter.0.catalog;
        if let Err(error) = catalog.conversion_renew(converter.0.server, lease).await {
            failed("renew", &error);
        }
        converter.fail_lost(None).await;
        match catalog.conversion_purge(converter.0.config.retention(), PURGE_PAGE).await {
            Ok(_) => {}
            Err(error) => failed("purge", &error),
        }
        match catalog.conversion_gauges().await {
            Ok(found) => {
                metrics::gauge!("hoglake_conversion_jobs", "state" => "waiting").set(found.waiting as f64);
                metrics::gauge!("hoglake_conversion_jobs", "state" => "running").set(found.running as f64);
                metrics::gauge!("hoglake_conversion_oldest_waiting_seconds").set(found.oldest_waiting_seconds);
            }
            Err(error) => failed("gauges", &error),
        }
    }
}

impl Converter {
    /// Keeps the leases of the jobs that only this process can finish, until none is left.
    async fn see_private_through(&self, lease: Duration) {
        while !self.private().is_empty() {
            if let Err(error) = self.0.catalog.conversion_renew(self.0.server, lease).await {
                failed("renew", &error);
            }
            tokio::time::sleep((lease / 4).min(Duration::from_millis(500))).await;
        }
    }

    /// Ends jobs whose credentials went with their server; those of `server` at once.
    async fn fail_lost(&self, server: Option<uuid::Uuid>) {
        let failure = lost_credentials();
        match self.0.catalog.conversion_fail_lost(failure.model.code, &failure.body(), server).await {
            Ok(lost) => {
                for job in lost {
                    metrics::counter!("hoglake_conversion_jobs_lost_total").increment(1);
                    let asker = Asker { actor: job.actor, request_id: job.request_id };
                    self.note(&asker, &job.source, &Err(failure.clone()));
                    self.private().remove(&job.conversion_id);
                    self.0.over.notify_waiters();
                }
            }
            Err(error) => failed("fail_lost", &error),
        }
    }
}

fn failed(what: &'static str, error: &hoglake_catalog::Error) {
    metrics::counter!("hoglake_background_loop_failures_total", "loop" => "conversion").increment(1);
    tracing::warn!(what, error = chain(error), "background work of conversions failed; it is tried again");
}
