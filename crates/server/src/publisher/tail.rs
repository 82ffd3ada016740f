//! One publication: from its offset to head, and on.

use super::Publisher;
use super::encode::{Encoder, Produced};
use super::producer::{Pending, Producer, discard};
use super::trouble::Trouble;
use super::window::{FILES_AHEAD, Opened, Piece, UNITS_AHEAD, pieces};
use crate::audit::{Action, Outcome};
use chrono::{DateTime, Utc};
use futures::{StreamExt, stream};
use hoglake_catalog::fault;
use hoglake_catalog::publications::lease::{Claim, Due};
use hoglake_catalog::publications::window::{SnapshotChanges, Standing, Window};
use hoglake_model::SnapshotId;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Snapshots that may be under way.
const SNAPSHOTS_UNDER_WAY: usize = 64;
/// How often an offset moves over snapshots that do not concern the table.
const IDLE_ADVANCE: Duration = Duration::from_secs(1);
/// How long brokers may be silent until the publication says so.
const SILENCE: Duration = Duration::from_secs(2);
/// How long brokers may take for what was under way when reading came to trouble.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// First and longest pause after trouble.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// One publication that this server publishes.
pub(super) struct Tail {
    pub publisher: Publisher,
    pub claim: Claim,
    /// Up to here everything is read.
    pub read: Arc<AtomicI64>,
    /// What the driver has seen.
    pub due: watch::Receiver<Option<Due>>,
    pub cancelled: CancellationToken,
}

/// Records of a snapshot under way, or a snapshot without any.
struct UnderWay {
    snapshot: SnapshotId,
    time: Option<DateTime<Utc>>,
    pending: Option<Arc<Pending>>,
}

impl UnderWay {
    fn is_acknowledged(&self) -> Result<bool, Trouble> {
        self.pending.as_ref().map_or(Ok(true), |pending| pending.is_acknowledged())
    }
}

impl Tail {
    /// Publishes until the publication halts, or is somebody else's.
    pub async fn run(mut self) {
        fault::point("publication.claimed");
        let mut pause = FIRST_PAUSE;
        loop {
            let begun = self.claim.committed;
            let ended = self.publish().await;
            if self.claim.committed > begun {
                pause = FIRST_PAUSE;
            }
            match ended {
                Trouble::Lost => return,
                Trouble::Halt(words) => return self.halt(&words).await,
                Trouble::Wait(words) => {
                    self.count_error("wait");
                    tracing::warn!(
                        catalog = self.claim.catalog_name,
                        publication = self.claim.name,
                        words,
                        "publishing is tried again"
                    );
                    self.say(&words).await;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause.mul_f64(0.75 + rand::random::<f64>() / 2.0)) => {}
                () = self.cancelled.cancelled() => return,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// One attempt, with a client of its own: what the last one left behind is sent again.
    async fn publish(&mut self) -> Trouble {
        self.read.store(self.claim.committed.0, Ordering::Relaxed);
        let cancelled = self.cancelled.clone();
        tokio::select! {
            idle = self.idle() => if let Err(trouble) = idle { return trouble },
            () = cancelled.cancelled() => return Trouble::Lost,
        }
        let producer = match Producer::new(&self.claim.sink, &self.publisher.settings) {
            Ok(producer) => Arc::new(producer),
            Err(trouble) => return trouble,
        };
        let committed = Arc::new(AtomicI64::new(self.claim.committed.0));
        let (under_way, mut acknowledging) = mpsc::channel(SNAPSHOTS_UNDER_WAY);
        let (publisher, claim) = (self.publisher.clone(), self.claim.clone());
        let offset = Offset { publisher: &publisher, claim: &claim, producer: &producer, committed: &committed };
        let ended = {
            let reading = async {
                let trouble = self.follow(&producer, &under_way, &committed).await;
                drop(under_way);
                trouble
            };
            let mut acknowledged = std::pin::pin!(offset.follow(&mut acknowledging));
            tokio::select! {
                trouble = reading => {
                    // what is complete and under way still counts, so that it is not sent again
                    tokio::select! {
                        _ = &mut acknowledged => {}
                        () = tokio::time::sleep(LAST_WORDS) => {}
                        () = cancelled.cancelled() => {}
                    }
                    trouble
                }
                trouble = &mut acknowledged => trouble,
                () = cancelled.cancelled() => Trouble::Lost,
            }
        };
        self.claim.committed = SnapshotId(committed.load(Ordering::Relaxed));
        discard(producer).await;
        ended
    }

    /// Follows head, without a client, until the table may have changed.
    async fn idle(&mut self) -> Result<(), Trouble> {
        let mut advanced = None;
        loop {
            let due = self.next_due(advanced).await?;
            if due.changed {
                return Ok(());
            }
            let head = SnapshotId(due.head_snapshot);
            if !self.publisher.worker.catalog.publication_advance(&self.claim, head).await? {
                return Err(Trouble::Lost);
            }
            self.claim.committed = head;
            self.read.store(head.0, Ordering::Relaxed);
            advanced = Some(Instant::now());
        }
    }

    /// Reads and produces, window by window.
    async fn follow(
        &mut self,
        producer: &Arc<Producer>,
        under_way: &mpsc::Sender<UnderWay>,
        committed: &AtomicI64,
    ) -> Trouble {
        let mut advanced = Instant::now().checked_sub(IDLE_ADVANCE);
        loop {
            let due = match self.next_due(advanced).await {
                Ok(due) => due,
                Err(trouble) => return trouble,
            };
            let head = SnapshotId(due.head_snapshot);
            if !due.changed {
                self.read.fetch_max(head.0, Ordering::Relaxed);
                advanced = Some(Instant::now());
                if under_way.send(UnderWay { snapshot: head, time: None, pending: None }).await.is_err() {
                    return Trouble::Lost;
                }
                continue;
            }
            if let Err(trouble) = self.catch_up(producer, under_way, committed).await {
                return trouble;
            }
            advanced = Some(Instant::now());
        }
    }

    /// Waits until the driver sees something new: changes at once, anything else now and then.
    async fn next_due(&mut self, advanced: Option<Instant>) -> Result<Due, Trouble> {
        loop {
            let due = *self.due.borrow_and_update();
            let read = self.read.load(Ordering::Relaxed);
            if let Some(due) = due.filter(|due| due.is_news(read))
                && (due.changed || advanced.is_none_or(|advanced| advanced.elapsed() >= IDLE_ADVANCE))
            {
                return Ok(due);
            }
            if self.due.changed().await.is_err() {
                return Err(Trouble::Lost);
            }
        }
    }

    async fn catch_up(
        &mut self,
        producer: &Arc<Producer>,
        under_way: &mpsc::Sender<UnderWay>,
        committed: &AtomicI64,
    ) -> Result<(), Trouble> {
        loop {
            let catalog = &self.publisher.worker.catalog;
            let standing = catalog.publication_standing(&self.claim).await?.ok_or(Trouble::Lost)?;
            let read = self.read.load(Ordering::Relaxed);
            check_history(&standing)?;
            let end = standing.dropped_snapshot.map_or(standing.head_snapshot, |dropped| dropped - 1);
            if read >= end {
                let Some(dropped) = standing.dropped_snapshot else { return Ok(()) };
                // what came before the drop goes out first
                while committed.load(Ordering::Relaxed) < end {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                return Err(Trouble::Halt(dropped_words(&standing, dropped)));
            }
            let window = catalog.publication_window(&self.claim, SnapshotId(read), SnapshotId(end)).await?;
            fault::point("publication.window_read");
            self.produce(window, producer, under_way).await?;
        }
    }

    async fn produce(
        &self,
        window: Window,
        producer: &Arc<Producer>,
        under_way: &mpsc::Sender<UnderWay>,
    ) -> Result<(), Trouble> {
        let last = window.snapshots.last().map(|changes| changes.snapshot);
        let snapshots: Vec<Arc<SnapshotChanges>> = window.snapshots.into_iter().map(Arc::new).collect();
        let jobs: Vec<(Arc<SnapshotChanges>, Piece, bool)> = snapshots
            .iter()
            .flat_map(|changes| {
                let pieces = pieces(changes);
                let count = pieces.len();
                pieces.into_iter().enumerate().map(move |(i, piece)| (Arc::clone(changes), piece, i + 1 == count))
            })
            .collect();
        let ahead = Arc::new(Semaphore::new(UNITS_AHEAD as usize));
        let mut opened = stream::iter(jobs)
            .map(|(changes, piece, is_last)| {
                let ahead = Arc::clone(&ahead);
                async move { self.publisher.open(&changes, piece, ahead).await.map(|opened| (changes, opened, is_last)) }
            })
            .buffered(FILES_AHEAD);
        let mut pending: Option<Arc<Pending>> = None;
        while let Some(next) = opened.next().await {
            let (changes, rows, is_last) = next?;
            fault::point("publication.file_opened");
            if !changes.columns.is_empty() {
                let names = changes.columns.iter().filter_map(|column| column.name.as_deref());
                self.claim.sink.format.check_columns(names).map_err(|words| {
                    Trouble::Halt(format!(
                        "snapshot {}: {words}. Rows that were appended under that name stay in the way: drop this \
                         publication, and create one with arrow_ipc, or one that begins after them",
                        changes.snapshot
                    ))
                })?;
            }
            let pending_now = Arc::clone(pending.get_or_insert_with(|| producer.begin()));
            self.encode(producer, pending_now, changes.snapshot, rows).await?;
            if is_last && let Some(pending) = pending.take() {
                fault::point("publication.snapshot_produced");
                pending.seal();
                let sent = UnderWay { snapshot: changes.snapshot, time: changes.time, pending: Some(pending) };
                under_way.send(sent).await.map_err(|_| Trouble::Lost)?;
                self.read.fetch_max(changes.snapshot.0, Ordering::Relaxed);
            }
        }
        if last != Some(window.to) {
            let sent = UnderWay { snapshot: window.to, time: None, pending: None };
            under_way.send(sent).await.map_err(|_| Trouble::Lost)?;
        }
        self.read.fetch_max(window.to.0, Ordering::Relaxed);
        Ok(())
    }

    async fn encode(
        &self,
        producer: &Arc<Producer>,
        pending: Arc<Pending>,
        snapshot: SnapshotId,
        rows: Opened,
    ) -> Result<(), Trouble> {
        let (lease, cancelled) = (Arc::clone(&self.publisher.lease), self.cancelled.clone());
        let encoder = Encoder {
            producer: Arc::clone(producer),
            pending,
            table: self.claim.table_uuid,
            snapshot,
            format: self.claim.sink.format,
            tombstones: self.claim.sink.tombstones,
            message_max_bytes: message_limit(self.publisher.settings.kafka_message_max_bytes),
            may_go_on: Box::new(move || lease.is_valid() && !cancelled.is_cancelled()),
        };
        let done = tokio::task::spawn_blocking(move || match rows {
            Opened::Appended(rows, _ahead, path) => encoder.append(&rows, &path).map(|produced| ("append", produced)),
            Opened::Deleted(ids) => encoder.delete(&ids).map(|produced| ("delete", produced)),
        });
        let (op, Produced { records, bytes }) = done.await.unwrap_or_else(|_| Err(Trouble::fault("encoding")))?;
        metrics::counter!("hoglake_publication_records_total", &self.labels("op", op)).increment(records);
        metrics::counter!("hoglake_publication_bytes_total", &self.labels("op", op)).increment(bytes);
        Ok(())
    }

    fn labels(&self, name: &'static str, value: &'static str) -> [(&'static str, String); 3] {
        [
            ("catalog", self.claim.catalog_name.clone()),
            ("publication", self.claim.name.clone()),
            (name, value.to_owned()),
        ]
    }

    fn count_error(&self, kind: &'static str) {
        metrics::counter!("hoglake_publication_errors_total", &self.labels("kind", kind)).increment(1);
    }

    async fn say(&self, words: &str) {
        // whatever keeps the words from the database shows in the log
        drop(self.publisher.worker.catalog.publication_wait(&self.claim, words).await);
    }

    async fn halt(&self, words: &str) {
        self.count_error("halt");
        let Claim { catalog_name, name, .. } = &self.claim;
        tracing::warn!(catalog = catalog_name, publication = name, words, "the publication halts");
        let worker = &self.publisher.worker;
        // a halt that cannot be written down is come to again, by whoever holds the publication
        if worker.catalog.publication_halt(&self.claim, words).await.unwrap_or(false) {
            worker.audit_line(Action::PublicationHalt, Outcome::Error, catalog_name, Some(name), Some(words));
        }
    }
}

/// Moves the offset behind the acknowledgements.
struct Offset<'a> {
    publisher: &'a Publisher,
    claim: &'a Claim,
    producer: &'a Producer,
    committed: &'a AtomicI64,
}

impl Offset<'_> {
    async fn follow(&self, under_way: &mut mpsc::Receiver<UnderWay>) -> Trouble {
        let mut next = None;
        loop {
            let current = match next.take() {
                Some(current) => current,
                None => match under_way.recv().await {
                    Some(current) => current,
                    None => return Trouble::Lost,
                },
            };
            match self.settle(current, under_way).await {
                Ok(following) => next = following,
                Err(trouble) => return trouble,
            }
        }
    }

    /// Waits for a snapshot, takes along what else is acknowledged, and moves the offset once.
    async fn settle(
        &self,
        mut current: UnderWay,
        under_way: &mut mpsc::Receiver<UnderWay>,
    ) -> Result<Option<UnderWay>, Trouble> {
        self.acknowledged(&current).await?;
        let mut following = None;
        let mut times = vec![current.time];
        while let Ok(more) = under_way.try_recv() {
            if !more.is_acknowledged()? {
                following = Some(more);
                break;
            }
            times.push(more.time);
            current = more;
        }
        fault::point("publication.acknowledged");
        if !self.publisher.worker.catalog.publication_advance(self.claim, current.snapshot).await? {
            return Err(Trouble::Lost);
        }
        fault::point("publication.advanced");
        self.committed.store(current.snapshot.0, Ordering::Relaxed);
        let now = Utc::now();
        for time in times.into_iter().flatten() {
            let late = (now - time).to_std().unwrap_or_default();
            metrics::histogram!("hoglake_publication_delay_seconds").record(late.as_secs_f64());
        }
        Ok(following)
    }

    async fn acknowledged(&self, snapshot: &UnderWay) -> Result<(), Trouble> {
        let mut said = false;
        while !snapshot.is_acknowledged()? {
            tokio::select! {
                () = self.producer.changed() => {}
                () = tokio::time::sleep(SILENCE) => {
                    if !self.publisher.lease.is_valid() {
                        return Err(Trouble::Lost);
                    }
                    let Some(reason) = self.producer.last_seen().filter(|_| !said) else { continue };
                    said = true;
                    let words = format!("the brokers do not answer, it is tried again: {reason}");
                    drop(self.publisher.worker.catalog.publication_wait(self.claim, &words).await);
                }
            }
        }
        Ok(())
    }
}

/// A record's key and headers count, too.
fn message_limit(max: u32) -> usize {
    (max as usize).saturating_sub(512).max(512)
}

fn check_history(standing: &Standing) -> Result<(), Trouble> {
    if standing.committed_snapshot >= standing.earliest_snapshot {
        return Ok(());
    }
    Err(Trouble::Halt(format!(
        "history expired: snapshots up to {} were published, the oldest retained one is {}. Drop the publication, create one \
         that begins at snapshot {} or later, and bring what reads the topic up to that snapshot by a scan of the table",
        standing.committed_snapshot, standing.earliest_snapshot, standing.earliest_snapshot
    )))
}

fn dropped_words(standing: &Standing, dropped: i64) -> String {
    let table = format!("{}.{}", standing.last_namespace, standing.last_name);
    match standing.successor {
        Some(successor) => format!(
            "table {table} was dropped at snapshot {dropped} and created again as {successor}, which is another table. All \
             changes of the old one are published: drop the publication, and create one for the new table"
        ),
        None => format!(
            "table {table} was dropped at snapshot {dropped}. All its changes are published: drop the publication"
        ),
    }
}
