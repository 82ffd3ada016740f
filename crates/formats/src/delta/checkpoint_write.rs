//! Writing classic checkpoints ("Checkpoint Schema", "V1 Spec").
//!
//! Actions are carried over as the log has them, statistics as text, so that a checkpoint loses and invents nothing.
//! Tombstones are kept until they expire (`delta.deletedFileRetentionDuration`), those of the checkpoint before included, and
//! so is how far applications have come (`txn`) and what domains keep (`domainMetadata`).

mod columns;
mod file;

use super::action::{Metadata, Remove};
use super::checkpoint;
use super::log::{Checkpoint, Segment};
use super::log_reader::LogReader;
use super::replay::Keys;
use super::source::{Definition, define};
use super::{LOG, protocol};
use crate::sync::{Error, Result, TableRoot};
use file::Out;
use futures::TryStreamExt;
use serde_json::json;
use std::sync::Arc;

/// Writes the checkpoint of a segment and the hint to it.
///
/// # Memory
/// 16 bytes for every file action after the checkpoint before, a row group, and a part of an upload.
///
/// # Errors
/// As reading the segment, and [`Error::Store`].
pub(super) async fn write(root: &TableRoot, segment: &Segment) -> Result<Checkpoint> {
    let (definition, _, sidecars) = define(root, segment).await?;
    let key = format!("{LOG}/{:020}.checkpoint.parquet", segment.version);
    let mut out = Out::new(&key)?;
    let size = match fill(root, segment, &definition, &sidecars, &mut out).await {
        Ok(()) => out.finish(root).await,
        Err(error) => Err(error),
    };
    let (actions, adds) = (out.actions, out.adds);
    let size = match size {
        Ok(size) => size,
        Err(error) => {
            out.discard().await;
            return Err(error);
        }
    };
    let hint = json!({"version": segment.version, "size": actions, "sizeInBytes": size, "numOfAddFiles": adds});
    root.put(&format!("{LOG}/_last_checkpoint"), hint.to_string()).await?;
    let modified_ms = chrono::Utc::now().timestamp_millis();
    Ok(Checkpoint { version: segment.version, parts: vec![key], modified_ms })
}

async fn fill(
    root: &TableRoot,
    segment: &Segment,
    Definition { protocol, metadata }: &Definition,
    sidecars: &[String],
    out: &mut Out,
) -> Result<()> {
    out.definition(protocol, metadata)?;
    let (mut keys, mut removed) = (Keys::default(), Vec::new());
    let expired = chrono::Utc::now().timestamp_millis() - tombstone_retention_ms(metadata);
    let lives = |remove: &Remove<'_>| remove.deletion_timestamp.unwrap_or(0) > expired;
    let log = Arc::new(LogReader::new(root.clone()));
    let commits = segment.commits.iter().rev().map(|commit| commit.object.clone()).collect();
    let mut blocks = std::pin::pin!(log.blocks(commits));
    while let Some(block) = blocks.try_next().await? {
        out.block(&block, (&mut keys, &mut removed), lives)?;
        out.spill(root).await?;
    }
    for part in segment.checkpoint.iter().flat_map(|c| &c.parts).chain(sidecars) {
        if part.ends_with(".json") {
            let mut blocks = std::pin::pin!(log.json_part(part).await?);
            while let Some(block) = blocks.try_next().await? {
                out.block(&block, (&mut keys, &mut removed), lives)?;
                out.spill(root).await?;
            }
            continue;
        }
        let damaged = |e| Error::parquet(root.spell(part), &e);
        let (mut batches, _) = checkpoint::adds(root, part, true).await?;
        while let Some(batch) = batches.try_next().await.map_err(damaged)? {
            checkpoint::each_add(&keys, &batch, |add, tags| out.add(add, tags))?;
            out.spill(root).await?;
        }
        let mut batches = checkpoint::removes(root, part).await?;
        while let Some(batch) = batches.try_next().await.map_err(damaged)? {
            checkpoint::each_remove(&batch, |remove| {
                let decided = keys.contains(keys.key(&remove.path, remove.deletion_vector.as_ref()));
                if decided || !lives(remove) { Ok(()) } else { out.remove(remove) }
            })?;
            out.spill(root).await?;
        }
        let mut batches = checkpoint::named(root, part).await?;
        while let Some(batch) = batches.try_next().await.map_err(damaged)? {
            let (txns, domains) = checkpoint::named_in(&batch);
            txns.into_iter().for_each(|txn| out.txn(txn));
            domains.into_iter().for_each(|domain| out.domain(domain));
        }
    }
    Ok(())
}

/// How long tombstones are kept: an interval such as `interval 1 week`, a week when nothing readable is said.
fn tombstone_retention_ms(metadata: &Metadata) -> i64 {
    const DAY: i64 = 86_400_000;
    let text = protocol::property(metadata, "delta.deletedFileRetentionDuration").unwrap_or_default();
    let text = text.trim().to_ascii_lowercase();
    let mut words = text.strip_prefix("interval").unwrap_or(&text).split_ascii_whitespace();
    let mut total = None;
    while let (Some(count), Some(unit)) = (words.next(), words.next()) {
        let unit = match unit.trim_end_matches('s') {
            "week" => 7 * DAY,
            "day" => DAY,
            "hour" => DAY / 24,
            "minute" => 60_000,
            "second" => 1000,
            "millisecond" => 1,
            _ => return 7 * DAY,
        };
        total = count.parse::<i64>().ok().and_then(|n| n.checked_mul(unit)?.checked_add(total.unwrap_or(0)));
    }
    total.filter(|ms| *ms >= 0).unwrap_or(7 * DAY)
}
