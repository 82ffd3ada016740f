//! One commit: which files are added, kept and removed, and which of their rows are deleted.

use super::super::contents::Contents;
use super::super::manifest::{EntryKind, FileEntry, ManifestWriter, tuple_types};
use super::super::manifest_list::{self, ManifestFile};
use super::super::metadata::TableMetadata;
use super::super::schema;
use super::IcebergTarget;
use super::definition::Definition;
use super::deletes::{Deletes, Referenced};
use super::file_ids::{self, Samples};
use super::manifests::{Found, Types};
use super::spelling::Spelling;
use crate::sync::{Commit, Committed, Error, Files, Result, Source, TableRoot, record_counts};
use futures::TryStreamExt;
use hoglake_model::table::{DataFile, FieldIds, FileDelta, FilePath, PartitionSpec, TableState, Type};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use tokio::task::JoinSet;

/// A manifest is closed at about this size.
pub(super) const MANIFEST_BYTES: usize = 8 << 20;

pub(super) async fn run(target: &mut IcebergTarget, commit: Commit<'_>) -> Result<Option<Committed>> {
    let root = target.root.clone();
    let place = root.location().to_string();
    let goes_on = target.metadata().is_some();
    let previous = target.current.as_ref().map(|c| &c.metadata).filter(|_| goes_on);
    let mut commit = commit;
    let mut first_file = None;
    if previous.is_none() && commit.state.field_ids == FieldIds::Positional {
        let spelling = Spelling::new(&root, commit.state, None)?;
        let own = |path: &FilePath| spelling.own_path(path);
        (first_file, commit.files) = file_ids::of_first(&root, commit.files, &commit.state.schema, own).await?;
    }
    let definition = Definition::new(&place, previous, commit.state, first_file.as_ref())?;
    let version = target.version(&definition);
    let mut writing = Writing::new(&root, previous, &definition, commit.state, version)?;
    writing.contents = std::mem::take(&mut target.contents);
    writing.load(previous).await?;
    let deletes_matter = match &commit.files {
        Files::All(_) => true,
        Files::Delta(delta) => {
            !delta.removed.is_empty()
                || !delta.redeleted.is_empty()
                || delta.added.iter().any(|file| !file.deletes.is_empty())
        }
    };
    if deletes_matter {
        writing.load_deletes().await?;
    }
    let result = match &commit.files {
        Files::Delta(delta) => writing.apply(commit.source, delta).await,
        Files::All(_) => Ok(()),
    };
    let result = match (result, commit.files) {
        (Ok(()), Files::All(mut files)) => {
            let mut known = writing.known().await?;
            let mut outcome = Ok(());
            while outcome.is_ok() {
                match files.try_next().await {
                    Ok(None) => break,
                    Ok(Some(batch)) => outcome = writing.compare(commit.source, batch, &mut known).await,
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
    let written = match result.and_then(|()| definition.promote(&commit.source.older_types())) {
        Ok(()) => {
            let last = target.current.as_ref().map_or(0, |c| c.version);
            let previous = previous.and(target.current.as_ref());
            writing.finish(last, previous, commit.state, commit.operation, &target.options).await
        }
        Err(e) => Err(e),
    };
    target.contents = std::mem::take(&mut writing.contents);
    match written {
        Ok(Some((located, committed))) => {
            target.current = Some(located);
            Ok(Some(committed))
        }
        Ok(None) => Ok(None),
        Err(e) => {
            writing.discard().await;
            Err(e)
        }
    }
}

/// A commit in the making.
pub(super) struct Writing<'a> {
    pub root: TableRoot,
    pub definition: &'a Definition,
    pub schema_text: String,
    pub version: i32,
    pub snapshot_id: i64,
    pub sequence: i64,
    pub spelling: Arc<Spelling>,
    /// For reading this table's own manifests.
    pub types: Arc<Types>,
    /// The manifests of the snapshot before.
    pub base: Vec<ManifestFile>,
    /// What those hold that were read before.
    pub contents: Contents,
    samples: Samples,
    /// Which of them are rewritten or dropped.
    pub replaced: HashSet<usize>,
    pub deletes: Deletes,
    pub open: HashMap<i32, ManifestWriter>,
    pub finished: Vec<ManifestFile>,
    pub written: Vec<String>,
    /// Objects on their way to the store.
    pub pending: JoinSet<Result<bool>>,
    pub counts: Counts,
}

/// What the commit does, for its summary.
#[derive(Debug, Default, Clone)]
pub(super) struct Counts {
    pub added: u64,
    pub added_records: u64,
    pub added_bytes: u64,
    pub removed: u64,
    pub removed_records: u64,
    pub redeleted: u64,
}

/// What is known of the live files while all files are compared: 16 bytes and a little per file.
struct Known {
    hashers: (RandomState, RandomState),
    files: HashMap<u128, Mark>,
    /// Manifests with files that the table lists more than once: their rows would be read as often.
    doubled: HashSet<usize>,
}

#[derive(Clone, Copy)]
struct Mark {
    manifest: u32,
    /// Listed once, and spelled as this commit would. What is not leaves, and comes back if the source has it.
    as_ours: bool,
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
            spelling: Arc::new(Spelling::new(root, state, previous.map(|m| m.location.as_str()))?),
            types: Arc::new(Types { leaves, tuples: definition.specs.iter().map(tuple).collect() }),
            definition,
            base: Vec::new(),
            contents: Contents::default(),
            samples: Samples::default(),
            replaced: HashSet::new(),
            deletes: Deletes::default(),
            open: HashMap::new(),
            finished: Vec::new(),
            written: Vec::new(),
            pending: JoinSet::new(),
            counts: Counts::default(),
        })
    }

    /// The manifests of the current snapshot.
    async fn load(&mut self, previous: Option<&TableMetadata>) -> Result<()> {
        if let Some(list) = previous.and_then(TableMetadata::current).and_then(|s| s.manifest_list.as_ref()) {
            let bytes = self.root.read(&self.spelling.parse(list)?, None).await?;
            self.base = manifest_list::read(list, &bytes)?;
        }
        Ok(())
    }

    fn own_spec(&self, spec_id: i32) -> Result<i32> {
        self.definition.spec_ids.get(&spec_id).copied().ok_or_else(|| {
            Error::malformed("the source", format!("a file follows partition spec {spec_id}, which the table lacks"))
        })
    }

    /// Adds a data file, and its deletes.
    async fn add(&mut self, source: &dyn Source, mut file: DataFile, record_count: u64) -> Result<()> {
        let (path, own) = (self.spelling.of_source(&file.path), self.spelling.own_path(&file.path)?);
        if file.size_bytes.is_none() {
            file.size_bytes = Some(self.root.size(&own).await?);
        }
        let spec_id = self.own_spec(file.spec_id)?;
        // Those that a file of this path had are older than the file is now.
        self.deletes.remove(&own);
        if !file.deletes.is_empty() {
            self.set_deletes(source, &file).await?;
        }
        if !self.open.contains_key(&spec_id) {
            self.open.insert(spec_id, self.start(spec_id, false));
        }
        let Some(writer) = self.open.get_mut(&spec_id) else { return Ok(()) };
        let entry = FileEntry { kind: EntryKind::Added, file: &file, path: &path, record_count };
        writer.data(&entry, self.definition.ids.as_ref());
        self.counts.added += 1;
        self.counts.added_records = self.counts.added_records.saturating_add(record_count);
        self.counts.added_bytes = self.counts.added_bytes.saturating_add(file.size_bytes.unwrap_or(0));
        if writer.len() >= MANIFEST_BYTES
            && let Some(full) = self.open.remove(&spec_id)
        {
            self.store(full).await?;
        }
        Ok(())
    }

    /// Gives a file of the source the deletes that it has there; true when that is a change.
    async fn set_deletes(&mut self, source: &dyn Source, file: &DataFile) -> Result<bool> {
        let own = self.spelling.own_path(&file.path)?;
        if file.deletes.is_empty() {
            return Ok(self.deletes.remove(&own));
        }
        let wanted = source.deleted_rows(file).await?;
        let (path, spec_id) = (self.spelling.of_source(&file.path), self.own_spec(file.spec_id)?);
        let data = Referenced { own: &own, path: &path, spec_id, partition: &file.partition };
        self.deletes.set(&self.root, &self.spelling, self.version, &data, &wanted).await
    }

    /// Applies a change of the source.
    async fn apply(&mut self, source: &dyn Source, delta: &FileDelta) -> Result<()> {
        let counts = record_counts(source, &delta.added).await?;
        for (file, count) in delta.added.iter().zip(counts) {
            self.add(source, file.clone(), count).await?;
        }
        let mut gone = HashSet::new();
        for removed in &delta.removed {
            let own = self.spelling.own_path(&removed.path)?;
            self.deletes.remove(&own);
            gone.insert(own);
        }
        let mut missing = HashMap::new();
        for file in &delta.redeleted {
            missing.insert(self.spelling.own_path(&file.path)?, self.own_spec(file.spec_id)?);
        }
        if !gone.is_empty() || !missing.is_empty() {
            let wanted = Arc::new(gone.iter().chain(missing.keys()).cloned().collect::<HashSet<_>>());
            let found = self.find(wanted).await?;
            let mut once = HashSet::new();
            let files = || found.iter().flat_map(|(_, here)| here);
            let twice: HashSet<_> = files().filter(|f| !once.insert(&f.path)).map(|f| f.path.clone()).collect();
            for (index, here) in found {
                let mut leaving = HashSet::new();
                let spec = self.base.get(index).map(|m| m.spec_id);
                for Found { path, as_ours } in here {
                    // What has another spelling or spec, or is listed twice, leaves and comes back.
                    let as_ours = as_ours && !twice.contains(&path);
                    let stays = as_ours && spec.is_some_and(|spec| missing.get(&path) == Some(&spec));
                    if stays {
                        missing.remove(&path);
                    } else {
                        leaving.insert(path);
                    }
                }
                if !leaving.is_empty() {
                    let entries = self.entries(index).await?;
                    self.rewrite(index, entries, |path| !leaving.contains(path)).await?;
                }
            }
        }
        for file in &delta.redeleted {
            if missing.contains_key(&self.spelling.own_path(&file.path)?) {
                let counts = record_counts(source, std::slice::from_ref(file)).await?;
                self.add(source, file.clone(), counts.first().copied().unwrap_or(0)).await?;
            } else if self.set_deletes(source, file).await? {
                self.counts.redeleted += 1;
            }
        }
        Ok(())
    }

    /// The live files of the table as keys.
    async fn known(&self) -> Result<Known> {
        let mut known = Known { hashers: Default::default(), files: HashMap::new(), doubled: HashSet::new() };
        let mut manifests = std::pin::pin!(self.paths());
        while let Some((index, paths)) = manifests.try_next().await? {
            let manifest = u32::try_from(index).unwrap_or(u32::MAX);
            for Found { path, as_ours } in paths {
                match known.files.entry(known.key(&path)) {
                    Entry::Vacant(place) => {
                        place.insert(Mark { manifest, as_ours, seen: false });
                    }
                    Entry::Occupied(mut mark) => {
                        known.doubled.extend([mark.get().manifest as usize, index]);
                        mark.get_mut().as_ours = false;
                    }
                }
            }
        }
        Ok(known)
    }

    /// Compares a batch of the source's live files with the table's.
    async fn compare(&mut self, source: &dyn Source, batch: Vec<DataFile>, known: &mut Known) -> Result<()> {
        if self.definition.ids.is_some()
            && let Some(file) = batch.last()
        {
            let own = self.spelling.own_path(&file.path)?;
            self.samples.check(&self.root, &own, file, &self.definition.schema).await?;
        }
        let mut new = Vec::with_capacity(batch.len());
        for file in batch {
            let own = self.spelling.own_path(&file.path)?;
            let key = known.key(&own);
            let same_spec = |mark: &Mark| {
                let spec = self.base.get(mark.manifest as usize).map(|m| m.spec_id);
                spec == self.definition.spec_ids.get(&file.spec_id).copied()
            };
            match known.files.get(&key).copied() {
                Some(mark) if mark.as_ours && same_spec(&mark) && !mark.seen => {
                    known.files.insert(key, Mark { seen: true, ..mark });
                    if self.set_deletes(source, &file).await? {
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
        let unseen = known.files.values().filter(|m| !m.seen).map(|m| m.manifest as usize);
        let touched: HashSet<usize> = unseen.chain(known.doubled.iter().copied()).collect();
        let mut touched: Vec<_> = touched.into_iter().collect();
        touched.sort_unstable();
        for index in touched {
            let entries = self.entries(index).await?;
            let stays = |path: &FilePath| known.files.get(&known.key(path)).is_some_and(|m| m.seen);
            for entry in entries.iter().filter(|e| !stays(&e.file.path)) {
                self.deletes.remove(&entry.file.path);
            }
            self.rewrite(index, entries, stays).await?;
        }
        Ok(())
    }

    /// Deletes what a failed commit has written. Best effort.
    async fn discard(&mut self) {
        // One that is still under way would appear after its deletion.
        while self.pending.join_next().await.is_some() {}
        for key in self.written.iter().chain(&self.deletes.written) {
            if let Err(error) = self.root.delete(key).await {
                tracing::debug!(%error, key, "a file of a failed commit stays behind");
            }
        }
    }
}
