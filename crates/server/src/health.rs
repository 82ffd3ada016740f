//! `/livez` and `/healthz`.
//!
//! `/livez` says that the process answers. `/healthz` says that Postgres answers, within a hard deadline, over a
//! connection of its own; probes that arrive together share one attempt.

use crate::api::error::ApiError;
use crate::app::App;
use axum::extract::State;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use hoglake_catalog::probe::Probe;
use hoglake_model::{ErrorCode, Refusal};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an answer serves the probes that come after it.
const FRESH: Duration = Duration::from_millis(200);

/// Probes of the database.
pub struct Health {
    probe: Arc<Probe>,
    deadline: Duration,
    latest: Mutex<Option<Attempt>>,
}

#[derive(Clone)]
struct Attempt {
    started: Instant,
    outcome: Shared<BoxFuture<'static, Result<(), String>>>,
}

impl Health {
    /// Asks `probe`, for at most `deadline` at a time.
    pub fn new(probe: Probe, deadline: Duration) -> Self {
        Self { probe: Arc::new(probe), deadline, latest: Mutex::new(None) }
    }

    /// Whether Postgres answers.
    ///
    /// # Errors
    /// Why not, for the log.
    pub async fn check(&self) -> Result<(), String> {
        let outcome = {
            let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
            match latest.as_ref().filter(|attempt| attempt.is_running() || attempt.started.elapsed() < FRESH) {
                Some(attempt) => attempt.outcome.clone(),
                None => latest.insert(self.attempt()).outcome.clone(),
            }
        };
        outcome.await
    }

    /// Runs in a task of its own: it goes on when the client that asked for it goes away.
    fn attempt(&self) -> Attempt {
        let (probe, deadline) = (self.probe.clone(), self.deadline);
        let task = tokio::spawn(async move {
            match tokio::time::timeout(deadline, probe.ping()).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(crate::api::error::chain(&error)),
                Err(_elapsed) => Err(format!("no answer within {} ms", deadline.as_millis())),
            }
        });
        let outcome = async move { task.await.unwrap_or_else(|error| Err(error.to_string())) };
        Attempt { started: Instant::now(), outcome: outcome.boxed().shared() }
    }
}

impl Attempt {
    fn is_running(&self) -> bool {
        self.outcome.peek().is_none()
    }
}

/// GET /livez
pub async fn livez() -> &'static str {
    "ok\n"
}

/// GET /healthz
///
/// # Errors
/// 503 when Postgres does not answer.
pub async fn healthz(State(app): State<App>) -> Result<&'static str, ApiError> {
    match app.health.check().await {
        Ok(()) => Ok("ok\n"),
        Err(problem) => {
            tracing::warn!(problem, "health probe failed");
            Err(Refusal::new(ErrorCode::Unavailable, "the catalog's database does not answer").into())
        }
    }
}
