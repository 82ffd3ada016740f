//! A JSON object for each row: `{"op":"append","snapshot_id":7,"row_id":0,...}` and the columns under their names.
//!
//! Nothing is lost: integers are exact, decimals are texts, binaries are base64 texts, numbers that JSON has no literal
//! for are texts, too.

use super::temporal::{push_date, push_time, push_timestamp};
use arrow::array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, Time64MicrosecondType,
    TimestampMicrosecondType,
};
use arrow::array::{
    Array, AsArray, BinaryArray, BooleanArray, FixedSizeBinaryArray, Int64Array, PrimitiveArray, RecordBatch,
    StringArray,
};
use arrow::datatypes::{DataType, Schema, TimeUnit};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use uuid::Uuid;

/// A column whose type has no JSON form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column `{column}` of type {data_type} has no JSON form")]
pub struct UnencodableColumn {
    /// The column.
    pub column: String,
    /// Its Arrow type.
    pub data_type: String,
}

/// Encodes the rows of one schema: the columns, and last the row ids.
#[derive(Debug, Clone)]
pub struct JsonEncoder {
    /// `,"name":` of each column.
    names: Vec<Vec<u8>>,
}

/// A batch, ready to be encoded row by row.
#[derive(Debug)]
pub struct JsonBatch<'a> {
    cells: Vec<(&'a [u8], Cells<'a>)>,
    row_ids: &'a Int64Array,
}

#[derive(Debug)]
enum Cells<'a> {
    Boolean(&'a BooleanArray),
    Int(&'a PrimitiveArray<Int32Type>),
    Long(&'a PrimitiveArray<Int64Type>),
    Float(&'a PrimitiveArray<Float32Type>),
    Double(&'a PrimitiveArray<Float64Type>),
    Decimal(&'a PrimitiveArray<Decimal128Type>, u8),
    Date(&'a PrimitiveArray<Date32Type>),
    Time(&'a PrimitiveArray<Time64MicrosecondType>),
    Timestamp(&'a PrimitiveArray<TimestampMicrosecondType>),
    Timestamptz(&'a PrimitiveArray<TimestampMicrosecondType>),
    String(&'a StringArray),
    Uuid(&'a FixedSizeBinaryArray),
    Binary(&'a BinaryArray),
}

impl JsonEncoder {
    /// An encoder for batches of `schema`, whose last column is the row id.
    pub fn new(schema: &Schema) -> Self {
        let columns = schema.fields().len().saturating_sub(1);
        let name = |name: &String| {
            let mut text = vec![b','];
            push_json(&mut text, name);
            text.push(b':');
            text
        };
        Self { names: schema.fields().iter().take(columns).map(|field| name(field.name())).collect() }
    }

    /// Prepares `batch`.
    ///
    /// # Errors
    /// [`UnencodableColumn`].
    pub fn batch<'a>(&'a self, batch: &'a RecordBatch) -> Result<JsonBatch<'a>, UnencodableColumn> {
        let refuse = |index: usize| {
            let schema = batch.schema_ref();
            let field = schema.field(index);
            UnencodableColumn { column: field.name().clone(), data_type: field.data_type().to_string() }
        };
        let mut cells = Vec::with_capacity(self.names.len());
        for (index, (name, array)) in self.names.iter().zip(batch.columns()).enumerate() {
            cells.push((name.as_slice(), Cells::of(array.as_ref()).ok_or_else(|| refuse(index))?));
        }
        let last = batch.num_columns().saturating_sub(1);
        let row_ids = batch.columns().last().and_then(|ids| ids.as_primitive_opt::<Int64Type>());
        Ok(JsonBatch { cells, row_ids: row_ids.ok_or_else(|| refuse(last))? })
    }
}

impl JsonBatch<'_> {
    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.row_ids.len()
    }

    /// The id of `row`.
    pub fn row_id(&self, row: usize) -> i64 {
        self.row_ids.value(row)
    }

    /// Writes `row` as a record of `snapshot`.
    pub fn push_append(&self, out: &mut Vec<u8>, snapshot: i64, row: usize) {
        out.extend_from_slice(b"{\"op\":\"append\",\"snapshot_id\":");
        push_integer(out, snapshot);
        out.extend_from_slice(b",\"row_id\":");
        push_integer(out, self.row_id(row));
        for (name, cells) in &self.cells {
            out.extend_from_slice(name);
            cells.push(out, row);
        }
        out.push(b'}');
    }
}

/// Writes the record of a row that was deleted.
pub fn push_delete(out: &mut Vec<u8>, row_id: i64) {
    out.extend_from_slice(b"{\"op\":\"delete\",\"row_id\":");
    push_integer(out, row_id);
    out.push(b'}');
}

impl<'a> Cells<'a> {
    fn of(array: &'a dyn Array) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Boolean => Self::Boolean(array.as_boolean_opt()?),
            DataType::Int32 => Self::Int(array.as_primitive_opt()?),
            DataType::Int64 => Self::Long(array.as_primitive_opt()?),
            DataType::Float32 => Self::Float(array.as_primitive_opt()?),
            DataType::Float64 => Self::Double(array.as_primitive_opt()?),
            DataType::Decimal128(_, scale) => Self::Decimal(array.as_primitive_opt()?, u8::try_from(*scale).ok()?),
            DataType::Date32 => Self::Date(array.as_primitive_opt()?),
            DataType::Time64(TimeUnit::Microsecond) => Self::Time(array.as_primitive_opt()?),
            DataType::Timestamp(TimeUnit::Microsecond, None) => Self::Timestamp(array.as_primitive_opt()?),
            DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => Self::Timestamptz(array.as_primitive_opt()?),
            DataType::Utf8 => Self::String(array.as_string_opt()?),
            DataType::FixedSizeBinary(16) => Self::Uuid(array.as_fixed_size_binary_opt()?),
            DataType::Binary => Self::Binary(array.as_binary_opt()?),
            _ => return None,
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Boolean(a) => a.is_null(row),
            Self::Int(a) => a.is_null(row),
            Self::Long(a) => a.is_null(row),
            Self::Float(a) => a.is_null(row),
            Self::Double(a) => a.is_null(row),
            Self::Decimal(a, _) => a.is_null(row),
            Self::Date(a) => a.is_null(row),
            Self::Time(a) => a.is_null(row),
            Self::Timestamp(a) | Self::Timestamptz(a) => a.is_null(row),
            Self::String(a) => a.is_null(row),
            Self::Uuid(a) => a.is_null(row),
            Self::Binary(a) => a.is_null(row),
        }
    }

    fn push(&self, out: &mut Vec<u8>, row: usize) {
        if self.is_null(row) {
            return out.extend_from_slice(b"null");
        }
        match self {
            Self::Boolean(a) => out.extend_from_slice(if a.value(row) { b"true" } else { b"false" }),
            Self::Int(a) => push_integer(out, i64::from(a.value(row))),
            Self::Long(a) => push_integer(out, a.value(row)),
            Self::Float(a) => match a.value(row) {
                value if value.is_finite() => push_json(out, &value),
                value => push_not_finite(out, f64::from(value)),
            },
            Self::Double(a) => match a.value(row) {
                value if value.is_finite() => push_json(out, &value),
                value => push_not_finite(out, value),
            },
            Self::Decimal(a, scale) => quoted(out, |out| push_decimal(out, a.value(row), *scale)),
            Self::Date(a) => quoted(out, |out| push_date(out, i64::from(a.value(row)))),
            Self::Time(a) => quoted(out, |out| push_time(out, a.value(row))),
            Self::Timestamp(a) => quoted(out, |out| push_timestamp(out, a.value(row))),
            Self::Timestamptz(a) => quoted(out, |out| {
                push_timestamp(out, a.value(row));
                out.push(b'Z');
            }),
            Self::String(a) => push_json(out, a.value(row)),
            Self::Uuid(a) => quoted(out, |out| push_uuid(out, a.value(row))),
            Self::Binary(a) => quoted(out, |out| push_base64(out, a.value(row))),
        }
    }
}

fn quoted(out: &mut Vec<u8>, push: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    push(out);
    out.push(b'"');
}

fn push_json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    // memory takes every byte, and numbers and texts always have a JSON form
    let _ = serde_json::to_writer(out, value);
}

fn push_integer(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn push_not_finite(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(match value {
        value if value.is_nan() => b"\"NaN\"",
        value if value > 0.0 => b"\"Infinity\"",
        _ => b"\"-Infinity\"",
    });
}

/// `-12.340`: as many digits after the point as the scale says.
fn push_decimal(out: &mut Vec<u8>, unscaled: i128, scale: u8) {
    if unscaled < 0 {
        out.push(b'-');
    }
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(unscaled.unsigned_abs()).as_bytes();
    let scale = usize::from(scale);
    if scale == 0 {
        return out.extend_from_slice(digits);
    }
    let whole = digits.len().saturating_sub(scale);
    out.extend_from_slice(if whole == 0 { b"0" } else { &digits[..whole] });
    out.push(b'.');
    out.resize(out.len() + scale.saturating_sub(digits.len()), b'0');
    out.extend_from_slice(&digits[whole..]);
}

fn push_uuid(out: &mut Vec<u8>, bytes: &[u8]) {
    let id = Uuid::from_slice(bytes).unwrap_or_default();
    out.extend_from_slice(id.hyphenated().encode_lower(&mut Uuid::encode_buffer()).as_bytes());
}

fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let begin = out.len();
    out.resize(begin + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[begin..]).unwrap_or(0);
    out.truncate(begin + written);
}

#[cfg(test)]
mod tests;
