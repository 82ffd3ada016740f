//! The Kafka client of one publication.

use super::LEASE_SHARE;
use super::trouble::Trouble;
use crate::config::kafka::KafkaConfig;
use hoglake_catalog::publications::{KafkaSink, RecordFormat};
use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DeliveryResult, Partitioner, ProducerContext, ThreadedProducer};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Records of one publication that may wait for acknowledgement. Each costs the client some 300 bytes beside its own.
const QUEUED_RECORDS: u32 = 50_000;
/// How long a full queue is given before it is tried again.
const FULL: Duration = Duration::from_millis(2);
/// How long a topic that is not there may take to appear.
const TOPIC_APPEARS: Duration = Duration::from_secs(10);

/// Records that are under way together: those of one snapshot.
#[derive(Debug)]
pub(super) struct Pending {
    /// Unacknowledged ones, and one for whoever still adds some.
    outstanding: AtomicI64,
    state: Arc<State>,
}

/// What the client has found out.
#[derive(Debug, Default)]
struct State {
    topic: String,
    trouble: Mutex<Option<Trouble>>,
    troubled: AtomicBool,
    last_seen: Mutex<Option<String>>,
    changed: Notify,
}

impl State {
    fn fail(&self, error: &KafkaError) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let last_seen = self.last_seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let found = Trouble::kafka(&self.topic, error, last_seen.as_deref());
        // what must not be skipped counts more than what follows from it
        if trouble.is_none() || matches!((&*trouble, &found), (Some(Trouble::Wait(_)), Trouble::Halt(_))) {
            *trouble = Some(found);
        }
        drop(trouble);
        self.troubled.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Nothing is sent after this, whatever else was found out.
    fn end(&self, trouble: Trouble) {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(trouble);
        self.troubled.store(true, Ordering::Release);
    }

    fn trouble(&self) -> Option<Trouble> {
        if !self.troubled.load(Ordering::Acquire) {
            return None;
        }
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Pending {
    /// No more records will be added.
    pub fn seal(&self) {
        self.settle();
    }

    fn settle(&self) {
        if self.outstanding.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.state.changed.notify_one();
        }
    }

    /// Whether all records are acknowledged; the trouble, if one was not.
    pub fn is_acknowledged(&self) -> Result<bool, Trouble> {
        // a record that failed is settled, too: its trouble was noted before
        let settled = self.outstanding.load(Ordering::Acquire) == 0;
        self.state.trouble().map_or(Ok(settled), Err)
    }
}

struct Context {
    state: Arc<State>,
    partitioner: Option<OnePartition>,
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
                tracing::warn!(topic = %self.state.topic, facility, message, "Kafka client");
            }
            _ => tracing::debug!(topic = %self.state.topic, facility, message, "Kafka client"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(topic = %self.state.topic, %error, reason, "Kafka client");
        let mut last_seen = self.state.last_seen.lock().unwrap_or_else(PoisonError::into_inner);
        // that all brokers are down follows from what happened to each, which says more
        if last_seen.is_none() || error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) {
            *last_seen = Some(reason.chars().take(300).collect());
        }
        drop(last_seen);
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal) {
            self.state.fail(&error);
        }
    }
}

impl ProducerContext<OnePartition> for Context {
    type DeliveryOpaque = Arc<Pending>;

    fn delivery(&self, result: &DeliveryResult<'_>, pending: Arc<Pending>) {
        if let Err((error, _)) = result {
            self.state.fail(error);
        } else {
            *self.state.last_seen.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        pending.settle();
    }

    fn get_custom_partitioner(&self) -> Option<&OnePartition> {
        self.partitioner.as_ref()
    }
}

/// Puts all records of a table into one partition, told by the table's uuid at the beginning of each key.
struct OnePartition;

impl Partitioner for OnePartition {
    fn partition(&self, _: &str, key: Option<&[u8]>, partitions: i32, _: impl Fn(i32) -> bool) -> i32 {
        let table = key.and_then(|key| key.split(|byte| *byte == b':').next()).unwrap_or_default();
        // FNV-1a: any hash that never changes will do
        let hash = table.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
        i32::try_from(hash % u32::try_from(partitions).unwrap_or(1).max(1)).unwrap_or(0)
    }
}

/// Produces the records of one publication. Dropping it forgets what is not acknowledged; not for a thread that others
/// wait for.
pub(super) struct Producer {
    client: ThreadedProducer<Context, OnePartition>,
    state: Arc<State>,
}

impl Producer {
    /// A client for `sink`. Connects in the background.
    ///
    /// # Errors
    /// Settings that the client refuses.
    pub fn new(sink: &KafkaSink, settings: &KafkaConfig) -> Result<Self, Trouble> {
        let state = Arc::new(State { topic: sink.topic.clone(), ..State::default() });
        let one_partition = sink.format == RecordFormat::ArrowIpc;
        let context = Context { state: Arc::clone(&state), partitioner: one_partition.then_some(OnePartition) };
        let config = config(sink, settings);
        let client = ThreadedProducer::from_config_and_context(&config, context).map_err(|error| {
            tracing::warn!(%error, "a Kafka client cannot be made");
            Trouble::Wait("the server's HOGLAKE_KAFKA_* settings cannot be used; its log says why".to_owned())
        })?;
        Ok(Self { client, state })
    }

    /// A snapshot's records begin.
    pub fn begin(&self) -> Arc<Pending> {
        Arc::new(Pending { outstanding: AtomicI64::new(1), state: Arc::clone(&self.state) })
    }

    /// Queues a record; waits while the queue is full and `may_go_on`.
    ///
    /// # Errors
    /// Whatever is wrong with this or an earlier record; [`Trouble::Lost`] when it may not go on.
    pub fn send(
        &self,
        pending: &Arc<Pending>,
        key: &[u8],
        value: Option<&[u8]>,
        headers: Option<OwnedHeaders>,
        may_go_on: &dyn Fn() -> bool,
    ) -> Result<(), Trouble> {
        if let Some(trouble) = self.state.trouble() {
            return Err(trouble);
        }
        pending.outstanding.fetch_add(1, Ordering::AcqRel);
        let mut record = BaseRecord::with_opaque_to(&self.state.topic, Arc::clone(pending)).key(key);
        if let Some(value) = value {
            record = record.payload(value);
        }
        if let Some(headers) = headers {
            record = record.headers(headers);
        }
        loop {
            let trouble = match self.client.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    record = back;
                    match self.state.trouble() {
                        Some(trouble) => trouble,
                        None if !may_go_on() => Trouble::Lost,
                        None => {
                            std::thread::sleep(FULL);
                            continue;
                        }
                    }
                }
                Err((error, _)) => Trouble::kafka(&self.state.topic, &error, None),
            };
            pending.settle();
            return Err(trouble);
        }
    }

    /// Waits until something was acknowledged, or failed.
    pub async fn changed(&self) {
        self.state.changed.notified().await;
    }

    /// What went wrong with connections since the last acknowledgement.
    pub fn last_seen(&self) -> Option<String> {
        self.state.last_seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The headers of a record that does not say everything in its value.
pub(super) fn headers(op: Option<&str>, snapshot: &str) -> OwnedHeaders {
    let headers = OwnedHeaders::new_with_capacity(2);
    let headers = match op {
        Some(op) => headers.insert(Header { key: "op", value: Some(op) }),
        None => headers,
    };
    headers.insert(Header { key: "snapshot_id", value: Some(snapshot) })
}

fn config(sink: &KafkaSink, settings: &KafkaConfig) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set_log_level(RDKafkaLogLevel::Info);
    let ms = |duration: Duration| duration.as_millis().to_string();
    // A record that waits longer might come after those of the next holder.
    let patience = settings.publication_lease_ms.mul_f64(1.0 - LEASE_SHARE);
    for (name, value) in [
        ("bootstrap.servers", sink.bootstrap_servers.clone()),
        ("client.id", "hoglake".to_owned()),
        ("acks", "all".to_owned()),
        ("enable.idempotence", "true".to_owned()),
        ("compression.type", settings.compression()),
        ("linger.ms", "5".to_owned()),
        ("message.max.bytes", settings.kafka_message_max_bytes.to_string()),
        ("message.timeout.ms", ms(patience)),
        ("topic.metadata.propagation.max.ms", ms(TOPIC_APPEARS.min(patience / 2))),
        ("queue.buffering.max.kbytes", (settings.kafka_queue_bytes / 1024).to_string()),
        ("queue.buffering.max.messages", QUEUED_RECORDS.to_string()),
        ("reconnect.backoff.max.ms", "2000".to_owned()),
        ("socket.keepalive.enable", "true".to_owned()),
        ("log.connection.close", "false".to_owned()),
        // Java's: other producers put the same key into the same partition
        ("partitioner", "murmur2_random".to_owned()),
    ] {
        config.set(name, value);
    }
    for (name, value) in settings.security() {
        config.set(name, value);
    }
    config
}

/// Ends a producer and forgets what it still holds: when this returns, it sends nothing more. An encoder that was left
/// behind gives it up at its next record.
pub(super) async fn discard(mut producer: Arc<Producer>) {
    producer.state.end(Trouble::Lost);
    let ended = tokio::task::spawn_blocking(move || {
        loop {
            match Arc::try_unwrap(producer) {
                // dropping may take its time
                Ok(last) => return drop(last),
                Err(shared) => producer = shared,
            }
            std::thread::sleep(FULL);
        }
    });
    // a thread that panicked has dropped it, too
    drop(ended.await);
}

#[cfg(test)]
mod tests;
