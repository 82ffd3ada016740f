//! The group committer of one catalog: drains what waits, judges it in memory, writes it in one transaction.

mod ddl;

use super::Fault;
use super::load::{SchemaCache, load};
use super::plans::Plans;
use super::queue::{Job, TakenJob, Work, remaining};
use super::write::{Entry, Trace, write};
use crate::error::{Error, Result, has_sqlstate, sqlstate};
use crate::idempotency::{self, Answer, IdempotencyKey};
use crate::lock::begin_locked;
use hoglake_model::commit::{CommitRequest, judge};
use hoglake_model::{CatalogId, SnapshotId};
use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, PgPool, Postgres};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Runs until the queue is closed and empty.
pub(super) async fn run(
    pool: PgPool,
    plans: Arc<Plans>,
    limits: GroupLimits,
    catalog: CatalogId,
    mut queue: mpsc::Receiver<Job>,
) {
    let mut committer = Committer { pool, plans, limits, catalog, schemas: SchemaCache::default(), connection: None };
    let mut held: Option<Job> = None;
    loop {
        let Some(first) = (match held.take() {
            Some(job) => Some(job),
            None => committer.next(&mut queue).await,
        }) else {
            return;
        };
        let group = committer.drain(first, &mut queue, &mut held);
        committer.process(group).await;
        metrics::gauge!("hoglake_commit_queue_depth", "catalog" => committer.catalog.to_string())
            .set(queue.len() as f64);
    }
}

/// How long a committer without work keeps its connection: longer than the pause between two commits of one writer,
/// shorter than anyone would notice that other catalogs wait for it.
const IDLE_CONNECTION: Duration = Duration::from_millis(250);

/// What one transaction holds at most.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupLimits {
    pub(super) requests: usize,
    pub(super) files: usize,
}

struct Committer {
    pool: PgPool,
    plans: Arc<Plans>,
    limits: GroupLimits,
    catalog: CatalogId,
    schemas: SchemaCache,
    /// With the generation of its plans.
    connection: Option<(PoolConnection<Postgres>, u64)>,
}

/// Why an attempt did not end in a commit.
enum Failure {
    /// The connection or the lock was not to be had in time, or a change that takes no commit lock stored an answer
    /// under a key of the group meanwhile: those with budget left go again.
    Busy,
    /// It failed.
    Fault(Fault),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        let again = has_sqlstate(&error, sqlstate::LOCK_NOT_AVAILABLE) || idempotency::is_race(&error);
        if again { Self::Busy } else { Self::Fault(error.into()) }
    }
}

impl Committer {
    /// The next job. A catalog without work gives its connection back.
    async fn next(&mut self, queue: &mut mpsc::Receiver<Job>) -> Option<Job> {
        if self.connection.is_some() {
            match tokio::time::timeout(IDLE_CONNECTION, queue.recv()).await {
                Ok(job) => return job,
                Err(_) => self.give_back(),
            }
        }
        queue.recv().await
    }

    /// Connections in the pool have plans of this generation.
    fn give_back(&mut self) {
        if let Some((mut connection, generation)) = self.connection.take()
            && generation != self.plans.generation()
        {
            connection.close_on_drop();
        }
    }

    /// `first` and whatever waits behind it, as far as one transaction should hold. DDL goes alone, in its turn.
    fn drain(&self, first: Job, queue: &mut mpsc::Receiver<Job>, held: &mut Option<Job>) -> Vec<Job> {
        let mut files = first.files();
        let groups = first.groups();
        let mut group = vec![first];
        while groups && group.len() < self.limits.requests {
            let Ok(job) = queue.try_recv() else { break };
            files += job.files();
            if !job.groups() || files > self.limits.files {
                *held = Some(job);
                break;
            }
            group.push(job);
        }
        group
    }

    async fn process(&mut self, group: Vec<Job>) {
        let mut jobs: Vec<TakenJob> = group.into_iter().filter_map(Job::take).collect();
        loop {
            let (live, late): (Vec<_>, Vec<_>) =
                jobs.into_iter().partition(|job| job.deadline.is_none_or(|deadline| Instant::now() < deadline));
            late.into_iter().for_each(TakenJob::shed);
            jobs = live;
            if jobs.is_empty() {
                return;
            }
            if jobs.iter().any(|job| matches!(job.work, Work::Ddl(_))) {
                for job in jobs {
                    self.process_ddl(job).await;
                }
                return;
            }
            match self.attempt(&jobs).await {
                Ok(answers) => {
                    for (job, answer) in jobs.into_iter().zip(answers) {
                        job.reply(answer);
                    }
                    return;
                }
                Err(Failure::Busy) => {}
                Err(Failure::Fault(fault)) if jobs.len() == 1 || fault.refusal().is_some() => {
                    return reply_all(jobs, &fault);
                }
                Err(Failure::Fault(fault)) => {
                    tracing::warn!(catalog = %self.catalog, error = ?fault, requests = jobs.len(), "group commit failed; each request is tried alone");
                    return self.process_alone(jobs).await;
                }
            }
        }
    }

    /// One bad request never fails its neighbours.
    async fn process_alone(&mut self, jobs: Vec<TakenJob>) {
        for job in jobs {
            let one = [job];
            let outcome = self.attempt(&one).await;
            let [job] = one;
            match outcome {
                Ok(mut answers) => match answers.pop() {
                    Some(answer) => job.reply(answer),
                    None => job.reply(Err(Error::Corrupt("a commit had no answer".to_owned()))),
                },
                Err(Failure::Busy) => job.shed(),
                Err(Failure::Fault(fault)) => job.reply(Err(fault.into())),
            }
        }
    }

    /// Runs one transaction for `jobs`; answers in their order.
    async fn attempt(&mut self, jobs: &[TakenJob]) -> Result<Vec<Result<Answer>>, Failure> {
        let deadline = earliest_deadline(jobs);
        let held = self.connection.is_some();
        let (mut connection, generation) = self.connect(deadline).await?;
        let outcome = self.commit_group(&mut connection, jobs, deadline).await;
        match outcome {
            Ok(answers) => {
                self.connection = Some((connection, generation));
                Ok(answers)
            }
            Err(Interrupted::Before(failure)) => {
                // whatever state the session is in, it does not go back to the pool
                connection.close_on_drop();
                match failure {
                    // Postgres was restarted since the last commit: nothing was sent that could have taken effect
                    Failure::Fault(Fault::Database(error)) if held && matches!(*error, sqlx::Error::Io(_)) => {
                        Err(Failure::Busy)
                    }
                    failure => Err(failure),
                }
            }
            Err(Interrupted::During(trace, answers)) => {
                connection.close_on_drop();
                drop(connection);
                self.resolve(&trace, deadline).await?;
                Ok(answers)
            }
        }
    }

    async fn commit_group(
        &mut self,
        connection: &mut PgConnection,
        jobs: &[TakenJob],
        deadline: Option<Instant>,
    ) -> Result<Vec<Result<Answer>>, Interrupted> {
        let mut transaction = begin_locked(connection, self.catalog, deadline.map(remaining)).await?;
        let requests: Vec<&CommitRequest> = jobs.iter().filter_map(request).collect();
        let keys: Vec<&str> = jobs.iter().filter_map(|j| j.key.as_ref()).map(|k| k.key.as_str()).collect();
        let (mut state, stored) = load(&mut transaction, self.catalog, &requests, &keys, &mut self.schemas).await?;
        let mut stored: HashMap<String, _> = stored.into_iter().map(|s| (s.key.clone(), s)).collect();
        let first_file = state.next_file_id;

        let mut entries: Vec<Entry<'_>> = Vec::with_capacity(jobs.len());
        let mut answers = Vec::with_capacity(jobs.len());
        for job in jobs {
            let Some(request) = request(job) else { continue };
            if let Some(key) = &job.key
                && let Some(stored) = stored.get(&key.key)
            {
                answers.push(key.replay(stored.clone()).map_err(Error::from));
                continue;
            }
            match judge(&mut state, request) {
                Err(refusal) => answers.push(Err(refusal.into())),
                Ok(accepted) => {
                    let response =
                        format!(r#"{{"snapshot_id":{},"schema_version":{}}}"#, accepted.snapshot, state.schema_version);
                    let answer = Answer {
                        status: 200,
                        body: Some(response.clone()),
                        snapshot: Some(accepted.snapshot),
                        replayed: false,
                    };
                    if let Some(key) = &job.key {
                        stored.insert(key.key.clone(), stored_answer(key, &answer));
                    }
                    entries.push(Entry { request, accepted, key: job.key.as_ref(), response });
                    answers.push(Ok(answer));
                }
            }
        }
        if entries.is_empty() {
            transaction.rollback().await?;
            return Ok(answers);
        }
        metrics::histogram!("hoglake_commit_batch_size").record(entries.len() as f64);
        let trace = write(&mut transaction, self.catalog, &state, &entries).await?;
        match transaction.commit().await {
            Ok(()) => {
                let files = u64::try_from(state.next_file_id - first_file).unwrap_or(0);
                self.plans.written(files + entries.len() as u64, &self.pool);
                Ok(answers)
            }
            Err(error) if error.as_database_error().is_none() => Err(Interrupted::During(trace, answers)),
            Err(error) => Err(error.into()),
        }
    }

    /// Finds out whether a group was committed whose connection broke while it was asked to.
    async fn resolve(&mut self, trace: &Trace, deadline: Option<Instant>) -> Result<(), Failure> {
        let give_up = deadline.unwrap_or_else(|| Instant::now() + Duration::from_secs(30));
        loop {
            match self.committed(trace, give_up).await {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    let lost = sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
                    return Err(Failure::Fault(lost.into()));
                }
                Err(_) if Instant::now() < give_up => tokio::time::sleep(Duration::from_millis(100)).await,
                Err(_) => return Err(Failure::Fault(Fault::OutcomeUnknown)),
            }
        }
    }

    async fn committed(&mut self, trace: &Trace, give_up: Instant) -> Result<bool, sqlx::Error> {
        let mut connection = self.pool.acquire().await?;
        connection.close_on_drop();
        // once the lock is had, the broken session's transaction has ended one way or the other
        let mut transaction = begin_locked(&mut connection, self.catalog, Some(remaining(give_up))).await?;
        sqlx::query_scalar(include_str!("../../sql/commit/committed.sql"))
            .bind(self.catalog.0)
            .bind(trace.snapshot)
            .bind(trace.time)
            .bind(&trace.transaction)
            .fetch_one(&mut *transaction)
            .await
    }

    /// A connection, with the generation of its plans.
    async fn connect(&mut self, deadline: Option<Instant>) -> Result<(PoolConnection<Postgres>, u64), Failure> {
        let generation = self.plans.generation();
        if let Some((mut connection, planned)) = self.connection.take() {
            if planned == generation || sqlx::raw_sql("discard plans").execute(&mut *connection).await.is_ok() {
                return Ok((connection, generation));
            }
            connection.close_on_drop();
        }
        let acquire = self.pool.acquire();
        match deadline {
            None => Ok((acquire.await?, generation)),
            Some(deadline) => match tokio::time::timeout_at(deadline, acquire).await {
                Ok(Err(sqlx::Error::PoolTimedOut)) | Err(_) => Err(Failure::Busy),
                Ok(connection) => Ok((connection?, generation)),
            },
        }
    }
}

/// Where an attempt broke off.
enum Interrupted {
    /// Nothing was committed.
    Before(Failure),
    /// COMMIT was sent and not answered.
    During(Trace, Vec<Result<Answer>>),
}

impl<F: Into<Failure>> From<F> for Interrupted {
    fn from(failure: F) -> Self {
        Self::Before(failure.into())
    }
}

fn request(job: &TakenJob) -> Option<&CommitRequest> {
    match &job.work {
        Work::Commit(request) => Some(request),
        Work::Ddl(_) => None,
    }
}

fn earliest_deadline(jobs: &[TakenJob]) -> Option<Instant> {
    jobs.iter().filter_map(|job| job.deadline).min()
}

fn stored_answer(key: &IdempotencyKey, answer: &Answer) -> idempotency::StoredAnswer {
    idempotency::StoredAnswer {
        key: key.key.clone(),
        request_hash: key.request_hash.to_vec(),
        status: 200,
        response: answer.body.clone(),
        under_way: None,
        snapshot_id: answer.snapshot.map(|SnapshotId(id)| id),
    }
}

fn reply_all(jobs: Vec<TakenJob>, fault: &Fault) {
    for job in jobs {
        job.reply(Err(fault.clone().into()));
    }
}
