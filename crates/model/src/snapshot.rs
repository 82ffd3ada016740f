//! Snapshots: which of them a read means, and which can be read.

use crate::{ErrorCode, Refusal, SnapshotId, timestamp};
use chrono::{DateTime, Utc};

/// The state of a catalog that a read asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SnapshotSelector {
    /// The newest.
    #[default]
    Head,
    /// This one.
    At(SnapshotId),
    /// The one that was head at this moment.
    AtTimestamp(DateTime<Utc>),
}

impl SnapshotSelector {
    /// Reads the query parameters `snapshot` and `at_timestamp`.
    ///
    /// # Errors
    /// 422 when both are given; 400 when the one given cannot be read.
    pub fn parse(snapshot: Option<&str>, at_timestamp: Option<&str>) -> Result<Self, Refusal> {
        match (snapshot, at_timestamp) {
            (None, None) => Ok(Self::Head),
            (Some(_), Some(_)) => Err(Refusal::validation(
                "`snapshot` and `at_timestamp` exclude each other; give one of them, or none to read head",
            )),
            (Some(snapshot), None) => match snapshot.parse() {
                Ok(id) => Ok(Self::At(SnapshotId(id))),
                Err(_) => Err(Refusal::bad_request(format!(
                    "query parameter `snapshot` must be a 64-bit integer, not {}",
                    crate::name::quoted(snapshot)
                ))),
            },
            (None, Some(instant)) => Ok(Self::AtTimestamp(timestamp::parse("at_timestamp", instant)?)),
        }
    }
}

/// 422 for a snapshot that has not happened, or never will.
pub fn out_of_range(asked: i64, head: SnapshotId) -> Refusal {
    Refusal::validation(format!("snapshot {asked} does not exist: snapshots of this catalog run from 0 to {head}"))
}

/// 410 for history below the expiry floor: names the floor and, once expiry has moved it, when it was reached.
pub fn expired(asked: impl std::fmt::Display, earliest: i64, earliest_time: Option<&str>) -> Refusal {
    gone(&format!("snapshot {asked}"), earliest, earliest_time)
}

/// 410 for a moment before the earliest retained snapshot.
pub fn expired_timestamp(asked: DateTime<Utc>, earliest: i64, earliest_time: Option<&str>) -> Refusal {
    gone(&format!("the snapshot at {}", timestamp::format(asked)), earliest, earliest_time)
}

fn gone(what: &str, earliest: i64, earliest_time: Option<&str>) -> Refusal {
    let reached = earliest_time.map_or_else(String::new, |time| format!(", reached at {time}"));
    Refusal::new(
        ErrorCode::Expired,
        format!(
            "{what} is below the expiry floor: the earliest retained snapshot is {earliest}{reached}. Read at a \
             retained snapshot, or reconcile from a full scan"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_exclude_each_other_and_must_be_readable() {
        assert_eq!(SnapshotSelector::parse(None, None), Ok(SnapshotSelector::Head));
        assert_eq!(SnapshotSelector::parse(Some("-1"), None), Ok(SnapshotSelector::At(SnapshotId(-1))));
        assert!(SnapshotSelector::parse(None, Some("2026-01-01T00:00:00Z")).is_ok());
        let code = |s, t| SnapshotSelector::parse(s, t).map_err(|r| r.code);
        assert_eq!(code(Some("x"), Some("y")), Err(ErrorCode::Validation));
        for bad in ["", "one", "1.0", "9223372036854775808"] {
            assert_eq!(code(Some(bad), None), Err(ErrorCode::BadRequest), "{bad}");
        }
        assert_eq!(code(None, Some("2026-01-01T00:00:00")), Err(ErrorCode::BadRequest));
    }

    #[test]
    fn the_floor_is_named_with_its_time_once_it_has_moved() {
        assert!(expired(2, 3, None).detail.contains("earliest retained snapshot is 3."));
        let moved = expired(2, 3, Some("2026-01-01T00:00:00.000000Z"));
        assert!(moved.detail.contains("is 3, reached at 2026-01-01T00:00:00.000000Z"), "{}", moved.detail);
    }
}
