//! The ledger entry of a run.

use super::{WorkError, Worker, in_words};
use hoglake_catalog::runs::RunId;
use hoglake_model::CatalogId;
use serde::Serialize;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

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
    run: Mutex<Option<RunId>>,
}

impl Worker {
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
        let record = Record { worker: self.clone(), catalog, task, started: Instant::now(), run: Mutex::new(None) };
        if trigger == Trigger::Request {
            record.begin().await?;
        }
        Ok(record)
    }
}

impl Record {
    /// Enters the run in the ledger, the first time.
    ///
    /// # Errors
    /// Any database error.
    pub(super) async fn begin(&self) -> Result<(), WorkError> {
        if self.entered().is_none() {
            let run = self.worker.catalog.run_begin(self.catalog, self.task).await?;
            *self.run.lock().unwrap_or_else(PoisonError::into_inner) = Some(run);
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
        let Some(run) = self.entered() else { return result };
        match &result {
            Ok(status) => {
                let status = serde_json::to_string(status).unwrap_or_else(|_| "{}".to_owned());
                self.worker.catalog.run_finish(run, Ok(&status)).await?;
            }
            // the ledger is the lesser loss: the error itself goes to the caller
            Err(error) => drop(self.worker.catalog.run_finish(run, Err(&in_words(error))).await),
        }
        result
    }

    fn entered(&self) -> Option<RunId> {
        *self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
