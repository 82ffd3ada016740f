//! An Arrow IPC stream for each batch of rows: schema, one batch, end. Each can be read alone.

use crate::parquet::rewrite::rows::row_id_schema;
use arrow::array::types::Int64Type;
use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use std::sync::Arc;

/// How large the batches of a record are made.
const TARGET_BYTES: usize = 256 << 10;

/// A row that is larger than a record may be.
#[derive(Debug, thiserror::Error)]
pub enum IpcError {
    /// One row alone is too large.
    #[error("row {row_id} makes a record of {bytes} bytes; {limit} are allowed")]
    TooLarge {
        /// The row.
        row_id: i64,
        /// Its record.
        bytes: usize,
        /// Largest record.
        limit: usize,
    },
    /// A batch cannot be encoded.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// Cuts `batch`, whose last column is the row id, into records of at most `limit` bytes and hands each to `emit`, with
/// the first row id in it. The cuts depend on the batch and the limit alone.
///
/// # Errors
/// [`IpcError`]; what `emit` returns.
pub fn encode<E: From<IpcError>>(
    batch: &RecordBatch,
    limit: usize,
    mut emit: impl FnMut(i64, Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let rows = batch.num_rows();
    let bytes = batch.columns().iter().map(|c| c.to_data().get_slice_memory_size().unwrap_or(0)).sum::<usize>();
    let row_bytes = (bytes / rows.max(1)).max(1);
    let step = (TARGET_BYTES.min(limit) / row_bytes).clamp(1, rows.max(1));
    let mut waiting: Vec<(usize, usize)> =
        (0..rows).step_by(step).map(|begin| (begin, step.min(rows - begin))).rev().collect();
    while let Some((begin, length)) = waiting.pop() {
        let part = batch.slice(begin, length);
        let record = stream(&part).map_err(IpcError::from)?;
        let first = row_ids(&part).map_or(0, |ids| ids.value(0));
        if record.len() <= limit {
            emit(first, record)?;
        } else if length == 1 {
            return Err(IpcError::TooLarge { row_id: first, bytes: record.len(), limit }.into());
        } else {
            waiting.push((begin + length / 2, length - length / 2));
            waiting.push((begin, length / 2));
        }
    }
    Ok(())
}

/// A batch of row ids alone: what a record of deletes carries.
///
/// # Errors
/// [`IpcError::Arrow`].
pub fn deletes(row_ids: Vec<i64>) -> Result<RecordBatch, IpcError> {
    Ok(RecordBatch::try_new(row_id_schema(), vec![Arc::new(Int64Array::from(row_ids))])?)
}

fn row_ids(batch: &RecordBatch) -> Option<&Int64Array> {
    batch.columns().last()?.as_primitive_opt::<Int64Type>()
}

fn stream(batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::with_capacity(TARGET_BYTES + (16 << 10)), batch.schema_ref())?;
    writer.write(batch)?;
    writer.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringArray;
    use arrow::compute::concat_batches;
    use arrow::datatypes::{DataType, Field, Schema};
    use arrow::ipc::reader::StreamReader;

    fn batch(rows: i64, text: &str) -> RecordBatch {
        let schema = Schema::new(vec![Field::new("s", DataType::Utf8, true), row_id_schema().field(0).clone()]);
        let texts = StringArray::from_iter_values((0..rows).map(|row| format!("{text}{row}")));
        let ids = Int64Array::from_iter_values(1000..1000 + rows);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(texts), Arc::new(ids)]).unwrap()
    }

    fn records(batch: &RecordBatch, limit: usize) -> Result<Vec<(i64, Vec<u8>)>, IpcError> {
        let mut records = Vec::new();
        encode(batch, limit, |first, record| {
            records.push((first, record));
            Ok::<_, IpcError>(())
        })?;
        Ok(records)
    }

    #[test]
    fn records_are_streams_of_their_own_and_together_the_batch() {
        let whole = batch(20_000, "some text that makes rows longer ");
        let made = records(&whole, 1_000_000).unwrap();
        assert!(made.len() > 3, "{}", made.len());
        let mut parts = Vec::new();
        for (first, record) in &made {
            let read: Vec<_> = StreamReader::try_new(record.as_slice(), None).unwrap().map(Result::unwrap).collect();
            assert_eq!(read.len(), 1);
            assert_eq!(row_ids(&read[0]).unwrap().value(0), *first);
            assert_eq!(read[0].schema().field(1).metadata()["PARQUET:field_id"], "2147483646");
            parts.extend(read);
        }
        assert_eq!(concat_batches(&whole.schema(), &parts).unwrap(), whole);
        assert_eq!(records(&whole, 1_000_000).unwrap(), made, "the same again");
    }

    #[test]
    fn a_record_that_is_too_large_is_cut_down_to_one_row() {
        let whole = batch(64, &"x".repeat(2_000));
        let made = records(&whole, 4_000).unwrap();
        assert_eq!(made.len(), 64);
        assert!(made.iter().all(|(_, record)| record.len() <= 4_000));
        let error = records(&whole, 2_000).unwrap_err();
        assert!(matches!(error, IpcError::TooLarge { row_id: 1000, .. }), "{error}");
    }

    #[test]
    fn deletes_carry_row_ids() {
        let made = records(&deletes(vec![3, 5]).unwrap(), 10_000).unwrap();
        let read = StreamReader::try_new(made[0].1.as_slice(), None).unwrap().next().unwrap().unwrap();
        assert_eq!((made[0].0, read.num_columns(), row_ids(&read).unwrap().values().to_vec()), (3, 1, vec![3, 5]));
    }
}
