//! One commit: files, manifests, manifest list, metadata, pointer.

use super::super::deletes;
use super::super::locate::{HINT, Located, hadoop_key};
use super::super::manifest::{Entry, EntryKind, FileEntry, ManifestReader, ManifestWriter, Status, tuple_types};
use super::super::manifest_list::{self, ManifestFile};
use super::super::metadata::{Snapshot, TableMetadata, schema_id, spec_fields};
use super::super::schema;
use super::super::source::{Paths, vector_at};
use super::definition::Definition;
use super::vectors::{Live, Vectors};
use super::{IcebergTarget, expiry, spell};
use crate::sync::{
    Commit, Committed, Error, Files, Result, Source, TableRoot, from_properties, record_counts, refuse_deletes,
    to_properties,
};
use futures::TryStreamExt;
use hoglake_model::Location;
use hoglake_model::table::{DataFile, FileDelta, FilePath, Operation, PartitionSpec, Primitive, TableState, Type};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

/// A manifest is closed at about this size.
const MANIFEST_BYTES: usize = 8 << 20;
/// Small manifests of one spec are merged when there are more than this many.
const MERGE_ABOVE: usize = 100;
const FORMAT_VERSION: i32 = 2;

pub(super) async fn run(target: &mut IcebergTarget, commit: Commit<'_>) -> Result<Committed> {
    let root = target.root.clone();
    let place = root.location().to_string();
    let previous = target.current.as_ref().map(|c| &c.metadata);
    let definition = Definition::new(&place, previous, commit.state)?;
    let has_vectors = previous.is_some_and(|m| m.format_version >= 3);
    let mut version = previous.map_or(FORMAT_VERSION, |m| m.format_version.max(FORMAT_VERSION));
    if definition.needs_v3() {
        version = 3;
    }
    let mut writing = Writing::new(&root, previous, &definition, commit.state, version)?;
    writing.load(previous, has_vectors).await?;
    let result = match &commit.files {
        Files::Delta(delta) => writing.apply(commit.source, delta).await,
        Files::All(_) => Ok(()),
    };
    let refuses = |file: &DataFile| refuse_deletes(&*target, file);
    let result = match (result, commit.files) {
        (Ok(()), Files::All(mut files)) => {
            let mut known = writing.known().await?;
            let mut outcome = Ok(());
            while outcome.is_ok() {
                match files.try_next().await {
                    Ok(None) => break,
                    Ok(Some(batch)) => {
                        outcome = batch.iter().try_for_each(&refuses);
                        if outcome.is_ok() {
                            outcome = writing.compare(commit.source, batch, &mut known).await;
                        }
                    }
                    Err(e) => outcome = Err(e),
                }
            }
            match outcome {
                Ok(()) => writing.drop_unseen(known).await,
                Err(e) => Err(e),
            }
        }
        (result, _) => result,
    };
    let written = match result {
        Ok(()) => writing.finish(target.current.as_ref(), commit.state, commit.operation, &target.options).await,
        Err(e) => Err(e),
    };
    match written {
        Ok((located, committed)) => {
            target.current = Some(located);
            Ok(committed)
        }
        Err(e) => {
            writing.discard().await;
            Err(e)
        }
    }
}

/// A commit in the making.
struct Writing<'a> {
    root: TableRoot,
    definition: &'a Definition,
    schema_text: String,
    version: i32,
    snapshot_id: i64,
    sequence: i64,
    paths: Paths,
    /// The spelling of the source's root, and of the target's own.
    source_prefix: String,
    own_prefix: String,
    /// Types for reading this table's own manifests.
    leaves: HashMap<i64, Primitive>,
    tuples: HashMap<i32, Vec<(i32, Option<Primitive>)>>,
    /// The manifests of the snapshot before.
    base: Vec<ManifestFile>,
    /// Which of them are rewritten or dropped.
    replaced: HashSet<usize>,
    vectors: Vectors,
    open: HashMap<i32, ManifestWriter>,
    finished: Vec<ManifestFile>,
    written: Vec<String>,
    counts: Counts,
}

#[derive(Debug, Default, Clone)]
struct Counts {
    added: u64,
    added_records: u64,
    added_bytes: u64,
    removed: u64,
    removed_records: u64,
    redeleted: u64,
}

/// What is known of the live files while all files are compared: 16 bytes and a little per file.
struct Known {
    hashers: (RandomState, RandomState),
    files: HashMap<u128, Mark>,
}

#[derive(Clone, Copy)]
struct Mark {
    manifest: u32,
    seen: bool,
}

impl Known {
    fn key(&self, path: &FilePath) -> u128 {
        (u128::from(self.hashers.0.hash_one(path)) << 64) | u128::from(self.hashers.1.hash_one(path))
    }
}

impl<'a> Writing<'a> {
    fn new(
        root: &TableRoot,
        previous: Option<&TableMetadata>,
        definition: &'a Definition,
        state: &TableState,
        version: i32,
    ) -> Result<Self> {
        let own_prefix = spell(root, "");
        let source_root = Location::parse(&state.root)?;
        let source_prefix = if source_root == *root.location() {
            own_prefix.clone()
        } else {
            let text = source_root.to_string();
            let text = if text.starts_with('/') { format!("file://{text}") } else { text };
            format!("{}/", text.trim_end_matches('/'))
        };
        let mut leaves = HashMap::new();
        definition.schema.walk(&mut |_, node| {
            if let Type::Primitive(primitive) = node.ty {
                leaves.insert(node.id.0, schema::stored(*primitive));
            }
        });
        let tuple = |spec: &PartitionSpec| {
            let types = tuple_types(spec, &definition.schema);
            (spec.id, spec.fields.iter().map(|f| f.field_id).zip(types).collect())
        };
        let snapshot_id = i64::try_from(uuid::Uuid::new_v4().as_u128() >> 65).unwrap_or(1).max(1);
        Ok(Self {
            root: root.clone(),
            schema_text: definition.schema_json.to_string(),
            version,
            snapshot_id,
            sequence: previous.map_or(0, |m| m.last_sequence_number) + 1,
            paths: Paths::new(root, own_prefix.trim_end_matches('/'), false),
            source_prefix,
            own_prefix,
            leaves,
            tuples: definition.specs.iter().map(tuple).collect(),
            definition,
            base: Vec::new(),
            replaced: HashSet::new(),
            vectors: Vectors::default(),
            open: HashMap::new(),
            finished: Vec::new(),
            written: Vec::new(),
            counts: Counts::default(),
        })
    }

    /// The manifests of the current snapshot, and its vectors.
    async fn load(&mut self, previous: Option<&TableMetadata>, has_vectors: bool) -> Result<()> {
        let Some(list) = previous.and_then(TableMetadata::current).and_then(|s| s.manifest_list.as_ref()) else {
            return Ok(());
        };
        let bytes = self.root.read(&self.paths.map(list)?, None).await?;
        self.base = manifest_list::read(list, &bytes)?;
        for index in 0..self.base.len() {
            if !self.base[index].deletes || !has_vectors {
                continue;
            }
            for entry in self.entries(index).await? {
                if let (true, Some(path)) = (entry.puffin, entry.referenced.clone()) {
                    self.vectors.live.insert(path, Live { entry, manifest: index, gone: false });
                }
            }
        }
        Ok(())
    }

    /// The live entries of one of the base manifests.
    async fn entries(&self, index: usize) -> Result<Vec<Entry>> {
        let Some(manifest) = self.base.get(index) else { return Ok(Vec::new()) };
        let bytes = self.root.read(&self.paths.map(&manifest.path)?, None).await?;
        let path = |text: &str| self.paths.map(text);
        let reader = ManifestReader { types: &self.leaves, specs: &self.tuples, path: &path };
        let mut entries = Vec::new();
        reader.read(&manifest.path, manifest, &bytes, |entry| {
            if entry.status != Status::Deleted {
                entries.push(entry);
            }
            Ok(())
        })?;
        Ok(entries)
    }

    /// A source path in this table's spelling.
    fn spelled(&self, path: &FilePath) -> String {
        match path {
            FilePath::Under(relative) => format!("{}{relative}", self.source_prefix),
            FilePath::Outside(absolute) if absolute.starts_with('/') => format!("file://{absolute}"),
            FilePath::Outside(absolute) => absolute.to_string(),
        }
    }

    /// A path of this table's own in its spelling.
    fn own_spelled(&self, path: &FilePath) -> String {
        match path {
            FilePath::Under(relative) => format!("{}{relative}", self.own_prefix),
            FilePath::Outside(absolute) if absolute.starts_with('/') => format!("file://{absolute}"),
            FilePath::Outside(absolute) => absolute.to_string(),
        }
    }

    /// A source path as this table's own entries have it.
    fn own_path(&self, path: &FilePath) -> Result<FilePath> {
        if self.source_prefix == self.own_prefix { Ok(path.clone()) } else { self.paths.map(&self.spelled(path)) }
    }

    fn own_spec(&self, spec_id: i32) -> Result<i32> {
        self.definition.spec_ids.get(&spec_id).copied().ok_or_else(|| {
            Error::malformed("the source", format!("a file follows partition spec {spec_id}, which the table lacks"))
        })
    }

    fn start(&self, spec_id: i32, deletes: bool) -> ManifestWriter {
        let schema = (self.definition.schema_id, self.schema_text.as_str());
        let spec = self.definition.spec(spec_id);
        ManifestWriter::new(self.version, self.snapshot_id, deletes, &spec, &self.definition.schema, schema)
    }

    async fn store(&mut self, writer: ManifestWriter) -> Result<()> {
        let key = format!("metadata/{}-m{}.avro", uuid::Uuid::new_v4(), self.finished.len());
        let (bytes, description) = writer.finish(spell(&self.root, &key), self.sequence);
        self.root.put_if_absent(&key, bytes).await?;
        self.written.push(key);
        self.finished.push(description);
        Ok(())
    }

    /// Adds a data file, and its vector.
    async fn add(&mut self, source: &dyn Source, mut file: DataFile, record_count: u64) -> Result<()> {
        let path = self.spelled(&file.path);
        if file.size_bytes.is_none() {
            file.size_bytes = Some(source_size(&self.root, &path).await?);
        }
        let spec_id = self.own_spec(file.spec_id)?;
        if !file.deletes.is_empty() {
            self.set_vector(source, &file).await?;
        }
        if !self.open.contains_key(&spec_id) {
            self.open.insert(spec_id, self.start(spec_id, false));
        }
        let Some(writer) = self.open.get_mut(&spec_id) else { return Ok(()) };
        let entry = FileEntry { kind: EntryKind::Added, file: &file, path: &path, record_count };
        writer.data(&entry, self.definition.ids.as_ref());
        self.counts.added += 1;
        self.counts.added_records += record_count;
        self.counts.added_bytes += file.size_bytes.unwrap_or(0);
        if writer.len() >= MANIFEST_BYTES
            && let Some(full) = self.open.remove(&spec_id)
        {
            self.store(full).await?;
        }
        Ok(())
    }

    /// Gives a file of the source the vector that it has there; true when that is a change.
    async fn set_vector(&mut self, source: &dyn Source, file: &DataFile) -> Result<bool> {
        let own = self.own_path(&file.path)?;
        if file.deletes.is_empty() {
            let had = self.vectors.live.get(&own).is_some_and(|l| !l.gone);
            self.vectors.remove(&own);
            return Ok(had);
        }
        let wanted = source.deleted_rows(file).await?;
        let (path, spec_id) = (self.spelled(&file.path), self.own_spec(file.spec_id)?);
        self.vectors.set(&self.root, &own, &path, spec_id, &file.partition, &wanted).await
    }

    /// Applies a change of the source.
    async fn apply(&mut self, source: &dyn Source, delta: &FileDelta) -> Result<()> {
        let counts = record_counts(source, &delta.added).await?;
        for (file, count) in delta.added.iter().zip(counts) {
            self.add(source, file.clone(), count).await?;
        }
        let mut gone = HashSet::new();
        for removed in &delta.removed {
            let own = self.own_path(&removed.path)?;
            self.vectors.remove(&own);
            gone.insert(own);
        }
        let mut missing = HashSet::new();
        for file in &delta.redeleted {
            missing.insert(self.own_path(&file.path)?);
        }
        for index in 0..self.base.len() {
            if gone.is_empty() && missing.is_empty() {
                break;
            }
            if self.base[index].deletes || !self.base[index].may_be_live() {
                continue;
            }
            let entries = self.entries(index).await?;
            let mut here = HashSet::new();
            for path in entries.iter().map(|e| &e.file.path) {
                missing.remove(path);
                if gone.remove(path) {
                    here.insert(path.clone());
                }
            }
            if !here.is_empty() {
                self.rewrite(index, entries, |path| !here.contains(path)).await?;
            }
        }
        for file in &delta.redeleted {
            if missing.contains(&self.own_path(&file.path)?) {
                let counts = record_counts(source, std::slice::from_ref(file)).await?;
                self.add(source, file.clone(), counts.first().copied().unwrap_or(0)).await?;
            } else if self.set_vector(source, file).await? {
                self.counts.redeleted += 1;
            }
        }
        Ok(())
    }

    /// Writes a base manifest anew, what is not kept as deleted.
    async fn rewrite(&mut self, index: usize, entries: Vec<Entry>, keep: impl Fn(&FilePath) -> bool) -> Result<()> {
        let Some(spec_id) = self.base.get(index).map(|m| m.spec_id) else { return Ok(()) };
        let mut writer = self.start(spec_id, false);
        for e in entries {
            let count = e.file.record_count.unwrap_or(0);
            let kind = if keep(&e.file.path) {
                EntryKind::Existing { snapshot_id: e.snapshot_id, sequence: e.sequence, file_sequence: e.file_sequence }
            } else {
                self.counts.removed += 1;
                self.counts.removed_records += count;
                EntryKind::Deleted { sequence: e.sequence, file_sequence: e.file_sequence }
            };
            let path = self.own_spelled(&e.file.path);
            writer.data(&FileEntry { kind, file: &e.file, path: &path, record_count: count }, None);
        }
        self.replaced.insert(index);
        self.store(writer).await
    }

    /// The live files of the table as keys.
    async fn known(&self) -> Result<Known> {
        let mut known = Known { hashers: Default::default(), files: HashMap::new() };
        for index in 0..self.base.len() {
            if self.base[index].deletes || !self.base[index].may_be_live() {
                continue;
            }
            let manifest = u32::try_from(index).unwrap_or(u32::MAX);
            for entry in self.entries(index).await? {
                known.files.insert(known.key(&entry.file.path), Mark { manifest, seen: false });
            }
        }
        Ok(known)
    }

    /// Compares a batch of the source's live files with the table's.
    async fn compare(&mut self, source: &dyn Source, batch: Vec<DataFile>, known: &mut Known) -> Result<()> {
        let mut new = Vec::with_capacity(batch.len());
        for file in batch {
            let own = self.own_path(&file.path)?;
            let key = known.key(&own);
            let same_spec = |mark: &Mark| {
                let spec = self.base.get(mark.manifest as usize).map(|m| m.spec_id);
                spec == self.definition.spec_ids.get(&file.spec_id).copied()
            };
            match known.files.get(&key).copied() {
                Some(mark) if same_spec(&mark) && !mark.seen => {
                    known.files.insert(key, Mark { seen: true, ..mark });
                    if self.set_vector(source, &file).await? {
                        self.counts.redeleted += 1;
                    }
                }
                Some(mark) if mark.seen => {}
                _ => new.push(file),
            }
        }
        let counts = record_counts(source, &new).await?;
        for (file, count) in new.into_iter().zip(counts) {
            self.add(source, file, count).await?;
        }
        Ok(())
    }

    /// Removes what the source no longer has.
    async fn drop_unseen(&mut self, known: Known) -> Result<()> {
        let touched: HashSet<usize> = known.files.values().filter(|m| !m.seen).map(|m| m.manifest as usize).collect();
        let mut touched: Vec<_> = touched.into_iter().collect();
        touched.sort_unstable();
        for index in touched {
            let entries = self.entries(index).await?;
            let stays = |path: &FilePath| known.files.get(&known.key(path)).is_some_and(|m| m.seen);
            for entry in entries.iter().filter(|e| !stays(&e.file.path)) {
                self.vectors.remove(&entry.file.path);
            }
            self.rewrite(index, entries, stays).await?;
        }
        Ok(())
    }

    /// Merges small data manifests, so that thousands of small commits stay quick to plan.
    async fn merge(&mut self) -> Result<()> {
        let mut small: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        for (index, manifest) in self.base.iter().enumerate() {
            let length = usize::try_from(manifest.length).unwrap_or(usize::MAX);
            if !manifest.deletes && !self.replaced.contains(&index) && length < MANIFEST_BYTES / 2 {
                small.entry(manifest.spec_id).or_default().push(index);
            }
        }
        for (spec_id, indexes) in small.into_iter().filter(|(_, i)| i.len() > MERGE_ABOVE) {
            let mut writer = self.start(spec_id, false);
            for index in indexes {
                for e in self.entries(index).await? {
                    let kind = EntryKind::Existing {
                        snapshot_id: e.snapshot_id,
                        sequence: e.sequence,
                        file_sequence: e.file_sequence,
                    };
                    let path = self.own_spelled(&e.file.path);
                    let record_count = e.file.record_count.unwrap_or(0);
                    writer.data(&FileEntry { kind, file: &e.file, path: &path, record_count }, None);
                }
                self.replaced.insert(index);
                if writer.len() >= MANIFEST_BYTES {
                    let full = std::mem::replace(&mut writer, self.start(spec_id, false));
                    self.store(full).await?;
                }
            }
            if !writer.is_empty() {
                self.store(writer).await?;
            }
        }
        Ok(())
    }

    /// Deletes what a failed commit has written. Best effort.
    async fn discard(&self) {
        for key in self.written.iter().chain(&self.vectors.written) {
            if let Err(error) = self.root.delete(key).await {
                tracing::debug!(%error, key, "a file of a failed commit stays behind");
            }
        }
    }

    async fn finish(
        &mut self,
        current: Option<&Located>,
        state: &TableState,
        operation: Operation,
        options: &super::IcebergTargetOptions,
    ) -> Result<(Located, Committed)> {
        for (_, writer) in std::mem::take(&mut self.open) {
            self.store(writer).await?;
        }
        let files_changed = !self.finished.is_empty() || self.vectors.changed();
        let previous = current.map(|c| &c.metadata);
        let watermark = state.watermark();
        let known = previous.and_then(|m| from_properties(|key| m.property(key)));
        if let Some(located) = current
            && !files_changed
            && !self.definition.changed
            && known.as_ref() == Some(&watermark)
        {
            let committed = self.committed(located);
            return Ok((located.clone(), committed));
        }
        if self.vectors.any() {
            self.version = 3;
        }
        let now = chrono::Utc::now().timestamp_millis().max(previous.map_or(0, |m| m.last_updated_ms));
        let mut metadata = self.new_metadata(previous, now);
        for (key, value) in to_properties(&watermark) {
            metadata.properties.insert(key.to_owned(), json!(value));
        }
        if let Some(located) = current {
            metadata.metadata_log.push(
                json!({"metadata-file": spell(&self.root, &located.key), "timestamp-ms": located.metadata.last_updated_ms}),
            );
        }
        if files_changed || metadata.current_snapshot_id.is_none() {
            self.merge().await?;
            self.snapshot(&mut metadata, state, operation, now).await?;
        }
        let expired = expiry::expire(&mut metadata, now - options.retention_ms);
        let number = current.map_or(0, |c| c.version) + 1;
        let key = hadoop_key(number);
        let bytes = serde_json::to_vec(&metadata).map_err(|e| Error::malformed(&key, e.to_string()))?;
        if !self.root.put_if_absent(&key, bytes).await? {
            return Err(Error::Lost { place: self.root.spell(&key) });
        }
        // Visible from here on; what follows are hints and tidying.
        if let Err(error) = self.root.put(HINT, number.to_string()).await {
            tracing::warn!(%error, "the version hint was not written; readers find the newest version themselves");
        }
        expiry::clean(&self.root, &metadata, &expired).await;
        let located = Located { key, version: number, hadoop: true, metadata, warnings: Vec::new() };
        let committed = self.committed(&located);
        Ok((located, committed))
    }

    fn committed(&self, located: &Located) -> Committed {
        Committed {
            metadata_path: spell(&self.root, &located.key),
            version: located.version.to_string(),
            added: self.counts.added,
            removed: self.counts.removed,
            redeleted: self.counts.redeleted,
            warnings: Vec::new(),
        }
    }

    fn new_metadata(&self, previous: Option<&TableMetadata>, now: i64) -> TableMetadata {
        let d = self.definition;
        let mut metadata = previous.cloned().unwrap_or_else(|| TableMetadata {
            format_version: self.version,
            table_uuid: Some(uuid::Uuid::new_v4().to_string()),
            location: self.own_prefix.trim_end_matches('/').to_owned(),
            last_sequence_number: 0,
            last_updated_ms: now,
            last_column_id: 0,
            schema: None,
            schemas: Vec::new(),
            current_schema_id: 0,
            partition_spec: None,
            partition_specs: Vec::new(),
            default_spec_id: 0,
            last_partition_id: None,
            properties: BTreeMap::new(),
            current_snapshot_id: None,
            snapshots: Vec::new(),
            snapshot_log: Vec::new(),
            metadata_log: Vec::new(),
            sort_orders: Vec::new(),
            default_sort_order_id: 0,
            refs: Map::new(),
            next_row_id: None,
            other: Map::new(),
        });
        metadata.format_version = self.version;
        // Version 1 kept copies of the current schema and spec beside the lists.
        (metadata.schema, metadata.partition_spec) = (None, None);
        metadata.last_updated_ms = now;
        metadata.last_column_id = metadata.last_column_id.max(d.last_column_id);
        if !metadata.schemas.iter().any(|s| schema_id(s) == d.schema_id) {
            metadata.schemas.push(d.schema_json.clone());
        }
        metadata.current_schema_id = d.schema_id;
        metadata.partition_specs = d.specs.iter().map(|s| json!({"spec-id": s.id, "fields": spec_fields(s)})).collect();
        metadata.default_spec_id = d.default_spec_id;
        metadata.last_partition_id = Some(d.last_partition_id);
        if metadata.sort_orders.is_empty() {
            metadata.sort_orders.push(json!({"order-id": 0, "fields": []}));
        }
        if self.version >= 3 {
            metadata.next_row_id.get_or_insert(0);
        }
        let mapping = schema::name_mapping(&d.schema).to_string();
        metadata.properties.insert("schema.name-mapping.default".to_owned(), json!(mapping));
        metadata
    }

    /// Writes the manifest list and adds the snapshot.
    async fn snapshot(
        &mut self,
        metadata: &mut TableMetadata,
        state: &TableState,
        operation: Operation,
        now: i64,
    ) -> Result<()> {
        let (kept_deletes, writers) =
            self.vectors.manifests(&self.base, |path| self.own_spelled(path), |spec| self.start(spec, true));
        for writer in writers {
            self.store(writer).await?;
        }
        let mut manifests = std::mem::take(&mut self.finished);
        let base = std::mem::take(&mut self.base);
        let carried =
            base.into_iter().enumerate().filter(|(i, m)| !m.deletes && !self.replaced.contains(i) && m.may_be_live());
        manifests.extend(carried.map(|(_, m)| m));
        manifests.extend(kept_deletes);
        manifests.sort_by_key(|m| m.deletes);
        let mut snapshot = Snapshot {
            snapshot_id: self.snapshot_id,
            parent_snapshot_id: metadata.current_snapshot_id,
            sequence_number: self.sequence,
            timestamp_ms: now,
            manifest_list: None,
            manifests: None,
            summary: self.summary(state, operation, &manifests),
            schema_id: Some(self.definition.schema_id),
            first_row_id: None,
            added_rows: None,
            other: Map::new(),
        };
        if self.version >= 3 {
            // "First Row ID Assignment": every data manifest without one gets the next range.
            let first = metadata.next_row_id.unwrap_or(0);
            let mut next = first;
            for manifest in manifests.iter_mut().filter(|m| !m.deletes && m.first_row_id.is_none()) {
                manifest.first_row_id = Some(next);
                next += manifest.added_rows.unwrap_or(0) + manifest.existing_rows.unwrap_or(0);
            }
            (snapshot.first_row_id, snapshot.added_rows) = (Some(first), Some(next - first));
            metadata.next_row_id = Some(next);
        }
        let key = format!("metadata/snap-{}-1-{}.avro", self.snapshot_id, uuid::Uuid::new_v4());
        let bytes = manifest_list::write(
            self.version,
            self.snapshot_id,
            metadata.current_snapshot_id,
            self.sequence,
            &manifests,
        );
        self.root.put_if_absent(&key, bytes).await?;
        snapshot.manifest_list = Some(spell(&self.root, &key));
        self.written.push(key);
        metadata.last_sequence_number = self.sequence;
        metadata.current_snapshot_id = Some(self.snapshot_id);
        metadata.snapshots.push(snapshot);
        metadata.snapshot_log.push(json!({"snapshot-id": self.snapshot_id, "timestamp-ms": now}));
        metadata.refs.insert("main".to_owned(), json!({"snapshot-id": self.snapshot_id, "type": "branch"}));
        Ok(())
    }

    fn summary(&self, state: &TableState, operation: Operation, manifests: &[ManifestFile]) -> BTreeMap<String, Json> {
        let c = &self.counts;
        let changed = c.removed > 0 || c.redeleted > 0 || self.vectors.changed();
        // A reader may skip what an append or a replace cannot have changed, so that these must be true.
        let operation = match (operation, c.added > 0, changed) {
            (Operation::Replace, _, _) if c.redeleted == 0 => "replace",
            (_, _, false) => "append",
            (_, false, true) => "delete",
            _ => "overwrite",
        };
        let live = |deletes: bool| manifests.iter().filter(move |m| m.deletes == deletes);
        let files =
            |deletes| live(deletes).map(|m| m.added_files.unwrap_or(0) + m.existing_files.unwrap_or(0)).sum::<i64>();
        let rows =
            |deletes| live(deletes).map(|m| m.added_rows.unwrap_or(0) + m.existing_rows.unwrap_or(0)).sum::<i64>();
        let mut summary: BTreeMap<String, Json> = BTreeMap::from([
            ("operation".to_owned(), json!(operation)),
            ("total-data-files".to_owned(), json!(files(false).to_string())),
            ("total-records".to_owned(), json!(rows(false).to_string())),
            ("total-delete-files".to_owned(), json!(files(true).to_string())),
            ("total-position-deletes".to_owned(), json!(rows(true).to_string())),
            ("total-equality-deletes".to_owned(), json!("0")),
            ("source-version".to_owned(), json!(state.version.id.0)),
        ]);
        for (key, count) in [
            ("added-data-files", c.added),
            ("added-records", c.added_records),
            ("added-files-size", c.added_bytes),
            ("deleted-data-files", c.removed),
            ("deleted-records", c.removed_records),
        ] {
            if count > 0 {
                summary.insert(key.to_owned(), json!(count.to_string()));
            }
        }
        for (key, value) in to_properties(&state.watermark()) {
            summary.insert(key.to_owned(), json!(value));
        }
        summary
    }
}

/// The size of a file whose metadata does not say.
async fn source_size(root: &TableRoot, path: &str) -> Result<u64> {
    use object_store::ObjectStoreExt;
    let location = Location::parse(path)?;
    let (store, object) = root.object(&root.file_path(&location))?;
    Ok(store.head(&object).await.map_err(|e| Error::store(path, e))?.size)
}

/// Reads the vector of an entry.
pub(super) async fn read_vector(root: &TableRoot, entry: &Entry) -> Result<crate::deletion_vector::DeletionVector> {
    let vector = deletes::vector(entry).map_err(|fault| Error::malformed(entry.file.path.as_str(), fault))?;
    vector_at(root, &vector).await
}
