//! Clients that read: what they saw once at a snapshot they must see again, and a head never goes back.

use super::client::Failure;
use super::record::PinnedRead;
use super::{Run, TABLES, writers};
use rand::prelude::*;
use std::sync::Arc;

/// Most pinned reads that are kept for the end.
const KEPT_READS: usize = 400;

/// Reads until the run is over.
pub(super) async fn read(run: Arc<Run>, _reader: usize) -> Result<(), Failure> {
    let mut rng = StdRng::from_rng(&mut rand::rng());
    let mut newest = 0;
    while !run.is_over() {
        let head = writers::head(&run).await?;
        if head < newest {
            run.record.breach(format!("head went back from {newest} to {head}"));
        }
        newest = newest.max(head);
        let snapshot = rng.random_range(0..=head);
        let table = format!("/catalogs/{}/namespaces/ns/tables/t{}", run.catalog, rng.random_range(0..TABLES));
        let path = match rng.random_range(0..4) {
            0 => format!("{table}?snapshot={snapshot}"),
            1 => format!("{table}/files?snapshot={snapshot}"),
            2 => format!("{table}/scan?snapshot={snapshot}"),
            _ => format!("{table}/changes?from_snapshot={snapshot}&to_snapshot={head}"),
        };
        let answer = run.client.get(&path).await?;
        if ![200, 404].contains(&answer.status) {
            return Err(Failure::Contract(format!("GET {path}: {} {}", answer.status, answer.body)));
        }
        run.record.with(|entries| {
            entries.reads += 1;
            if answer.is_ok() && entries.pinned.len() < KEPT_READS {
                entries.pinned.push(PinnedRead { path, answer: answer.body });
            }
        });
    }
    Ok(())
}
