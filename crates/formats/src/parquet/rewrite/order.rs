//! The order of the output: keys that compare as bytes, and inputs that need no sorting.

use super::input::{Input, InputBatches, row_ids};
use super::schema::TargetSchema;
use super::{MakeWay, Opened, RewriteError};
use arrow::array::types::{ArrowPrimitiveType, Float32Type, Float64Type};
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, RecordBatch};
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, Rows, SortField as RowSortField};
use hoglake_model::FieldId;
use std::sync::Arc;

/// Message of the error for an input whose row ids do not ascend although its metadata says so.
pub(super) const OUT_OF_ORDER: &str = "an input's row ids are out of the order that its metadata declares";

/// One column of a table's sort order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortField {
    /// The column.
    pub field_id: FieldId,
    /// Largest first.
    pub descending: bool,
    /// Nulls before everything else, whatever the direction.
    pub nulls_first: bool,
}

/// Turns rows into byte strings that compare as the rows do: the sort columns, then the row id.
#[derive(Debug, Clone)]
pub(super) struct RowOrder {
    /// Column indices in the target schema, the row id last.
    columns: Vec<usize>,
    converter: Arc<RowConverter>,
}

impl RowOrder {
    pub fn new(target: &TargetSchema, sort: &[SortField]) -> Result<Self, RewriteError> {
        let mut columns = Vec::new();
        let mut fields = Vec::new();
        for field in sort {
            let index = target.columns.iter().position(|c| c.field_id == field.field_id);
            let index = index.ok_or(RewriteError::Internal("the sort order names a column that is not live"))?;
            let options = SortOptions { descending: field.descending, nulls_first: field.nulls_first };
            columns.push(index);
            fields.push(RowSortField::new_with_options(target.arrow.field(index).data_type().clone(), options));
        }
        columns.push(target.row_id_index());
        fields.push(RowSortField::new(DataType::Int64));
        Ok(Self { columns, converter: Arc::new(RowConverter::new(fields)?) })
    }

    fn key_columns(&self, batch: &RecordBatch) -> Vec<ArrayRef> {
        self.columns.iter().map(|index| one_nan(batch.column(*index))).collect()
    }

    /// The keys of one batch.
    pub fn keys(&self, batch: &RecordBatch) -> Result<Rows, RewriteError> {
        Ok(self.converter.convert_columns(&self.key_columns(batch))?)
    }

    /// The keys of several batches, one after the other.
    pub fn keys_of_all(&self, batches: &[RecordBatch]) -> Result<Rows, RewriteError> {
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let mut keys = self.converter.empty_rows(rows, 0);
        for batch in batches {
            self.converter.append(&mut keys, &self.key_columns(batch))?;
        }
        Ok(keys)
    }
}

/// The array with every NaN made the one that is above all numbers: total order puts negative ones below.
fn one_nan(array: &ArrayRef) -> ArrayRef {
    fn replaced<T: ArrowPrimitiveType>(array: &ArrayRef, is_nan: fn(T::Native) -> bool, nan: T::Native) -> ArrayRef {
        let floats: &PrimitiveArray<T> = array.as_primitive();
        if floats.values().iter().any(|v| is_nan(*v)) {
            Arc::new(floats.unary::<_, T>(|v| if is_nan(v) { nan } else { v }))
        } else {
            Arc::clone(array)
        }
    }
    match array.data_type() {
        DataType::Float32 => replaced::<Float32Type>(array, f32::is_nan, f32::NAN),
        DataType::Float64 => replaced::<Float64Type>(array, f64::is_nan, f64::NAN),
        _ => Arc::clone(array),
    }
}

/// Decides whether the inputs only need to be put one after the other: there is no sort order, and their row ids ascend
/// within disjoint ranges. Gives them in that order.
pub(super) fn arrange(inputs: Vec<Arc<Input>>, sort: &[SortField]) -> (Vec<Arc<Input>>, bool) {
    if !sort.is_empty() {
        return (inputs, false);
    }
    let ranges: Option<Vec<_>> = inputs.iter().map(|input| input.ascending_row_ids()).collect();
    let Some(ranges) = ranges else { return (inputs, false) };
    let mut arranged: Vec<_> = ranges.into_iter().zip(inputs).collect();
    arranged.sort_by_key(|(range, _)| *range);
    let disjoint = arranged.windows(2).all(|pair| pair[0].0.1 <= pair[1].0.0);
    (arranged.into_iter().map(|(_, input)| input).collect(), disjoint)
}

/// The inputs' batches one after the other, checked to ascend by row id.
pub(super) struct Concatenation {
    receiver: Opened,
    target: Arc<TargetSchema>,
    make_way: MakeWay,
    current: Option<InputBatches>,
    last: Option<i64>,
}

impl Concatenation {
    pub fn new(receiver: Opened, target: Arc<TargetSchema>, make_way: MakeWay) -> Self {
        Self { receiver, target, make_way, current: None, last: None }
    }

    fn check(&mut self, batch: RecordBatch) -> Result<RecordBatch, RewriteError> {
        for id in row_ids(&batch).values() {
            if self.last.is_some_and(|last| last >= *id) {
                return Err(RewriteError::Internal(OUT_OF_ORDER));
            }
            self.last = Some(*id);
        }
        Ok(batch)
    }
}

impl Iterator for Concatenation {
    type Item = Result<RecordBatch, RewriteError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(batches) = &mut self.current {
                match batches.next() {
                    Some(Ok(batch)) if batch.num_rows() == 0 => continue,
                    Some(Ok(batch)) => return Some(self.check(batch)),
                    Some(Err(error)) => return Some(Err(error)),
                    None => self.current = None,
                }
            }
            match self.receiver.recv() {
                Ok(Ok((input, file))) => match input.read(file, Arc::clone(&self.target), &self.make_way) {
                    Ok(batches) => self.current = Some(batches),
                    Err(error) => return Some(Err(error)),
                },
                Ok(Err(error)) => return Some(Err(error)),
                Err(_) => return None,
            }
        }
    }
}
