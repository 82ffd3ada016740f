//! Publications: the rows of tables into Kafka.
//!
//! - [`driver`] claims publications by lease, and tells each tail when there is something to do.
//! - [`tail`] publishes one table: reads the changefeed, produces snapshot by snapshot, and moves the publication's offset
//!   once the brokers have acknowledged. It halts rather than skip.
//! - [`window`] opens the files of a window ahead of the rows that are being encoded.
//! - [`encode`] turns rows into records, on threads of their own.
//! - [`producer`] is the Kafka client: idempotent, acknowledged by all in-sync replicas, bounded in memory.
//!
//! **Architecture invariant:** rows first, offset after. A publication's offset is moved only by the holder of its lease,
//! in a statement that checks the fence, and only up to what was acknowledged.

pub mod driver;
mod encode;
mod producer;
mod tail;
mod trouble;
mod window;

pub use driver::Driver;

use crate::config::kafka::KafkaConfig;
use crate::worker::Worker;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What publishing needs. Cheap to clone.
#[derive(Clone)]
struct Publisher {
    worker: Worker,
    settings: Arc<KafkaConfig>,
    lease: Arc<LeaseClock>,
}

/// The part of a lease for which a server may go on without hearing from the database. The brokers may take the rest of it
/// for what was sent by then, so that nothing comes after the records of the next holder.
const LEASE_SHARE: f64 = 0.5;

/// How long this server may publish without hearing from the database: [`LEASE_SHARE`] of its leases.
#[derive(Debug)]
struct LeaseClock {
    started: Instant,
    valid_ms: AtomicU64,
}

impl LeaseClock {
    fn new() -> Self {
        Self { started: Instant::now(), valid_ms: AtomicU64::new(0) }
    }

    /// Leases that were asked for at `asked` last for `lease`.
    fn prolong(&self, asked: Instant, lease: Duration) {
        let until = asked.saturating_duration_since(self.started) + lease.mul_f64(LEASE_SHARE);
        self.valid_ms.store(u64::try_from(until.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn is_valid(&self) -> bool {
        self.started.elapsed() < Duration::from_millis(self.valid_ms.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_counts_from_when_it_was_asked_for() {
        let clock = LeaseClock::new();
        assert!(!clock.is_valid());
        clock.prolong(Instant::now(), Duration::from_secs(60));
        assert!(clock.is_valid());
        let past = clock.started;
        clock.prolong(past, Duration::ZERO);
        assert!(!clock.is_valid());
    }
}
