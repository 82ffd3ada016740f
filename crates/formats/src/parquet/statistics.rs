//! Column chunk statistics merged over row groups.
//!
//! The rules that decide whether a minimum or maximum may be believed are Parquet's column orders and the list of
//! writers' habits in the format's own notes: deprecated fields are signed, text and fixed bytes need a declared order,
//! NaN poisons, zeros have no sign, `INT96` has no order.

use super::Column;
use super::binding::Form;
use hoglake_model::{Bounds, BoundsBuilder, ColumnStats, ColumnType, Datum};
use parquet::basic::{ColumnOrder, Type as PhysicalType};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::statistics::Statistics;

/// Longest bound that is kept for text and binary columns; longer ones are cut, validly.
pub(super) const MAX_BOUND_BYTES: usize = 1024;

/// The statistics of `column`, stored in the file's leaf `leaf`; none when some chunk's null count is unknown.
pub(super) fn column_stats(metadata: &ParquetMetaData, leaf: usize, column: &Column) -> Option<ColumnStats> {
    let descriptor = metadata.file_metadata().schema_descr().column(leaf);
    let order = metadata.file_metadata().column_order(leaf);
    let form = Form::of(&descriptor, column.ty);
    let is_required = descriptor.max_def_level() == 0;
    let is_float = matches!(column.ty, ColumnType::Float | ColumnType::Double);

    let mut nulls: i64 = 0;
    let mut nans = is_float.then_some(0_i64);
    let mut size: i64 = 0;
    let mut bounds = BoundsBuilder::new();
    for group in metadata.row_groups() {
        let chunk = group.columns().get(leaf)?;
        let statistics = chunk.statistics();
        let chunk_nulls = match statistics.and_then(Statistics::null_count_opt) {
            _ if is_required => 0,
            Some(nulls) => i64::try_from(nulls).ok()?,
            None => return None,
        };
        if chunk.num_values() != group.num_rows() || chunk_nulls > group.num_rows() {
            return None;
        }
        nulls = nulls.checked_add(chunk_nulls)?;
        size = size.checked_add(chunk.compressed_size().max(0))?;
        let present = group.num_rows() - chunk_nulls;
        let chunk_nans = statistics
            .and_then(Statistics::nan_count_opt)
            .and_then(|n| i64::try_from(n).ok())
            .filter(|n| *n <= present);
        nans = match (nans, chunk_nans) {
            (Some(sum), Some(nans)) => Some(sum + nans),
            (Some(sum), None) if present == 0 => Some(sum),
            _ => None,
        };
        // A chunk of nulls and NaNs has nothing to bound and takes no bound away.
        if present > chunk_nans.filter(|_| is_float).unwrap_or(0) {
            match form.and_then(|form| chunk_bounds(chunk, order, form, column.ty)) {
                Some(part) => bounds.part(column.ty, &part),
                None => bounds.unknown(),
            }
        }
    }
    Some(ColumnStats {
        field_id: column.field_id,
        value_count: Some(metadata.file_metadata().num_rows()),
        null_count: Some(nulls),
        nan_count: nans,
        size_bytes: Some(size),
        bounds: bounds.finish().truncated(column.ty, MAX_BOUND_BYTES),
    })
}

/// The bounds of one chunk, as far as they may be believed.
fn chunk_bounds(chunk: &ColumnChunkMetaData, order: ColumnOrder, form: Form, ty: ColumnType) -> Option<Bounds> {
    let statistics = chunk.statistics()?;
    let is_bytes = matches!(statistics.physical_type(), PhysicalType::BYTE_ARRAY | PhysicalType::FIXED_LEN_BYTE_ARRAY);
    let declared = match order {
        ColumnOrder::TYPE_DEFINED_ORDER(_) | ColumnOrder::IEEE_754_TOTAL_ORDER => true,
        ColumnOrder::UNDEFINED => false,
        ColumnOrder::INT96_TIMESTAMP_ORDER | ColumnOrder::UNKNOWN => return None,
    };
    // Without a declared order, and in the deprecated fields, only numbers compare the one way that everybody means.
    if is_bytes && (!declared || statistics.is_min_max_deprecated()) {
        return None;
    }
    let rounding = |upper| Rounding { form, upper };
    Some(match statistics {
        Statistics::Boolean(s) => {
            Bounds::from_datums(s.min_opt().map(|v| Datum::Boolean(*v)), s.max_opt().map(|v| Datum::Boolean(*v)))
        }
        Statistics::Int32(s) => {
            integer_bounds(s.min_opt().map(|v| i64::from(*v)), s.max_opt().map(|v| i64::from(*v)), ty, rounding)
        }
        Statistics::Int64(s) => integer_bounds(s.min_opt().copied(), s.max_opt().copied(), ty, rounding),
        Statistics::Float(s) => {
            let datum = |v: &f32| match ty {
                ColumnType::Double => Datum::Double(f64::from(*v)),
                _ => Datum::Float(*v),
            };
            Bounds::from_datums(s.min_opt().map(datum), s.max_opt().map(datum))
        }
        Statistics::Double(s) => {
            Bounds::from_datums(s.min_opt().map(|v| Datum::Double(*v)), s.max_opt().map(|v| Datum::Double(*v)))
        }
        // Decimals in bytes are big-endian two's complement, which is the single-value form of any length.
        Statistics::ByteArray(_) | Statistics::FixedLenByteArray(_) => {
            Bounds::sanitised(ty, statistics.min_bytes_opt(), statistics.max_bytes_opt())
        }
        Statistics::Int96(_) => return None,
    })
}

struct Rounding {
    form: Form,
    upper: bool,
}

fn integer_bounds(min: Option<i64>, max: Option<i64>, ty: ColumnType, rounding: impl Fn(bool) -> Rounding) -> Bounds {
    Bounds::from_datums(
        min.and_then(|v| integer_datum(v, ty, rounding(false))),
        max.and_then(|v| integer_datum(v, ty, rounding(true))),
    )
}

/// A stored integer as a value of `ty`; none when it is out of the type's range.
fn integer_datum(value: i64, ty: ColumnType, rounding: Rounding) -> Option<Datum<'static>> {
    let micros = match rounding.form {
        Form::Direct => value,
        Form::Millis => value.checked_mul(1000)?,
        Form::Int96 => return None,
        Form::Nanos if ty == ColumnType::Time => return None,
        // Downwards for a lower bound, upwards for an upper one.
        Form::Nanos => value.div_euclid(1000) + i64::from(rounding.upper && value.rem_euclid(1000) != 0),
    };
    let datum = match ty {
        ColumnType::Int => Datum::Int(i32::try_from(value).ok()?),
        ColumnType::Long => Datum::Long(value),
        ColumnType::Date => Datum::Date(i32::try_from(value).ok()?),
        ColumnType::Time => Datum::Time(micros),
        ColumnType::Timestamp => Datum::Timestamp(micros),
        ColumnType::Timestamptz => Datum::Timestamptz(micros),
        ColumnType::Decimal(_) => Datum::Decimal(i128::from(value)),
        _ => return None,
    };
    // Digits beyond the precision and times beyond the day belong to no value of the type.
    let bytes = datum.encode();
    Datum::decode(ty, &bytes).is_ok().then_some(datum)
}
