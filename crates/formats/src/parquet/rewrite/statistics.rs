//! Exact statistics of an output column: what its writer counted, and the bounds of text, which footers cut short.

use super::super::Column;
use super::super::statistics::{MAX_BOUND_BYTES, column_stats};
use super::RewriteError;
use arrow::array::types::ByteArrayType;
use arrow::array::{Array, ArrayRef, AsArray, GenericByteArray};
use hoglake_model::{Bounds, ColumnStats, ColumnType, Datum};
use parquet::file::metadata::ParquetMetaData;

/// The smallest and largest value of a `string` or `binary` column, folded while it is encoded.
#[derive(Debug, Default)]
pub(super) struct TextBounds {
    extremes: Option<(Vec<u8>, Vec<u8>)>,
}

impl TextBounds {
    /// For a column whose bounds a footer may cut short; none for any other.
    pub fn of(ty: ColumnType) -> Option<Self> {
        matches!(ty, ColumnType::String | ColumnType::Binary).then(Self::default)
    }

    /// Folds a batch, which is in the column's own Arrow type.
    pub fn update(&mut self, ty: ColumnType, array: &ArrayRef) {
        let found = if ty == ColumnType::String {
            extremes(array.as_string::<i32>())
        } else {
            extremes(array.as_binary::<i32>())
        };
        let Some((low, high)) = found else { return };
        match &mut self.extremes {
            None => self.extremes = Some((low.to_vec(), high.to_vec())),
            Some((lowest, highest)) => {
                if low < lowest.as_slice() {
                    low.clone_into(lowest);
                }
                if high > highest.as_slice() {
                    high.clone_into(highest);
                }
            }
        }
    }

    fn finish(self, ty: ColumnType) -> Bounds {
        let Some((low, high)) = &self.extremes else { return Bounds::UNKNOWN };
        let datum = |bytes| Datum::decode(ty, bytes).ok();
        Bounds::from_datums(datum(low), datum(high)).truncated(ty, MAX_BOUND_BYTES)
    }
}

/// Statistics of the column that is leaf `index` of a file that was just written.
pub(super) fn written(
    metadata: &ParquetMetaData,
    index: usize,
    column: &Column,
    text: Option<TextBounds>,
) -> Result<ColumnStats, RewriteError> {
    let missing = RewriteError::Internal("a column was written without statistics");
    let mut statistics = column_stats(metadata, index, column).ok_or(missing)?;
    if let Some(text) = text {
        statistics.bounds = text.finish(column.ty);
    }
    Ok(statistics)
}

/// The smallest and largest value by unsigned bytes. Most comparisons are decided by eight bytes that are at hand.
fn extremes<T: ByteArrayType>(array: &GenericByteArray<T>) -> Option<(&[u8], &[u8])> {
    let mut values = (0..array.len()).filter(|i| array.is_valid(*i)).map(|i| {
        let value: &[u8] = array.value(i).as_ref();
        (first_word(value), value)
    });
    let first = values.next()?;
    let (mut low, mut high) = (first, first);
    for value in values {
        if value < low {
            low = value;
        } else if value > high {
            high = value;
        }
    }
    Some((low.1, high.1))
}

/// The first eight bytes as a number that compares as they do, short values padded: equal ones compare whole.
fn first_word(value: &[u8]) -> u64 {
    match value.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => value.iter().enumerate().fold(0, |word, (i, byte)| word | u64::from(*byte) << (56 - 8 * i)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::BinaryArray;
    use std::sync::Arc;

    #[test]
    fn bounds_are_those_of_all_bytes() {
        let values: [&[u8]; 9] = [
            b"abcdefgh",
            b"abcdefg",
            b"abcdefgh\0",
            b"abcdefg\0",
            b"\xff",
            b"\xff\0\0\0\0\0\0\0\0",
            b"\0",
            b"",
            b"\0\0\0\0\0\0\0\0",
        ];
        for begin in 0..values.len() {
            for end in begin + 1..=values.len() {
                let part = &values[begin..end];
                let mut bounds = TextBounds::of(ColumnType::Binary).unwrap();
                for value in part {
                    let array: ArrayRef = Arc::new(BinaryArray::from_iter([None, Some(*value), None]));
                    bounds.update(ColumnType::Binary, &array);
                }
                let together: ArrayRef = Arc::new(BinaryArray::from_iter_values(part));
                let mut at_once = TextBounds::default();
                at_once.update(ColumnType::Binary, &together);
                let expected = (part.iter().min().unwrap().to_vec(), part.iter().max().unwrap().to_vec());
                assert_eq!(bounds.extremes.as_ref(), Some(&expected));
                assert_eq!(at_once.extremes, Some(expected));
            }
        }
        assert!(TextBounds::of(ColumnType::Long).is_none());
        assert!(TextBounds::default().finish(ColumnType::String).is_unknown());
    }
}
