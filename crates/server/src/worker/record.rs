//! The ledger entry of a run.

use super::{WorkError, Worker, in_words};
use hoglake_catalog::Catalog;
use hoglake_catalog::runs::{HEARTBEAT, RunId};
use hoglake_model::CatalogId;
use serde::Serialize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::task::JoinHandle;

/// Who wants a task done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// A timer: a run that finds nothing to do leaves no trace.
    Timer,
    /// A request or a command: every run is written down.
    Request,
}

/// A run that is entered in the ledger as soon as it has something to do.
pub(super) struct Record {
    worker: Worker,
    catalog: CatalogId,
    task: &'static str,
    started: Instant,
    entry: Mutex<Option<Entry>>,
}

/// A line of the ledger that says now and then that its run goes on, and that its run was left, should it be dropped.
struct Entry {
    catalog: Catalog,
    run: RunId,
    heartbeat: JoinHandle<()>,
    ended: bool,
}

impl Entry {
    fn new(catalog: &Catalog, run: RunId) -> Self {
        let beating = catalog.clone();
        let heartbeat = tokio::spawn(async move {
            loop {
                tokio::time::sleep(HEARTBEAT).await;
                if let Err(error) = beating.run_seen(run).await {
                    tracing::warn!(run = run.0, error = in_words(&error), "a run could not say that it goes on");
                }
            }
        });
        Self { catalog: catalog.clone(), run, heartbeat, ended: false }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.heartbeat.abort();
        if !self.ended
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (catalog, run) = (self.catalog.clone(), self.run);
            // should it come too late, others notice that nobody speaks for the run
            runtime.spawn(async move { catalog.run_leave(run).await });
        }
    }
}

impl Worker {
    /// Closes runs in the ledger whose servers are not heard of any more.
    ///
    /// # Errors
    /// Any database error.
    pub(super) async fn close_abandoned(&self, catalog: CatalogId) -> Result<(), WorkError> {
        for task in self.catalog.runs_close_abandoned(catalog).await? {
            tracing::warn!(%catalog, task, "a run was abandoned: its server is not heard of any more");
        }
        Ok(())
    }

    /// Starts a run of `task`.
    ///
    /// # Errors
    /// Any database error.
    pub(super) async fn record(
        &self,
        catalog: CatalogId,
        task: &'static str,
        trigger: Trigger,
    ) -> Result<Record, WorkError> {
        let record = Record::new(self, catalog, task);
        if trigger == Trigger::Request {
            record.begin().await?;
        }
        Ok(record)
    }

    /// Starts a run of `task`, which only looks, so that it needs no right to write. Where the ledger takes no entry the
    /// record stays empty, and the second of the two says why.
    pub(super) async fn record_if_possible(&self, catalog: CatalogId, task: &'static str) -> (Record, Option<String>) {
        let record = Record::new(self, catalog, task);
        let unrecorded = record.begin().await.err().map(|error| in_words(&error));
        if let Some(why) = &unrecorded {
            tracing::warn!(task, error = why, "the run is not entered in the ledger");
        }
        (record, unrecorded)
    }
}

impl Record {
    fn new(worker: &Worker, catalog: CatalogId, task: &'static str) -> Self {
        Self { worker: worker.clone(), catalog, task, started: Instant::now(), entry: Mutex::new(None) }
    }

    /// Enters the run in the ledger, the first time; those whose servers have died are closed there.
    ///
    /// # Errors
    /// Any database error.
    pub(super) async fn begin(&self) -> Result<(), WorkError> {
        if self.entry().is_none() {
            self.worker.close_abandoned(self.catalog).await?;
            let run = self.worker.catalog.run_begin(self.catalog, self.task).await?;
            *self.entry() = Some(Entry::new(&self.worker.catalog, run));
        }
        Ok(())
    }

    /// Ends the run with what came out of it, or with why it failed, in words. The ledger is the lesser loss: should it
    /// take no entry, the result goes to the caller all the same.
    ///
    /// # Errors
    /// That of `result`.
    pub(super) async fn finish<T: Serialize>(self, result: Result<T, WorkError>) -> Result<T, WorkError> {
        metrics::histogram!("hoglake_maintenance_run_duration_seconds", "task" => self.task)
            .record(self.started.elapsed().as_secs_f64());
        let Some(mut entry) = self.entry().take() else { return result };
        // what comes after the end must not say that the run goes on
        entry.heartbeat.abort();
        let outcome = match &result {
            Ok(status) => Ok(serde_json::to_string(status).unwrap_or_else(|_| "{}".to_owned())),
            Err(error) => Err(in_words(error)),
        };
        let outcome = outcome.as_deref().map_err(String::as_str);
        let written = match &result {
            Err(WorkError::Stopped) => entry.catalog.run_leave(entry.run).await,
            _ => entry.catalog.run_finish(entry.run, outcome).await,
        };
        if let Err(error) = written {
            tracing::warn!(task = self.task, error = in_words(&error), "the end of a run is not entered in the ledger");
        }
        entry.ended = true;
        result
    }

    fn entry(&self) -> MutexGuard<'_, Option<Entry>> {
        self.entry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
