//! Timestamps of twelve bytes, as Spark, Hive and Impala write them: exact microseconds or none.
//!
//! The format's reader gives them as 64-bit nanoseconds, which hold the years 1677 to 2262 and wrap beyond. Read once more
//! as whole seconds, which never wrap, nothing is lost.

use super::RewriteError;
use super::input::LocalFile;
use arrow::array::types::{TimestampMicrosecondType, TimestampNanosecondType, TimestampSecondType};
use arrow::array::{ArrayRef, AsArray, PrimitiveArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use arrow::error::ArrowError;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use std::sync::Arc;

const NANOS: i64 = 1_000_000_000;

/// The whole seconds of a file's twelve-byte timestamps, batch by batch.
pub(super) struct WholeSeconds {
    reader: ParquetRecordBatchReader,
    leaves: Vec<usize>,
}

impl WholeSeconds {
    /// Reads `leaves`, which are top-level columns, ascending, in batches of `batch_rows`.
    pub fn open(
        file: LocalFile,
        metadata: &ArrowReaderMetadata,
        leaves: Vec<usize>,
        batch_rows: usize,
    ) -> Result<Self, RewriteError> {
        let parquet = metadata.parquet_schema();
        let roots: Vec<usize> = leaves.iter().map(|leaf| parquet.get_column_root_idx(*leaf)).collect();
        let fields = metadata.schema().fields().iter().enumerate().map(|(index, field)| {
            if roots.contains(&index) {
                Arc::new(Field::new(field.name(), DataType::Timestamp(TimeUnit::Second, None), field.is_nullable()))
            } else {
                Arc::clone(field)
            }
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true).with_schema(schema);
        let mask = ProjectionMask::leaves(parquet, leaves.iter().copied());
        let metadata = ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options)?;
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
            .with_projection(mask)
            .with_batch_size(batch_rows)
            .build()?;
        Ok(Self { reader, leaves })
    }

    /// The next batch, which has as many rows as that of the other columns.
    pub fn next(&mut self, rows: usize) -> Result<RecordBatch, RewriteError> {
        let batch = self.reader.next().transpose()?;
        batch.filter(|batch| batch.num_rows() == rows).ok_or(RewriteError::Internal("batches of one file differ"))
    }

    /// The column of a batch that holds `leaf`.
    pub fn column<'a>(&self, batch: &'a RecordBatch, leaf: usize) -> Option<&'a ArrayRef> {
        self.leaves.binary_search(&leaf).ok().and_then(|index| batch.columns().get(index))
    }
}

/// Microseconds, from nanoseconds that may have wrapped and whole seconds.
///
/// # Errors
/// When a value is no whole number of microseconds, is out of their range, or has a time of day below zero.
pub(super) fn micros(nanos: &ArrayRef, seconds: &ArrayRef, target: &DataType) -> Result<ArrayRef, ArrowError> {
    let DataType::Timestamp(TimeUnit::Microsecond, zone) = target else {
        return Err(ArrowError::CastError(format!("a timestamp is no {target}")));
    };
    let nanos: &PrimitiveArray<TimestampNanosecondType> =
        nanos.as_primitive_opt().ok_or_else(|| ArrowError::CastError("nanoseconds were expected".to_owned()))?;
    let seconds: &PrimitiveArray<TimestampSecondType> =
        seconds.as_primitive_opt().ok_or_else(|| ArrowError::CastError("seconds were expected".to_owned()))?;
    let values = nanos.iter().zip(seconds.iter()).map(|pair| match pair {
        (Some(nanos), Some(seconds)) => exact(nanos, seconds).map(Some).ok_or_else(|| {
            ArrowError::ComputeError(format!("a timestamp near second {seconds} is no 64-bit number of microseconds"))
        }),
        _ => Ok(None),
    });
    let micros = values.collect::<Result<PrimitiveArray<TimestampMicrosecondType>, _>>()?;
    Ok(Arc::new(micros.with_timezone_opt(zone.clone())))
}

fn exact(nanos: i64, seconds: i64) -> Option<i64> {
    // both wrap alike, so that what is left is the part below a second
    let below = nanos.wrapping_sub(seconds.wrapping_mul(NANOS));
    if !(0..NANOS).contains(&below) || below % 1000 != 0 {
        return None;
    }
    seconds.checked_mul(1_000_000)?.checked_add(below / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_are_exact_or_none() {
        assert_eq!(exact(0, 0), Some(0));
        assert_eq!(exact(-1_000, -1), Some(-1));
        assert_eq!(exact(-1_000, 0), None, "a time of day below zero");
        assert_eq!(exact(-NANOS + 5_000, -1), Some(-999_995));
        assert_eq!(exact(1_500, 0), None);
        // the year 9999 and the year 1, whose nanoseconds have wrapped
        for (seconds, below) in [(253_402_300_799_i64, 999_999_000_i64), (-62_135_596_800, 1_000)] {
            let wrapped = seconds.wrapping_mul(NANOS).wrapping_add(below);
            assert!(seconds.checked_mul(NANOS).is_none());
            assert_eq!(exact(wrapped, seconds), Some(seconds * 1_000_000 + below / 1000));
        }
        let day = i64::from(i32::MAX) * 86_400;
        assert_eq!(exact(day.wrapping_mul(NANOS), day), None, "beyond what microseconds hold");
    }
}
