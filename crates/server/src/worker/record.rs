//! The ledger entry of a run.

use super::{WorkError, Worker, in_words};
use hoglake_catalog::Catalog;
use hoglake_catalog::error::sqlstate::READ_ONLY_SQL_TRANSACTION;
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
        let record = Record { worker: self.clone(), catalog, task, started: Instant::now(), entry: Mutex::new(None) };
        if trigger == Trigger::Request {
            record.begin().await?;
        }
        Ok(record)
    }
}

impl Record {
    /// Enters the run in the ledger, the first time; those whose servers have died are closed there.
    ///
    /// # Errors
    /// Any database error.
    pub(super) async fn begin(&self) -> Result<(), WorkError> {
        if self.entry().is_none() {
            let begun = async {
                self.worker.close_abandoned(self.catalog).await?;
                Ok::<_, WorkError>(self.worker.catalog.run_begin(self.catalog, self.task).await?)
            };
            match begun.await {
                Ok(run) => *self.entry() = Some(Entry::new(&self.worker.catalog, run)),
                // a standby can be verified, and has no ledger of its own
                Err(WorkError::Catalog(error)) if error.is_sqlstate(READ_ONLY_SQL_TRANSACTION) => {
                    tracing::info!(
                        task = self.task,
                        "the database takes no writes: the run is not entered in its ledger"
                    );
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends the run with what came out of it.
    ///
    /// # Errors
    /// That of `result`, which the ledger keeps in words; or any database error.
    pub(super) async fn finish<T: Serialize>(self, result: Result<T, WorkError>) -> Result<T, WorkError> {
        metrics::histogram!("hoglake_maintenance_run_duration_seconds", "task" => self.task)
            .record(self.started.elapsed().as_secs_f64());
        let Some(mut entry) = self.entry().take() else { return result };
        // what comes after the end must not say that the run goes on
        entry.heartbeat.abort();
        match &result {
            Ok(status) => {
                let status = serde_json::to_string(status).unwrap_or_else(|_| "{}".to_owned());
                entry.catalog.run_finish(entry.run, Ok(&status)).await?;
            }
            // the ledger is the lesser loss: the error itself goes to the caller
            Err(error) => drop(entry.catalog.run_finish(entry.run, Err(&in_words(error))).await),
        }
        entry.ended = true;
        result
    }

    fn entry(&self) -> MutexGuard<'_, Option<Entry>> {
        self.entry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
