//! A directory of Parquet files as a source: no metadata but the listing and the footers.
//!
//! - **Version.** A version is named `<newest modification>-<files>-<digest of the listing>`, so that the same files
//!   always are the same version. When everything up to the newest modification of a watermark still is what it was,
//!   the files after it are an append and nothing else needs to be looked at; otherwise files were removed or
//!   replaced, and only a full comparison says which.
//! - **Schema.** The union of all footers, by field id where the files have ids, otherwise by name.
//! - **Partitioning.** Hive-style directories (`key=value`) become typed identity partitions; see
//!   its module.
//! - **Not data.** Names that start with `_` or `.` unless they are `key=value`, and the metadata folders of table
//!   formats that share the directory.

mod listing;
mod merge;
mod partitions;

use crate::deletion_vector::DeletionVector;
use crate::footer::{self, FileSchema};
use crate::sync::{BoxFuture, Changes, Error, FileStream, Result, Snapshot, Source, TableRoot};
use futures::{StreamExt, TryStreamExt};
use hoglake_model::table::{
    Change, DataFile, FieldIds, FileDelta, FilePath, Operation, PartitionSpec, Schema, TableFormat, TableState, Value,
    Version, VersionId, Watermark,
};
use listing::Listing;
use merge::{Merge, Merged};
use parquet::file::metadata::ParquetMetaData;
use partitions::Partitioning;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Footers that are read at a time.
const CONCURRENT_FOOTERS: usize = 16;

/// Files of a batch.
const BATCH: usize = 256;

/// How to read a directory.
#[derive(Debug, Clone, Default)]
pub struct ParquetDirectoryOptions {
    /// Read `key=value` directories as plain directories.
    pub ignore_hive_directories: bool,
}

/// A directory of Parquet files.
pub struct ParquetDirectorySource {
    root: TableRoot,
    options: ParquetDirectoryOptions,
    read: OnceCell<Directory>,
}

/// What one look at the directory found.
struct Directory {
    listing: Listing,
    partitioning: Partitioning,
    by_id: bool,
    head: Arc<TableState>,
}

impl ParquetDirectorySource {
    /// The directory at `root`. Nothing is requested yet.
    pub fn new(root: TableRoot, options: ParquetDirectoryOptions) -> Self {
        Self { root, options, read: OnceCell::new() }
    }

    async fn directory(&self) -> Result<&Directory> {
        self.read.get_or_try_init(|| self.look()).await
    }

    async fn look(&self) -> Result<Directory> {
        let listing = Listing::read(&self.root).await?;
        let partitioning = if self.options.ignore_hive_directories {
            Partitioning::none(listing.files.len())
        } else {
            Partitioning::discover(listing.files.iter().map(|f| f.key.as_str()))?
        };
        let mut merge = Merge::default();
        let mut footers = futures::stream::iter(listing.files.clone())
            .map(|file| async move {
                let path = FilePath::Under(file.key.as_str().into());
                let metadata = footer::read(&self.root, &path, file.size).await?;
                Ok::<_, Error>((schema_of(&metadata, &file.key)?, file))
            })
            .buffered(CONCURRENT_FOOTERS);
        while let Some((schema, file)) = footers.try_next().await? {
            merge.add(&file.key, file.modified_ms, &schema.schema)?;
        }
        drop(footers);
        let Merged { mut schema, field_ids, binding, mut warnings } = merge.finish();
        let (partitioning, spec) = partitioning.typed(&mut schema)?;
        warnings.extend(listing.warnings.iter().cloned());
        let head = TableState {
            format: TableFormat::Parquet,
            table_id: None,
            name: Some(self.root.location().file_name().to_owned()).filter(|n| !n.is_empty()),
            root: self.root.location().to_string(),
            version: Version {
                id: VersionId(listing.version()),
                revision: partitioning.fingerprint(),
                timestamp_ms: listing.newest_ms(),
            },
            schema,
            field_ids,
            specs: vec![spec],
            default_spec: 0,
            binding,
            warnings,
            deletes_left_out: false,
        };
        Ok(Directory { listing, partitioning, by_id: field_ids == FieldIds::Assigned, head: Arc::new(head) })
    }

    async fn data_file(&self, directory: &Directory, index: usize) -> Result<DataFile> {
        let Some(listed) = directory.listing.files.get(index) else {
            return Err(Error::malformed(self.root.location().to_string(), "the listing has no such file"));
        };
        let path = FilePath::Under(listed.key.as_str().into());
        let metadata = footer::read(&self.root, &path, listed.size).await?;
        let schema = schema_of(&metadata, &listed.key)?;
        let binding = footer::bind(&schema, &directory.head.schema, directory.by_id);
        let columns = footer::column_statistics(&metadata, &binding);
        let partition = directory.partitioning.tuple(index).to_vec();
        let mut file = DataFile {
            size_bytes: Some(listed.size),
            record_count: Some(footer::record_count(&metadata)),
            partition,
            columns,
            modified_ms: Some(listed.modified_ms),
            split_offsets: footer::split_offsets(&metadata),
            ..DataFile::new(path)
        };
        agree(&directory.head, &mut file)?;
        Ok(file)
    }

    fn files<'a>(&'a self, directory: &'a Directory, indexes: Vec<usize>) -> FileStream<'a> {
        futures::stream::iter(indexes)
            .map(move |index| self.data_file(directory, index))
            .buffered(CONCURRENT_FOOTERS)
            .try_chunks(BATCH)
            .map_err(|e| e.1)
            .boxed()
    }
}

fn schema_of(metadata: &ParquetMetaData, key: &str) -> Result<FileSchema> {
    footer::file_schema(metadata.file_metadata().schema_descr()).map_err(|detail| Error::UnsupportedSource {
        feature: "a column type".to_owned(),
        place: key.to_owned(),
        detail,
    })
}

/// Refuses a file that stores another value of a partition column than its directory says: some readers would show one,
/// some the other.
fn agree(state: &TableState, file: &mut DataFile) -> Result<()> {
    let spec: &PartitionSpec = state.spec(0).ok_or_else(|| Error::malformed(file.path.as_str(), "it has no spec"))?;
    for (field, value) in spec.fields.iter().zip(&file.partition) {
        let Some(stats) = file.column(field.source) else { continue };
        let differs = |bound: &Option<Value>| match (bound, value) {
            (Some(bound), Some(value)) => bound.compare(value).is_some_and(std::cmp::Ordering::is_ne),
            (Some(_), None) => true,
            (None, _) => false,
        };
        if differs(&stats.lower) || differs(&stats.upper) {
            return Err(Error::UnsupportedSource {
                feature: "a partition column that is also stored in the files".to_owned(),
                place: file.path.as_str().to_owned(),
                detail: format!(
                    "the file's own values of `{}` are not the one in its directory's name; readers disagree which \
                     counts, so drop the column from the files or rename the directory",
                    field.name
                ),
            });
        }
    }
    Ok(())
}

impl Source for ParquetDirectorySource {
    fn format(&self) -> TableFormat {
        TableFormat::Parquet
    }

    fn head(&self) -> BoxFuture<'_, Result<Arc<TableState>>> {
        Box::pin(async move { Ok(Arc::clone(&self.directory().await?.head)) })
    }

    fn snapshot(&self, _head: &Arc<TableState>) -> BoxFuture<'_, Result<Snapshot<'_>>> {
        Box::pin(async move {
            let directory = self.directory().await?;
            let all = (0..directory.listing.files.len()).collect();
            Ok(Snapshot { delete_kinds: Vec::new(), files: self.files(directory, all) })
        })
    }

    fn changes(&self, since: &Watermark, head: &Arc<TableState>) -> BoxFuture<'_, Result<Changes<'_>>> {
        let (since, head) = (since.clone(), Arc::clone(head));
        Box::pin(async move {
            let directory = self.directory().await?;
            if since.covers(&head.version) {
                return Ok(Changes::Replay(futures::stream::empty().boxed()));
            }
            let gone = |reason: &str| Ok(Changes::HistoryGone { reason: reason.to_owned() });
            if since.revision != head.version.revision {
                return gone("the partition columns or their types changed");
            }
            let Some(added) = since.version.as_ref().and_then(|v| directory.listing.added_since(&v.0)) else {
                return gone("files were removed or replaced since, and a directory keeps no history");
            };
            let change = async move {
                let files: Vec<DataFile> = self.files(directory, added).try_concat().await?;
                let delta = FileDelta { added: files, ..FileDelta::default() };
                Ok(Change { state: head, operation: Operation::Append, files: delta })
            };
            Ok(Changes::Replay(futures::stream::once(change).boxed()))
        })
    }

    fn deleted_rows<'a>(&'a self, _file: &'a DataFile) -> BoxFuture<'a, Result<DeletionVector>> {
        Box::pin(async { Ok(DeletionVector::default()) })
    }

    fn record_count<'a>(&'a self, file: &'a DataFile) -> BoxFuture<'a, Result<u64>> {
        Box::pin(async move {
            let directory = self.directory().await?;
            let listed = directory.listing.files.iter().find(|f| f.key == file.path.as_str());
            let size = listed.map(|f| f.size).or(file.size_bytes).unwrap_or_default();
            Ok(footer::record_count(&footer::read(&self.root, &file.path, size).await?))
        })
    }
}

/// The id that a new column of `schema` gets.
fn next_id(schema: &Schema) -> i64 {
    schema.max_id().0.max(0) + 1
}
