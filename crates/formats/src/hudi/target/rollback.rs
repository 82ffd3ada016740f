//! Taking back what writers of ours have left that died before they could win.
//!
//! Hudi archives nothing after a pending write, and takes all before the oldest completed one for committed. Its writers
//! roll back what failed before they begin; this one does so with its own commits, and leaves alone what is Hudi's.
//! A clean of ours that did not win may stay: its plan names nothing, and it holds up no archiving.

use super::super::FOLDER;
use super::super::metadata_writer::commit_keys;
use super::super::timeline::{Instant, Pending};
use super::HudiTarget;
use super::publish::{after, pending_keys};
use crate::sync::{Error, Result};
use serde_json::Value;

/// The action of every commit of ours.
const ACTION: &str = "replacecommit";

impl HudiTarget {
    /// Rolls back the pending commits of ours that others have won against.
    pub(super) async fn roll_back_lost(&mut self) -> Result<()> {
        let Some(existing) = &self.existing else { return Ok(()) };
        let ours = existing.timeline.pending.iter().filter(|(_, pending)| is_ours(pending));
        let old: Vec<String> = ours.map(|(i, _)| i.clone()).filter(|i| *i < existing.last).collect();
        for instant in old {
            if self.has_lost(&instant).await? {
                self.roll_back(&instant).await?;
            }
        }
        Ok(())
    }

    /// Whether another action has followed the last one that the writer at `instant` can have seen. Where that one is
    /// archived, many have.
    async fn has_lost(&self, instant: &str) -> Result<bool> {
        let before = |i: &&Instant| *i.requested < *instant;
        let last = self.existing.as_ref().and_then(|e| e.timeline.completed.iter().rev().find(before));
        let Some(last) = last else { return Ok(true) };
        let key = format!("{FOLDER}/{}", after(&last.requested));
        let Some(bytes) = self.root.get_if_exists(&key).await? else { return Ok(false) };
        let pointer: Value =
            serde_json::from_slice(&bytes).map_err(|e| Error::malformed(self.root.spell(&key), e.to_string()))?;
        Ok(pointer["instant"].as_str().is_some_and(|winner| winner != instant))
    }

    /// Deletes the objects of a pending commit. What it wrote into the metadata table counts at no moment: it leaves that
    /// table's timeline first, and the request goes last, so that the next run finds what an interrupted one leaves.
    async fn roll_back(&mut self, instant: &str) -> Result<()> {
        let metadata = commit_keys(instant, "deltacommit").into_iter().rev();
        for key in metadata.chain(pending_keys(instant, ACTION).into_iter().rev()) {
            self.root.delete(&key).await?;
        }
        if let Some(existing) = &mut self.existing {
            existing.timeline = existing.timeline.without(instant);
        }
        Ok(())
    }
}

/// Whether hoglake made it: Hudi writes a plan into the request of every `replacecommit` of its own.
fn is_ours(pending: &Pending) -> bool {
    pending.action == ACTION && pending.is_empty
}
