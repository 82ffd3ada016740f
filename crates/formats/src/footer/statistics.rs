//! Statistics of a file from its row groups. Whatever is in doubt is absent.

use super::Bound;
use hoglake_model::table::{ColumnStats, Primitive, Value};
use parquet::basic::{ColumnOrder, LogicalType, SortOrder, TimeUnit};
use parquet::data_type::AsBytes;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;
use std::cmp::Ordering;

/// What the footer says of every bound leaf, ascending by field id.
///
/// Counts of leaves inside lists and maps are left out: a chunk counts empty and null lists there, the model counts
/// elements.
///
/// # Source
/// `parquet.thrift`, `Statistics` and `ColumnOrder`: the deprecated `min` and `max` are trusted only where signed
/// comparison was always right; INT96 and intervals have no order.
pub fn column_statistics(metadata: &ParquetMetaData, binding: &[Option<Bound>]) -> Vec<ColumnStats> {
    let mut columns: Vec<ColumnStats> = binding
        .iter()
        .enumerate()
        .filter_map(|(leaf, bound)| bound.map(|bound| column(metadata, leaf, bound)))
        .collect();
    columns.sort_by_key(|c| c.field);
    columns
}

/// Where the row groups start; empty when the footer's offsets are not ascending.
pub fn split_offsets(metadata: &ParquetMetaData) -> Vec<i64> {
    let offset = |chunk: &ColumnChunkMetaData| match chunk.dictionary_page_offset() {
        Some(dictionary) if dictionary > 0 => dictionary.min(chunk.data_page_offset()),
        _ => chunk.data_page_offset(),
    };
    let offsets: Vec<i64> = metadata.row_groups().iter().filter_map(|g| g.columns().first().map(offset)).collect();
    let sound = offsets.first().is_none_or(|first| *first >= 4) && offsets.is_sorted_by(|a, b| a < b);
    if sound { offsets } else { Vec::new() }
}

fn column(metadata: &ParquetMetaData, leaf: usize, bound: Bound) -> ColumnStats {
    let chunks: Vec<&ColumnChunkMetaData> =
        metadata.row_groups().iter().filter_map(|g| g.columns().get(leaf)).collect();
    let mut stats = ColumnStats::unknown(bound.field);
    if chunks.len() != metadata.num_row_groups() || chunks.is_empty() {
        return stats;
    }
    stats.size_bytes = sum(chunks.iter().map(|c| u64::try_from(c.compressed_size()).ok()));
    if chunks.iter().all(|c| c.column_descr().max_rep_level() == 0) {
        stats.value_count = sum(chunks.iter().map(|c| u64::try_from(c.num_values()).ok()));
        stats.null_count = sum(chunks.iter().map(|c| c.statistics().and_then(Statistics::null_count_opt)))
            .filter(|nulls| stats.value_count.is_some_and(|values| *nulls <= values));
        if matches!(bound.table_type, Primitive::Float | Primitive::Double) {
            stats.nan_count = sum(chunks.iter().map(|c| c.statistics().and_then(Statistics::nan_count_opt)));
        }
    }
    let order = metadata.file_metadata().column_order(leaf);
    (stats.lower, stats.upper) = bounds(&chunks, bound, order);
    stats
}

fn sum(counts: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    counts.into_iter().try_fold(0u64, |sum, count| sum.checked_add(count?))
}

fn bounds(chunks: &[&ColumnChunkMetaData], bound: Bound, order: ColumnOrder) -> (Option<Value>, Option<Value>) {
    let (mut lower, mut upper): (Option<Value>, Option<Value>) = (None, None);
    let (mut lower_known, mut upper_known) = (true, true);
    for chunk in chunks {
        let statistics = chunk.statistics();
        let all_null = statistics.and_then(Statistics::null_count_opt) == u64::try_from(chunk.num_values()).ok();
        if all_null {
            continue;
        }
        let (low, high) = match statistics {
            Some(statistics) if ordered(statistics, bound.file_type, order) => (
                value(statistics, chunk.column_descr(), bound, true),
                value(statistics, chunk.column_descr(), bound, false),
            ),
            _ => (None, None),
        };
        // A NaN, or bounds the wrong way round, come from a fold that compared wrongly: neither side is sound.
        let broken = [&low, &high].into_iter().flatten().any(Value::is_nan)
            || matches!((&low, &high), (Some(l), Some(h)) if !matches!(l.compare(h), Some(Ordering::Less | Ordering::Equal)));
        if broken {
            return (None, None);
        }
        lower_known &= widen(&mut lower, low, Ordering::Less);
        upper_known &= widen(&mut upper, high, Ordering::Greater);
    }
    (
        lower.filter(|_| lower_known).map(|v| signed_zero(v, true)),
        upper.filter(|_| upper_known).map(|v| signed_zero(v, false)),
    )
}

/// Takes `new` into the bound when it lies further out; whether the bound is still known.
fn widen(bound: &mut Option<Value>, new: Option<Value>, further: Ordering) -> bool {
    match (&*bound, new) {
        (_, None) => false,
        (None, new) => {
            *bound = new;
            true
        }
        (Some(old), Some(new)) => match new.compare(old) {
            Some(ordering) => {
                if ordering == further {
                    *bound = Some(new);
                }
                true
            }
            None => false,
        },
    }
}

/// Engines order the zeros differently: a lower zero is `-0.0`, an upper one `+0.0`.
fn signed_zero(value: Value, lower: bool) -> Value {
    match value {
        Value::Float(0.0) => Value::Float(if lower { -0.0 } else { 0.0 }),
        Value::Double(0.0) => Value::Double(if lower { -0.0 } else { 0.0 }),
        other => other,
    }
}

fn ordered(statistics: &Statistics, file_type: Primitive, order: ColumnOrder) -> bool {
    if matches!(statistics, Statistics::Int96(_)) || matches!(file_type, Primitive::Fixed(12) | Primitive::Unknown) {
        return false;
    }
    let signed = match file_type {
        Primitive::String | Primitive::Binary | Primitive::Uuid | Primitive::Fixed(_) | Primitive::Variant => false,
        Primitive::Decimal(_) => matches!(statistics, Statistics::Int32(_) | Statistics::Int64(_)),
        _ => true,
    };
    if statistics.is_min_max_deprecated() {
        return signed;
    }
    match order {
        ColumnOrder::TYPE_DEFINED_ORDER(SortOrder::UNDEFINED) | ColumnOrder::UNKNOWN => false,
        ColumnOrder::UNDEFINED => signed,
        _ => true,
    }
}

/// One side of a chunk's statistics in the table's type.
fn value(statistics: &Statistics, descriptor: &ColumnDescriptor, bound: Bound, low: bool) -> Option<Value> {
    macro_rules! side {
        ($statistics:expr) => {
            if low { $statistics.min_opt() } else { $statistics.max_opt() }
        };
    }
    let stored = match statistics {
        Statistics::Boolean(s) => Value::Boolean(*side!(s)?),
        Statistics::Int32(s) => integer(i64::from(*side!(s)?), descriptor, bound.file_type)?,
        Statistics::Int64(s) => integer(*side!(s)?, descriptor, bound.file_type)?,
        Statistics::Int96(_) => return None,
        Statistics::Float(s) => Value::Float(*side!(s)?),
        Statistics::Double(s) => Value::Double(*side!(s)?),
        Statistics::ByteArray(s) => binary(side!(s)?.as_bytes(), bound.file_type)?,
        Statistics::FixedLenByteArray(s) => binary(side!(s)?.as_bytes(), bound.file_type)?,
    };
    promoted(stored, bound.file_type, bound.table_type)
}

fn integer(stored: i64, descriptor: &ColumnDescriptor, file_type: Primitive) -> Option<Value> {
    let unit = match descriptor.logical_type_ref() {
        Some(LogicalType::Timestamp(t) | LogicalType::Time(t)) => Some(t.unit),
        _ => match descriptor.converted_type() {
            parquet::basic::ConvertedType::TIMESTAMP_MILLIS | parquet::basic::ConvertedType::TIME_MILLIS => {
                Some(TimeUnit::MILLIS)
            }
            _ => None,
        },
    };
    let micros = || if unit == Some(TimeUnit::MILLIS) { stored.checked_mul(1000) } else { Some(stored) };
    Some(match file_type {
        Primitive::Byte | Primitive::Short | Primitive::Int => Value::Int(i32::try_from(stored).ok()?),
        // An unsigned 32-bit column: the statistics hold its bits.
        Primitive::Long if descriptor.physical_type() == parquet::basic::Type::INT32 => {
            Value::Long(i64::from(i32::try_from(stored).ok()?.cast_unsigned()))
        }
        Primitive::Long => Value::Long(stored),
        Primitive::Date => Value::Date(i32::try_from(stored).ok()?),
        Primitive::Time => Value::Time(micros()?),
        Primitive::Timestamp | Primitive::Timestamptz => Value::Timestamp(micros()?),
        Primitive::TimestampNs | Primitive::TimestamptzNs => Value::TimestampNs(stored),
        Primitive::Decimal(d) => Value::Decimal { unscaled: i128::from(stored), scale: d.scale },
        _ => return None,
    })
}

fn binary(bytes: &[u8], file_type: Primitive) -> Option<Value> {
    Some(match file_type {
        // A bound that was cut inside a character is no text any more.
        Primitive::String => Value::String(std::str::from_utf8(bytes).ok()?.into()),
        Primitive::Binary | Primitive::Fixed(_) => Value::Binary(bytes.into()),
        Primitive::Uuid => Value::Uuid(u128::from_be_bytes(bytes.try_into().ok()?)),
        Primitive::Decimal(d) => Value::Decimal { unscaled: unscaled(bytes)?, scale: d.scale },
        _ => return None,
    })
}

fn unscaled(bytes: &[u8]) -> Option<i128> {
    if bytes.is_empty() || bytes.len() > 16 {
        return None;
    }
    let fill = if bytes[0] & 0x80 == 0 { 0 } else { 0xff };
    let mut wide = [fill; 16];
    wide[16 - bytes.len()..].copy_from_slice(bytes);
    Some(i128::from_be_bytes(wide))
}

/// The value as the table's type, where the file's type was promoted to it since.
fn promoted(value: Value, file: Primitive, table: Primitive) -> Option<Value> {
    if file == table {
        return Some(value);
    }
    Some(match (value, table) {
        (Value::Int(v), Primitive::Byte | Primitive::Short | Primitive::Int) => Value::Int(v),
        (Value::Int(v), Primitive::Long) => Value::Long(i64::from(v)),
        (Value::Int(v), Primitive::Double) => Value::Double(f64::from(v)),
        (Value::Float(v), Primitive::Double) => Value::Double(f64::from(v)),
        (Value::Decimal { unscaled, scale }, Primitive::Decimal(d)) if d.scale == scale => {
            Value::Decimal { unscaled, scale }
        }
        (Value::Date(days), Primitive::Timestamp) => Value::Timestamp(i64::from(days).checked_mul(86_400_000_000)?),
        (v @ Value::Timestamp(_), Primitive::Timestamp | Primitive::Timestamptz) => v,
        (v @ Value::TimestampNs(_), Primitive::TimestampNs | Primitive::TimestamptzNs) => v,
        (v @ Value::Binary(_), Primitive::Binary) => v,
        (v @ Value::String(_), Primitive::String) => v,
        // Bytes of a string column that an old writer did not annotate.
        (Value::Binary(bytes), Primitive::String) => Value::String(std::str::from_utf8(&bytes).ok()?.into()),
        _ => return None,
    })
}
