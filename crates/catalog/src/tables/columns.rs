//! Columns as array parameters.

use hoglake_model::definition::{Column, TypeParams};

/// One array a field of `table_column`.
#[derive(Default)]
pub(super) struct ColumnArrays<'c> {
    pub field_ids: Vec<i64>,
    pub names: Vec<&'c str>,
    pub types: Vec<&'static str>,
    pub type_params: Vec<Option<&'c str>>,
    pub nullable: Vec<bool>,
    pub ordinals: Vec<i32>,
}

impl<'c> ColumnArrays<'c> {
    pub(super) fn of(columns: impl IntoIterator<Item = &'c Column>) -> Self {
        let mut arrays = Self::default();
        for column in columns {
            arrays.field_ids.push(column.field_id.0);
            arrays.names.push(&column.name);
            arrays.types.push(column.column_type.literal());
            arrays.type_params.push(column.type_params.as_ref().map(TypeParams::as_str));
            arrays.nullable.push(column.nullable);
            arrays.ordinals.push(column.ordinal);
        }
        arrays
    }
}
