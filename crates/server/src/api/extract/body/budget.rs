//! Memory for request bodies, of all requests together.

use hoglake_model::{ErrorCode, Refusal};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bodies up to this size cost nothing: what is bounded is few large ones, not the many small ones of a busy server.
const FREE: usize = 64 << 10;
/// Bytes of a permit.
const UNIT: usize = 1 << 10;

/// How many bytes of request bodies may be in memory at a time. Cheap to clone.
#[derive(Debug, Clone)]
pub struct BodyBudget(Arc<Semaphore>);

/// The part of a budget that one body takes. Dropping it gives the bytes back.
#[derive(Debug)]
pub struct Held {
    budget: BodyBudget,
    permit: Option<OwnedSemaphorePermit>,
}

impl BodyBudget {
    /// A budget of `bytes`.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new((bytes / UNIT).min(Semaphore::MAX_PERMITS))))
    }

    /// Nothing yet, for a body that is about to be read.
    pub fn hold(&self) -> Held {
        Held { budget: self.clone(), permit: None }
    }
}

impl Held {
    /// Makes room for a body that has `bytes` by now.
    ///
    /// # Errors
    /// 503 `unavailable` when other bodies take what there is. It does not wait: what has been read already would stay in
    /// memory meanwhile, and two that wait for each other's room would both get none.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), Refusal> {
        if bytes <= FREE {
            return Ok(());
        }
        let held = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = bytes.div_ceil(UNIT).saturating_sub(held);
        if more == 0 {
            return Ok(());
        }
        let got =
            u32::try_from(more).ok().and_then(|more| Arc::clone(&self.budget.0).try_acquire_many_owned(more).ok());
        let Some(got) = got else {
            metrics::counter!("hoglake_requests_shed_total", "reason" => "body_budget").increment(1);
            return Err(Refusal::new(
                ErrorCode::Unavailable,
                "the server has no memory for another large request body at the moment; retry later, or send less at a time",
            ));
        };
        match &mut self.permit {
            Some(permit) => permit.merge(got),
            None => self.permit = Some(got),
        }
        gauge().increment((more * UNIT) as f64);
        Ok(())
    }
}

fn gauge() -> metrics::Gauge {
    metrics::gauge!("hoglake_request_body_bytes")
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(permit) = &self.permit {
            gauge().decrement((permit.num_permits() * UNIT) as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bodies_share_a_budget_and_small_ones_are_free() {
        let budget = BodyBudget::new(1 << 20);
        let (mut first, mut second) = (budget.hold(), budget.hold());
        for bytes in [10, 100_000, 100_001, 600_000] {
            first.grow_to(bytes).unwrap();
        }
        second.grow_to(400_000).unwrap();
        let refusal = second.grow_to(500_000).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::Unavailable);
        budget.hold().grow_to(FREE).unwrap();
        drop(first);
        second.grow_to(1 << 20).unwrap();
        drop(second);
        assert_eq!(budget.0.available_permits(), 1_024);
    }
}
