//! Statistics that a checkpoint holds as typed columns only (`stats_parsed`), as the JSON text that `add` actions have
//! ("Per-file Statistics").

use super::super::{partition, time};
use arrow::array::{Array, AsArray, StructArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
};

/// The statistics of one row.
pub(super) fn of(stats: &StructArray, row: usize) -> Option<String> {
    let mut text = String::new();
    object(stats, row, &mut text);
    (text != "{}").then_some(text)
}

fn object(members: &StructArray, row: usize, out: &mut String) {
    out.push('{');
    for (name, column) in members.column_names().into_iter().zip(members.columns()) {
        let before = out.len();
        if !out.ends_with('{') {
            out.push(',');
        }
        out.push_str(&serde_json::Value::from(name).to_string());
        out.push(':');
        if !column.is_valid(row) || value(column, row, out).is_none() {
            out.truncate(before);
        }
    }
    out.push('}');
}

/// Appends a value, or nothing when JSON has none for it: such a bound is left out.
fn value(column: &dyn Array, row: usize, out: &mut String) -> Option<()> {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let text = match column.data_type() {
        DataType::Struct(_) => {
            object(column.as_struct(), row, out);
            return Some(());
        }
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        DataType::Int8 => column.as_primitive::<Int8Type>().value(row).to_string(),
        DataType::Int16 => column.as_primitive::<Int16Type>().value(row).to_string(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float32 => {
            let value = column.as_primitive::<Float32Type>().value(row);
            value.is_finite().then(|| value.to_string())?
        }
        DataType::Float64 => {
            let value = column.as_primitive::<Float64Type>().value(row);
            value.is_finite().then(|| value.to_string())?
        }
        DataType::Decimal128(_, scale) => {
            let scale = u8::try_from(*scale).ok()?;
            partition::format_decimal(column.as_primitive::<Decimal128Type>().value(row), scale)
        }
        DataType::Date32 => quoted(&time::format_date(column.as_primitive::<Date32Type>().value(row))?),
        DataType::Timestamp(unit, zone) => {
            let micros = match unit {
                TimeUnit::Microsecond => column.as_primitive::<TimestampMicrosecondType>().value(row),
                TimeUnit::Millisecond => {
                    column.as_primitive::<TimestampMillisecondType>().value(row).checked_mul(1000)?
                }
                TimeUnit::Nanosecond | TimeUnit::Second => return None,
            };
            // Three digits say that it may have been cut, as a writer does; readers then make room.
            let digits = if micros % 1000 == 0 { 3 } else { 6 };
            quoted(&time::format_stamp(micros, digits, zone.is_some())?)
        }
        DataType::Utf8 => quoted(column.as_string::<i32>().value(row)),
        _ => return None,
    };
    out.push_str(&text);
    Some(())
}
