//! Snapshots: which of them can be read.

use crate::{ErrorCode, Refusal};

/// 410 for history below the expiry floor: names the floor and, once expiry has moved it, when it was reached.
pub fn expired(asked: impl std::fmt::Display, earliest: i64, earliest_time: Option<&str>) -> Refusal {
    let reached = earliest_time.map_or_else(String::new, |time| format!(", reached at {time}"));
    Refusal::new(
        ErrorCode::Expired,
        format!(
            "snapshot {asked} is below the expiry floor: the earliest retained snapshot is {earliest}{reached}. Read at \
             a retained snapshot, or reconcile from a full scan"
        ),
    )
}
