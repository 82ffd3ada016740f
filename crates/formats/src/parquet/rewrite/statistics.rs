//! Exact statistics of an output column, folded while it is encoded.

use super::super::Column;
use super::super::statistics::MAX_BOUND_BYTES;
use arrow::array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{
    max, max_binary, max_boolean, max_fixed_size_binary, max_string, min, min_binary, min_boolean,
    min_fixed_size_binary, min_string,
};
use hoglake_model::{BoundsBuilder, ColumnStats, ColumnType, Datum};

/// What has been seen of one column.
#[derive(Debug)]
pub(super) struct ColumnStatistics {
    column: Column,
    rows: i64,
    nulls: i64,
    nans: i64,
    bounds: BoundsBuilder,
}

impl ColumnStatistics {
    pub fn new(column: Column) -> Self {
        Self { column, rows: 0, nulls: 0, nans: 0, bounds: BoundsBuilder::new() }
    }

    /// Folds a batch, which is in the column's own Arrow type.
    pub fn update(&mut self, array: &ArrayRef) {
        self.rows += array.len() as i64;
        self.nulls += array.null_count() as i64;
        if array.null_count() == array.len() {
            return;
        }
        let ty = self.column.ty;
        let (low, high) = match ty {
            ColumnType::Boolean => {
                let array = array.as_boolean();
                (min_boolean(array).map(Datum::Boolean), max_boolean(array).map(Datum::Boolean))
            }
            ColumnType::Int => extremes::<Int32Type>(array, Datum::Int),
            ColumnType::Long => extremes::<Int64Type>(array, Datum::Long),
            ColumnType::Decimal(_) => extremes::<Decimal128Type>(array, Datum::Decimal),
            ColumnType::Date => extremes::<Date32Type>(array, Datum::Date),
            ColumnType::Time => extremes::<Time64MicrosecondType>(array, Datum::Time),
            ColumnType::Timestamp => extremes::<TimestampMicrosecondType>(array, Datum::Timestamp),
            ColumnType::Timestamptz => extremes::<TimestampMicrosecondType>(array, Datum::Timestamptz),
            ColumnType::String => {
                let array = array.as_string::<i32>();
                (min_string(array).map(Datum::String), max_string(array).map(Datum::String))
            }
            ColumnType::Binary => {
                let array = array.as_binary::<i32>();
                (min_binary(array).map(Datum::Binary), max_binary(array).map(Datum::Binary))
            }
            ColumnType::Uuid => {
                let array = array.as_fixed_size_binary();
                let uuid = |bytes: &[u8]| bytes.try_into().ok().map(Datum::Uuid);
                (min_fixed_size_binary(array).and_then(uuid), max_fixed_size_binary(array).and_then(uuid))
            }
            ColumnType::Float => {
                return self.update_floats::<Float32Type>(array, f32::is_nan, f32::total_cmp, Datum::Float);
            }
            ColumnType::Double => {
                return self.update_floats::<Float64Type>(array, f64::is_nan, f64::total_cmp, Datum::Double);
            }
        };
        self.bounds.part_datums(ty, low, high);
    }

    fn update_floats<T: ArrowPrimitiveType>(
        &mut self,
        array: &ArrayRef,
        is_nan: fn(T::Native) -> bool,
        order: fn(&T::Native, &T::Native) -> std::cmp::Ordering,
        datum: fn(T::Native) -> Datum<'static>,
    ) {
        let mut extremes: Option<(T::Native, T::Native)> = None;
        for value in array.as_primitive::<T>().iter().flatten() {
            if is_nan(value) {
                self.nans += 1;
                continue;
            }
            extremes = Some(match extremes {
                None => (value, value),
                Some((low, high)) => (
                    if order(&value, &low).is_lt() { value } else { low },
                    if order(&value, &high).is_gt() { value } else { high },
                ),
            });
        }
        if let Some((low, high)) = extremes {
            self.bounds.part_datums(self.column.ty, Some(datum(low)), Some(datum(high)));
        }
    }

    /// The column's statistics; `size_bytes` is what its chunks take in the file.
    pub fn finish(self, size_bytes: i64) -> ColumnStats {
        let is_float = matches!(self.column.ty, ColumnType::Float | ColumnType::Double);
        ColumnStats {
            field_id: self.column.field_id,
            value_count: Some(self.rows),
            null_count: Some(self.nulls),
            nan_count: is_float.then_some(self.nans),
            size_bytes: Some(size_bytes),
            bounds: self.bounds.finish().truncated(self.column.ty, MAX_BOUND_BYTES),
        }
    }
}

fn extremes<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    datum: fn(T::Native) -> Datum<'static>,
) -> (Option<Datum<'static>>, Option<Datum<'static>>)
where
    T::Native: arrow::datatypes::ArrowNativeTypeOp,
{
    let array = array.as_primitive::<T>();
    (min(array).map(datum), max(array).map(datum))
}
