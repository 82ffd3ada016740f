//! Making a commit visible: pending instant, metadata table, pointer, completed instant.

use super::super::FOLDER;
use super::super::commit::CommitMetadata;
use super::super::file_group::EXTERNAL;
use super::super::metadata_writer::{self, Changes};
use super::super::schema_writer;
use super::super::timeline::{self, Instant, Timeline};
use super::HudiTarget;
use super::plan::{Place, Plan};
use crate::sync::{Error, Result, to_properties};
use hoglake_model::table::TableState;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

impl HudiTarget {
    /// The schema and the watermark, as a commit notes them.
    pub(super) fn extra(&self, state: &TableState) -> BTreeMap<String, String> {
        let name = self.existing.as_ref().and_then(|e| e.properties.get("hoodie.table.name")).unwrap_or("table");
        let watermark = to_properties(&state.watermark());
        [("schema", schema_writer::write(&state.schema, name))]
            .into_iter()
            .chain(watermark)
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }

    pub(super) fn metadata(plan: &Plan, extra: &BTreeMap<String, String>) -> impl Fn(&str) -> Value + use<> {
        let extra = json!(extra);
        let added: Vec<(Place, u64, u64)> = plan.added.iter().map(|(p, a)| (p.clone(), a.size, a.rows)).collect();
        let mut replaced: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (partition, name) in &plan.removed {
            replaced.entry(partition.clone()).or_default().push(name.clone());
        }
        // XTable follows a `replacecommit` by the partitions named here, also for what was only added.
        for ((partition, _), ..) in &added {
            replaced.entry(partition.clone()).or_default();
        }
        move |instant| {
            let mut stats: BTreeMap<String, Vec<Value>> = BTreeMap::new();
            for ((partition, name), size, rows) in &added {
                let path = if partition.is_empty() { name.clone() } else { format!("{partition}/{name}") };
                stats.entry(partition.clone()).or_default().push(json!({
                    "fileId": name, "path": format!("{path}_{instant}{EXTERNAL}"), "partitionPath": partition,
                    "prevCommit": "null", "numWrites": rows, "numInserts": rows, "numUpdateWrites": 0, "numDeletes": 0,
                    "totalWriteBytes": size, "fileSizeInBytes": size, "totalWriteErrors": 0,
                }));
            }
            let object = |map: Vec<(String, Value)>| map.into_iter().collect::<Map<_, _>>();
            let stats = object(stats.into_iter().map(|(k, v)| (k, Value::Array(v))).collect());
            let replaced = object(replaced.iter().map(|(k, v)| (k.clone(), json!(v))).collect());
            commit_json(stats, replaced, &extra)(instant)
        }
    }

    pub(super) async fn publish(
        &mut self,
        millis: i64,
        plan: &Plan,
        metadata: impl Fn(&str) -> Value,
    ) -> Result<String> {
        let added = plan.added.iter().map(|((partition, name), added)| (partition, name, added.size));
        let mut changes = Changes::new();
        for (partition, name, size) in added {
            // The instant is not known yet; see below.
            changes.entry(partition.clone()).or_default().insert(name.clone(), Some(size));
        }
        let instant = self.publish_changes(millis, &changes, metadata).await?;
        if let Some(replaced) = self.existing.as_mut().and_then(|e| e.replaced.as_mut()) {
            replaced.extend(plan.removed.iter().map(|place| (place.clone(), instant.clone())));
        }
        Ok(instant)
    }

    /// Makes a commit visible: all or nothing.
    pub(super) async fn publish_changes(
        &mut self,
        millis: i64,
        changes: &Changes,
        metadata: impl Fn(&str) -> Value,
    ) -> Result<String> {
        let claim = self.claim("replacecommit", millis, |_| Ok(Vec::new())).await?;
        let instant = claim.instant.clone();
        let registered: Changes = changes
            .iter()
            .map(|(partition, files)| {
                let name = |(name, size): (&String, &Option<u64>)| match size {
                    Some(_) => (format!("{name}_{instant}{EXTERNAL}"), *size),
                    None => (name.clone(), None),
                };
                (partition.clone(), files.iter().map(name).collect())
            })
            .collect();
        let written = metadata_writer::append(&self.root, &claim.timeline, &instant, &registered).await?;
        let commit = metadata(&instant);
        self.win(&claim, &json!({"instant": instant, "commit": commit}), written).await?;
        self.root.put(&format!("{FOLDER}/{instant}.replacecommit"), commit.to_string()).await?;
        self.completed(&claim);
        if let Some(existing) = &mut self.existing {
            existing.extra = CommitMetadata::from_json(&commit).extra;
        }
        Ok(instant)
    }

    /// Takes an instant for an action that follows the last one, at `millis` or later. Its pending objects hold what
    /// `content` makes of the instant.
    pub(super) async fn claim(
        &self,
        action: &'static str,
        millis: i64,
        content: impl Fn(&str) -> Result<Vec<u8>>,
    ) -> Result<Claim> {
        let Some(existing) = &self.existing else {
            return Err(Error::malformed(self.metadata_path(), "the table was not loaded"));
        };
        let last = existing.last.clone();
        let mut millis = millis.max(timeline::millis(&last).saturating_add(1));
        loop {
            if millis > timeline::LAST_MILLIS {
                let detail = format!("{millis} milliseconds since 1970 are no time that an instant can name");
                return Err(Error::malformed(self.metadata_path(), detail));
            }
            let instant = timeline::instant(millis);
            if instant > last {
                let content = content(&instant)?;
                let [requested, inflight] = pending_keys(&instant, action);
                if self.root.put_if_absent(&requested, content.clone()).await? {
                    self.root.put_if_absent(&inflight, content).await?;
                    return Ok(Claim { instant, action, last, timeline: existing.timeline.clone() });
                }
            }
            millis += 1;
        }
    }

    /// Makes the action the one that follows the last; if another did, takes back what was `written` for it.
    pub(super) async fn win(&self, claim: &Claim, pointer: &Value, mut written: Vec<String>) -> Result<()> {
        let key = format!("{FOLDER}/{}", after(&claim.last));
        let mut pointer = pointer.clone();
        // Tells it from that of another writer that does the same in the same millisecond.
        pointer["writer"] = uuid::Uuid::new_v4().to_string().into();
        if self.root.claim(&key, pointer.to_string()).await? {
            return Ok(());
        }
        written.extend(pending_keys(&claim.instant, claim.action));
        for key in written {
            self.root.delete(&key).await?;
        }
        Err(Error::Lost { place: self.root.spell(&key) })
    }

    /// Remembers that the action completed.
    pub(super) fn completed(&mut self, claim: &Claim) {
        if let Some(existing) = &mut self.existing {
            existing.timeline = existing.timeline.with(Instant {
                requested: claim.instant.clone(),
                completed: claim.instant.clone(),
                action: claim.action.to_owned(),
                key: format!("{FOLDER}/{}.{}", claim.instant, claim.action),
                modified_ms: 0,
                size: 1,
            });
            existing.last.clone_from(&claim.instant);
        }
    }
}

/// An action that has its instant, but not won yet.
pub(super) struct Claim {
    pub(super) instant: String,
    action: &'static str,
    last: String,
    /// The timeline that it follows.
    pub(super) timeline: Timeline,
}

pub(super) fn pending_keys(instant: &str, action: &str) -> [String; 2] {
    [format!("{FOLDER}/{instant}.{action}.requested"), format!("{FOLDER}/{instant}.{action}.inflight")]
}

/// How the names of pointers begin.
pub(super) const AFTER: &str = "hoglake-after-";

/// The name of the pointer to the commit after `last`.
pub(super) fn after(last: &str) -> String {
    format!("{AFTER}{}", if last.is_empty() { "nothing" } else { last })
}

pub(super) fn commit_json(
    stats: Map<String, Value>,
    replaced: Map<String, Value>,
    extra: &Value,
) -> impl Fn(&str) -> Value + use<> {
    let commit = json!({
        "partitionToWriteStats": stats,
        "partitionToReplaceFileIds": replaced,
        "compacted": false,
        "extraMetadata": extra,
        "operationType": "UNKNOWN",
    });
    move |_| commit.clone()
}
