//! One commit file.

use super::super::action::Protocol;
use super::super::checkpoint_write;
use super::super::log::{self, CommitFile, LogObject};
use super::super::source::{Definition as Current, DeltaSource, Name, definition_of, names};
use super::super::write::{self, Added, Descriptor};
use super::body::Body;
use super::definition::Definition;
use super::known::{Found, Known, one_of};
use super::layout::LeftOut;
use super::{Base, DeltaTarget, requirements};
use crate::deletion_vector::DeletionVector;
use crate::sync::{
    Commit, Committed, Error, Files, Result, Source, TableRoot, from_properties, record_counts, to_properties,
};
use futures::TryStreamExt;
use hoglake_model::table::{
    DataFile, FileDelta, FileFormat, FilePath, Operation, RowDeletes, TableFormat, TableState, Unsupported,
    UnsupportedKind,
};
use hoglake_model::{Location, Root};
use serde_json::json;
use std::collections::HashMap;

/// Property of targets whose log calls all files as hoglake does, so that names need not be looked up.
const OWN_NAMES: &str = "hoglake.own-names";

/// Property of targets whose files lie elsewhere: the root of the source as their names spell it.
const SOURCE_ROOT: &str = "hoglake.source-root";

pub(super) async fn run(target: &mut DeltaTarget, commit: Commit<'_>) -> Result<Option<Committed>> {
    if let Some(base) = &mut target.base
        && base.current.is_none()
    {
        base.current = Some(definition_of(&target.root, &base.segment).await?);
    }
    let forbidden = target.base.as_ref().map(|base| target.forbidden(base)).unwrap_or_default();
    if !forbidden.is_empty() {
        return Err(Error::Unsupported(forbidden));
    }
    let now_ms = chrono::Utc::now().timestamp_millis();
    let Commit { source, state, operation, files } = commit;
    let current = target.base.as_ref().and_then(|b| b.current.as_ref());
    let unpartitioned = current.is_some_and(|c| c.metadata.partition_columns.as_ref().is_none_or(Vec::is_empty));
    let unpartitioned = (current.is_some() && unpartitioned) || target.unpartitioned;
    let mut definition = Definition::new(current, state, now_ms, unpartitioned, target.options.type_widening)?;
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
    let left_out = LeftOut::new(state, &definition.files.partition);
    let mut writing = Writing {
        root: target.root.clone(),
        rebase,
        left_out,
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
        own_names: true,
    };
    let has_vectors =
        current.is_some_and(|c| c.protocol.reader_features.iter().flatten().any(|f| f == "deletionVectors"));
    let filled = fill(target, &mut writing, source, files, has_vectors).await;
    let done = match filled.and_then(|()| writing.definition.note_older(&source.older_types())) {
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
            let known = writing.look_up(target, delta, has_vectors).await?;
            writing.apply(source, delta, known).await
        }
        Files::All(mut files) => {
            let mut known = Known::read(target, writing.rebase.elsewhere(), None).await?;
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

    /// How paths begin that the log holds of files of the source that lie elsewhere.
    fn elsewhere(&self) -> Option<String> {
        self.named_root().map(|root| write::uri(&FilePath::Outside(root.into())))
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
    left_out: LeftOut,
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
    /// Whether the log calls all files as hoglake does, after the commit.
    own_names: bool,
}

/// The rows of a file of the source that are deleted.
async fn deleted(source: &dyn Source, file: &DataFile) -> Result<DeletionVector> {
    if file.deletes.is_empty() { Ok(DeletionVector::default()) } else { source.deleted_rows(file).await }
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

    fn add(&mut self, file: &DataFile, uri: &str, record_count: u64, vector: Option<&Descriptor>) -> Result<()> {
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
            Added { file, uri, record_count, data_change: self.data_change, modified_ms: self.modified_ms, vector };
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
        self.left_out.check(&self.root, &path, file).await?;
        let rows = deleted(source, file).await?;
        let vector = (!rows.is_empty()).then(|| self.vector(&rows));
        self.add(file, &write::uri(&path), count, vector.as_ref())
    }

    /// What the log calls the files that a change touches. Where it calls all as hoglake does, only those with vectors have
    /// to be looked up.
    async fn look_up(&mut self, target: &DeltaTarget, delta: &FileDelta, has_vectors: bool) -> Result<Option<Known>> {
        let Some(base) = &target.base else { return Ok(None) };
        let configuration = base.current.as_ref().and_then(|c| c.metadata.configuration.as_ref());
        let own = base.is_own && configuration.is_some_and(|c| c.contains_key(OWN_NAMES));
        let mut wanted = Vec::new();
        let named = delta.removed.iter().map(|f| &f.path).chain(delta.redeleted.iter().map(|f| &f.path));
        for path in named.chain(delta.added.iter().filter(|_| !own).map(|f| &f.path)) {
            wanted.push(self.rebase.map(path)?);
        }
        if (own && !has_vectors) || wanted.is_empty() {
            self.own_names = own;
            return Ok(None);
        }
        let known = Known::read(target, self.rebase.elsewhere(), Some(&wanted)).await?;
        if known.is_disputed {
            let reason = "the log of the target calls files by names that readers take for different files".to_owned();
            return Err(Error::NeedsFull { reason });
        }
        self.own_names = !known.is_odd;
        Ok(Some(known))
    }

    async fn apply(&mut self, source: &dyn Source, delta: &FileDelta, mut known: Option<Known>) -> Result<()> {
        let mut find = |path: &FilePath| match &mut known {
            Some(known) => known.take(path),
            None => Found::Nothing,
        };
        for removed in &delta.removed {
            let path = self.rebase.map(&removed.path)?;
            let Found::Live(names) = find(&path) else {
                self.remove(&Name::own(&path));
                self.counts.removed += 1;
                continue;
            };
            names.iter().for_each(|name| self.remove(name));
            self.counts.removed += 1;
        }
        let counts = record_counts(source, &delta.added).await?;
        for (file, count) in delta.added.iter().zip(counts) {
            let path = self.rebase.map(&file.path)?;
            match find(&path) {
                Found::Live(names) => self.keep(source, file, count, (&path, names), true).await?,
                _ => self.add_with_deletes(source, file, count).await?,
            }
            self.counts.added += 1;
        }
        let counts = record_counts(source, &delta.redeleted).await?;
        for (file, count) in delta.redeleted.iter().zip(counts) {
            let path = self.rebase.map(&file.path)?;
            let names = match find(&path) {
                Found::Live(names) => names,
                _ => vec![Name::own(&path)],
            };
            self.keep(source, file, count, (&path, names), true).await?;
        }
        Ok(())
    }

    fn remove(&mut self, name: &Name) {
        write::remove(&mut self.body.lines, &name.uri, self.now_ms, self.data_change, name.vector.as_deref());
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
            match known.take(&path) {
                Found::Seen => {}
                Found::Live(names) => self.keep(source, &file, count, (&path, names), restate).await?,
                Found::Nothing => {
                    self.add_with_deletes(source, &file, count).await?;
                    self.counts.added += 1;
                }
            }
        }
        Ok(())
    }

    /// Brings a live file up to date, under the name that it has.
    async fn keep(
        &mut self,
        source: &dyn Source,
        file: &DataFile,
        count: u64,
        (path, names): (&FilePath, Vec<Name>),
        restate: bool,
    ) -> Result<()> {
        let (name, others) = one_of(path, names)?;
        if restate {
            self.left_out.check(&self.root, path, file).await?;
        }
        others.iter().for_each(|other| self.remove(other));
        self.own_names &= *name.uri == *write::uri(path);
        let rows = deleted(source, file).await?;
        let same = self.same(name.vector.as_deref(), &rows).await?;
        if same {
            // The same logical file again: a commit must not remove what it adds.
            return if restate || name.hidden {
                self.add(file, &name.uri, count, name.vector.as_deref())
            } else {
                Ok(())
            };
        }
        self.remove(&name);
        self.counts.redeleted += 1;
        let vector = (!rows.is_empty()).then(|| self.vector(&rows));
        self.add(file, &name.uri, count, vector.as_ref())
    }

    /// Whether a file's vector in the table holds just these rows.
    async fn same(&self, old: Option<&Descriptor>, rows: &DeletionVector) -> Result<bool> {
        Ok(match old {
            None => rows.is_empty(),
            Some(old) => old.cardinality == rows.cardinality() && self.read(old).await? == *rows,
        })
    }

    async fn read(&self, vector: &Descriptor) -> Result<DeletionVector> {
        let mut file = DataFile::new(FilePath::Under("deletion vector".into()));
        file.deletes.push(RowDeletes::Vector(vector.locate(&self.root, "the target's log")?));
        DeltaSource::new(self.root.clone()).deleted_rows(&file).await
    }

    /// Removes what the source no longer has.
    async fn drop_unseen(&mut self, target: &DeltaTarget, known: &Known) -> Result<()> {
        let Some(base) = target.base.as_ref().filter(|_| !known.are_all_seen()) else { return Ok(()) };
        let mut names = std::pin::pin!(names(&target.root, &base.segment));
        while let Some(batch) = names.try_next().await? {
            for (_, name) in batch.iter().filter(|(path, _)| known.is_unseen(path)) {
                self.remove(name);
                self.counts.removed += 1;
            }
            self.body.spill(&target.root).await?;
        }
        Ok(())
    }
}

/// Makes the commit visible; writes nothing, and returns `None`, when it says nothing new.
async fn finish(target: &mut DeltaTarget, writing: &mut Writing, state: &TableState) -> Result<Option<Committed>> {
    let current = target.base.as_ref().and_then(|b| b.current.as_ref());
    let old_protocol = current.map(|c| &c.protocol);
    let protocol = writing.definition.protocol(old_protocol);
    let configuration = writing.definition.metadata.configuration.get_or_insert_default();
    configuration.remove(OWN_NAMES);
    if writing.own_names {
        configuration.insert(OWN_NAMES.to_owned(), Some("true".to_owned()));
    }
    let metadata = writing.definition.metadata.clone();
    let version = target.base.as_ref().map_or(0, |b| b.version + 1);
    let Counts { removed, redeleted, .. } = writing.counts;
    let (place, removes) = (target.root.location().to_string(), removed + redeleted > 0 && writing.data_change);
    let forbidden = requirements::unsupported_commit(&place, &metadata, removes, redeleted > 0);
    if !forbidden.is_empty() {
        return Err(Error::Unsupported(forbidden));
    }
    let same = current.is_some_and(|c| c.metadata == metadata && c.protocol == protocol);
    let known = current.and_then(|c| from_properties(|k| super::protocol::property(&c.metadata, k)));
    let is_foreign = target.base.as_ref().is_some_and(|b| b.is_foreign);
    if same && writing.body.is_empty() && known.as_ref() == Some(&state.watermark()) && !is_foreign {
        return Ok(None);
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
    let committed = Committed {
        metadata_path: target.metadata_path(),
        version: version.to_string(),
        added: writing.counts.added,
        removed: writing.counts.removed,
        redeleted: writing.counts.redeleted,
        warnings: writing.definition.warnings.clone(),
    };
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
    Ok(Some(committed))
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
        is_own: true,
        is_followed: true,
    });
    base.is_foreign = false;
    base.is_followed = true;
    base.is_own = true;
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
