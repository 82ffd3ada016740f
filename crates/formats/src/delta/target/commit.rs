//! One commit file.

use super::super::action::Protocol;
use super::super::checkpoint_write;
use super::super::log::{self, CommitFile, LogObject};
use super::super::source::{Definition as Current, DeltaSource, definition_of};
use super::super::write::{self, Added, Descriptor};
use super::body::Body;
use super::definition::Definition;
use super::{Base, DeltaTarget};
use crate::deletion_vector::DeletionVector;
use crate::sync::{
    Commit, Committed, Error, Files, Result, Source, TableRoot, from_properties, record_counts, to_properties,
};
use futures::TryStreamExt;
use hoglake_model::table::{
    DataFile, FileDelta, FileFormat, FilePath, Operation, RowDeletes, TableFormat, TableState, Unsupported,
    UnsupportedKind, VectorRef,
};
use hoglake_model::{Location, Root};
use serde_json::json;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Property of targets whose files lie elsewhere: the root of the source as their names spell it.
const SOURCE_ROOT: &str = "hoglake.source-root";

pub(super) async fn run(target: &mut DeltaTarget, commit: Commit<'_>) -> Result<Committed> {
    if let Some(base) = &mut target.base
        && base.current.is_none()
    {
        base.current = Some(definition_of(&target.root, &base.segment).await?);
    }
    let now_ms = chrono::Utc::now().timestamp_millis();
    let Commit { source, state, operation, files } = commit;
    let current = target.base.as_ref().and_then(|b| b.current.as_ref());
    let unpartitioned = current.is_some_and(|c| c.metadata.partition_columns.as_ref().is_none_or(Vec::is_empty));
    let unpartitioned = (current.is_some() && unpartitioned) || target.unpartitioned;
    let mut definition = Definition::new(current, state, now_ms, unpartitioned)?;
    let data_change = operation != Operation::Replace;
    let rebase = Rebase::new(&target.root, state)?;
    if let Some(root) = rebase.named_root() {
        let configuration = current.and_then(|c| c.metadata.configuration.as_ref());
        let before = configuration.and_then(|c| c.get(SOURCE_ROOT)).and_then(Option::as_deref);
        if let (Some(before), Files::Delta(_)) = (before, &files)
            && before != root
        {
            let reason = format!("the target names files of the source below {before}, which is called {root} now");
            return Err(Error::NeedsFull { reason });
        }
        definition.metadata.configuration.get_or_insert_default().insert(SOURCE_ROOT.to_owned(), Some(root));
    }
    let mut writing = Writing {
        root: target.root.clone(),
        rebase,
        definition,
        data_change,
        now_ms,
        modified_ms: state.version.timestamp_ms,
        body: Body::new(info(target, state, operation, now_ms)),
        stats: String::new(),
        vectors: Vec::new(),
        vector_file: uuid::Uuid::new_v4(),
        counts: Counts::default(),
        unwritable: false,
    };
    let has_vectors =
        current.is_some_and(|c| c.protocol.reader_features.iter().flatten().any(|f| f == "deletionVectors"));
    let done = match fill(target, &mut writing, source, files, has_vectors).await {
        Ok(()) => finish(target, &mut writing, state).await,
        Err(e) => Err(e),
    };
    let Err(error) = done else { return done };
    writing.body.discard().await;
    // Iceberg files hold their partition columns, so that the layout can do without.
    if writing.unwritable && !state.binding.partition_columns_absent && !state.binding.ids_may_be_absent {
        target.unpartitioned = true;
        let reason = "a partition value is an empty string, which Delta takes for null".to_owned();
        return Err(Error::NeedsFull { reason });
    }
    Err(error)
}

/// The first line of the commit. Its tags carry the watermark.
fn info(target: &DeltaTarget, state: &TableState, operation: Operation, now_ms: i64) -> String {
    let tags: HashMap<_, _> = to_properties(&state.watermark()).into_iter().collect();
    let name = match operation {
        _ if target.base.is_none() => "CREATE TABLE",
        Operation::Delete => "DELETE",
        Operation::Replace => "OPTIMIZE",
        Operation::Append | Operation::Overwrite => "WRITE",
    };
    let info = json!({"commitInfo": {
        "timestamp": now_ms,
        "operation": name,
        "operationParameters": {},
        "engineInfo": concat!("hoglake/", env!("CARGO_PKG_VERSION")),
        // Tells this commit from that of another converter that does the same at the same time.
        "txnId": uuid::Uuid::new_v4(),
        "tags": tags,
    }});
    format!("{info}\n")
}

/// Writes the file actions of the commit.
async fn fill(
    target: &DeltaTarget,
    writing: &mut Writing,
    source: &dyn Source,
    files: Files<'_>,
    has_vectors: bool,
) -> Result<()> {
    match files {
        Files::Delta(delta) => {
            if let Some(reason) = writing.definition.restate.take() {
                return Err(Error::NeedsFull { reason });
            }
            let live = live_vectors(target, delta, has_vectors, &writing.rebase).await?;
            writing.apply(source, delta, &live).await
        }
        Files::All(mut files) => {
            let mut known = Known::read(target).await?;
            let restate = writing.definition.restate.take().is_some();
            while let Some(batch) = files.try_next().await? {
                writing.compare(source, batch, &mut known, restate).await?;
                writing.body.spill(&target.root).await?;
            }
            writing.drop_unseen(target, &known).await
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    added: u64,
    removed: u64,
    redeleted: u64,
}

/// From the source's root to this table's.
#[derive(Debug)]
struct Rebase {
    /// The prefix below this root, or `None` when the source's files lie outside.
    prefix: Option<String>,
    source_root: Location,
}

impl Rebase {
    fn new(root: &TableRoot, state: &TableState) -> Result<Self> {
        let source_root = Location::parse(&state.root)?;
        let prefix = source_root
            .relative_to(root.location())
            .map(|relative| if relative.is_empty() { String::new() } else { format!("{relative}/") });
        Ok(Self { prefix, source_root })
    }

    fn map(&self, path: &FilePath) -> Result<FilePath> {
        Ok(match (path, &self.prefix) {
            (FilePath::Under(_), Some(prefix)) if prefix.is_empty() => path.clone(),
            (FilePath::Under(relative), Some(prefix)) => FilePath::Under(format!("{prefix}{relative}").into()),
            (FilePath::Under(relative), None) => outside(&self.source_root.join(relative)?),
            (FilePath::Outside(absolute), _) => outside(&Location::parse(absolute)?),
        })
    }

    /// How the source's root is spelled, where the log names files by it.
    fn named_root(&self) -> Option<String> {
        self.prefix.is_none().then(|| outside(&self.source_root).as_str().to_owned())
    }
}

/// A file elsewhere, as the log names it: a `remove` only removes what an `add` has called the same.
fn outside(location: &Location) -> FilePath {
    FilePath::Outside(match location.root() {
        Root::Local => format!("file:///{}", location.key()).into(),
        _ => location.to_string().into(),
    })
}

struct Writing {
    root: TableRoot,
    rebase: Rebase,
    definition: Definition,
    data_change: bool,
    now_ms: i64,
    modified_ms: i64,
    body: Body,
    stats: String,
    /// The bytes of the commit's deletion vector file.
    vectors: Vec<u8>,
    vector_file: uuid::Uuid,
    counts: Counts,
    /// A partition value cannot be written.
    unwritable: bool,
}

/// The live files of the table while all files are compared.
struct Known {
    hashers: (RandomState, RandomState),
    files: HashMap<u128, Mark>,
}

struct Mark {
    seen: bool,
    vector: Option<Box<VectorRef>>,
}

impl Known {
    async fn read(target: &DeltaTarget) -> Result<Self> {
        let mut known = Self { hashers: Default::default(), files: HashMap::new() };
        let Some(base) = &target.base else { return Ok(known) };
        let source = DeltaSource::of_segment(target.root.clone(), base.segment.clone(), base.listing.clone());
        let head = source.head().await?;
        let mut files = source.snapshot(&head).await?.files;
        while let Some(batch) = files.try_next().await? {
            for file in batch {
                let vector = vector_of(&file).map(Box::new);
                known.files.insert(known.key(&file.path), Mark { seen: false, vector });
            }
        }
        Ok(known)
    }

    fn key(&self, path: &FilePath) -> u128 {
        (u128::from(self.hashers.0.hash_one(path)) << 64) | u128::from(self.hashers.1.hash_one(path))
    }
}

fn vector_of(file: &DataFile) -> Option<VectorRef> {
    file.deletes.iter().find_map(|d| if let RowDeletes::Vector(v) = d { Some(v.clone()) } else { None })
}

/// The rows of a file of the source that are deleted.
async fn deleted(source: &dyn Source, file: &DataFile) -> Result<DeletionVector> {
    if file.deletes.is_empty() { Ok(DeletionVector::default()) } else { source.deleted_rows(file).await }
}

/// The vectors that the table has for the files that a change removes or deletes from.
async fn live_vectors(
    target: &DeltaTarget,
    delta: &FileDelta,
    has_vectors: bool,
    rebase: &Rebase,
) -> Result<HashMap<FilePath, VectorRef>> {
    let mut live = HashMap::new();
    let Some(base) = target.base.as_ref().filter(|_| has_vectors) else { return Ok(live) };
    let mut wanted = std::collections::HashSet::new();
    for path in delta.removed.iter().map(|f| &f.path).chain(delta.redeleted.iter().map(|f| &f.path)) {
        wanted.insert(rebase.map(path)?);
    }
    if wanted.is_empty() {
        return Ok(live);
    }
    let source = DeltaSource::of_segment(target.root.clone(), base.segment.clone(), base.listing.clone());
    let head = source.head().await?;
    let mut files = source.snapshot(&head).await?.files;
    while let Some(batch) = files.try_next().await? {
        for file in batch.iter().filter(|f| wanted.contains(&f.path)) {
            if let Some(vector) = vector_of(file) {
                live.insert(file.path.clone(), vector);
            }
        }
    }
    Ok(live)
}

impl Writing {
    /// Appends a vector to the commit's file.
    fn vector(&mut self, vector: &DeletionVector) -> Descriptor {
        if self.vectors.is_empty() {
            // The version of the file format.
            self.vectors.push(1);
        }
        let offset = self.vectors.len() as u64;
        let framed = vector.encode();
        self.vectors.extend_from_slice(&framed);
        self.definition.enable_vectors();
        Descriptor {
            storage_type: 'u',
            path_or_inline: crate::deletion_vector::z85::encode(self.vector_file.as_bytes()),
            offset: Some(offset),
            size_bytes: framed.len() as u64 - 8,
            cardinality: vector.cardinality(),
        }
    }

    fn add(&mut self, file: &DataFile, path: &FilePath, record_count: u64, vector: Option<&Descriptor>) -> Result<()> {
        if file.format != FileFormat::Parquet {
            return Err(Error::Unsupported(vec![Unsupported {
                target: TableFormat::Delta,
                kind: UnsupportedKind::FileFormat,
                place: file.path.as_str().to_owned(),
                detail: format!("the file is {:?}; Delta tables hold Parquet", file.format),
            }]));
        }
        let start = self.body.lines.len();
        let added =
            Added { file, path, record_count, data_change: self.data_change, modified_ms: self.modified_ms, vector };
        let written = self.definition.files.add(&mut self.body.lines, &mut self.stats, &added);
        written.map_err(|column| {
            self.body.lines.truncate(start);
            self.unwritable = true;
            Error::Unsupported(vec![Unsupported {
                target: TableFormat::Delta,
                kind: UnsupportedKind::Feature,
                place: file.path.as_str().to_owned(),
                detail: format!("partition values of {column:?} are text, where an empty string means null"),
            }])
        })
    }

    /// Adds a file as the source has it now.
    async fn add_with_deletes(&mut self, source: &dyn Source, file: &DataFile, count: u64) -> Result<()> {
        let path = self.rebase.map(&file.path)?;
        let rows = deleted(source, file).await?;
        let vector = (!rows.is_empty()).then(|| self.vector(&rows));
        self.add(file, &path, count, vector.as_ref())
    }

    async fn apply(
        &mut self,
        source: &dyn Source,
        delta: &FileDelta,
        live: &HashMap<FilePath, VectorRef>,
    ) -> Result<()> {
        for removed in &delta.removed {
            let path = self.rebase.map(&removed.path)?;
            let vector = live.get(&path).map(Descriptor::of);
            write::remove(&mut self.body.lines, &path, self.now_ms, self.data_change, vector.as_ref());
            self.counts.removed += 1;
        }
        let counts = record_counts(source, &delta.added).await?;
        for (file, count) in delta.added.iter().zip(counts) {
            self.add_with_deletes(source, file, count).await?;
            self.counts.added += 1;
        }
        let counts = record_counts(source, &delta.redeleted).await?;
        for (file, count) in delta.redeleted.iter().zip(counts) {
            let path = self.rebase.map(&file.path)?;
            let old = live.get(&path);
            let rows = deleted(source, file).await?;
            let same = self.same(old, &rows).await?;
            let old = old.map(Descriptor::of);
            if same {
                // The same logical file again: a commit must not remove what it adds.
                self.add(file, &path, count, old.as_ref())?;
                continue;
            }
            write::remove(&mut self.body.lines, &path, self.now_ms, self.data_change, old.as_ref());
            let vector = (!rows.is_empty()).then(|| self.vector(&rows));
            self.add(file, &path, count, vector.as_ref())?;
            self.counts.redeleted += 1;
        }
        Ok(())
    }

    /// Compares a batch of the source's live files with the table's.
    async fn compare(
        &mut self,
        source: &dyn Source,
        batch: Vec<DataFile>,
        known: &mut Known,
        restate: bool,
    ) -> Result<()> {
        let counts = record_counts(source, &batch).await?;
        for (file, count) in batch.into_iter().zip(counts) {
            let path = self.rebase.map(&file.path)?;
            let key = known.key(&path);
            let Some(mark) = known.files.get_mut(&key) else {
                self.add_with_deletes(source, &file, count).await?;
                self.counts.added += 1;
                continue;
            };
            if std::mem::replace(&mut mark.seen, true) {
                continue;
            }
            let old = mark.vector.take();
            let rows = deleted(source, &file).await?;
            let same = self.same(old.as_deref(), &rows).await?;
            if same && !restate {
                continue;
            }
            if same && let Some(old) = &old {
                self.add(&file, &path, count, Some(&Descriptor::of(old)))?;
                continue;
            }
            if !same {
                let vector = old.as_deref().map(Descriptor::of);
                write::remove(&mut self.body.lines, &path, self.now_ms, self.data_change, vector.as_ref());
                self.counts.redeleted += 1;
            }
            let vector = (!rows.is_empty()).then(|| self.vector(&rows));
            self.add(&file, &path, count, vector.as_ref())?;
        }
        Ok(())
    }

    /// Whether a file's vector in the table holds just these rows.
    async fn same(&self, old: Option<&VectorRef>, rows: &DeletionVector) -> Result<bool> {
        Ok(match old {
            None => rows.is_empty(),
            Some(old) => old.cardinality == Some(rows.cardinality()) && self.read(old).await? == *rows,
        })
    }

    async fn read(&self, vector: &VectorRef) -> Result<DeletionVector> {
        let mut file = DataFile::new(FilePath::Under("deletion vector".into()));
        file.deletes.push(RowDeletes::Vector(vector.clone()));
        DeltaSource::new(self.root.clone()).deleted_rows(&file).await
    }

    /// Removes what the source no longer has.
    async fn drop_unseen(&mut self, target: &DeltaTarget, known: &Known) -> Result<()> {
        let Some(base) = target.base.as_ref().filter(|_| known.files.values().any(|m| !m.seen)) else { return Ok(()) };
        let source = DeltaSource::of_segment(target.root.clone(), base.segment.clone(), base.listing.clone());
        let head = source.head().await?;
        let mut files = source.snapshot(&head).await?.files;
        while let Some(batch) = files.try_next().await? {
            for file in batch {
                if known.files.get(&known.key(&file.path)).is_some_and(|m| !m.seen) {
                    let vector = vector_of(&file).as_ref().map(Descriptor::of);
                    write::remove(&mut self.body.lines, &file.path, self.now_ms, self.data_change, vector.as_ref());
                    self.counts.removed += 1;
                }
            }
            self.body.spill(&target.root).await?;
        }
        Ok(())
    }
}

async fn finish(target: &mut DeltaTarget, writing: &mut Writing, state: &TableState) -> Result<Committed> {
    let current = target.base.as_ref().and_then(|b| b.current.as_ref());
    let old_protocol = current.map(|c| &c.protocol);
    let protocol = writing.definition.protocol(old_protocol);
    let metadata = writing.definition.metadata.clone();
    let version = target.base.as_ref().map_or(0, |b| b.version + 1);
    let committed = |version: i64| Committed {
        metadata_path: target.root.spell(super::LOG),
        version: version.to_string(),
        added: writing.counts.added,
        removed: writing.counts.removed,
        redeleted: writing.counts.redeleted,
        warnings: writing.definition.warnings.clone(),
    };
    let same = current.is_some_and(|c| c.metadata == metadata && c.protocol == protocol);
    let known = current.and_then(|c| from_properties(|k| super::protocol::property(&c.metadata, k)));
    let is_foreign = target.base.as_ref().is_some_and(|b| b.is_foreign);
    if same && writing.body.is_empty() && known.as_ref() == Some(&state.watermark()) && !is_foreign {
        return Ok(committed(version - 1));
    }
    let mut head = String::new();
    if old_protocol != Some(&protocol) {
        write::protocol(&mut head, &protocol);
    }
    write::metadata(&mut head, &metadata);
    let vector_key = format!("deletion_vector_{}.bin", writing.vector_file);
    if !writing.vectors.is_empty() {
        target.root.put_if_absent(&vector_key, writing.vectors.clone()).await?;
    }
    let key = log::commit_key(version);
    let committed = committed(version);
    let (now_ms, has_vectors) = (writing.now_ms, !writing.vectors.is_empty());
    let Some(size) = writing.body.publish(&target.root, &key, &head).await? else {
        if has_vectors && let Err(error) = target.root.delete(&vector_key).await {
            tracing::debug!(%error, key = vector_key, "the vectors of a lost commit stay behind");
        }
        return Err(Error::Lost { place: target.root.spell(&key) });
    };
    // Visible from here on.
    let commit = CommitFile { version, object: LogObject { key, size }, modified_ms: now_ms };
    advance(target, commit, protocol, metadata);
    if version > 0 && version % target.options.checkpoint_interval == 0 {
        checkpoint(target).await;
    }
    Ok(committed)
}

/// Notes that the table has one more commit.
fn advance(target: &mut DeltaTarget, commit: CommitFile, protocol: Protocol, metadata: super::super::action::Metadata) {
    let version = commit.version;
    let base = target.base.get_or_insert_with(|| Base {
        version,
        segment: log::Segment { version, checkpoint: None, commits: Vec::new(), compactions: Vec::new() },
        listing: log::Listing::default(),
        current: None,
        is_foreign: false,
    });
    base.is_foreign = false;
    base.version = version;
    base.segment.version = version;
    base.segment.commits.push(commit.clone());
    base.listing.commits.insert(version, commit);
    base.current = Some(Current { protocol, metadata });
}

/// Writes a checkpoint and forgets commits that nobody needs any longer. Best effort: the log is complete without.
async fn checkpoint(target: &mut DeltaTarget) {
    let Some(base) = &mut target.base else { return };
    match checkpoint_write::write(&target.root, &base.segment).await {
        Ok(checkpoint) => {
            let before = chrono::Utc::now().timestamp_millis() - target.options.log_retention_ms;
            let version = checkpoint.version;
            base.segment.commits.clear();
            base.segment.compactions.clear();
            base.segment.checkpoint = Some(checkpoint);
            for commit in base.listing.commits.values().filter(|c| c.version < version && c.modified_ms < before) {
                if let Err(error) = target.root.delete(&commit.object.key).await {
                    tracing::debug!(%error, key = commit.object.key, "an old commit stays behind");
                }
            }
        }
        Err(error) => tracing::warn!(%error, "no checkpoint was written; readers replay more commits"),
    }
}
