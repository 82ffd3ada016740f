//! Reading a table, whatever its format.

use super::Result;
use crate::deletion_vector::DeletionVector;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use hoglake_model::table::{Change, DataFile, Primitive, RowDeletes, TableFormat, TableState, Version, Watermark};
use std::sync::Arc;

/// A boxed future, so that sources and targets can be chosen at run time.
pub type BoxFuture<'a, T> = futures::future::BoxFuture<'a, T>;

/// Live files in batches of the source's choosing (a checkpoint's row group, a manifest).
pub type FileStream<'a> = BoxStream<'a, Result<Vec<DataFile>>>;

/// A table that is read.
///
/// An instance belongs to one run: it may cache what is immutable (commit files, manifests), and every version that
/// it returns stays readable through it as long as the files exist. All methods may be called concurrently.
///
/// # Memory
/// Bounded by a checkpoint row group or a manifest plus a fixed-size key per file removed since; never by the table.
pub trait Source: Send + Sync {
    /// The format.
    fn format(&self) -> TableFormat;

    /// The newest complete version and its state.
    ///
    /// # Errors
    /// [`Error::NotATable`](super::Error::NotATable), or
    /// [`Error::UnsupportedSource`](super::Error::UnsupportedSource) naming the feature: an unknown feature that a
    /// reader must understand is refused here, before anything is planned.
    fn head(&self) -> BoxFuture<'_, Result<Arc<TableState>>>;

    /// All files of the version that [`head`](Self::head) returned.
    ///
    /// # Errors
    /// In the stream too: what can only be seen while reading (an unsupported delete kind, a damaged manifest).
    fn snapshot(&self, head: &Arc<TableState>) -> BoxFuture<'_, Result<Snapshot<'_>>>;

    /// The commits after `since`, up to and including the version that [`head`](Self::head) returned.
    ///
    /// Requests are proportional to the commits replayed, not to the table. Commits that change nothing that the model
    /// shows may be left out, except that the last change always carries the head's version.
    ///
    /// # Errors
    /// History that is no longer there is not an error but [`Changes::HistoryGone`], including when it turns out only
    /// while reading: the stream then ends with [`Error::NeedsFull`](super::Error::NeedsFull) before the gap.
    fn changes(&self, since: &Watermark, head: &Arc<TableState>) -> BoxFuture<'_, Result<Changes<'_>>>;

    /// Which versions can still be read; where a format keeps none, the newest alone.
    fn versions(&self) -> BoxFuture<'_, Result<Versions>> {
        Box::pin(async { Ok(Versions::only(&self.head().await?.version)) })
    }

    /// What files that were given out so far hold instead of what the schema says, by the names down to the column, where
    /// only the files tell; what metadata tells is in [`Binding`](hoglake_model::table::Binding).
    fn older_types(&self) -> Vec<(Vec<String>, Primitive)> {
        Vec::new()
    }

    /// Resolves the row-level deletes of one file of this source to row positions; equality deletes by reading the data.
    ///
    /// # Errors
    /// [`Error::UnsupportedSource`](super::Error::UnsupportedSource) for kinds that no positions express (log files).
    fn deleted_rows<'a>(&'a self, file: &'a DataFile) -> BoxFuture<'a, Result<DeletionVector>>;

    /// The record count of a file whose metadata does not say: read from its footer.
    fn record_count<'a>(&'a self, file: &'a DataFile) -> BoxFuture<'a, Result<u64>>;
}

/// The versions of a table that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versions {
    /// How many there are.
    pub count: u64,
    /// The first of them.
    pub oldest: Version,
    /// What [`Source::head`] says.
    pub newest: Version,
}

impl Versions {
    pub(crate) fn only(head: &Version) -> Self {
        Self { count: 1, oldest: head.clone(), newest: head.clone() }
    }
}

/// The files of one version.
pub struct Snapshot<'a> {
    /// Which kinds of row-level deletes occur, where the source knows before reading all files; used to refuse early.
    pub delete_kinds: Vec<RowDeletes>,
    /// The files.
    pub files: FileStream<'a>,
}

/// The way from a watermark to the head.
pub enum Changes<'a> {
    /// Oldest first. Empty only if the watermark is the head.
    Replay(BoxStream<'a, Result<Change>>),
    /// The commits after the watermark cannot be replayed: expired, rolled back, another table.
    HistoryGone {
        /// Why, for the report: names the missing commit.
        reason: String,
    },
}

/// Row counts of `files` in their order; those that only footers know are read a few at a time.
pub(crate) async fn record_counts<'s>(source: &'s dyn Source, files: &'s [DataFile]) -> Result<Vec<u64>> {
    if let Some(known) = files.iter().map(|f| f.record_count).collect::<Option<Vec<_>>>() {
        return Ok(known);
    }
    let mut counts: Vec<BoxFuture<'s, Result<u64>>> = Vec::with_capacity(files.len());
    for file in files {
        counts.push(match file.record_count {
            Some(count) => Box::pin(std::future::ready(Ok(count))),
            None => source.record_count(file),
        });
    }
    stream::iter(counts).buffered(16).try_collect().await
}
