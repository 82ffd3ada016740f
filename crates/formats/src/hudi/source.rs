//! A Hudi table as a source.

use super::FOLDER;
use super::avro_schema::{self, META_FIELDS};
use super::commit::CommitMetadata;
use super::file_group::{BaseFile, FileGroups, Slice};
use super::metadata_table;
use super::partitioning::{PartitionPathSpec, Partitioning};
use super::properties::Properties;
use super::replay::Replay;
use super::timeline::{self, Instant, Timeline};
use crate::deletion_vector::DeletionVector;
use crate::footer;
use crate::sync::{BoxFuture, Changes, Error, FileStream, Result, Snapshot, Source, TableRoot, Versions};
use futures::{StreamExt, TryStreamExt};
use hoglake_model::FieldId;
use hoglake_model::table::{
    DataFile, Field, FieldIds, FilePath, Primitive, RowDeletes, Schema, TableFormat, TableState, Type, Value, Version,
    VersionId, Watermark,
};
use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;

/// Footers that are read at a time.
const CONCURRENT_FOOTERS: usize = 16;

/// Files of a batch.
const BATCH: usize = 256;

/// The name of the version of a table without any commit.
const EMPTY_VERSION: &str = "00000000000000";

/// Ends the version of a view that leaves log files out: a target that shows it does not show the commit itself.
pub(super) const READ_OPTIMISED: &str = "-read-optimised";

/// How to read a Hudi table.
#[derive(Debug, Clone, Default)]
pub struct HudiOptions {
    /// Show the base files of merge-on-read tables without what their log files add, instead of refusing. The state's
    /// warnings then name the file groups that lag behind.
    pub read_optimised: bool,
    /// List folders even where the metadata table lists the files.
    pub ignore_metadata_table: bool,
    /// How partition paths become partition columns, in place of what the table's properties say.
    pub partition_spec: Option<PartitionPathSpec>,
}

/// A Hudi table.
pub struct HudiSource {
    pub(super) root: TableRoot,
    pub(super) options: HudiOptions,
    opened: OnceCell<Opened>,
    slices: OnceCell<Vec<Slice>>,
    /// What columns are in files of older schemas, as far as those have been read.
    older_types: Mutex<HashSet<(Vec<String>, Primitive)>>,
}

/// The Avro schema of the table at `root`, as its newest commit has it; empty when no commit names one.
///
/// # Errors
/// As [`Source::head`].
pub async fn schema_text(root: &TableRoot) -> Result<String> {
    let source = HudiSource::new(root.clone(), HudiOptions::default());
    let opened = source.opened().await?;
    Ok(source.schema_text(&opened.properties, &opened.timeline, None).await?.unwrap_or_default())
}

/// What the properties and the timeline say.
pub(super) struct Opened {
    pub(super) properties: Properties,
    pub(super) timeline: Timeline,
    pub(super) partitioning: Partitioning,
    head: Arc<TableState>,
}

impl HudiSource {
    /// The table at `root`, the folder that holds `.hoodie`. Nothing is requested yet.
    pub fn new(root: TableRoot, options: HudiOptions) -> Self {
        Self { root, options, opened: OnceCell::new(), slices: OnceCell::new(), older_types: Mutex::default() }
    }

    pub(super) async fn opened(&self) -> Result<&Opened> {
        self.opened.get_or_try_init(|| self.open()).await
    }

    async fn open(&self) -> Result<Opened> {
        let place = format!("{FOLDER}/hoodie.properties");
        // Writers replace the file after leaving a copy of the old one.
        let bytes = match self.root.get_if_exists(&place).await? {
            Some(bytes) => Some(bytes),
            None => self.root.get_if_exists(&format!("{place}.backup")).await?,
        };
        let Some(bytes) = bytes else {
            return Err(Error::NotATable {
                format: TableFormat::Hudi,
                place: self.root.location().to_string(),
                detail: format!("{place} does not exist"),
            });
        };
        let mut properties = Properties::parse(&place, &bytes)?;
        let layout = properties.check(&place)?;
        if let Some(spec) = &self.options.partition_spec {
            spec.replace(&mut properties);
        }
        let timeline = Timeline::read(&self.root, FOLDER, &properties, layout).await?;
        let last = match timeline.writes().next_back() {
            Some(instant) => Some((instant, CommitMetadata::read(&self.root, instant).await?)),
            None => None,
        };
        let at = last.as_ref().map(|(instant, metadata)| (*instant, metadata));
        let mut schema = self.schema(&properties, &timeline, at).await?;
        let (partitioning, warnings) = Partitioning::infer(&properties, &mut schema);
        let head = TableState {
            format: TableFormat::Hudi,
            table_id: None,
            name: properties.get("hoodie.table.name").map(str::to_owned),
            root: self.root.location().to_string(),
            version: version(at),
            field_ids: FieldIds::Positional,
            specs: vec![partitioning.spec.clone()],
            default_spec: 0,
            schema,
            binding: hoglake_model::table::Binding::default(),
            warnings,
            deletes_left_out: false,
        };
        let mut opened = Opened { properties, timeline, partitioning, head: Arc::new(head) };
        if opened.properties.is_merge_on_read() && self.options.read_optimised {
            let slices = self.list(&opened).await?;
            let mut head = TableState::clone(&opened.head);
            if let Some(warning) = lagging(&slices) {
                head.version.id.0.push_str(READ_OPTIMISED);
                head.warnings.push(warning);
            }
            opened.head = Arc::new(head);
            let _ = self.slices.set(slices);
        }
        Ok(opened)
    }

    /// The Avro schema that the newest commit wrote with, as its text.
    /// The text of the schema of the table after `at`, or of its head: that of the newest commit that names one.
    async fn schema_text(
        &self,
        properties: &Properties,
        timeline: &Timeline,
        at: Option<(&Instant, &CommitMetadata)>,
    ) -> Result<Option<String>> {
        if let Some(text) = at.and_then(|(_, metadata)| metadata.schema()) {
            return Ok(Some(text.to_owned()));
        }
        let until = at.map(|(instant, _)| instant);
        let older = timeline.writes().rev().skip_while(|i| until.is_some_and(|until| *i != until));
        for instant in older.skip(usize::from(at.is_some())) {
            if let Some(text) = CommitMetadata::read(&self.root, instant).await?.schema() {
                return Ok(Some(text.to_owned()));
            }
        }
        Ok(properties.get("hoodie.table.create.schema").map(str::to_owned))
    }

    /// The schema of the table after `at`, or of its head.
    pub(super) async fn schema(
        &self,
        properties: &Properties,
        timeline: &Timeline,
        at: Option<(&Instant, &CommitMetadata)>,
    ) -> Result<Schema> {
        let schema = match self.schema_text(properties, timeline, at).await? {
            Some(text) => avro_schema::read(&text).map_err(|detail| Error::UnsupportedSource {
                feature: "a column type".to_owned(),
                place: format!("{FOLDER} (schema of the newest commit)"),
                detail,
            })?,
            // Tables of the first releases name no schema anywhere but in the files.
            None => self.footer_schema(timeline).await?,
        };
        Ok(finished(schema, properties))
    }

    async fn footer_schema(&self, timeline: &Timeline) -> Result<Schema> {
        for instant in timeline.writes().rev() {
            let metadata = CommitMetadata::read(&self.root, instant).await?;
            for stat in metadata.stats {
                let mut groups = FileGroups::default();
                groups.add(&stat.partition, stat.path.rsplit('/').next().unwrap_or_default(), stat.size);
                let found = groups.0.into_values().next().and_then(|g| g.bases.into_iter().next());
                let (Some(base), Some(size)) = (found, stat.size) else { continue };
                let path = path(&stat.partition, &base.name);
                let footer = footer::read(&self.root, &path, size).await?;
                return Ok(file_schema(&footer, &path)?.schema.renumbered(None, FieldId(0)).schema);
            }
        }
        Ok(Schema::default())
    }

    /// The live slices of the head.
    async fn list(&self, opened: &Opened) -> Result<Vec<Slice>> {
        let groups = if opened.properties.lists_files() && !self.options.ignore_metadata_table {
            metadata_table::groups(&metadata_table::read(&self.root, &opened.timeline).await?)
        } else {
            self.walk().await?
        };
        let replaced = self.replaced(opened).await?;
        Ok(groups.slices(&opened.timeline, &replaced))
    }

    /// Lists the folders. A partition is a folder in which Hudi left its mark.
    async fn walk(&self) -> Result<FileGroups> {
        let all = timeline::list_data(&self.root).await?;
        let folder = |key: &str| key.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned());
        let is_mark = |key: &str| key.rsplit('/').next().is_some_and(|n| n.starts_with(".hoodie_partition_metadata"));
        let partitions: BTreeSet<String> = all.iter().filter(|(k, _)| is_mark(k)).map(|(k, _)| folder(k)).collect();
        let mut groups = FileGroups::default();
        for (key, size) in &all {
            let folder = folder(key);
            if partitions.contains(&folder) || folder.is_empty() {
                groups.add(&folder, key.rsplit('/').next().unwrap_or_default(), Some(*size));
            }
        }
        Ok(groups)
    }

    /// The file groups that completed replacements made obsolete.
    async fn replaced(&self, opened: &Opened) -> Result<HashSet<(String, String)>> {
        let replacements: Vec<Instant> =
            opened.timeline.writes().filter(|i| i.action == "replacecommit").cloned().collect();
        let mut commits = futures::stream::iter(replacements)
            .map(|instant| async move { CommitMetadata::read(&self.root, &instant).await })
            .buffered(CONCURRENT_FOOTERS);
        let mut replaced = HashSet::new();
        while let Some(metadata) = commits.try_next().await? {
            replaced.extend(metadata.replaced);
        }
        Ok(replaced)
    }

    async fn live(&self) -> Result<&[Slice]> {
        let opened = self.opened().await?;
        Ok(self.slices.get_or_try_init(|| self.list(opened)).await?)
    }

    /// Describes one base file with what its footer says.
    pub(super) async fn data_file(
        &self,
        state: &TableState,
        partitioning: &Partitioning,
        partition: &str,
        base: &BaseFile,
        logs: &[String],
    ) -> Result<DataFile> {
        let path = path(partition, &base.name);
        if !base.name.ends_with(".parquet") {
            return Err(Error::UnsupportedSource {
                feature: "base files of another format than Parquet".to_owned(),
                place: path.as_str().to_owned(),
                detail: "only Parquet files can be shared with the other table formats".to_owned(),
            });
        }
        let size = match base.size {
            Some(size) => size,
            None => self.root.size(&path).await?,
        };
        let metadata = footer::read(&self.root, &path, size).await?;
        let schema = file_schema(&metadata, &path)?;
        let binding = footer::bind(&schema, &state.schema, false);
        if let Some(bound) = binding.iter().flatten().find(|bound| !bound.is_readable()) {
            let column = state.schema.path(bound.field).unwrap_or_default().join(".");
            return Err(Error::UnsupportedSource {
                feature: "a column that the files store with another type".to_owned(),
                place: path.as_str().to_owned(),
                detail: format!(
                    "`{column}` is {} in the table and {} in the file; rewrite the file",
                    bound.table_type, bound.file_type
                ),
            });
        }
        for bound in binding.iter().flatten().filter(|bound| bound.is_widened()) {
            let column = state.schema.path(bound.field).unwrap_or_default().into_iter().map(str::to_owned).collect();
            self.older_types.lock().unwrap_or_else(PoisonError::into_inner).insert((column, bound.file_type));
        }
        let columns = footer::column_statistics(&metadata, &binding);
        let tuple = partitioning.tuple(partition).map_err(|detail| Error::UnsupportedSource {
            feature: "a partition path that does not follow the table's partition columns".to_owned(),
            place: path.as_str().to_owned(),
            detail,
        })?;
        let logs = if self.options.read_optimised { &[] } else { logs };
        let log = |name: &String| RowDeletes::Log(self::path(partition, name));
        let file = DataFile {
            size_bytes: Some(size),
            record_count: Some(footer::record_count(&metadata)),
            partition: tuple,
            columns,
            deletes: logs.iter().map(log).collect(),
            split_offsets: footer::split_offsets(&metadata),
            ..DataFile::new(path)
        };
        agree(partitioning, &file)?;
        Ok(file)
    }

    async fn slice_file(
        &self,
        state: &TableState,
        partitioning: &Partitioning,
        slice: &Slice,
    ) -> Result<Option<DataFile>> {
        let Some(base) = &slice.base else {
            if self.options.read_optimised {
                return Ok(None);
            }
            return Err(Error::UnsupportedSource {
                feature: "a file group of log files only".to_owned(),
                place: format!("{}/{}", slice.partition, slice.file_id),
                detail: "its rows exist only in log files until compaction runs; compact the table, or read it \
                         read-optimised"
                    .to_owned(),
            });
        };
        self.data_file(state, partitioning, &slice.partition, base, &slice.logs).await.map(Some)
    }

    fn files<'a>(&'a self, state: Arc<TableState>, opened: &'a Opened, slices: &'a [Slice]) -> FileStream<'a> {
        futures::stream::iter(slices)
            .map(move |slice| {
                let state = Arc::clone(&state);
                async move { self.slice_file(&state, &opened.partitioning, slice).await }
            })
            .buffered(CONCURRENT_FOOTERS)
            .try_filter_map(|file| async move { Ok(file) })
            .try_chunks(BATCH)
            .map_err(|e| e.1)
            .boxed()
    }
}

/// The version that a write made.
pub(super) fn version(at: Option<(&Instant, &CommitMetadata)>) -> Version {
    let id = at.map_or(EMPTY_VERSION, |(instant, _)| instant.requested.as_str());
    let revision = at.and_then(|(_, metadata)| metadata.fingerprint.clone());
    Version { id: VersionId(id.to_owned()), revision, timestamp_ms: timeline::millis(id) }
}

pub(super) fn path(partition: &str, name: &str) -> FilePath {
    FilePath::Under(if partition.is_empty() { name.into() } else { format!("{partition}/{name}").into() })
}

fn file_schema(metadata: &parquet::file::metadata::ParquetMetaData, path: &FilePath) -> Result<footer::FileSchema> {
    footer::file_schema(metadata.file_metadata().schema_descr()).map_err(|detail| Error::UnsupportedSource {
        feature: "a column type".to_owned(),
        place: path.as_str().to_owned(),
        detail,
    })
}

/// The table's schema from that of its writers: with the columns that Hudi adds, and the record key.
fn finished(mut schema: Schema, properties: &Properties) -> Schema {
    if properties.meta_fields() && schema.column(META_FIELDS[0]).is_none() && !schema.fields.is_empty() {
        let meta = META_FIELDS.iter().map(|name| Field::optional(0, *name, Primitive::String.into()));
        schema.fields.splice(0..0, meta);
        schema = numbered(schema);
    }
    let keys = properties.list("hoodie.table.recordkey.fields");
    let columns: Option<Vec<&Field>> = keys.iter().map(|key| schema.column(key)).collect();
    let usable = |field: &&Field| {
        field.required && !matches!(field.ty.primitive(), None | Some(Primitive::Float | Primitive::Double))
    };
    schema.identifier_fields = match columns {
        Some(columns) if columns.iter().all(usable) => columns.iter().map(|f| f.id).collect(),
        _ => Vec::new(),
    };
    schema
}

/// Numbers all nodes anew, in depth-first order.
fn numbered(mut schema: Schema) -> Schema {
    fn ty(node: &mut Type, next: &mut i64) {
        let id = |next: &mut i64| {
            *next += 1;
            FieldId(*next)
        };
        match node {
            Type::Primitive(_) => {}
            Type::Struct(members) => fields(members, next),
            Type::List(element) => {
                element.id = id(next);
                ty(&mut element.ty, next);
            }
            Type::Map(entry) => {
                entry.0.id = id(next);
                ty(&mut entry.0.ty, next);
                entry.1.id = id(next);
                ty(&mut entry.1.ty, next);
            }
        }
    }
    fn fields(members: &mut [Field], next: &mut i64) {
        for member in members {
            *next += 1;
            member.id = FieldId(*next);
            ty(&mut member.ty, next);
        }
    }
    fields(&mut schema.fields, &mut 0);
    schema
}

/// Refuses a file that stores other values of a partition column than its path says.
fn agree(partitioning: &Partitioning, file: &DataFile) -> Result<()> {
    for (position, field, name) in partitioning.identities() {
        let (Some(stats), Some(value)) = (file.column(field), file.partition.get(position)) else { continue };
        let differs = |bound: &Option<Value>| match (bound, value) {
            (Some(bound), Some(value)) => bound.compare(value).is_some_and(std::cmp::Ordering::is_ne),
            (bound, None) => bound.is_some(),
            (None, _) => false,
        };
        if differs(&stats.lower) || differs(&stats.upper) {
            return Err(Error::UnsupportedSource {
                feature: "a partition path that is not the column's value".to_owned(),
                place: file.path.as_str().to_owned(),
                detail: format!(
                    "the file's own values of `{name}` are not the one in its path; readers would disagree"
                ),
            });
        }
    }
    Ok(())
}

/// One sentence that names the file groups whose log files a read-optimised view leaves out.
fn lagging(slices: &[Slice]) -> Option<String> {
    let behind: Vec<String> = slices
        .iter()
        .filter(|s| !s.logs.is_empty())
        .map(|s| if s.partition.is_empty() { s.file_id.clone() } else { format!("{}/{}", s.partition, s.file_id) })
        .collect();
    if behind.is_empty() {
        return None;
    }
    let shown = behind.iter().take(20).cloned().collect::<Vec<_>>().join(", ");
    let more = if behind.len() > 20 { format!(" and {} more", behind.len() - 20) } else { String::new() };
    Some(format!("read-optimised: changes in log files are not shown for the file groups {shown}{more}"))
}

impl Source for HudiSource {
    fn format(&self) -> TableFormat {
        TableFormat::Hudi
    }

    fn head(&self) -> BoxFuture<'_, Result<Arc<TableState>>> {
        Box::pin(async move { Ok(Arc::clone(&self.opened().await?.head)) })
    }

    /// The writes in the active timeline.
    fn versions(&self) -> BoxFuture<'_, Result<Versions>> {
        Box::pin(async move {
            let opened = self.opened().await?;
            let mut versions = Versions::only(&opened.head.version);
            let mut writes = opened.timeline.writes();
            if let Some(oldest) = writes.next() {
                let id = VersionId(oldest.requested.clone());
                versions.oldest = Version { id, revision: None, timestamp_ms: timeline::millis(&oldest.requested) };
                versions.count += writes.count() as u64;
            }
            Ok(versions)
        })
    }

    fn snapshot(&self, head: &Arc<TableState>) -> BoxFuture<'_, Result<Snapshot<'_>>> {
        let head = Arc::clone(head);
        Box::pin(async move {
            let opened = self.opened().await?;
            let slices = self.live().await?;
            let mut delete_kinds = Vec::new();
            if !self.options.read_optimised
                && let Some((slice, log)) = slices.iter().find_map(|s| Some((s, s.logs.first()?)))
            {
                delete_kinds.push(RowDeletes::Log(path(&slice.partition, log)));
            }
            Ok(Snapshot { delete_kinds, files: self.files(head, opened, slices) })
        })
    }

    fn changes(&self, since: &Watermark, head: &Arc<TableState>) -> BoxFuture<'_, Result<Changes<'_>>> {
        let (since, head) = (since.clone(), Arc::clone(head));
        Box::pin(async move {
            let opened = self.opened().await?;
            if since.covers(&head.version) {
                return Ok(Changes::Replay(futures::stream::empty().boxed()));
            }
            match Replay::plan(self, opened, &since).await? {
                Ok(replay) => Ok(Changes::Replay(replay.run(self, opened, head))),
                Err(reason) => Ok(Changes::HistoryGone { reason }),
            }
        })
    }

    fn older_types(&self) -> Vec<(Vec<String>, Primitive)> {
        self.older_types.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn deleted_rows<'a>(&'a self, file: &'a DataFile) -> BoxFuture<'a, Result<DeletionVector>> {
        Box::pin(async move {
            match file.deletes.first() {
                None => Ok(DeletionVector::default()),
                Some(_) => Err(Error::UnsupportedSource {
                    feature: "log files that compaction has not merged".to_owned(),
                    place: file.path.as_str().to_owned(),
                    detail: "compact the table, or read it read-optimised".to_owned(),
                }),
            }
        })
    }

    fn record_count<'a>(&'a self, file: &'a DataFile) -> BoxFuture<'a, Result<u64>> {
        Box::pin(async move {
            let size = match file.size_bytes {
                Some(size) => size,
                None => self.root.size(&file.path).await?,
            };
            Ok(footer::record_count(&footer::read(&self.root, &file.path, size).await?))
        })
    }
}
