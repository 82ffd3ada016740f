//! Rewriting: several Parquet files of different vintages into one, in the table's order, row ids kept.
//!
//! Every input is mapped to the live columns by field id, its deleted rows are dropped, and each surviving row keeps its
//! id in `_hog_row_id`. Rows come out in the table's sort order (ties by row id), or by row id where there is none.
//!
//! **Architecture invariant:** memory is bounded by [`RewriteOptions::memory_bytes`], not by the inputs. Inputs are read
//! page by page from local files (remote ones are copied to temporary files, a few ahead), rows are sorted in runs that
//! spill to temporary files, and the output is uploaded part by part while it is encoded. Temporary files have no name:
//! a killed process leaves none.
//!
//! # Units
//! Two threads compute, whatever the number of inputs; object store requests run on the caller's runtime.

mod convert;
mod encode;
mod error;
mod input;
mod int96;
mod merge;
mod order;
pub mod rows;
mod schema;
mod sink;
mod spill;
mod statistics;
mod way;

pub use error::RewriteError;
pub use order::SortField;
pub use way::MakeWay;

use super::Column;
use super::footer::{RegisteredFile, read_metadata};
use crate::deletion_vector::DeletionVector;
use crate::store::Object;
use arrow::array::RecordBatch;
use futures::{StreamExt, stream};
use hoglake_model::ColumnStats;
use input::{Input, LocalFile};
use order::RowOrder;
use schema::TargetSchema;
use sink::Sink;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};

/// Inputs whose footers or bodies are fetched at a time.
const INPUTS_AHEAD: usize = 4;
const FOOTERS_AHEAD: usize = 16;

/// One file to rewrite.
#[derive(Debug, Clone)]
pub struct RewriteInput {
    /// Where it lies.
    pub object: Object,
    /// What it was registered as.
    pub file: RegisteredFile,
    /// Where its rows' ids come from.
    pub row_ids: RowIds,
    /// Positions that are gone; none when no vector is live.
    pub deletions: Option<DeletionVector>,
    /// The columns as they were called when the file was registered, for files without field ids; empty when that is as
    /// they are called now.
    pub names: Vec<Column>,
}

/// Where the ids of a file's rows come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowIds {
    /// The first row has this id, the others follow in file order.
    Positional(i64),
    /// The file's `_hog_row_id` column.
    Explicit,
}

/// How to rewrite.
#[derive(Debug, Clone)]
pub struct RewriteOptions {
    /// Memory for rows being sorted, merged and encoded. At least 4 MiB are taken.
    pub memory_bytes: usize,
    /// Where temporary files go.
    pub temp_dir: PathBuf,
    /// Zstandard level of the output's pages. Level 1 costs half of level 3, for outputs within a few percent.
    pub zstd_level: i32,
    /// Rows of a row group at most.
    pub row_group_rows: usize,
    /// Whether, and when, to make way for others on this machine.
    pub make_way: MakeWay,
    /// Told of the output's upload: after each part that was sent, and before the last request, which makes the object.
    pub uploading: fn(),
    /// Set by the caller to end this rewrite early, with [`RewriteError::Cancelled`].
    pub cancel: Option<Arc<AtomicBool>>,
}

impl Default for RewriteOptions {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            temp_dir: std::env::temp_dir(),
            zstd_level: 1,
            row_group_rows: 1 << 19,
            make_way: MakeWay::default(),
            uploading: || {},
            cancel: None,
        }
    }
}

/// The file that was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Rewritten {
    /// Rows that survived.
    pub record_count: i64,
    /// Bytes of the file.
    pub file_size_bytes: u64,
    /// Length of its Thrift footer without the trailer.
    pub footer_size: u64,
    /// The smallest row id in it.
    pub min_row_id: i64,
    /// Exact statistics of every column, `_hog_row_id` excluded.
    pub statistics: Vec<ColumnStats>,
}

/// Rewrites `inputs` into one file at `output`, with the live `columns` in `sort` order. None when no row survives; then
/// nothing is written.
///
/// # Errors
/// [`RewriteError`]; the output then does not exist and its multipart upload was aborted.
///
/// # Ordering
/// Nulls as each sort field says, NaN above every number whatever its sign, ties by row id.
pub async fn rewrite(
    inputs: Vec<RewriteInput>,
    columns: &[Column],
    sort: &[SortField],
    output: &Object,
    options: &RewriteOptions,
) -> Result<Option<Rewritten>, RewriteError> {
    let planned = plan(inputs, columns).await?;
    let target = Arc::new(TargetSchema::new(columns, &planned, sort, options)?);
    let order = RowOrder::new(&target, sort)?;
    let (planned, concatenated) = order::arrange(planned, sort);
    let result = run(planned.clone(), Arc::clone(&target), order.clone(), concatenated, output, options).await;
    match result {
        // An input claimed to be in row-id order and was not: its rows are sorted like any others.
        Err(RewriteError::Internal(order::OUT_OF_ORDER)) => run(planned, target, order, false, output, options).await,
        result => result,
    }
}

/// Reads every footer and maps it to the live columns. Of inputs that cannot be taken it finds several, so that the caller
/// need not ask again for each; not all, since each of many may cost a store's time-out.
async fn plan(inputs: Vec<RewriteInput>, columns: &[Column]) -> Result<Vec<Arc<Input>>, RewriteError> {
    let mut planned = Vec::with_capacity(inputs.len());
    let mut errors = Vec::new();
    let footers = stream::iter(inputs)
        .map(async |input| {
            let (metadata, _) = read_metadata(&input.object, input.file)
                .await
                .map_err(|e| RewriteError::Footer { path: input.object.location.to_string(), source: Box::new(e) })?;
            Input::new(input, metadata, columns).map(Arc::new)
        })
        .buffered(FOOTERS_AHEAD);
    let mut footers = std::pin::pin!(footers);
    while let Some(input) = footers.next().await {
        match input {
            Ok(input) => planned.push(input),
            Err(error) => errors.push(error),
        }
        if errors.len() == FOOTERS_AHEAD {
            break;
        }
    }
    match errors.len() {
        0 => Ok(planned),
        1 => Err(errors.remove(0)),
        _ => Err(RewriteError::Inputs(errors)),
    }
}

/// Sets its flag when the caller's future is dropped, so that the computing threads stop.
struct CancelOnDrop(Option<Arc<AtomicBool>>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(cancelled) = &self.0 {
            cancelled.store(true, Ordering::Relaxed);
        }
    }
}

/// Drives a rewrite in a task of its own, which ends an upload properly even when the caller's future is dropped.
async fn run(
    inputs: Vec<Arc<Input>>,
    target: Arc<TargetSchema>,
    order: RowOrder,
    concatenated: bool,
    output: &Object,
    options: &RewriteOptions,
) -> Result<Option<Rewritten>, RewriteError> {
    let cancelled = options.cancel.clone().unwrap_or_default();
    let mut guard = CancelOnDrop(Some(Arc::clone(&cancelled)));
    let task = drive(inputs, target, order, concatenated, output.clone(), options.clone(), cancelled);
    let done = tokio::spawn(task).await.unwrap_or(Err(RewriteError::Internal("the rewriting task panicked")));
    // the flag is the caller's: nothing was dropped, and there may be another run
    guard.0 = None;
    done
}

async fn drive(
    inputs: Vec<Arc<Input>>,
    target: Arc<TargetSchema>,
    order: RowOrder,
    concatenated: bool,
    output: Object,
    options: RewriteOptions,
    cancelled: Arc<AtomicBool>,
) -> Result<Option<Rewritten>, RewriteError> {
    let (sender, receiver) = sync_channel(INPUTS_AHEAD);
    let directory = options.temp_dir.clone();
    let opened = stream::iter(inputs)
        .map(move |input| {
            let directory = directory.clone();
            async move {
                let file = LocalFile::open(&input.source.object, directory).await?;
                Ok::<_, RewriteError>((input, file))
            }
        })
        .buffered(INPUTS_AHEAD);
    // Opened inputs wait in a bounded channel, whose sending end may block: it has a thread of its own.
    let feeder = async move {
        let mut opened = std::pin::pin!(opened);
        let mut sender = Some(sender);
        while let (Some(item), Some(tx)) = (opened.next().await, sender.take()) {
            let failed = item.is_err();
            let sent = tokio::task::spawn_blocking(move || tx.send(item).is_ok().then_some(tx)).await;
            sender = sent.ok().flatten().filter(|_| !failed);
        }
    };
    let sink = Sink::new(output, tokio::runtime::Handle::current(), options.uploading);
    let job = Job { receiver, target, order, sink: sink.clone(), options, cancelled };
    let (done, computed) = tokio::sync::oneshot::channel();
    // A thread of its own: what it starts has its priority, and the next to use a thread of the runtime has not.
    let compute = std::thread::Builder::new().name("rewrite".to_owned()).spawn(move || {
        if job.options.make_way.is_asked_for() {
            yield_to_others();
        }
        // nobody waits for the result when the runtime is going down
        let _ = done.send(job.run(concatenated));
    });
    let result = match compute {
        Ok(_) => {
            let (_, computed) = tokio::join!(feeder, computed);
            computed.unwrap_or(Err(RewriteError::Internal("a computing thread panicked")))
        }
        Err(error) => Err(RewriteError::Spill(error)),
    };
    match result {
        Ok(Some(encoded)) => {
            let (file_size_bytes, footer_size) = sink.finish().await?;
            Ok(Some(Rewritten {
                record_count: encoded.record_count,
                file_size_bytes,
                footer_size,
                min_row_id: encoded.min_row_id,
                statistics: encoded.statistics,
            }))
        }
        Ok(None) => {
            sink.abort().await;
            Ok(None)
        }
        Err(error) => {
            sink.abort().await;
            Err(error)
        }
    }
}

type Opened = Receiver<Result<(Arc<Input>, LocalFile), RewriteError>>;

/// What the computing threads work with.
struct Job {
    receiver: Opened,
    target: Arc<TargetSchema>,
    order: RowOrder,
    sink: Sink,
    options: RewriteOptions,
    cancelled: Arc<AtomicBool>,
}

impl Job {
    fn run(self, concatenated: bool) -> Result<Option<encode::Encoded>, RewriteError> {
        let memory = self.options.memory_bytes.max(4 << 20);
        let cancelled = Arc::clone(&self.cancelled);
        let batches: BatchSource = if concatenated {
            Box::new(order::Concatenation::new(self.receiver, Arc::clone(&self.target), self.options.make_way.clone()))
        } else {
            let runs = merge::sorted_runs(self.receiver, &self.target, &self.order, memory, &self.options, &cancelled)?;
            Box::new(merge::Merge::new(runs, &self.target, &self.order, memory, &self.options)?)
        };
        encode::encode(batches, &self.target, self.sink, &self.options, &cancelled)
    }
}

/// Gives this thread and those that it will start the lowest priority.
#[cfg(target_os = "linux")]
fn yield_to_others() {
    const LOWEST: i32 = 19;
    if let Err(error) = rustix::process::setpriority_process(None, LOWEST) {
        tracing::debug!(%error, "a rewrite runs at the priority of everything else");
    }
}

#[cfg(not(target_os = "linux"))]
fn yield_to_others() {}

/// Batches in the target schema, in their final order.
type BatchSource = Box<dyn Iterator<Item = Result<RecordBatch, RewriteError>> + Send>;

fn check_cancelled(cancelled: &AtomicBool) -> Result<(), RewriteError> {
    if cancelled.load(Ordering::Relaxed) { Err(RewriteError::Cancelled) } else { Ok(()) }
}
