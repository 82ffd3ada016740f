//! Admission: what waits for a catalog's committer, for how long, and who runs it.

use super::group::{self, GroupLimits};
use super::plans::Plans;
use crate::ddl::DdlBody;
use crate::error::Result;
use crate::idempotency::{Answer, IdempotencyKey};
use crate::{Catalog, Error};
use hoglake_model::commit::CommitRequest;
use hoglake_model::{CatalogId, ErrorCode, Refusal};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// What a request wants done under the lock.
pub enum Work {
    /// A data commit; groups with its neighbours.
    Commit(Box<CommitRequest>),
    /// A DDL request; goes alone.
    Ddl(DdlBody),
}

/// One request in the queue.
pub struct Job {
    pub(super) work: Work,
    pub(super) key: Option<IdempotencyKey>,
    /// When waiting has used up its budget; `None` waits for ever.
    pub(super) deadline: Option<Instant>,
    pub(super) queued_at: Instant,
    claim: Arc<Claim>,
    reply: oneshot::Sender<Result<Answer>>,
}

/// Decides, once, between the committer that takes a job and the client that stops waiting for it.
#[derive(Default)]
struct Claim(AtomicU8);

const WAITING: u8 = 0;
const TAKEN: u8 = 1;
const ABANDONED: u8 = 2;

impl Claim {
    fn settle(&self, to: u8) -> bool {
        self.0.compare_exchange(WAITING, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Job {
    /// Queues `work` for the committer of `catalog` and waits for its answer.
    ///
    /// # Errors
    /// 503 `commit_queue_timeout` when the queue is full or the budget is used up before the work began; what the work
    /// itself answers otherwise.
    pub(crate) async fn submit(
        store: &Catalog,
        catalog: CatalogId,
        work: Work,
        key: Option<IdempotencyKey>,
    ) -> Result<Answer> {
        let queued_at = Instant::now();
        let deadline = store.options().commit_lock_timeout.map(|budget| queued_at + budget);
        let claim = Arc::new(Claim::default());
        let (reply, answer) = oneshot::channel();
        let job = Job { work, key, deadline, queued_at, claim: Arc::clone(&claim), reply };
        store.inner.committers.sender(store, catalog)?.try_send(job).map_err(|_| {
            metrics::counter!("hoglake_requests_shed_total", "reason" => "queue_full").increment(1);
            shed("the catalog's commit queue is full")
        })?;
        await_answer(answer, deadline, &claim).await
    }

    /// Takes the job for execution; `None` when its client has gone or its budget is used up.
    pub(super) fn take(self) -> Option<TakenJob> {
        let waited = self.queued_at.elapsed();
        metrics::histogram!("hoglake_request_queue_wait_seconds").record(waited.as_secs_f64());
        if self.reply.is_closed() || !self.claim.settle(TAKEN) {
            return None;
        }
        Some(TakenJob { work: self.work, key: self.key, deadline: self.deadline, reply: self.reply })
    }

    /// Whether this job may share a transaction with others.
    pub(super) fn groups(&self) -> bool {
        matches!(self.work, Work::Commit(_))
    }

    /// Files that the job writes.
    pub(super) fn files(&self) -> usize {
        match &self.work {
            Work::Commit(request) => request.file_count(),
            Work::Ddl(_) => 0,
        }
    }
}

/// A job that a committer owns: its client now waits for the outcome, however long that takes.
pub struct TakenJob {
    pub(super) work: Work,
    pub(super) key: Option<IdempotencyKey>,
    pub(super) deadline: Option<Instant>,
    reply: oneshot::Sender<Result<Answer>>,
}

impl TakenJob {
    /// Answers the client. One that has gone is no error.
    pub(super) fn reply(self, answer: Result<Answer>) {
        drop(self.reply.send(answer));
    }

    /// Splits the job into its work and the way to answer it.
    pub(super) fn split(self) -> (Work, Option<IdempotencyKey>, impl FnOnce(Result<Answer>)) {
        (self.work, self.key, move |answer| drop(self.reply.send(answer)))
    }

    /// Answers 503: the budget went by.
    pub(super) fn shed(self) {
        self.reply(Err(lock_timeout()));
    }
}

/// 503: the lock, or a connection to take it on, was not had within the budget.
pub(crate) fn lock_timeout() -> Error {
    metrics::counter!("hoglake_requests_shed_total", "reason" => "lock_timeout").increment(1);
    shed("waiting for the catalog's commit lock took longer than the commit budget").into()
}

async fn await_answer(
    mut answer: oneshot::Receiver<Result<Answer>>,
    deadline: Option<Instant>,
    claim: &Claim,
) -> Result<Answer> {
    if let Some(deadline) = deadline {
        tokio::select! {
            biased;
            received = &mut answer => return received.unwrap_or_else(|_| Err(gone())),
            () = tokio::time::sleep_until(deadline) => {
                if claim.settle(ABANDONED) {
                    metrics::counter!("hoglake_requests_shed_total", "reason" => "queue_timeout").increment(1);
                    return Err(shed("the request waited in the catalog's commit queue for its whole budget").into());
                }
            }
        }
    }
    answer.await.unwrap_or_else(|_| Err(gone()))
}

fn shed(what: &str) -> Refusal {
    Refusal::new(
        ErrorCode::CommitQueueTimeout,
        format!("{what}; nothing was changed: retry the identical request after the Retry-After delay"),
    )
}

fn gone() -> Error {
    Refusal::new(ErrorCode::Unavailable, "the server is shutting down; retry the request on another replica").into()
}

/// The queues of this process, one a catalog, each with its committer task.
#[derive(Default)]
pub struct Committers {
    running: Mutex<Running>,
    thread: CommitThread,
    plans: Arc<Plans>,
}

/// The thread that all committers share. A commit is four answers of Postgres waited for one after another; on the
/// threads of the requests each of them would wake whichever thread slept last, and that costs as much as the answer.
/// It ends with its owner, after the connections that live on it.
#[derive(Default)]
struct CommitThread(OnceLock<(Handle, oneshot::Sender<()>)>);

impl CommitThread {
    /// Where tasks of the thread are spawned; starts it the first time.
    fn handle(&self) -> std::io::Result<&Handle> {
        if let Some((handle, _)) = self.0.get() {
            return Ok(handle);
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (owner, gone) = oneshot::channel();
        std::thread::Builder::new().name("hoglake-commit".to_owned()).spawn(move || drop(runtime.block_on(gone)))?;
        Ok(&self.0.get_or_init(|| (handle, owner)).0)
    }
}

#[derive(Default)]
struct Running {
    senders: HashMap<CatalogId, mpsc::Sender<Job>>,
    tasks: JoinSet<()>,
    closed: bool,
}

impl Committers {
    fn sender(&self, store: &Catalog, catalog: CatalogId) -> Result<mpsc::Sender<Job>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.closed {
            return Err(gone());
        }
        if let Some(sender) = running.senders.get(&catalog) {
            return Ok(sender.clone());
        }
        let (sender, queue) = mpsc::channel(store.options().commit_queue_limit);
        let thread = self.thread.handle().map_err(sqlx::Error::Io)?;
        let options = store.options();
        let limits = GroupLimits { requests: options.commit_batch_requests, files: options.commit_batch_files };
        // not the store itself, which would then never be dropped
        running
            .tasks
            .spawn_on(group::run(store.commit_pool().clone(), Arc::clone(&self.plans), limits, catalog, queue), thread);
        running.senders.insert(catalog, sender.clone());
        Ok(sender)
    }

    /// Refuses new requests, lets the queued ones finish, and waits for the committers to end.
    pub(crate) async fn close(&self) {
        let mut tasks = {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.closed = true;
            running.senders.clear();
            std::mem::take(&mut running.tasks)
        };
        while tasks.join_next().await.is_some() {}
    }
}

/// The time left until `deadline`, at least a millisecond.
pub(super) fn remaining(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}
