//! A Parquet file of an object store read page by page: the columns that are read take the memory of a window each, not
//! of their row group, which some writers make as large as the file.

use super::ParquetObject;
use bytes::{Buf, Bytes, BytesMut};
use object_store::ObjectStoreExt;
use parquet::arrow::ProjectionMask;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, Length};
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// What all windows of a file take together, about; each is fetched while the one before it is read.
const WINDOWS_BYTES: u64 = 16 << 20;
/// Smaller requests are not worth it.
const LEAST_WINDOW: u64 = 128 << 10;
const LARGEST_WINDOW: u64 = 4 << 20;
/// What is read ahead for the header of a page.
const HEADER_BYTES: u64 = 4 << 10;

/// A Parquet file whose footer is known.
#[derive(Debug, Clone)]
pub struct OpenParquet {
    pub(super) object: ParquetObject,
    pub(super) metadata: Arc<ParquetMetaData>,
    /// Its bytes where they are local.
    pub(super) file: Option<Arc<File>>,
    pub(super) size: u64,
}

/// How many requests a column chunk may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requests {
    /// As many as bounded memory needs.
    AsNeeded,
    /// At most so many, however large it is.
    AtMost(u64),
}

/// The pages of some columns.
///
/// # Locks
/// Reading blocks: only threads that may wait read from it.
#[derive(Debug, Clone)]
pub struct ParquetPages(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    open: OpenParquet,
    runtime: Handle,
    /// Column chunks by position.
    chunks: Vec<Chunk>,
    /// The first failure of the store; on its way through a decoder it becomes a mere sentence.
    failure: Mutex<Option<object_store::Error>>,
}

#[derive(Debug)]
struct Chunk {
    range: Range<u64>,
    group: usize,
    step: u64,
    window: Mutex<Window>,
}

/// The part of a chunk that is in memory, and the next one under way.
#[derive(Debug, Default)]
struct Window {
    begin: u64,
    bytes: Bytes,
    next: Option<Fetch>,
}

/// A request under way; it ends when nobody waits for it.
#[derive(Debug)]
struct Fetch {
    begin: u64,
    task: JoinHandle<object_store::Result<Bytes>>,
}

impl OpenParquet {
    /// The footer.
    pub const fn metadata(&self) -> &Arc<ParquetMetaData> {
        &self.metadata
    }

    /// The pages of the columns of `mask`.
    ///
    /// # Errors
    /// For a footer that places columns outside the file.
    pub fn pages(&self, mask: &ProjectionMask, requests: Requests) -> Result<ParquetPages> {
        let leaves = self.metadata.file_metadata().schema_descr().num_columns();
        let leaves: Vec<_> = (0..leaves).filter(|leaf| mask.leaf_included(*leaf)).collect();
        let share = WINDOWS_BYTES / u64::try_from(leaves.len()).unwrap_or(u64::MAX).max(1) / 2;
        let share = share.clamp(LEAST_WINDOW, LARGEST_WINDOW);
        let mut chunks = Vec::new();
        for (group, columns) in self.metadata.row_groups().iter().enumerate() {
            for leaf in &leaves {
                let (begin, length) = columns.column(*leaf).byte_range();
                let end = begin.checked_add(length).filter(|end| *end <= self.size);
                let end =
                    end.ok_or_else(|| ParquetError::EOF("a column lies beyond the end of the file".to_owned()))?;
                let step = match requests {
                    Requests::AsNeeded => share,
                    Requests::AtMost(requests) => share.max(length.div_ceil(requests.max(1))),
                };
                chunks.push(Chunk { range: begin..end, group, step, window: Mutex::default() });
            }
        }
        chunks.sort_by_key(|chunk| chunk.range.start);
        let inner = Inner { open: self.clone(), runtime: Handle::current(), chunks, failure: Mutex::default() };
        Ok(ParquetPages(Arc::new(inner)))
    }
}

impl ParquetPages {
    /// What went wrong: the store's own word where it was the store.
    pub fn error(&self, error: ParquetError) -> ParquetError {
        lock(&self.0.failure).take().map_or(error, |failure| ParquetError::External(Box::new(failure)))
    }
}

impl Inner {
    /// Bytes of one column chunk.
    fn read(&self, start: u64, length: u64) -> Result<Bytes> {
        let beyond = || ParquetError::EOF("a page lies beyond the end of its column".to_owned());
        let end = start.checked_add(length).ok_or_else(beyond)?;
        let next = self.chunks.partition_point(|chunk| chunk.range.start <= start);
        // Chunks of length zero may begin where another does.
        let chunk = self.chunks[..next].iter().rev().find(|chunk| end <= chunk.range.end).ok_or_else(beyond)?;
        let whole = chunk.range.end - chunk.range.start;
        if let Some(file) = self.open.file.as_ref().filter(|_| whole > LEAST_WINDOW) {
            return read_at(file, start, length);
        }
        let mut window = lock(&chunk.window);
        match &self.open.file {
            // Many columns of a checkpoint are a few bytes in a few pages.
            Some(file) if window.bytes.is_empty() => {
                *window =
                    Window { begin: chunk.range.start, bytes: read_at(file, chunk.range.start, whole)?, next: None };
            }
            Some(_) => {}
            None => self.cover(chunk, &mut window, start..end)?,
        }
        let from = usize::try_from(start - window.begin).map_err(|_| beyond())?;
        let length = usize::try_from(length).map_err(|_| beyond())?;
        Ok(window.bytes.slice(from..from + length))
    }

    /// Moves a window so that it covers `wanted`.
    fn cover(&self, chunk: &Chunk, window: &mut Window, wanted: Range<u64>) -> Result<()> {
        if window.bytes.is_empty() && window.next.is_none() {
            self.begin(chunk, window)?;
        }
        let end = |window: &Window| window.begin + window.bytes.len() as u64;
        if wanted.start < window.begin || wanted.start > end(window) {
            *window = Window { begin: wanted.start, ..Window::default() };
        }
        if wanted.end <= end(window) {
            return Ok(());
        }
        let gone = usize::try_from(wanted.start - window.begin).unwrap_or(usize::MAX);
        let mut bytes = BytesMut::from(&window.bytes[gone.min(window.bytes.len())..]);
        (window.begin, window.bytes) = (wanted.start, Bytes::new());
        while window.begin + (bytes.len() as u64) < wanted.end {
            let at = window.begin + bytes.len() as u64;
            let more = match window.next.take() {
                Some(fetch) if fetch.begin == at => self.wait(fetch)?,
                _ => self.wait(self.fetch(chunk, at, wanted.end - at))?,
            };
            if more.is_empty() {
                return Err(ParquetError::EOF("the store sent fewer bytes than it has".to_owned()));
            }
            bytes.extend_from_slice(&more);
        }
        window.bytes = bytes.freeze();
        self.ahead(chunk, window);
        Ok(())
    }

    /// The first windows of all chunks of a row group, in one request where they are near each other.
    fn begin(&self, chunk: &Chunk, window: &mut Window) -> Result<()> {
        let first = |chunk: &Chunk| chunk.range.start..chunk.range.end.min(chunk.range.start + chunk.step);
        let mut ranges = vec![first(chunk)];
        let mut others = Vec::new();
        for other in self.chunks.iter().filter(|other| other.group == chunk.group && !std::ptr::eq(*other, chunk)) {
            // Locked by another reader: it fetches for itself.
            let Ok(held) = other.window.try_lock() else { continue };
            if held.bytes.is_empty() && held.next.is_none() && !other.range.is_empty() {
                ranges.push(first(other));
                others.push((other, held));
            }
        }
        let object = &self.open.object;
        let fetched =
            self.runtime.block_on(object.store.get_ranges(&object.path, &ranges)).map_err(|e| self.fail(e))?;
        let mut fetched = fetched.into_iter();
        (window.begin, window.bytes) = (chunk.range.start, fetched.next().unwrap_or_default());
        self.ahead(chunk, window);
        for ((other, mut held), bytes) in others.into_iter().zip(fetched) {
            (held.begin, held.bytes) = (other.range.start, bytes);
            self.ahead(other, &mut held);
        }
        Ok(())
    }

    /// Begins to fetch what follows a window.
    fn ahead(&self, chunk: &Chunk, window: &mut Window) {
        let end = window.begin + window.bytes.len() as u64;
        if end < chunk.range.end && !window.bytes.is_empty() {
            window.next = Some(self.fetch(chunk, end, 1));
        }
    }

    fn fetch(&self, chunk: &Chunk, begin: u64, least: u64) -> Fetch {
        let end = chunk.range.end.min(begin.saturating_add(chunk.step.max(least)));
        let ParquetObject { store, path, .. } = self.open.object.clone();
        let read = async move { store.get_range(&path, begin..end).await };
        Fetch { begin, task: self.runtime.spawn(read) }
    }

    fn wait(&self, mut fetch: Fetch) -> Result<Bytes> {
        match self.runtime.block_on(&mut fetch.task) {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(error)) => Err(self.fail(error)),
            Err(error) => Err(ParquetError::General(error.to_string())),
        }
    }

    fn fail(&self, error: object_store::Error) -> ParquetError {
        let text = error.to_string();
        lock(&self.failure).get_or_insert(error);
        ParquetError::General(text)
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read_at(file: &File, start: u64, length: u64) -> Result<Bytes> {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes.into())
}

impl Length for ParquetPages {
    fn len(&self) -> u64 {
        self.0.open.size
    }
}

impl ChunkReader for ParquetPages {
    type T = PageHeader;

    fn get_read(&self, start: u64) -> Result<PageHeader> {
        Ok(PageHeader { pages: Arc::clone(&self.0), position: start, ahead: Bytes::new() })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.0.read(start, length as u64)
    }
}

/// Reads the header of a page, whose length only its end tells.
#[derive(Debug)]
pub struct PageHeader {
    pages: Arc<Inner>,
    position: u64,
    ahead: Bytes,
}

impl Read for PageHeader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ahead.is_empty() {
            let next = self.pages.chunks.partition_point(|chunk| chunk.range.start <= self.position);
            let ends = self.pages.chunks[..next].iter().rev().map(|chunk| chunk.range.end);
            let left = ends.map(|end| end.saturating_sub(self.position)).find(|left| *left > 0).unwrap_or(0);
            self.ahead = self.pages.read(self.position, left.min(HEADER_BYTES)).map_err(io::Error::other)?;
            self.position += self.ahead.len() as u64;
        }
        let length = buffer.len().min(self.ahead.len());
        self.ahead.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::TableRoot;
    use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
    use arrow::datatypes::Int64Type;
    use hoglake_model::Location;
    use hoglake_model::table::FilePath;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
    use parquet::file::properties::WriterProperties;

    const ROWS: i64 = 200_000;

    fn text(n: i64) -> String {
        format!("{n:08}-{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed()))
    }

    fn file() -> Bytes {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..ROWS).map(text)));
        let batch = RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap();
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_data_page_row_count_limit(3_000)
            .set_max_row_group_row_count(Some(150_000))
            .build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap().into()
    }

    async fn open(bytes: Bytes) -> OpenParquet {
        let store = InMemory::new();
        store.put(&Path::from("t/f.parquet"), bytes.into()).await.unwrap();
        let root = TableRoot::with_store(Arc::new(store), Location::parse("s3://b/t").unwrap());
        root.parquet(&FilePath::Under("f.parquet".into()), None).unwrap().open().await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn all_pages_come_in_order_through_windows() {
        let open = open(file()).await;
        assert!(open.file.is_none() && open.metadata().num_row_groups() == 2);
        for requests in [Requests::AsNeeded, Requests::AtMost(2)] {
            let pages = open.pages(&ProjectionMask::all(), requests).unwrap();
            let most = pages.0.chunks.iter().map(|c| (c.range.end - c.range.start).div_ceil(c.step)).max().unwrap();
            assert!(if requests == Requests::AtMost(2) { most <= 2 } else { most > 1 }, "{most}");
            let metadata = ArrowReaderMetadata::try_new(Arc::clone(open.metadata()), Default::default()).unwrap();
            let read = move || {
                let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(pages, metadata);
                let mut next = 0;
                for batch in builder.with_batch_size(1000).build().unwrap() {
                    let batch = batch.unwrap();
                    let numbers = batch.column(0).as_primitive::<Int64Type>();
                    for (n, t) in numbers.values().iter().zip(batch.column(1).as_string::<i32>()) {
                        assert_eq!((*n, t), (next, Some(text(next).as_str())));
                        next += 1;
                    }
                }
                next
            };
            assert_eq!(tokio::task::spawn_blocking(read).await.unwrap(), ROWS);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_failing_store_is_not_taken_for_a_damaged_file() {
        let open = open(file()).await;
        let ParquetObject { store, path, .. } = open.object.clone();
        store.delete(&path).await.unwrap();
        let pages = open.pages(&ProjectionMask::all(), Requests::AsNeeded).unwrap();
        let failed = tokio::task::spawn_blocking(move || {
            let error = pages.get_bytes(4, 100).unwrap_err();
            pages.error(error)
        });
        let failed = crate::sync::Error::parquet("f", &failed.await.unwrap());
        assert!(failed.is_not_found(), "{failed}");
    }
}
