//! How a rewrite makes way for whoever else needs the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// For how many times as long as a step took to rest after it.
const RESTS: u32 = 5;
/// For how long the second thread stands by between steps.
const STAND_BY: Duration = Duration::from_millis(50);

/// Tells a rewrite whether others need the machine now; by default nobody does. While they do, the rewrite works on one
/// thread, in steps of a millisecond or so with rests between: a low priority alone lets a thread run on for a time slice
/// when others wake up, which the slowest of their requests would show.
#[derive(Debug, Clone, Default)]
pub struct MakeWay(Option<Arc<AtomicBool>>);

impl MakeWay {
    /// While `crowded` is set. The computing threads also have the lowest priority then and otherwise (Linux).
    pub fn when(crowded: Arc<AtomicBool>) -> Self {
        Self(Some(crowded))
    }

    pub(super) fn is_asked_for(&self) -> bool {
        self.0.is_some()
    }

    fn is_crowded(&self) -> bool {
        self.0.as_ref().is_some_and(|crowded| crowded.load(Ordering::Relaxed))
    }

    /// The size of the next step.
    pub(super) fn step(&self, full: usize, small: usize) -> usize {
        if self.is_crowded() { full.min(small) } else { full }
    }

    /// Rests after a step.
    pub(super) fn rest(&self, worked: Duration) {
        if self.is_crowded() {
            std::thread::sleep(worked * RESTS);
        }
    }

    /// Keeps a thread that is not needed from working too often.
    pub(super) fn stand_by(&self) {
        if self.is_crowded() {
            std::thread::sleep(STAND_BY);
        }
    }
}
