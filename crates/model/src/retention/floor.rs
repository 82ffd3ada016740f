//! The expiry floor: the oldest snapshot that stays readable.

use crate::SnapshotId;

/// The history of a catalog when a sweep begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// Oldest retained snapshot: the floor so far.
    pub earliest: SnapshotId,
    /// Newest snapshot.
    pub head: SnapshotId,
    /// The first snapshot that is young enough to be kept; `None` when all are too old, and only head stays.
    pub first_young: Option<SnapshotId>,
}

/// A consumer that has read up to a snapshot of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Its id.
    pub consumer: String,
    /// The last snapshot that it has taken in: it goes on with the changes after this one.
    pub committed: SnapshotId,
    /// Whether the catalog itself runs the consumer (a publication): then it binds whatever the options say.
    pub protected: bool,
}

/// Where the floor goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Floor {
    /// The new floor: at least the old one, at most head.
    pub snapshot: SnapshotId,
    /// The consumer without which the floor had gone further.
    pub floored_by: Option<String>,
}

/// Computes the floor of a sweep that expires at most `batch` snapshots.
///
/// `pins` are the consumers of tables that can still be read. Those that are not protected bind only when
/// `consumer_floor` is on. A consumer is named exactly when it caps the sweep, also when it stops it altogether; one
/// whose offset ties with the floor that age and batch allow does not.
///
/// # Ordering
/// `earliest <= floor <= head`, and `floor <= committed` for every binding pin at or above `earliest`.
///
/// # Source
/// OpenAPI `runExpiry`, `ExpiryResult.floored_by_consumer`.
pub fn floor(history: History, batch: i64, pins: &[Pin], consumer_floor: bool) -> Floor {
    let History { earliest, head, first_young } = history;
    let young = first_young.unwrap_or(head).min(head);
    let bounded = SnapshotId(earliest.0.saturating_add(batch.max(0)));
    let allowed = young.min(bounded).max(earliest);
    let slowest = pins
        .iter()
        .filter(|pin| consumer_floor || pin.protected)
        .min_by(|a, b| a.committed.cmp(&b.committed).then_with(|| a.consumer.cmp(&b.consumer)));
    match slowest {
        Some(pin) if pin.committed < allowed && allowed > earliest => {
            Floor { snapshot: pin.committed.max(earliest), floored_by: Some(pin.consumer.clone()) }
        }
        _ => Floor { snapshot: allowed, floored_by: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn history(earliest: i64, head: i64, first_young: Option<i64>) -> History {
        History { earliest: SnapshotId(earliest), head: SnapshotId(head), first_young: first_young.map(SnapshotId) }
    }

    fn pin(consumer: &str, committed: i64) -> Pin {
        Pin { consumer: consumer.to_owned(), committed: SnapshotId(committed), protected: false }
    }

    fn at(snapshot: i64, floored_by: Option<&str>) -> Floor {
        Floor { snapshot: SnapshotId(snapshot), floored_by: floored_by.map(str::to_owned) }
    }

    #[test]
    fn age_batch_and_head_bound_the_floor() {
        assert_eq!(floor(history(0, 9, Some(4)), 100, &[], true), at(4, None));
        assert_eq!(floor(history(0, 9, Some(4)), 3, &[], true), at(3, None));
        assert_eq!(floor(history(0, 9, None), 100, &[], true), at(9, None));
        assert_eq!(floor(history(6, 9, Some(4)), 100, &[], true), at(6, None));
        assert_eq!(floor(history(9, 9, None), 100, &[], true), at(9, None));
    }

    #[test]
    fn the_slowest_consumer_caps_and_is_named() {
        let pins = [pin("slow", 2), pin("fast", 8)];
        assert_eq!(floor(history(0, 9, None), 100, &pins, true), at(2, Some("slow")));
        assert_eq!(floor(history(0, 9, None), 100, &pins, false), at(9, None));
        // it holds everything back, and is named for it
        assert_eq!(floor(history(2, 9, None), 100, &pins, true), at(2, Some("slow")));
        // a tie is no cap, nor is a consumer that batch or age stop short of
        assert_eq!(floor(history(0, 9, Some(2)), 100, &pins, true), at(2, None));
        assert_eq!(floor(history(0, 9, None), 1, &pins, true), at(1, None));
        assert_eq!(floor(history(5, 5, None), 100, &pins, true), at(5, None));
    }

    #[test]
    fn a_publication_binds_even_when_consumers_do_not() {
        let pins = [pin("slow", 2), Pin { protected: true, ..pin("publication:p", 3) }];
        assert_eq!(floor(history(0, 9, None), 100, &pins, false), at(3, Some("publication:p")));
    }

    fn histories() -> impl Strategy<Value = History> {
        (0_i64..50, 0_i64..50, proptest::option::of(0_i64..120))
            .prop_map(|(earliest, above, young)| history(earliest, earliest + above, young))
    }

    fn pins() -> impl Strategy<Value = Vec<Pin>> {
        let one = (0_u8..6, 0_i64..120, any::<bool>())
            .prop_map(|(name, committed, protected)| Pin { protected, ..pin(&format!("c{name}"), committed) });
        proptest::collection::vec(one, 0..6)
    }

    proptest! {
        #[test]
        fn the_floor_only_rises_and_never_passes_head_or_a_binding_pin(
            history in histories(), batch in 0_i64..40, pins in pins(), consumer_floor: bool,
        ) {
            let Floor { snapshot, floored_by } = floor(history, batch, &pins, consumer_floor);
            prop_assert!(history.earliest <= snapshot && snapshot <= history.head);
            prop_assert!(snapshot.0 - history.earliest.0 <= batch);
            if let Some(young) = history.first_young {
                prop_assert!(snapshot <= young.max(history.earliest));
            }
            for pin in pins.iter().filter(|p| consumer_floor || p.protected) {
                prop_assert!(snapshot <= pin.committed.max(history.earliest));
            }
            let free = floor(history, batch, &[], consumer_floor).snapshot;
            let capped =
                free > history.earliest && pins.iter().any(|p| (consumer_floor || p.protected) && p.committed < free);
            prop_assert_eq!(floored_by.is_some(), capped);
            if let Some(name) = floored_by {
                prop_assert!(pins.iter().any(|p| p.consumer == name && p.committed.max(history.earliest) == snapshot));
            }
        }
    }
}
