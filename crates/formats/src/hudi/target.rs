//! A Hudi table as a target: table version 6, copy-on-write, readable by Hudi 0.14 and newer through its metadata table.
//!
//! Every commit is a `replacecommit` at the source's time (or just after the last one). Files that Hudi did not write
//! are registered as `<name>_<instant>_hudiext`, each a file group of its own; files that go are replaced groups.
//!
//! # Atomicity
//! Hudi has no pointer that two writers would both have to win: each makes up its own instant. The pointer here is
//! `.hoodie/hoglake-after-<last instant>`, put if absent, with the whole commit in it: it says which commit follows the
//! last one. Everything before (the pending instant, the metadata table's log file) counts for no reader until the
//! commit completes; the completed instant itself is written from the pointer, by whoever finds it missing.
//!
//! # Source
//! Hudi specification version 6, "Timeline", "Metadata table"; external file naming of Hudi 0.14.

mod archive;
mod create;
mod older_files;
mod plan;
mod publish;
mod rollback;
#[cfg(test)]
mod tests;

use super::FOLDER;
use super::clean::Clean;
use super::commit::CommitMetadata;
use super::metadata_writer::Compaction;
use super::properties::{Layout, Properties};
use super::schema_writer;
use super::source::{HudiOptions, HudiSource};
use super::timeline::{self, Timeline};
use crate::sync::{
    BoxFuture, Commit, Committed, Error, Files, Loaded, Result, Source, TableRoot, Target, from_properties,
};
use archive::Replaced;
use futures::TryStreamExt;
use hoglake_model::table::{Primitive, TableFormat, TableState, Transform, Unsupported, UnsupportedKind};
use plan::{Plan, stores_partitions};
use publish::after;
use serde_json::Value;
use std::collections::BTreeMap;

/// Folders that a commit writes to.
const LEFTOVERS: &[(&str, &str)] =
    &[(FOLDER, ""), (".hoodie/archived", ""), (".hoodie/metadata/files", ""), (".hoodie/metadata/.hoodie", "")];

/// The property by which a table of ours is known before its first commit.
const CREATED: &str = "hoglake.created";

/// The table that is written.
pub struct HudiTarget {
    root: TableRoot,
    retention_ms: Option<i64>,
    existing: Option<Existing>,
}

struct Existing {
    properties: Properties,
    timeline: Timeline,
    /// The last completed action, empty before the first.
    last: String,
    /// What the newest write notes, its schema and watermark among it.
    extra: BTreeMap<String, String>,
    /// Groups that are replaced in the active timeline, once they were needed.
    replaced: Option<Replaced>,
}

impl HudiTarget {
    /// The table at `root`, the folder under which all its files lie.
    pub fn new(root: TableRoot) -> Self {
        Self { root, retention_ms: None, existing: None }
    }

    /// Keeps commits in the active timeline for so many milliseconds after the next one, instead of a number of them.
    #[must_use]
    pub fn retaining(self, retention_ms: Option<i64>) -> Self {
        Self { retention_ms, ..self }
    }

    fn metadata_path(&self) -> String {
        self.root.uri(FOLDER)
    }

    async fn open(&mut self) -> Result<Loaded> {
        self.existing = None;
        let place = format!("{FOLDER}/hoodie.properties");
        let Some(bytes) = self.root.get_if_exists(&place).await? else { return Ok(Loaded::default()) };
        let properties = Properties::parse(&place, &bytes)?;
        let layout = properties.check(&place)?;
        if layout != Layout::One || properties.is_merge_on_read() || !properties.lists_files() {
            return Err(Error::UnsupportedSource {
                feature: "a table that other writers own".to_owned(),
                place: self.root.spell(&place),
                detail:
                    "only copy-on-write tables of version 6 with a metadata table are written; remove `.hoodie` to \
                         convert into this folder"
                        .to_owned(),
            });
        }
        let mut names = timeline::names(&self.root, FOLDER).await?;
        let mut timeline = Timeline::new(FOLDER, names.iter().cloned(), layout);
        let last_of = |timeline: &Timeline| timeline.completed.last().map_or(String::new(), |i| i.requested.clone());
        let mut last = last_of(&timeline);
        // A commit that won and was interrupted before it became visible.
        while names.iter().any(|(name, ..)| *name == after(&last)) {
            let key = format!("{FOLDER}/{}", after(&last));
            let pointer: Value = serde_json::from_slice(&self.root.get(&key).await?)
                .map_err(|e| Error::malformed(self.root.spell(&key), e.to_string()))?;
            let instant = pointer["instant"].as_str().unwrap_or_default().to_owned();
            if instant <= last {
                return Err(Error::malformed(self.root.spell(&key), "it names no later instant"));
            }
            let action = match pointer.get("clean") {
                Some(clean) => {
                    let clean = Clean::from_json(&instant, clean);
                    let compaction = pointer["compaction"].as_u64().and_then(|size| usize::try_from(size).ok());
                    let (Some(clean), Some(size)) = (clean, compaction) else {
                        return Err(Error::malformed(self.root.spell(&key), "its clean is incomplete"));
                    };
                    self.finish_clean(&clean, &Compaction::new(&instant, size)).await?;
                    "clean"
                }
                None => {
                    self.root.put(&format!("{FOLDER}/{instant}.replacecommit"), pointer["commit"].to_string()).await?;
                    "replacecommit"
                }
            };
            names.push((format!("{instant}.{action}"), 0, 1));
            timeline = Timeline::new(FOLDER, names.iter().cloned(), layout);
            last = last_of(&timeline);
        }
        let extra = match timeline.writes().next_back() {
            Some(instant) => CommitMetadata::read(&self.root, instant).await?.extra,
            None => BTreeMap::new(),
        };
        let watermark = from_properties(|key| extra.get(key).map(String::as_str));
        // Properties of ours without any commit are what a first run left that did not come to an end.
        let exists = timeline.writes().next().is_some() || properties.get(CREATED).is_none();
        let metadata_path = exists.then(|| self.metadata_path());
        let loaded = Loaded { exists, watermark, metadata_path, ..Loaded::default() };
        self.existing = Some(Existing { properties, timeline, last, extra, replaced: None });
        Ok(loaded)
    }

    async fn write(&mut self, commit: Commit<'_>) -> Result<Option<Committed>> {
        let Commit { source, state, files, .. } = commit;
        let mut plan = Plan::default();
        let mut stored = state.format != TableFormat::Delta;
        let partitioning = self.partitioning(state);
        match files {
            Files::All(mut stream) => {
                let mut live = self.live().await?;
                while let Some(batch) = stream.try_next().await? {
                    let (mut places, mut added) = (Vec::new(), Vec::new());
                    for file in batch {
                        stored = stored && stores_partitions(&partitioning, &file, state.format);
                        let place = self.place(state, &file.path)?;
                        self.check(state, &partitioning, &file, &place)?;
                        if !live.files.remove(&place) {
                            places.push(place);
                            added.push(file);
                        }
                    }
                    self.add(source, &added, places, &mut plan).await?;
                }
                plan.removed = live.files;
                // What is added to a group stands before what Hudi wrote there, and would go with the group.
                plan.removed.extend(live.groups.into_iter().filter(|group| !plan.added.contains_key(group)));
            }
            Files::Delta(delta) => {
                let mut places = Vec::with_capacity(delta.added.len());
                for file in &delta.added {
                    stored = stored && stores_partitions(&partitioning, file, state.format);
                    let place = self.place(state, &file.path)?;
                    self.check(state, &partitioning, file, &place)?;
                    places.push(place);
                }
                self.add(source, &delta.added, places, &mut plan).await?;
                for file in &delta.removed {
                    plan.removed.insert(self.place(state, &file.path)?);
                }
            }
        }
        if self.existing.is_none() {
            self.create(state, stored).await?;
        }
        self.check_existing(state)?;
        let extra = self.extra(state);
        if plan.is_empty() && self.existing.as_ref().is_some_and(|existing| existing.extra == extra) {
            return Ok(None);
        }
        self.roll_back_lost().await?;
        self.make_room(&plan).await?;
        let metadata = Self::metadata(&plan, &extra);
        let version = self.publish(state.version.timestamp_ms, &plan, metadata).await?;
        Ok(Some(Committed {
            metadata_path: self.metadata_path(),
            version,
            added: u64::try_from(plan.added.len()).unwrap_or_default(),
            removed: u64::try_from(plan.removed.len()).unwrap_or_default(),
            redeleted: 0,
            warnings: schema_writer::narrow_integers(&state.schema).into_iter().collect(),
        }))
    }

    /// What a table that exists cannot change any more.
    fn check_existing(&self, state: &TableState) -> Result<()> {
        let Some(existing) = &self.existing else { return Ok(()) };
        let declared = existing.properties.list("hoodie.table.partition.fields");
        let wanted: Vec<String> = state
            .spec(state.default_spec)
            .map(|spec| spec.fields.iter().map(|f| f.name.clone()).collect())
            .unwrap_or_default();
        if declared == wanted {
            return Ok(());
        }
        Err(Error::Unsupported(vec![Unsupported {
            target: TableFormat::Hudi,
            kind: UnsupportedKind::Feature,
            place: wanted.join(","),
            detail: format!(
                "a Hudi table keeps its partition columns `{}` for ever; remove `.hoodie`",
                declared.join(",")
            ),
        }]))
    }
}

impl Target for HudiTarget {
    fn format(&self) -> TableFormat {
        TableFormat::Hudi
    }

    fn load(&mut self) -> BoxFuture<'_, Result<Loaded>> {
        Box::pin(self.open())
    }

    fn tidy(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.root.tidy(LEFTOVERS))
    }

    fn reader(&self) -> Box<dyn Source> {
        Box::new(HudiSource::new(self.root.clone(), HudiOptions::default()))
    }

    fn unsupported(&self, state: &TableState) -> Vec<Unsupported> {
        let mut found = schema_writer::unsupported(&state.schema);
        found.extend(older_files::unsupported(state));
        for field in state.spec(state.default_spec).into_iter().flat_map(|spec| &spec.fields) {
            let column = state.schema.node(field.source).and_then(|n| n.field);
            let moment = column.and_then(|c| c.ty.primitive());
            let detail = match (field.transform, column) {
                (Transform::Identity, _) if matches!(moment, Some(Primitive::Timestamp | Primitive::Timestamptz)) => {
                    "a timestamp as partition column; Hudi's engines do not agree how its folder is read".to_owned()
                }
                (Transform::Identity, Some(column))
                    if column.name == field.name && state.schema.column(&column.name).is_some() =>
                {
                    continue;
                }
                (Transform::Identity, _) => {
                    "a partition field that is not a top-level column of the same name".to_owned()
                }
                (transform, _) => {
                    format!("partitioning by {transform}; Hudi tables are written with plain partition columns")
                }
            };
            found.push(Unsupported {
                target: TableFormat::Hudi,
                kind: UnsupportedKind::Transform,
                place: field.name.clone(),
                detail,
            });
        }
        found
    }

    fn commit<'a>(&'a mut self, commit: Commit<'a>) -> BoxFuture<'a, Result<Option<Committed>>> {
        Box::pin(self.write(commit))
    }
}
