//! Conversions of a server: in the foreground while a client waits, in the background as jobs.
//!
//! **Architecture invariant:** credentials of a request are in memory only. A job that needs them belongs to the server
//! that holds them; when that ends, the job ends with a failure that says so.

mod driver;

pub use driver::Driver;

use super::failure::Failure;
use super::request::{Conversion, ConvertTableRequest, Rules};
use super::run::{ConvertTableResponse, convert};
use crate::audit::{Action, Audit, Event, Outcome};
use crate::config::ConfigError;
use crate::config::conversion::ConversionConfig;
use hoglake_catalog::Catalog;
use hoglake_catalog::conversions::{Begun, Bounds, Holder, NewConversion, State, Turn};
use hoglake_catalog::idempotency::{Answer, IdempotencyKey};
use hoglake_formats::store::{Roots, StoreConfig, Stores};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;
use uuid::Uuid;

/// How long a client waits for its turn before it is sent away.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long it takes to try again when the database is away.
const AGAIN: Duration = Duration::from_secs(1);

/// Conversions of this server. Cheap to clone.
#[derive(Clone)]
pub struct Converter(Arc<Parts>);

struct Parts {
    catalog: Catalog,
    audit: Audit,
    config: ConversionConfig,
    rules: Rules,
    /// Clients with the server's own credentials.
    stores: Arc<Stores>,
    /// This process, among the servers of the database.
    server: Uuid,
    /// Conversions that may go on.
    slots: Arc<Semaphore>,
    /// What is known of jobs whose credentials only this process has.
    private: Mutex<HashMap<Uuid, Arc<Conversion>>>,
    /// Something was put into the table of jobs, or a job is over.
    work: Notify,
    over: Notify,
}

/// Who asks, for the records.
#[derive(Debug, Clone)]
pub struct Asker {
    /// The token's name.
    pub actor: String,
    /// The id of the request.
    pub request_id: String,
}

/// A job that was accepted.
#[derive(Debug, Clone)]
pub enum Submitted {
    /// Under this id.
    Job(Uuid),
    /// The key has been answered before.
    Replayed(Answer),
}

impl Converter {
    /// A server's conversions; nothing runs yet. `own` is how the server itself reaches the stores.
    ///
    /// # Errors
    /// A setting that cannot be used.
    pub fn new(
        catalog: Catalog,
        audit: Audit,
        config: ConversionConfig,
        own: StoreConfig,
    ) -> Result<Self, ConfigError> {
        let roots = Arc::new(config.roots()?);
        let own = StoreConfig { local: roots.has_local(), ..own };
        let grants = super::settings::Grants { own: own.clone(), endpoints: config.endpoints()? };
        Ok(Self(Arc::new(Parts {
            catalog,
            audit,
            stores: Arc::new(Stores::confined(own, Arc::clone(&roots))),
            rules: Rules { roots, grants },
            server: Uuid::new_v4(),
            slots: Arc::new(Semaphore::new(config.conversion_concurrency.into())),
            config,
            private: Mutex::default(),
            work: Notify::new(),
            over: Notify::new(),
        })))
    }

    /// Checks a request.
    ///
    /// # Errors
    /// As [`ConvertTableRequest::check`].
    pub fn check(&self, request: &ConvertTableRequest) -> Result<Conversion, Failure> {
        request.check(&self.0.rules)
    }

    /// Converts while the client waits. Once begun it is finished, even for a client that has gone.
    ///
    /// # Errors
    /// 409 while somebody else converts the table, 503 when too many conversions go on; otherwise as the conversion.
    pub async fn in_foreground(
        &self,
        asker: Asker,
        request: &ConvertTableRequest,
        conversion: Conversion,
    ) -> Result<ConvertTableResponse, Failure> {
        let Ok(Ok(slot)) = timeout(PATIENCE, Arc::clone(&self.0.slots).acquire_owned()).await else {
            return Err(full("this server does as many conversions at a time as it may"));
        };
        let new = self.new_conversion(&asker, request, &conversion, None);
        let this = self.clone();
        // All of it in a task: a client that goes while the table is being taken must not leave it taken.
        let work = tokio::spawn(async move {
            let _slot = slot;
            this.at_once(asker, new, conversion).await
        });
        work.await.unwrap_or_else(|error| Err(Failure::fault(error.to_string())))
    }

    async fn at_once(
        self,
        asker: Asker,
        new: NewConversion,
        conversion: Conversion,
    ) -> Result<ConvertTableResponse, Failure> {
        let begun = self.0.catalog.conversion_begin(&new, self.0.server, self.bounds(), None).await?;
        if let Some(failure) = refusal(&begun) {
            self.note(&asker, &new.source, &Err(failure.clone()));
            return Err(failure);
        }
        let this = self.clone();
        // In a task of its own, so that a panic frees the table too.
        let run = tokio::spawn(async move { this.timed("foreground", &conversion, &asker).await });
        let result = run.await.unwrap_or_else(|error| Err(Failure::fault(error.to_string())));
        if self.0.catalog.conversion_end(new.id).await.is_err() {
            tokio::spawn(async move { self.end(new.id).await });
        }
        result
    }

    /// Frees the table of a conversion that is over. Until that is done, this server goes on renewing its lease.
    async fn end(&self, id: Uuid) {
        while let Err(error) = self.0.catalog.conversion_end(id).await {
            let error = crate::api::error::chain(&error);
            tracing::warn!(conversion = %id, error, "a conversion is over, but its table cannot be freed yet");
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Accepts a conversion as a job, once for `key`.
    ///
    /// # Errors
    /// As [`Converter::in_foreground`], before anything is done.
    pub async fn in_background(
        &self,
        asker: &Asker,
        request: &ConvertTableRequest,
        conversion: Conversion,
        key: Option<&IdempotencyKey>,
    ) -> Result<Submitted, Failure> {
        let (public, is_private) = request.without_secrets();
        let public = serde_json::to_string(&public).map_err(|error| Failure::fault(error.to_string()))?;
        let new = NewConversion { is_private, ..self.new_conversion(asker, request, &conversion, Some(public)) };
        let answer =
            Answer { status: 202, body: Some(super::submitted(new.id).to_string()), snapshot: None, replayed: false };
        let (this, key) = (self.clone(), key.cloned());
        // In a task: what is remembered for the job is forgotten again, even for a client that has gone.
        let submitted = tokio::spawn(async move {
            if is_private {
                this.private().insert(new.id, Arc::new(conversion));
            }
            let key = key.as_ref().map(|key| (key, &answer));
            let begun = this.0.catalog.conversion_begin(&new, this.0.server, this.bounds(), key).await;
            if matches!(begun, Ok(Begun::Begun)) {
                this.0.work.notify_one();
            } else {
                this.private().remove(&new.id);
            }
            match begun? {
                Begun::Replayed(answer) => Ok(Submitted::Replayed(answer)),
                begun => refusal(&begun).map_or(Ok(Submitted::Job(new.id)), Err),
            }
        });
        submitted.await.unwrap_or_else(|error| Err(Failure::fault(error.to_string())))
    }

    /// A job by its id; `None` when there is none, or no longer.
    ///
    /// # Errors
    /// As the database.
    pub async fn find(&self, id: Uuid) -> Result<Option<State>, Failure> {
        Ok(self.0.catalog.conversion_find(id).await?)
    }

    /// The same, once it is over or `wait` has passed.
    ///
    /// # Errors
    /// As the database.
    pub async fn find_within(&self, id: Uuid, wait: Duration) -> Result<Option<State>, Failure> {
        let deadline = Instant::now() + wait;
        loop {
            let over = self.0.over.notified();
            let state = self.find(id).await?;
            let left = deadline.saturating_duration_since(Instant::now());
            if !matches!(state, Some(State::Pending)) || left.is_zero() {
                return Ok(state);
            }
            // Another server may do it, which tells nobody here.
            let _ = timeout(left.min(Duration::from_millis(500)), over).await;
        }
    }

    fn new_conversion(
        &self,
        asker: &Asker,
        request: &ConvertTableRequest,
        conversion: &Conversion,
        public: Option<String>,
    ) -> NewConversion {
        let roots: &Roots = &self.0.rules.roots;
        let places = vec![roots.canonical(&conversion.place.root), roots.canonical(&conversion.target_root)];
        NewConversion {
            id: Uuid::new_v4(),
            actor: asker.actor.clone(),
            request_id: asker.request_id.clone(),
            source: request.source_table_path.clone(),
            places,
            request: public,
            is_private: false,
        }
    }

    fn bounds(&self) -> Bounds {
        Bounds { limit: self.0.config.conversion_max_jobs.into(), lease: self.0.config.lease() }
    }

    fn private(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, Arc<Conversion>>> {
        self.0.private.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Converts, with a metric, a log line and a line in the audit trail.
    async fn timed(
        &self,
        mode: &'static str,
        conversion: &Conversion,
        asker: &Asker,
    ) -> Result<ConvertTableResponse, Failure> {
        let begun = Instant::now();
        let stores = match &conversion.settings.stores {
            // Clients of one request only: nobody else ever uses its credentials.
            Some(config) => Arc::new(Stores::confined(config.clone(), Arc::clone(&self.0.rules.roots))),
            None => Arc::clone(&self.0.stores),
        };
        let result = convert(&stores, conversion).await;
        metrics::histogram!("hoglake_conversion_duration_seconds", "mode" => mode)
            .record(begun.elapsed().as_secs_f64());
        self.note(asker, &conversion.place.root.to_string(), &result);
        result
    }

    /// Logs a failure, and writes what was done, or not, into the audit trail.
    pub fn note(&self, asker: &Asker, source: &str, result: &Result<ConvertTableResponse, Failure>) {
        let (outcome, detail) = match result {
            Ok(done) => (Outcome::Ok, done.summary()),
            Err(failure) => {
                failure.log(&asker.request_id);
                (failure.outcome(), failure.model.message.clone())
            }
        };
        self.0.audit.record(&Event {
            action: Action::Conversion,
            outcome,
            actor: &asker.actor,
            catalog: None,
            object: Some(source),
            detail: Some(&detail),
            request_id: Some(&asker.request_id),
        });
    }

    /// Does a turn of a job, whose row this server holds, and stores the answer.
    async fn turn(&self, turn: &Turn) {
        let asker = Asker { actor: turn.actor.clone(), request_id: turn.request_id.clone() };
        let result = match self.prepared(turn) {
            Ok(conversion) => self.timed("background", &conversion, &asker).await,
            Err(failure) => {
                let refused = Err(failure);
                self.note(&asker, &turn.source, &refused);
                refused
            }
        };
        let (status, answer) = match &result {
            Ok(done) => (200, serde_json::to_string(done).unwrap_or_else(|_| "{}".to_owned())),
            Err(failure) => (failure.model.code, failure.body()),
        };
        self.answer(turn, status, &answer).await;
        self.private().remove(&turn.conversion_id);
        self.0.over.notify_waiters();
    }

    /// Stores the answer of a turn, however long the database is away: until that is done, this server goes on renewing the
    /// lease, or another one takes the job over.
    async fn answer(&self, turn: &Turn, status: u16, answer: &str) {
        loop {
            match self.0.catalog.conversion_finish(turn, self.0.server, status, answer).await {
                Ok(true) => return,
                Ok(false) => {
                    tracing::warn!(conversion = %turn.conversion_id, "another server has taken the conversion over");
                    return;
                }
                Err(error) => {
                    let error = crate::api::error::chain(&error);
                    tracing::warn!(conversion = %turn.conversion_id, error, "the answer cannot be stored yet");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    fn prepared(&self, turn: &Turn) -> Result<Arc<Conversion>, Failure> {
        const TURNS: i32 = 3;
        if turn.attempts > TURNS {
            return Err(Failure::new(
                500,
                "conversion_interrupted",
                format!("{TURNS} servers ended while they converted this table; it is not tried again by itself"),
            ));
        }
        if turn.attempts > 1 {
            metrics::counter!("hoglake_conversion_takeovers_total").increment(1);
            tracing::info!(conversion = %turn.conversion_id, attempts = turn.attempts, "conversion taken over");
        }
        if turn.is_private {
            let held = self.private().get(&turn.conversion_id).cloned();
            return held.ok_or_else(super::lost_credentials);
        }
        let request: ConvertTableRequest =
            serde_json::from_str(&turn.request).map_err(|error| Failure::fault(error.to_string()))?;
        self.check(&request).map(Arc::new)
    }
}

/// Why a conversion was not begun, if it was not.
fn refusal(begun: &Begun) -> Option<Failure> {
    match begun {
        Begun::Begun | Begun::Replayed(_) => None,
        Begun::Busy(holder) => Some(busy(holder)),
        Begun::Full => Some(full("as many conversions wait or run as may")),
    }
}

fn busy(holder: &Holder) -> Failure {
    let id = if holder.is_background { format!(" (conversion-id {})", holder.conversion_id) } else { String::new() };
    Failure::new(
        409,
        "conversion_running",
        format!(
            "`{}` has been converting this table since {}, from {}{id}; repeat the request when that is over",
            holder.actor,
            holder.created_at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
            hoglake_model::name::quoted(&holder.source)
        ),
    )
}

fn full(what: &str) -> Failure {
    metrics::counter!("hoglake_requests_shed_total", "reason" => "conversions_full").increment(1);
    Failure::new(503, "too_many_conversions", format!("{what}; repeat the request in a few seconds"))
}
