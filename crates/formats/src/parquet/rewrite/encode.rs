//! Parallel encoding: two threads take whatever there is to do next, a batch to produce or a column to encode.

use super::schema::TargetSchema;
use super::sink::Sink;
use super::statistics::{self, TextBounds};
use super::{BatchSource, RewriteError, RewriteOptions, check_cancelled};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::min;
use hoglake_model::ColumnStats;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::file::writer::SerializedFileWriter;
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

const THREADS: usize = 2;
/// Batches that may wait to be encoded.
const BATCHES_AHEAD: usize = 3;
/// Decoded bytes of a row group at most; encoded it waits in memory for its last column.
const ROW_GROUP_BYTES: usize = 128 << 20;
/// Row groups beside the one that is being encoded: one that waits for a slow store, and the one before it.
const GROUPS_AHEAD: usize = 2;

/// What was encoded.
#[derive(Debug)]
pub(super) struct Encoded {
    pub record_count: i64,
    pub min_row_id: i64,
    pub statistics: Vec<ColumnStats>,
}

/// Encodes all batches into `sink`. None when there were no rows; what the sink holds is then not wanted.
pub(super) fn encode(
    batches: BatchSource,
    target: &TargetSchema,
    sink: Sink,
    options: &RewriteOptions,
    cancelled: &AtomicBool,
) -> Result<Option<Encoded>, RewriteError> {
    let writer = SerializedFileWriter::new(sink, target.parquet.root_schema_ptr(), Arc::clone(&target.properties))?;
    let factory = ArrowRowGroupWriterFactory::new(&writer, Arc::clone(&target.arrow));
    let row_id = target.row_id_index();
    let columns = (0..=row_id)
        .map(|index| ColumnQueue {
            work: VecDeque::new(),
            encoder: Some(Box::new(Encoder {
                writer: None,
                text: target.columns.get(index).and_then(|column| TextBounds::of(column.ty)),
            })),
        })
        .collect();
    let encoding = Encoding {
        target,
        options,
        cancelled,
        factory,
        wake: Condvar::new(),
        state: Mutex::new(State {
            source: Some(Source { batches, group_rows: 0, group_bytes: 0, groups: 0, rows: 0, min_row_id: i64::MAX }),
            exhausted: None,
            columns,
            closing: VecDeque::new(),
            writer: Some(Box::new(writer)),
            error: None,
        }),
    };
    std::thread::scope(|scope| {
        for _ in 1..THREADS {
            scope.spawn(|| encoding.work(false));
        }
        encoding.work(true);
    });
    let state = encoding.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = state.error {
        return Err(error);
    }
    let (Some(writer), Some(source)) = (state.writer, state.exhausted) else {
        return Err(RewriteError::Internal("an encoding thread ended early"));
    };
    if source.rows == 0 {
        return Ok(None);
    }
    let metadata = writer.close()?;
    let statistics = state.columns.into_iter().zip(&target.columns).enumerate().map(|(index, (queue, column))| {
        statistics::written(&metadata, index, column, queue.encoder.and_then(|encoder| encoder.text))
    });
    let statistics = statistics.collect::<Result<_, _>>()?;
    Ok(Some(Encoded { record_count: source.rows, min_row_id: source.min_row_id, statistics }))
}

struct Encoding<'a> {
    target: &'a TargetSchema,
    options: &'a RewriteOptions,
    cancelled: &'a AtomicBool,
    factory: ArrowRowGroupWriterFactory,
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    /// Taken while a batch is being produced.
    source: Option<Source>,
    /// The source once it has no more batches.
    exhausted: Option<Source>,
    columns: Vec<ColumnQueue>,
    /// Row groups that are not in the file yet, oldest first: their finished columns.
    closing: VecDeque<Vec<Option<ArrowColumnChunk>>>,
    /// Taken while a row group is being appended.
    writer: Option<Box<SerializedFileWriter<Sink>>>,
    error: Option<RewriteError>,
}

struct Source {
    batches: BatchSource,
    group_rows: usize,
    group_bytes: usize,
    groups: usize,
    rows: i64,
    min_row_id: i64,
}

struct ColumnQueue {
    work: VecDeque<Work>,
    /// Taken while a thread encodes the column.
    encoder: Option<Box<Encoder>>,
}

struct Encoder {
    writer: Option<Box<ArrowColumnWriter>>,
    /// Of a column whose bounds its writer would cut short.
    text: Option<TextBounds>,
}

enum Work {
    Begin(Box<ArrowColumnWriter>),
    Values(ArrayRef),
    End,
}

enum Task {
    Produce(Source),
    Encode(usize, Box<Encoder>, Work),
    Append(Box<SerializedFileWriter<Sink>>, Vec<ArrowColumnChunk>),
    Stop,
}

impl Encoding<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, is_first: bool) {
        let _guard = StopOnPanic(self);
        loop {
            if !is_first {
                self.options.make_way.stand_by();
            }
            let task = self.next_task();
            let begun = Instant::now();
            let result = match task {
                Task::Produce(source) => self.produce(source),
                Task::Encode(index, encoder, work) => self.encode(index, encoder, work),
                Task::Append(writer, chunks) => self.append(writer, chunks),
                Task::Stop => return,
            };
            if let Err(error) = result {
                self.lock().error.get_or_insert(error);
            }
            self.wake.notify_all();
            self.options.make_way.rest(begun.elapsed());
        }
    }

    fn next_task(&self) -> Task {
        let mut state = self.lock();
        loop {
            match state.next_task() {
                Some(task) => return task,
                None => state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Takes the next batch and hands its columns out.
    fn produce(&self, mut source: Source) -> Result<(), RewriteError> {
        check_cancelled(self.cancelled)?;
        let batch = source.batches.next().transpose()?;
        let ends =
            |source: &Source| source.group_rows >= self.options.row_group_rows || source.group_bytes >= ROW_GROUP_BYTES;
        let Some(batch) = batch else {
            let mut state = self.lock();
            if source.group_rows > 0 {
                state.columns.iter_mut().for_each(|column| column.work.push_back(Work::End));
            }
            state.exhausted = Some(source);
            return Ok(());
        };
        let begun = if source.group_rows == 0 && batch.num_rows() > 0 {
            source.groups += 1;
            Some(self.factory.create_column_writers(source.groups - 1)?)
        } else {
            None
        };
        source.count(&batch);
        let ended = ends(&source);
        if ended {
            (source.group_rows, source.group_bytes) = (0, 0);
        }
        let mut state = self.lock();
        if let Some(writers) = begun {
            let columns = state.columns.len();
            state.closing.push_back((0..columns).map(|_| None).collect());
            state
                .columns
                .iter_mut()
                .zip(writers)
                .for_each(|(c, writer)| c.work.push_back(Work::Begin(Box::new(writer))));
        }
        for (column, array) in state.columns.iter_mut().zip(batch.columns()) {
            column.work.push_back(Work::Values(Arc::clone(array)));
            if ended {
                column.work.push_back(Work::End);
            }
        }
        state.source = Some(source);
        Ok(())
    }

    fn encode(&self, index: usize, mut encoder: Box<Encoder>, work: Work) -> Result<(), RewriteError> {
        let mut chunk = None;
        match work {
            Work::Begin(writer) => encoder.writer = Some(writer),
            Work::Values(array) => {
                if let (Some(text), Some(column)) = (&mut encoder.text, self.target.columns.get(index)) {
                    text.update(column.ty, &array);
                }
                let writer = encoder.writer.as_mut().ok_or(RewriteError::Internal("a column has no writer"))?;
                for leaf in compute_leaves(self.target.arrow.field(index), &array)? {
                    writer.write(&leaf)?;
                }
            }
            Work::End => {
                let writer = encoder.writer.take().ok_or(RewriteError::Internal("a column has no writer"))?;
                chunk = Some(writer.close()?);
            }
        }
        let mut state = self.lock();
        if let Some(chunk) = chunk {
            // Columns end their row groups in order: the oldest one that lacks this column is meant.
            let group = state.closing.iter_mut().find(|group| group[index].is_none());
            group.ok_or(RewriteError::Internal("a row group is missing"))?[index] = Some(chunk);
        }
        state.columns[index].encoder = Some(encoder);
        Ok(())
    }

    fn append(
        &self,
        mut writer: Box<SerializedFileWriter<Sink>>,
        chunks: Vec<ArrowColumnChunk>,
    ) -> Result<(), RewriteError> {
        let mut group = writer.next_row_group()?;
        for chunk in chunks {
            chunk.append_to_row_group(&mut group)?;
        }
        group.close()?;
        self.lock().writer = Some(writer);
        Ok(())
    }
}

/// Stops the other thread when this one panics: it would wait for a column that nobody gives back.
struct StopOnPanic<'a>(&'a Encoding<'a>);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().error.get_or_insert(RewriteError::Internal("an encoding thread panicked"));
            self.0.wake.notify_all();
        }
    }
}

impl Source {
    fn count(&mut self, batch: &RecordBatch) {
        self.group_rows += batch.num_rows();
        self.group_bytes += batch.get_array_memory_size();
        self.rows += batch.num_rows() as i64;
        self.min_row_id = self.min_row_id.min(min(super::input::row_ids(batch)).unwrap_or(i64::MAX));
    }
}

impl State {
    /// What a free thread should do; none when it must wait for another.
    fn next_task(&mut self) -> Option<Task> {
        if self.error.is_some() {
            return Some(Task::Stop);
        }
        // Encoded row groups are memory that only appending frees.
        if self.writer.is_some() && self.closing.front().is_some_and(|group| group.iter().all(Option::is_some)) {
            let chunks = self.closing.pop_front().unwrap_or_default().into_iter().flatten().collect();
            return self.writer.take().map(|writer| Task::Append(writer, chunks));
        }
        let waiting = self.columns.iter().map(|column| column.work.len()).max().unwrap_or(0);
        let unwritten = self.closing.len() + usize::from(self.writer.is_none());
        if waiting < BATCHES_AHEAD
            && unwritten <= GROUPS_AHEAD
            && let Some(source) = self.source.take()
        {
            return Some(Task::Produce(source));
        }
        let free = self.columns.iter_mut().enumerate().filter(|(_, c)| c.encoder.is_some() && !c.work.is_empty());
        if let Some((index, column)) = free.max_by_key(|(_, column)| column.work.len()) {
            let encoder = column.encoder.take()?;
            let work = column.work.pop_front()?;
            return Some(Task::Encode(index, encoder, work));
        }
        let idle = self.columns.iter().all(|column| column.encoder.is_some() && column.work.is_empty());
        let done = self.exhausted.is_some() && idle && self.closing.is_empty() && self.writer.is_some();
        done.then_some(Task::Stop)
    }
}
