//! One column of a batch, from the form of its file to the live type. Exact or refused.

use super::super::binding::Form;
use arrow::array::types::{
    Decimal128Type, Time32MillisecondType, Time64MicrosecondType, TimestampMicrosecondType, TimestampMillisecondType,
};
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use std::sync::Arc;

/// Converts `array` to `target`. The caller has checked that `form` is one of the target's.
///
/// # Errors
/// When a value has no counterpart: milliseconds beyond the range of microseconds, bytes that are not UTF-8.
pub(super) fn convert(array: &ArrayRef, target: &DataType, form: Form) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == target {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), target) {
        (DataType::Decimal128(..), DataType::Decimal128(precision, scale)) => {
            let decimals = array.as_primitive::<Decimal128Type>().clone();
            Ok(Arc::new(decimals.with_precision_and_scale(*precision, *scale)?))
        }
        (DataType::Time32(_), DataType::Time64(_)) if form == Form::Millis => {
            let millis = array.as_primitive::<Time32MillisecondType>();
            Ok(Arc::new(millis.unary::<_, Time64MicrosecondType>(|v| i64::from(v) * 1000)))
        }
        (DataType::Timestamp(..), DataType::Timestamp(_, zone)) => {
            let micros: PrimitiveArray<TimestampMicrosecondType> = match form {
                Form::Direct => array.as_primitive::<TimestampMicrosecondType>().clone(),
                Form::Millis => array.as_primitive::<TimestampMillisecondType>().try_unary(|v| {
                    v.checked_mul(1000)
                        .ok_or_else(|| ArrowError::ComputeError(format!("{v} ms is beyond the range of microseconds")))
                })?,
                Form::Nanos | Form::Int96 => {
                    return Err(ArrowError::CastError("nanoseconds have no exact microseconds".to_owned()));
                }
            };
            Ok(Arc::new(micros.with_timezone_opt(zone.clone())))
        }
        // What is left is wider integers and floats, and bytes that are text or the other way round. Unsafe casts
        // would turn a value that does not fit into null.
        _ => cast_with_options(array, target, &CastOptions { safe: false, ..CastOptions::default() }),
    }
}
