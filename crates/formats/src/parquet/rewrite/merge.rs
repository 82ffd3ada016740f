//! External merge sort: two threads make sorted runs of the inputs, then the runs are merged.

use super::input::{Input, LocalFile};
use super::order::RowOrder;
use super::schema::TargetSchema;
use super::spill::{SpillWriter, SpilledRun};
use super::{BatchSource, MakeWay, Opened, RewriteError, RewriteOptions, check_cancelled};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::interleave;
use arrow::datatypes::SchemaRef;
use arrow::row::Rows;
use std::cmp::Ordering;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

const WORKERS: usize = 2;
/// Bytes of the batches that runs are written in.
const SPILL_BATCH_BYTES: usize = 256 << 10;
/// Bytes and rows of the batches that a merge gives out.
const MERGED_BATCH_BYTES: usize = 4 << 20;
const MERGED_BATCH_ROWS: usize = 32_768;
/// Bytes of a run, and rows of a merged batch, while the rewrite makes way for others.
const SMALL_RUN_BYTES: usize = 8 << 20;
const SMALL_BATCH_ROWS: usize = 1_024;

/// Rows in order: in memory when they were the last of their worker, else on disk.
pub(super) enum Run {
    Memory(MemoryRun),
    Spilled(SpilledRun),
}

/// Reads all inputs into sorted runs, about a quarter of the memory a worker.
pub(super) fn sorted_runs(
    receiver: Opened,
    target: &Arc<TargetSchema>,
    order: &RowOrder,
    memory: usize,
    options: &RewriteOptions,
    cancelled: &AtomicBool,
) -> Result<Vec<Run>, RewriteError> {
    let receiver = Mutex::new(receiver);
    // Decoded rows, their keys, and the batch in hand: three times the run at worst.
    let run_bytes = memory / (WORKERS * 3);
    let work = |is_first: bool| {
        let mut builder =
            RunBuilder { target, order, options, run_bytes, batches: Vec::new(), bytes: 0, runs: Vec::new() };
        loop {
            let opened = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(opened) = opened else { break };
            let (input, file): (Arc<Input>, LocalFile) = opened?;
            let mut batches = input.read(file, Arc::clone(target), &options.make_way)?;
            loop {
                check_cancelled(cancelled)?;
                if !is_first {
                    options.make_way.stand_by();
                }
                let begun = Instant::now();
                let Some(batch) = batches.next() else { break };
                options.make_way.rest(begun.elapsed());
                builder.push(batch?)?;
            }
        }
        builder.finish()
    };
    let results: Vec<Result<Vec<Run>, RewriteError>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|worker| scope.spawn(move || work(worker == 0))).collect();
        let panicked = |_| Err(RewriteError::Internal("a sorting thread panicked"));
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(panicked)).collect()
    });
    let mut runs = Vec::new();
    for result in results {
        runs.extend(result?);
    }
    Ok(runs)
}

/// Collects rows until they fill a run.
struct RunBuilder<'a> {
    target: &'a Arc<TargetSchema>,
    order: &'a RowOrder,
    options: &'a RewriteOptions,
    run_bytes: usize,
    batches: Vec<RecordBatch>,
    bytes: usize,
    runs: Vec<Run>,
}

impl RunBuilder<'_> {
    fn push(&mut self, batch: RecordBatch) -> Result<(), RewriteError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.bytes += batch.get_array_memory_size();
        self.batches.push(batch);
        if self.bytes >= self.options.make_way.step(self.run_bytes, SMALL_RUN_BYTES) {
            let make_way = &self.options.make_way;
            let begun = Instant::now();
            let mut run = self.sort()?;
            make_way.rest(begun.elapsed());
            let mut writer = SpillWriter::new(&self.options.temp_dir, &self.target.arrow)?;
            let rows = rows_for(SPILL_BATCH_BYTES, run.bytes, run.order.len());
            loop {
                let begun = Instant::now();
                let Some(batch) = run.next(rows)? else { break };
                writer.write(&batch)?;
                make_way.rest(begun.elapsed());
            }
            self.runs.push(Run::Spilled(writer.finish()?));
        }
        Ok(())
    }

    fn sort(&mut self) -> Result<MemoryRun, RewriteError> {
        let batches = std::mem::take(&mut self.batches);
        let bytes = std::mem::take(&mut self.bytes);
        let order = sorted_positions(&self.order.keys_of_all(&batches)?, &batches);
        Ok(MemoryRun { schema: Arc::clone(&self.target.arrow), batches, order, position: 0, bytes })
    }

    fn finish(mut self) -> Result<Vec<Run>, RewriteError> {
        if !self.batches.is_empty() {
            let last = self.sort()?;
            self.runs.push(Run::Memory(last));
        }
        Ok(self.runs)
    }
}

/// (batch, row) of every row, by key.
fn sorted_positions(keys: &Rows, batches: &[RecordBatch]) -> Vec<(u32, u32)> {
    let rows = batches.iter().map(RecordBatch::num_rows);
    let positions: Vec<(u32, u32)> =
        rows.enumerate().flat_map(|(batch, rows)| (0..rows).map(move |row| (batch as u32, row as u32))).collect();
    let mut entries: Vec<(u64, u32)> = (0..positions.len()).map(|key| (0, key as u32)).collect();
    sort_keys(keys, &mut entries, 0);
    entries.into_iter().map(|(_, key)| positions[key as usize]).collect()
}

/// Groups of at most so many keys are compared whole.
const SMALL_GROUP: usize = 12;
/// Keys that agree in so many bytes are compared whole, too: groups within groups take stack.
const DEEPEST_WORD: usize = 1024;

/// Sorts keys that agree in their first `depth` bytes by the eight that follow, then each group of equals by the next.
/// Comparing whole keys instead would fetch two of them from memory for every comparison.
fn sort_keys(keys: &Rows, entries: &mut [(u64, u32)], mut depth: usize) {
    let key = |entry: &(u64, u32)| keys.row(entry.1 as usize).data();
    loop {
        if entries.len() <= SMALL_GROUP || depth >= DEEPEST_WORD {
            return entries.sort_unstable_by(|a, b| key(a).cmp(key(b)));
        }
        let (mut longest, mut lowest, mut highest) = (0, u64::MAX, 0);
        for entry in entries.iter_mut() {
            let bytes = keys.row(entry.1 as usize).data();
            longest = longest.max(bytes.len());
            entry.0 = word(bytes, depth);
            (lowest, highest) = (lowest.min(entry.0), highest.max(entry.0));
        }
        depth += 8;
        if lowest < highest {
            break;
        }
        if depth >= longest {
            return;
        }
    }
    entries.sort_unstable_by_key(|(word, _)| *word);
    for group in entries.chunk_by_mut(|a, b| a.0 == b.0) {
        if group.len() > 1 {
            sort_keys(keys, group, depth);
        }
    }
}

/// Eight bytes of a key as a number that compares as they do. Keys are prefix-free: what lies behind the end of the
/// shorter one never decides.
fn word(key: &[u8], offset: usize) -> u64 {
    let rest = key.get(offset..).unwrap_or_default();
    match rest.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => rest.iter().enumerate().fold(0, |word, (i, byte)| word | u64::from(*byte) << (56 - 8 * i)),
    }
}

/// Sorted rows that are gathered as they are asked for.
pub(super) struct MemoryRun {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    order: Vec<(u32, u32)>,
    position: usize,
    bytes: usize,
}

impl MemoryRun {
    fn next(&mut self, rows: usize) -> Result<Option<RecordBatch>, RewriteError> {
        let end = self.order.len().min(self.position + rows);
        let indices: Vec<(usize, usize)> =
            self.order[self.position..end].iter().map(|(batch, row)| (*batch as usize, *row as usize)).collect();
        self.position = end;
        if indices.is_empty() { Ok(None) } else { gather(&self.schema, &self.batches, &indices).map(Some) }
    }
}

fn gather(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    indices: &[(usize, usize)],
) -> Result<RecordBatch, RewriteError> {
    let columns = (0..schema.fields().len()).map(|column| {
        let arrays: Vec<&dyn arrow::array::Array> = batches.iter().map(|b| b.column(column).as_ref()).collect();
        interleave(&arrays, indices)
    });
    let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

/// How many rows make about `wanted` bytes, when `rows` make `bytes`.
fn rows_for(wanted: usize, bytes: usize, rows: usize) -> usize {
    (wanted / (bytes / rows.max(1)).max(1)).clamp(1, 1 << 16)
}

/// Merges runs with a tree of losers.
pub(super) struct Merge {
    schema: SchemaRef,
    order: RowOrder,
    batch_rows: usize,
    make_way: MakeWay,
    cursors: Vec<Cursor>,
    /// `tree[0]` is the winner; `tree[n]` the loser of node n.
    tree: Vec<usize>,
    /// Batches that rows of the output in hand point into; a cursor's batch stays until that output is given out.
    held: Vec<RecordBatch>,
}

struct Cursor {
    source: BatchSource,
    keys: Option<Rows>,
    row: usize,
    /// Index of its batch among the held ones.
    slot: usize,
}

impl Cursor {
    fn key(&self) -> Option<&[u8]> {
        self.keys.as_ref().map(|keys| keys.row(self.row).data())
    }
}

impl Merge {
    /// Opens `runs`; when there are more than memory has room for, merges some of them into longer runs first.
    pub fn new(
        mut runs: Vec<Run>,
        target: &Arc<TargetSchema>,
        order: &RowOrder,
        memory: usize,
        options: &RewriteOptions,
    ) -> Result<Self, RewriteError> {
        // A batch, its keys, and its reader's buffer for every run.
        let fan_in = (memory / 2 / (SPILL_BATCH_BYTES * 3)).max(2);
        while runs.len() > fan_in {
            let merged: Vec<Run> = runs.drain(..fan_in).collect();
            let mut writer = SpillWriter::new(&options.temp_dir, &target.arrow)?;
            for batch in Self::open(merged, target, order, options)? {
                let batch = batch?;
                let rows = rows_for(SPILL_BATCH_BYTES, batch.get_array_memory_size(), batch.num_rows());
                for begin in (0..batch.num_rows()).step_by(rows) {
                    writer.write(&batch.slice(begin, rows.min(batch.num_rows() - begin)))?;
                }
            }
            runs.push(Run::Spilled(writer.finish()?));
        }
        Self::open(runs, target, order, options)
    }

    fn open(
        runs: Vec<Run>,
        target: &Arc<TargetSchema>,
        order: &RowOrder,
        options: &RewriteOptions,
    ) -> Result<Self, RewriteError> {
        let mut merge = Self {
            schema: Arc::clone(&target.arrow),
            order: order.clone(),
            batch_rows: MERGED_BATCH_ROWS.min(options.row_group_rows.max(1)),
            make_way: options.make_way.clone(),
            cursors: Vec::with_capacity(runs.len()),
            tree: Vec::new(),
            held: Vec::new(),
        };
        for run in runs {
            let source: BatchSource = match run {
                Run::Spilled(run) => Box::new(run.read()?.map(|batch| batch.map_err(RewriteError::from))),
                Run::Memory(mut run) => {
                    let rows = rows_for(SPILL_BATCH_BYTES, run.bytes, run.order.len());
                    Box::new(std::iter::from_fn(move || run.next(rows).transpose()))
                }
            };
            merge.cursors.push(Cursor { source, keys: None, row: 0, slot: 0 });
            let last = merge.cursors.len() - 1;
            merge.load(last)?;
        }
        merge.build();
        Ok(merge)
    }

    /// Puts the next batch of a cursor whose rows are used up among the held ones.
    fn load(&mut self, cursor: usize) -> Result<(), RewriteError> {
        let held = self.held.len();
        let cursor = &mut self.cursors[cursor];
        cursor.row = 0;
        cursor.keys = None;
        if let Some(batch) = cursor.source.next().transpose()? {
            cursor.keys = Some(self.order.keys(&batch)?);
            cursor.slot = held;
            self.held.push(batch);
        }
        Ok(())
    }

    /// Whether cursor `a` goes before `b`. Used-up cursors go last.
    fn precedes(&self, a: usize, b: usize) -> bool {
        match (self.cursors[a].key(), self.cursors[b].key()) {
            (Some(a), Some(b)) => a.cmp(b) == Ordering::Less,
            (a, _) => a.is_some(),
        }
    }

    fn build(&mut self) {
        let count = self.cursors.len();
        self.tree = vec![usize::MAX; count.max(1)];
        for cursor in 0..count {
            self.replay(cursor);
        }
    }

    /// Plays `cursor` from its leaf to the root. While the tree is being built, the first to come to a node waits there.
    fn replay(&mut self, cursor: usize) {
        let mut winner = cursor;
        let mut node = (cursor + self.cursors.len()) / 2;
        while node > 0 {
            let waiting = self.tree[node];
            if waiting == usize::MAX {
                self.tree[node] = winner;
                return;
            }
            if self.precedes(waiting, winner) {
                self.tree[node] = winner;
                winner = waiting;
            }
            node /= 2;
        }
        self.tree[0] = winner;
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, RewriteError> {
        if self.cursors.is_empty() {
            return Ok(None);
        }
        let held: usize = self.held.iter().map(RecordBatch::get_array_memory_size).sum();
        let held_rows = self.held.iter().map(RecordBatch::num_rows).sum();
        let wanted =
            rows_for(MERGED_BATCH_BYTES, held, held_rows).min(self.make_way.step(self.batch_rows, SMALL_BATCH_ROWS));
        let mut indices = Vec::with_capacity(wanted);
        while indices.len() < wanted {
            let winner = self.tree[0];
            let Some(cursor) = self.cursors.get_mut(winner) else { break };
            let Some(keys) = &cursor.keys else { break };
            indices.push((cursor.slot, cursor.row));
            cursor.row += 1;
            if cursor.row == keys.num_rows() {
                self.load(winner)?;
            }
            self.replay(winner);
        }
        if indices.is_empty() {
            return Ok(None);
        }
        let batch = gather(&self.schema, &self.held, &indices)?;
        self.release();
        Ok(Some(batch))
    }

    /// Lets go of the batches that no cursor is in.
    fn release(&mut self) {
        let mut kept = Vec::with_capacity(self.cursors.len());
        for cursor in self.cursors.iter_mut().filter(|c| c.keys.is_some()) {
            kept.push(self.held[cursor.slot].clone());
            cursor.slot = kept.len() - 1;
        }
        self.held = kept;
    }
}

impl Iterator for Merge {
    type Item = Result<RecordBatch, RewriteError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}
