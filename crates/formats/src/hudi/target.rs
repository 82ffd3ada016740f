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

use super::FOLDER;
use super::commit::CommitMetadata;
use super::file_group::{EXTERNAL, FileName};
use super::metadata_table;
use super::metadata_writer::{self, Changes};
use super::partitioning::Partitioning;
use super::properties::{self, Layout, Properties};
use super::schema_writer;
use super::timeline::{self, Timeline};
use crate::sync::{
    BoxFuture, Commit, Committed, Error, Files, Loaded, Result, Source, TableRoot, Target, from_properties,
    to_properties,
};
use futures::TryStreamExt;
use hoglake_model::Location;
use hoglake_model::table::{
    DataFile, FileFormat, FilePath, Primitive, TableFormat, TableState, Transform, Unsupported, UnsupportedKind,
    Watermark,
};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Commits in the active timeline at which the older ones are archived.
const MAX_ACTIVE: usize = 30;

/// The property by which a table of ours is known before its first commit.
const CREATED: &str = "hoglake.created";

/// The table that is written.
pub struct HudiTarget {
    root: TableRoot,
    existing: Option<Existing>,
}

struct Existing {
    properties: Properties,
    timeline: Timeline,
    /// The last completed write, empty before the first.
    last: String,
    watermark: Option<Watermark>,
    /// Groups that are replaced in the active timeline, once they were needed.
    replaced: Option<HashSet<(String, String)>>,
}

/// A file as Hudi addresses it: partition path and name.
type Place = (String, String);

/// What a commit does, in Hudi's terms.
#[derive(Default)]
struct Plan {
    added: BTreeMap<Place, Added>,
    removed: BTreeSet<Place>,
}

struct Added {
    size: u64,
    rows: u64,
}

impl HudiTarget {
    /// The table at `root`, the folder under which all its files lie.
    pub fn new(root: TableRoot) -> Self {
        Self { root, existing: None }
    }

    fn metadata_path(&self) -> String {
        self.root.spell(FOLDER)
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
        let last_of =
            |timeline: &Timeline| timeline.writes().next_back().map_or(String::new(), |i| i.requested.clone());
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
            self.root.put(&format!("{FOLDER}/{instant}.replacecommit"), pointer["commit"].to_string()).await?;
            names.push((format!("{instant}.replacecommit"), 0, 1));
            timeline = Timeline::new(FOLDER, names.iter().cloned(), layout);
            last = last_of(&timeline);
        }
        let mut watermark = None;
        if let Some(instant) = timeline.writes().next_back() {
            let metadata = CommitMetadata::read(&self.root, instant).await?;
            watermark = from_properties(|key| metadata.extra.get(key).map(String::as_str));
        }
        // Properties of ours without any commit are what a first run left that did not come to an end.
        let exists = !last.is_empty() || properties.get(CREATED).is_none();
        let metadata_path = exists.then(|| self.metadata_path());
        let loaded = Loaded { exists, watermark: watermark.clone(), metadata_path };
        self.existing = Some(Existing { properties, timeline, last, watermark, replaced: None });
        Ok(loaded)
    }

    /// Writes the table's properties and an empty metadata table.
    async fn create(&mut self, state: &TableState, stored: bool) -> Result<()> {
        let folder = self.root.location().file_name().to_owned();
        let name = state.name.clone().filter(|n| !n.is_empty()).unwrap_or(folder);
        let name = name.rsplit('/').next().unwrap_or_default().to_owned();
        metadata_writer::create(&self.root, &name).await?;
        let columns: Vec<&str> = state
            .spec(state.default_spec)
            .map(|spec| spec.fields.iter().map(|f| f.name.as_str()).collect())
            .unwrap_or_default();
        let keys: Vec<&str> =
            state.schema.identifier_fields.iter().filter_map(|id| state.schema.path(*id)?.last().copied()).collect();
        let generator = match (columns.len(), keys.len()) {
            (0, _) => "NonpartitionedKeyGenerator",
            (1, 0 | 1) => "SimpleKeyGenerator",
            _ => "ComplexKeyGenerator",
        };
        let (columns, keys) = (columns.join(","), keys.join(","));
        let generator = format!("org.apache.hudi.keygen.{generator}");
        let mut pairs = vec![
            ("hoodie.archivelog.folder", "archived"),
            ("hoodie.compaction.payload.class", "org.apache.hudi.common.model.HoodieAvroPayload"),
            ("hoodie.database.name", "default_hudi"),
            ("hoodie.datasource.write.drop.partition.columns", if stored { "false" } else { "true" }),
            ("hoodie.datasource.write.hive_style_partitioning", "true"),
            ("hoodie.datasource.write.partitionpath.urlencode", "true"),
            ("hoodie.partition.metafile.use.base.format", "false"),
            ("hoodie.populate.meta.fields", "false"),
            ("hoodie.table.base.file.format", "PARQUET"),
            ("hoodie.table.cdc.enabled", "false"),
            ("hoodie.table.keygenerator.class", generator.as_str()),
            ("hoodie.table.metadata.partitions", "files"),
            ("hoodie.table.metadata.partitions.inflight", ""),
            ("hoodie.table.name", name.as_str()),
            ("hoodie.table.partition.fields", columns.as_str()),
            ("hoodie.table.timeline.timezone", "UTC"),
            ("hoodie.table.type", "COPY_ON_WRITE"),
            ("hoodie.table.version", "6"),
            ("hoodie.timeline.layout.version", "1"),
            (CREATED, "true"),
        ];
        if !keys.is_empty() {
            pairs.push(("hoodie.table.recordkey.fields", keys.as_str()));
        }
        let text = properties::write(pairs.into_iter(), &format!("default_hudi.{name}"));
        self.root.put_if_absent(&format!("{FOLDER}/hoodie.properties"), text).await?;
        self.open().await?;
        Ok(())
    }

    /// Where a file of the source lies below this table.
    fn place(&self, state: &TableState, path: &FilePath) -> Result<Place> {
        let location = match path {
            FilePath::Under(relative) => Location::parse(&state.root)?.join(relative)?,
            FilePath::Outside(absolute) => Location::parse(absolute)?,
        };
        let refuse = |detail: String| {
            Error::Unsupported(vec![Unsupported {
                target: TableFormat::Hudi,
                kind: UnsupportedKind::Location,
                place: path.as_str().to_owned(),
                detail,
            }])
        };
        let Some(relative) = location.relative_to(self.root.location()).filter(|r| !r.is_empty()) else {
            return Err(refuse(format!(
                "the file lies outside of {}; Hudi files lie below their table",
                self.root.location()
            )));
        };
        if relative.contains(':') {
            return Err(refuse("a colon in a relative path is no path to Hadoop, by which Hudi reads".to_owned()));
        }
        let (partition, name) = relative.rsplit_once('/').unwrap_or(("", relative));
        Ok((partition.to_owned(), name.to_owned()))
    }

    /// Checks that a file lies where its partition values say, which is all that readers of Hudi know of them.
    fn check(&self, state: &TableState, partitioning: &Partitioning, file: &DataFile, place: &Place) -> Result<()> {
        let refuse = |kind, detail: String| {
            let place = file.path.as_str().to_owned();
            Err(Error::Unsupported(vec![Unsupported { target: TableFormat::Hudi, kind, place, detail }]))
        };
        if file.format != FileFormat::Parquet {
            return refuse(UnsupportedKind::FileFormat, "only Parquet files are registered in Hudi tables".to_owned());
        }
        if file.spec_id != state.default_spec && !file.partition.is_empty() {
            return refuse(UnsupportedKind::Feature, "the file follows an older partition spec".to_owned());
        }
        if partitioning.spec.fields.is_empty() {
            if place.0.is_empty() {
                return Ok(());
            }
            let detail =
                format!("the files of an unpartitioned Hudi table lie in its folder itself; convert into {}", place.0);
            return refuse(UnsupportedKind::Location, detail);
        }
        match partitioning.tuple(&place.0) {
            Ok(tuple) if tuple == file.partition => Ok(()),
            _ => refuse(
                UnsupportedKind::Location,
                format!(
                    "the folder `{}` does not spell the file's partition values, which readers of Hudi take from it",
                    place.0
                ),
            ),
        }
    }

    async fn added(&self, source: &dyn Source, file: &DataFile) -> Result<Added> {
        let rows = match file.record_count {
            Some(rows) => rows,
            None => source.record_count(file).await?,
        };
        let size = match file.size_bytes {
            Some(size) => size,
            None => {
                use object_store::ObjectStoreExt;
                let (store, object) = self.root.object(&file.path)?;
                store.head(&object).await.map_err(|e| Error::store(file.path.as_str(), e))?.size
            }
        };
        Ok(Added { size, rows })
    }

    async fn write(&mut self, commit: Commit<'_>) -> Result<Committed> {
        let Commit { source, state, files, .. } = commit;
        let mut plan = Plan::default();
        let mut stored = state.format != TableFormat::Delta;
        let partitioning = self.partitioning(state);
        match files {
            Files::All(mut stream) => {
                let mut live = self.live().await?;
                while let Some(batch) = stream.try_next().await? {
                    for file in batch {
                        stored = stored && stores_partitions(&partitioning, &file, state.format);
                        let place = self.place(state, &file.path)?;
                        self.check(state, &partitioning, &file, &place)?;
                        if !live.remove(&place) {
                            let added = self.added(source, &file).await?;
                            plan.added.insert(place, added);
                        }
                    }
                }
                plan.removed = live;
            }
            Files::Delta(delta) => {
                for file in &delta.added {
                    stored = stored && stores_partitions(&partitioning, file, state.format);
                    let place = self.place(state, &file.path)?;
                    self.check(state, &partitioning, file, &place)?;
                    let added = self.added(source, file).await?;
                    plan.added.insert(place, added);
                }
                for file in &delta.removed {
                    plan.removed.insert(self.place(state, &file.path)?);
                }
            }
        }
        if self.existing.is_none() {
            self.create(state, stored).await?;
        }
        self.check_existing(state)?;
        self.make_room(&plan).await?;
        let metadata = self.metadata(state, &plan);
        let version = self.publish(state.version.timestamp_ms, &plan, metadata, state.watermark()).await?;
        Ok(Committed {
            metadata_path: self.metadata_path(),
            version,
            added: u64::try_from(plan.added.len()).unwrap_or_default(),
            removed: u64::try_from(plan.removed.len()).unwrap_or_default(),
            redeleted: 0,
            warnings: Vec::new(),
        })
    }

    fn partitioning(&self, state: &TableState) -> Partitioning {
        let columns: Vec<&str> = state
            .spec(state.default_spec)
            .map(|spec| spec.fields.iter().map(|f| f.name.as_str()).collect())
            .unwrap_or_default();
        let mut properties = Properties::default();
        properties.0.insert("hoodie.table.partition.fields".to_owned(), columns.join(","));
        properties.0.insert("hoodie.datasource.write.partitionpath.urlencode".to_owned(), "true".to_owned());
        Partitioning::infer(&properties, &mut state.schema.clone()).0
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

    /// The files that the table shows.
    async fn live(&self) -> Result<BTreeSet<Place>> {
        let Some(existing) = &self.existing else { return Ok(BTreeSet::new()) };
        let listing = metadata_table::read(&self.root, &existing.timeline).await?;
        let replaced = self.read_replaced(existing).await?;
        let slices = metadata_table::groups(&listing).slices(&existing.timeline, &replaced);
        Ok(slices.into_iter().filter_map(|s| Some((s.partition, s.base?.name))).collect())
    }

    async fn read_replaced(&self, existing: &Existing) -> Result<HashSet<(String, String)>> {
        let mut replaced = HashSet::new();
        for instant in existing.timeline.writes().filter(|i| i.action == "replacecommit") {
            replaced.extend(CommitMetadata::read(&self.root, instant).await?.replaced);
        }
        Ok(replaced)
    }

    /// A group that was replaced stays hidden while that commit is in the active timeline. When such a file comes
    /// back, or the timeline has become long, everything so far is archived first.
    async fn make_room(&mut self, plan: &Plan) -> Result<()> {
        let Some(mut existing) = self.existing.take() else { return Ok(()) };
        if existing.replaced.is_none() && !plan.added.is_empty() {
            existing.replaced = Some(self.read_replaced(&existing).await?);
        }
        let hidden = existing.replaced.as_ref().is_some_and(|replaced| plan.added.keys().any(|p| replaced.contains(p)));
        let long = existing.timeline.writes().count() >= MAX_ACTIVE;
        self.existing = Some(existing);
        if hidden || long { self.archive().await } else { Ok(()) }
    }

    /// Makes a commit that changes nothing but forgets replaced files, compacts the metadata table, and takes all older
    /// commits out of the active timeline. Readers see the same rows at every moment.
    async fn archive(&mut self) -> Result<()> {
        let Some(existing) = &self.existing else { return Ok(()) };
        let (Some(last), Some(watermark)) =
            (existing.timeline.writes().next_back().cloned(), existing.watermark.clone())
        else {
            return Ok(());
        };
        let replaced = self.read_replaced(existing).await?;
        let listing = metadata_table::read(&self.root, &existing.timeline).await?;
        let mut changes = Changes::new();
        for (key, files) in listing.iter().filter(|(key, _)| *key != metadata_table::ALL_PARTITIONS) {
            let partition = if key == metadata_table::ROOT_PARTITION { "" } else { key };
            for name in files.iter().filter(|(_, size)| size.is_some()).map(|(name, _)| name) {
                let FileName::Base { file_id, .. } = FileName::parse(name) else { continue };
                if replaced.contains(&(partition.to_owned(), file_id)) {
                    changes.entry(partition.to_owned()).or_default().insert(name.clone(), None);
                }
            }
        }
        let bytes = self.root.get(&last.key).await?;
        let previous: Value =
            serde_json::from_slice(&bytes).map_err(|e| Error::malformed(self.root.spell(&last.key), e.to_string()))?;
        let metadata = commit_json(Map::new(), Map::new(), &previous["extraMetadata"]);
        let old: Vec<String> = existing.timeline.completed.iter().map(|i| i.requested.clone()).collect();
        let instant = self.publish_changes(timeline::millis(&last.requested), &changes, metadata, watermark).await?;
        let Some(existing) = &self.existing else { return Ok(()) };
        let listing = metadata_table::read(&self.root, &existing.timeline).await?;
        metadata_writer::compact(&self.root, &instant, &listing).await?;
        let names = timeline::names(&self.root, FOLDER).await?;
        for gone in old {
            // Oldest first, the completed instant before its pending ones: what is left is always a whole timeline.
            for (name, ..) in names.iter().filter(|(name, ..)| name.starts_with(&format!("{gone}."))) {
                self.root.delete(&format!("{FOLDER}/{name}")).await?;
            }
            if gone != last.requested {
                self.root.delete(&format!("{FOLDER}/{}", after(&gone))).await?;
            }
            for key in metadata_writer::commit_keys(&gone, "deltacommit") {
                self.root.delete(&key).await?;
            }
        }
        self.open().await?;
        Ok(())
    }

    fn metadata(&self, state: &TableState, plan: &Plan) -> impl Fn(&str) -> Value + use<> {
        let mut extra = Map::new();
        let name = self.existing.as_ref().and_then(|e| e.properties.get("hoodie.table.name")).unwrap_or("table");
        extra.insert("schema".to_owned(), json!(schema_writer::write(&state.schema, name)));
        for (key, value) in to_properties(&state.watermark()) {
            extra.insert(key.to_owned(), json!(value));
        }
        let extra = Value::Object(extra);
        let added: Vec<(Place, u64, u64)> = plan.added.iter().map(|(p, a)| (p.clone(), a.size, a.rows)).collect();
        let mut replaced: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (partition, name) in &plan.removed {
            replaced.entry(partition.clone()).or_default().push(name.clone());
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

    async fn publish(
        &mut self,
        millis: i64,
        plan: &Plan,
        metadata: impl Fn(&str) -> Value,
        watermark: Watermark,
    ) -> Result<String> {
        let added = plan.added.iter().map(|((partition, name), added)| (partition, name, added.size));
        let mut changes = Changes::new();
        for (partition, name, size) in added {
            // The instant is not known yet; see below.
            changes.entry(partition.clone()).or_default().insert(name.clone(), Some(size));
        }
        let instant = self.publish_changes(millis, &changes, metadata, watermark).await?;
        if let Some(replaced) = self.existing.as_mut().and_then(|e| e.replaced.as_mut()) {
            replaced.extend(plan.removed.iter().cloned());
        }
        Ok(instant)
    }

    /// Makes a commit visible: all or nothing.
    async fn publish_changes(
        &mut self,
        millis: i64,
        changes: &Changes,
        metadata: impl Fn(&str) -> Value,
        watermark: Watermark,
    ) -> Result<String> {
        let Some(last) = self.existing.as_ref().map(|e| e.last.clone()) else {
            return Err(Error::malformed(self.metadata_path(), "the table was not loaded"));
        };
        let mut millis = millis.max(timeline::millis(&last) + 1);
        let instant = loop {
            let instant = timeline::instant(millis);
            if instant > last
                && self.root.put_if_absent(&format!("{FOLDER}/{instant}.replacecommit.requested"), "").await?
            {
                break instant;
            }
            millis += 1;
        };
        let pending = [
            format!("{FOLDER}/{instant}.replacecommit.requested"),
            format!("{FOLDER}/{instant}.replacecommit.inflight"),
        ];
        self.root.put_if_absent(&pending[1], "").await?;
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
        let mut written = metadata_writer::append(&self.root, &instant, &registered).await?;
        let commit = metadata(&instant);
        let pointer = json!({"instant": instant, "commit": commit}).to_string();
        let key = format!("{FOLDER}/{}", after(&last));
        if !self.root.put_if_absent(&key, pointer).await? {
            written.extend(pending);
            for key in written {
                self.root.delete(&key).await?;
            }
            return Err(Error::Lost { place: self.root.spell(&key) });
        }
        let completed = format!("{instant}.replacecommit");
        self.root.put(&format!("{FOLDER}/{completed}"), commit.to_string()).await?;
        if let Some(existing) = &mut self.existing {
            let known = existing.timeline.completed.iter();
            let mut names: Vec<(String, i64, u64)> = known
                .map(|i| (i.key.rsplit('/').next().unwrap_or_default().to_owned(), i.modified_ms, i.size))
                .collect();
            names.push((completed, 0, 1));
            existing.timeline = Timeline::new(FOLDER, names.into_iter(), Layout::One);
            existing.last.clone_from(&instant);
            existing.watermark = Some(watermark);
        }
        Ok(instant)
    }
}

/// The name of the pointer to the commit after `last`.
fn after(last: &str) -> String {
    format!("hoglake-after-{}", if last.is_empty() { "nothing" } else { last })
}

fn commit_json(
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

/// Whether the file itself has its partition columns, as far as its statistics tell.
fn stores_partitions(partitioning: &Partitioning, file: &DataFile, format: TableFormat) -> bool {
    format == TableFormat::Iceberg || partitioning.identities().all(|(_, field, _)| file.column(field).is_some())
}

impl Target for HudiTarget {
    fn format(&self) -> TableFormat {
        TableFormat::Hudi
    }

    fn load(&mut self) -> BoxFuture<'_, Result<Loaded>> {
        Box::pin(self.open())
    }

    fn unsupported(&self, state: &TableState) -> Vec<Unsupported> {
        let mut found = schema_writer::unsupported(&state.schema);
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

    fn commit<'a>(&'a mut self, commit: Commit<'a>) -> BoxFuture<'a, Result<Committed>> {
        Box::pin(self.write(commit))
    }
}
