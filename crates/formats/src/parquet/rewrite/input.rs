//! One input: its plan, its local file, and its batches in the target schema.

use super::super::Column;
use super::super::binding::{Binding, Form};
use super::convert::convert;
use super::int96::{self, WholeSeconds};
use super::schema::{ROW_ID_NAME, TargetSchema};
use super::{MakeWay, RewriteError, RewriteInput, RowIds};
use crate::store::Object;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::Int64Type;
use bytes::Bytes;
use futures::StreamExt;
use hoglake_model::{ColumnType, FieldId, Root};
use object_store::ObjectStoreExt;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{Encoding, PageType, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Decoded bytes of a batch, about.
const BATCH_BYTES: u64 = 4 << 20;
const BATCH_ROWS: u64 = 16_384;
/// Rows of a batch while the rewrite makes way for others.
const SMALL_BATCH_ROWS: usize = 1_024;

/// An input whose footer was read and mapped to the live columns.
#[derive(Debug)]
pub(super) struct Input {
    pub source: RewriteInput,
    pub metadata: ArrowReaderMetadata,
    /// For each live column its leaf and that leaf's form; none where the file has no such column.
    columns: Vec<Option<(usize, Form)>>,
    row_id_leaf: Option<usize>,
}

impl Input {
    pub fn new(source: RewriteInput, metadata: ParquetMetaData, columns: &[Column]) -> Result<Self, RewriteError> {
        let path = &source.object.location;
        let rows = metadata.file_metadata().num_rows();
        if let Some(registered) = source.file.record_count
            && registered != rows
        {
            return Err(RewriteError::mismatch(path, format!("it has {rows} rows, not {registered}")));
        }
        if let Some(last) = source.deletions.as_ref().and_then(|d| d.last())
            && i64::try_from(last).is_ok_and(|last| last >= rows)
        {
            return Err(RewriteError::mismatch(path, format!("its vector deletes row {last}, it has {rows} rows")));
        }
        let schema = metadata.file_metadata().schema_descr();
        let names = if source.names.is_empty() { columns } else { &source.names };
        let named = Binding::new(schema, names).map_err(|e| RewriteError::binding(path, &e))?;
        let leaves = if named.by_name {
            let of = |column: &Column| names.iter().position(|n| n.field_id == column.field_id);
            columns.iter().map(|column| of(column).and_then(|index| named.leaves[index])).collect()
        } else {
            Binding::new(schema, columns).map_err(|e| RewriteError::binding(path, &e))?.leaves
        };
        let bound = columns
            .iter()
            .zip(leaves)
            .map(|(column, leaf)| {
                let Some(leaf) = leaf else { return Ok(None) };
                match Form::of(&schema.column(leaf), column.ty) {
                    Some(form @ (Form::Direct | Form::Millis | Form::Int96)) => Ok(Some((leaf, form))),
                    _ => Err(RewriteError::unconvertible(
                        path,
                        format!(
                            "column `{}` is stored as {:?}, not as {}",
                            column.name,
                            schema.column(leaf).self_type(),
                            column.ty
                        ),
                    )),
                }
            })
            .collect::<Result<Vec<_>, _>>()?;
        let row_id_leaf = Self::find_row_id(&source, &metadata)?;
        // Arrow types are derived from the Parquet schema alone: a writer's own Arrow schema may ask for dictionaries.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = ArrowReaderMetadata::try_new(Arc::new(metadata), options)
            .map_err(|e| RewriteError::unconvertible(path, e.to_string()))?;
        Ok(Self { metadata, columns: bound, row_id_leaf, source })
    }

    /// The leaf of the row ids, which must be there exactly when the file is registered with explicit ones.
    fn find_row_id(source: &RewriteInput, metadata: &ParquetMetaData) -> Result<Option<usize>, RewriteError> {
        let path = &source.object.location;
        let schema = metadata.file_metadata().schema_descr();
        let wanted =
            Column { field_id: FieldId::ROW_ID, name: ROW_ID_NAME.to_owned(), ty: ColumnType::Long, nullable: false };
        let binding = Binding::new(schema, &[wanted]).map_err(|e| RewriteError::binding(path, &e))?;
        match (source.row_ids, binding.leaves[0]) {
            (RowIds::Explicit, Some(leaf)) if schema.column(leaf).physical_type() == PhysicalType::INT64 => {
                Ok(Some(leaf))
            }
            (RowIds::Explicit, _) => Err(RewriteError::mismatch(path, "it carries no row ids of its own")),
            (RowIds::Positional(_), Some(_)) => {
                Err(RewriteError::mismatch(path, "it carries row ids of its own but is registered without"))
            }
            (RowIds::Positional(_), None) => Ok(None),
        }
    }

    pub fn parquet(&self) -> &ParquetMetaData {
        self.metadata.metadata()
    }

    /// Whether live column `index` is in the file and cannot be null there.
    pub fn is_required(&self, index: usize) -> bool {
        self.columns[index]
            .is_some_and(|(leaf, _)| self.parquet().file_metadata().schema_descr().column(leaf).max_def_level() == 0)
    }

    /// Whether the writer of the file encoded live column `index` by dictionary to the end, and it was worth it.
    pub fn keeps_dictionary(&self, index: usize) -> bool {
        let Some((leaf, _)) = self.columns[index] else { return false };
        let descriptor = self.parquet().file_metadata().schema_descr().column(leaf);
        let mut dictionary_pays = true;
        let mut groups = self.parquet().row_groups().iter();
        let kept = groups.all(|group| {
            let chunk = group.column(leaf);
            let dictionary = |e: Encoding| matches!(e, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
            // A dictionary of mostly different values is larger than the values themselves.
            if let Some(plain) = plain_bytes(&descriptor, chunk) {
                dictionary_pays &= chunk.uncompressed_size() < plain / 4 * 3;
            }
            match (chunk.page_encoding_stats_mask(), chunk.page_encoding_stats()) {
                (Some(mask), _) => mask.encodings().all(dictionary),
                (None, Some(pages)) => {
                    pages.iter().all(|p| p.page_type == PageType::DICTIONARY_PAGE || dictionary(p.encoding))
                }
                // Nothing is said: the dictionary page's presence is all there is.
                (None, None) => chunk.dictionary_page_offset().is_some(),
            }
        });
        kept && dictionary_pays
    }

    /// The range of the file's row ids when they ascend through it, as far as its metadata says.
    pub fn ascending_row_ids(&self) -> Option<(i64, i64)> {
        let rows = self.parquet().file_metadata().num_rows();
        let Some(leaf) = self.row_id_leaf else {
            let RowIds::Positional(first) = self.source.row_ids else { return None };
            return Some((first, first.checked_add(rows)?));
        };
        let mut range: Option<(i64, i64)> = None;
        for group in self.parquet().row_groups() {
            let declared = group.sorting_columns().and_then(|columns| columns.first())?;
            if usize::try_from(declared.column_idx) != Ok(leaf) || declared.descending {
                return None;
            }
            let Some(Statistics::Int64(statistics)) = group.column(leaf).statistics() else { return None };
            let (min, max) = (*statistics.min_opt()?, *statistics.max_opt()?);
            range = match range {
                Some((_, end)) if min < end => return None,
                Some((begin, _)) => Some((begin, max.checked_add(1)?)),
                None => Some((min, max.checked_add(1)?)),
            };
        }
        range.or(Some((0, 0)))
    }

    /// Rows that one batch holds.
    fn batch_rows(&self, make_way: &MakeWay) -> usize {
        let rows = u64::try_from(self.parquet().file_metadata().num_rows()).unwrap_or(0).max(1);
        let bytes: i64 = self.parquet().row_groups().iter().map(|g| g.total_byte_size().max(0)).sum();
        let row_bytes = (u64::try_from(bytes).unwrap_or(0) / rows).max(1);
        let rows = usize::try_from((BATCH_BYTES / row_bytes).clamp(1, BATCH_ROWS)).unwrap_or(1);
        make_way.step(rows, SMALL_BATCH_ROWS)
    }

    /// Opens the batches of `file`.
    pub fn read(
        self: Arc<Self>,
        file: LocalFile,
        target: Arc<TargetSchema>,
        make_way: &MakeWay,
    ) -> Result<InputBatches, RewriteError> {
        let batch_rows = self.batch_rows(make_way);
        let path = self.source.object.location.clone();
        self.open(file, target, batch_rows).map_err(|error| error.of_input(path))
    }

    fn open(
        self: Arc<Self>,
        file: LocalFile,
        target: Arc<TargetSchema>,
        batch_rows: usize,
    ) -> Result<InputBatches, RewriteError> {
        let schema = self.parquet().file_metadata().schema_descr();
        let mut leaves: Vec<usize> = self.columns.iter().flatten().map(|(leaf, _)| *leaf).collect();
        leaves.extend(self.row_id_leaf);
        leaves.sort_unstable();
        leaves.dedup();
        let mut long: Vec<usize> =
            self.columns.iter().flatten().filter(|(_, form)| *form == Form::Int96).map(|(leaf, _)| *leaf).collect();
        long.sort_unstable();
        let whole_seconds = match long.is_empty() {
            true => None,
            false => Some(WholeSeconds::open(file.clone(), &self.metadata, long, batch_rows)?),
        };
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_projection(ProjectionMask::leaves(schema, leaves.iter().copied()))
            .with_batch_size(batch_rows)
            .build()?;
        Ok(InputBatches { input: self, target, leaves, reader, whole_seconds, position: 0 })
    }
}

/// Bytes that the values of a chunk would take without any encoding, as far as its metadata says.
fn plain_bytes(descriptor: &ColumnDescriptor, chunk: &ColumnChunkMetaData) -> Option<i64> {
    let width = match descriptor.physical_type() {
        PhysicalType::INT32 | PhysicalType::FLOAT => 4,
        PhysicalType::INT64 | PhysicalType::DOUBLE => 8,
        PhysicalType::FIXED_LEN_BYTE_ARRAY => i64::from(descriptor.type_length()),
        PhysicalType::BYTE_ARRAY => {
            return chunk.unencoded_byte_array_data_bytes()?.checked_add(chunk.num_values().checked_mul(4)?);
        }
        PhysicalType::BOOLEAN | PhysicalType::INT96 => return None,
    };
    chunk.num_values().checked_mul(width)
}

/// The surviving rows of one input, in file order.
pub(super) struct InputBatches {
    input: Arc<Input>,
    target: Arc<TargetSchema>,
    leaves: Vec<usize>,
    reader: ParquetRecordBatchReader,
    /// Of the columns that are stored as `INT96`.
    whole_seconds: Option<WholeSeconds>,
    position: u64,
}

impl InputBatches {
    fn convert(&mut self, batch: &RecordBatch) -> Result<RecordBatch, RewriteError> {
        let rows = batch.num_rows();
        let seconds = self.whole_seconds.as_mut().map(|whole| whole.next(rows)).transpose()?;
        let seconds = self.whole_seconds.as_ref().zip(seconds.as_ref());
        let path = &self.input.source.object.location;
        let column = |leaf: usize| self.leaves.binary_search(&leaf).ok().and_then(|i| batch.columns().get(i));
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.target.arrow.fields().len());
        for (bound, field) in self.input.columns.iter().zip(self.target.arrow.fields()) {
            arrays.push(match bound {
                None => new_null_array(field.data_type(), rows),
                Some((leaf, form)) => {
                    let array = column(*leaf).ok_or(RewriteError::Internal("a projected column is missing"))?;
                    let missing = RewriteError::Internal("a projected column is missing");
                    let converted = match *form {
                        Form::Int96 => {
                            let seconds =
                                seconds.and_then(|(whole, batch)| whole.column(batch, *leaf)).ok_or(missing)?;
                            int96::micros(array, seconds, field.data_type())
                        }
                        form => convert(array, field.data_type(), form),
                    };
                    converted
                        .map_err(|e| RewriteError::unconvertible(path, format!("column `{}`: {e}", field.name())))?
                }
            });
        }
        let begin = self.position;
        self.position += rows as u64;
        arrays.push(match (self.input.row_id_leaf, self.input.source.row_ids) {
            (Some(leaf), _) => {
                let ids = column(leaf).ok_or(RewriteError::Internal("a projected column is missing"))?;
                if ids.null_count() > 0 {
                    return Err(RewriteError::mismatch(path, "it has a row without a row id"));
                }
                Arc::clone(ids)
            }
            (None, RowIds::Positional(first)) => {
                let first = i64::try_from(begin)
                    .ok()
                    .and_then(|begin| first.checked_add(begin))
                    .filter(|first| first.checked_add(rows as i64).is_some())
                    .ok_or_else(|| RewriteError::mismatch(path, "its row ids leave the 64-bit range"))?;
                Arc::new(Int64Array::from_iter_values(first..first + rows as i64))
            }
            (None, RowIds::Explicit) => return Err(RewriteError::Internal("row ids were not found")),
        });
        let batch = RecordBatch::try_new(Arc::clone(&self.target.arrow), arrays)?;
        let Some(deletions) = &self.input.source.deletions else { return Ok(batch) };
        let mut deleted = deletions.range(begin, self.position).peekable();
        if deleted.peek().is_none() {
            return Ok(batch);
        }
        let mut kept = vec![true; rows];
        deleted.for_each(|position| kept[(position - begin) as usize] = false);
        Ok(filter_record_batch(&batch, &BooleanArray::new(BooleanBuffer::from(kept), None))?)
    }
}

impl Iterator for InputBatches {
    type Item = Result<RecordBatch, RewriteError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.reader.next()?.map_err(RewriteError::from).and_then(|batch| self.convert(&batch));
        Some(batch.map_err(|error| error.of_input(&self.input.source.object.location)))
    }
}

/// The row ids of a batch in the target schema.
pub(super) fn row_ids(batch: &RecordBatch) -> &Int64Array {
    batch.column(batch.num_columns() - 1).as_primitive::<Int64Type>()
}

/// A whole input on local disk, read by position: page by page, from any thread.
#[derive(Debug, Clone)]
pub(super) struct LocalFile {
    file: Arc<File>,
    length: u64,
}

impl LocalFile {
    /// The file itself where it is local, else a temporary copy without a name.
    pub async fn open(object: &Object, directory: PathBuf) -> Result<Self, RewriteError> {
        if *object.location.root() == Root::Local {
            let path = format!("/{}", object.location.key());
            let file = tokio::task::spawn_blocking(move || File::open(path)).await;
            let file = file.map_err(io::Error::other).flatten().map_err(RewriteError::Spill)?;
            let length = file.metadata().map_err(RewriteError::Spill)?.len();
            return Ok(Self { file: Arc::new(file), length });
        }
        let mut copy = tempfile::tempfile_in(directory).map_err(RewriteError::Spill)?;
        let mut length = 0;
        let body = object.store.get(&object.path).await.map_err(|e| object.error(e))?;
        let expected = body.meta.size;
        let mut chunks = body.into_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|e| object.error(e))?;
            length += chunk.len() as u64;
            copy.write_all(&chunk).map_err(RewriteError::Spill)?;
        }
        if length != expected {
            return Err(RewriteError::mismatch(&object.location, "the store sent fewer bytes than it has"));
        }
        Ok(Self { file: Arc::new(copy), length })
    }
}

impl Length for LocalFile {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for LocalFile {
    type T = BufReader<ReadAt>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(ReadAt { file: Arc::clone(&self.file), position: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // Lengths come from page headers: none may allocate more than the file has.
        if start.checked_add(length as u64).is_none_or(|end| end > self.length) {
            return Err(ParquetError::EOF("a page lies beyond the end of the file".to_owned()));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

/// A reader at a position of its own.
#[derive(Debug)]
pub(super) struct ReadAt {
    file: Arc<File>,
    position: u64,
}

impl Read for ReadAt {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}
