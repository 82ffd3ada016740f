//! The output's schema: the live columns with their field ids, then `_hog_row_id`.

use super::super::Column;
use super::input::Input;
use super::order::SortField;
use super::{RewriteError, RewriteOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use hoglake_model::{ColumnType, FieldId};
use parquet::basic::{
    Compression, Encoding, LogicalType, Repetition, TimeUnit as ParquetTimeUnit, Type as PhysicalType, ZstdLevel,
};
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::schema::types::{ColumnPath, SchemaDescriptor, Type};
use std::sync::Arc;

/// Name of the row id column.
pub(super) const ROW_ID_NAME: &str = "_hog_row_id";

/// Rows of a page at most: what engines skip by.
const PAGE_ROWS: usize = 20_000;

#[derive(Debug)]
pub(super) struct TargetSchema {
    pub columns: Vec<Column>,
    /// `columns` and the row id, as Arrow has them.
    pub arrow: SchemaRef,
    pub parquet: SchemaDescriptor,
    pub properties: WriterPropertiesPtr,
}

impl TargetSchema {
    pub fn new(
        columns: &[Column],
        inputs: &[Arc<Input>],
        sort: &[SortField],
        options: &RewriteOptions,
    ) -> Result<Self, RewriteError> {
        let mut fields = Vec::with_capacity(columns.len() + 1);
        let mut parquet_fields = Vec::with_capacity(columns.len() + 1);
        for (index, column) in columns.iter().enumerate() {
            // A column that was added as required is missing in older files: only what every input guarantees is
            // written as required.
            let required = !column.nullable && inputs.iter().all(|input| input.is_required(index));
            fields.push(Field::new(&column.name, arrow_type(column.ty), !required));
            parquet_fields.push(Arc::new(parquet_field(column, required)?));
        }
        fields.push(Field::new(ROW_ID_NAME, DataType::Int64, false));
        let row_id =
            Column { field_id: FieldId::ROW_ID, name: ROW_ID_NAME.to_owned(), ty: ColumnType::Long, nullable: false };
        parquet_fields.push(Arc::new(parquet_field(&row_id, true)?));
        let root = Type::group_type_builder("table").with_fields(parquet_fields).build()?;
        Ok(Self {
            columns: columns.to_vec(),
            arrow: Arc::new(Schema::new(fields)),
            parquet: SchemaDescriptor::new(Arc::new(root)),
            properties: Arc::new(properties(columns, inputs, sort, options)?),
        })
    }

    pub fn row_id_index(&self) -> usize {
        self.columns.len()
    }
}

fn properties(
    columns: &[Column],
    inputs: &[Arc<Input>],
    sort: &[SortField],
    options: &RewriteOptions,
) -> Result<WriterProperties, RewriteError> {
    let mut sorting: Vec<SortingColumn> = Vec::new();
    for field in sort {
        let Some(index) = columns.iter().position(|c| c.field_id == field.field_id) else { continue };
        sorting.push(SortingColumn {
            column_idx: i32::try_from(index).unwrap_or(i32::MAX),
            descending: field.descending,
            nulls_first: field.nulls_first,
        });
    }
    sorting.push(SortingColumn {
        column_idx: i32::try_from(columns.len()).unwrap_or(i32::MAX),
        descending: false,
        nulls_first: false,
    });
    let row_id = ColumnPath::from(ROW_ID_NAME);
    let mut builder = WriterProperties::builder()
        .set_created_by(concat!("hoglake version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(options.zstd_level)?))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_sorting_columns(Some(sorting))
        .set_column_dictionary_enabled(row_id.clone(), false)
        .set_column_encoding(row_id, Encoding::DELTA_BINARY_PACKED);
    for (index, column) in columns.iter().enumerate() {
        // A dictionary that the inputs' writers gave up on would be built and thrown away here, too.
        if inputs.iter().any(|input| input.keeps_dictionary(index)) {
            continue;
        }
        // Plain values instead: vectorised readers of Iceberg before 1.10 refuse the delta encodings.
        builder = builder.set_column_dictionary_enabled(ColumnPath::from(column.name.as_str()), false);
    }
    Ok(builder.build())
}

/// The Arrow type that columns of type `ty` are computed in.
pub(super) fn arrow_type(ty: ColumnType) -> DataType {
    match ty {
        ColumnType::Boolean => DataType::Boolean,
        ColumnType::Int => DataType::Int32,
        ColumnType::Long => DataType::Int64,
        ColumnType::Float => DataType::Float32,
        ColumnType::Double => DataType::Float64,
        ColumnType::Decimal(d) => DataType::Decimal128(d.precision, i8::try_from(d.scale).unwrap_or(i8::MAX)),
        ColumnType::Date => DataType::Date32,
        ColumnType::Time => DataType::Time64(TimeUnit::Microsecond),
        ColumnType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        ColumnType::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        ColumnType::String => DataType::Utf8,
        ColumnType::Uuid => DataType::FixedSizeBinary(16),
        ColumnType::Binary => DataType::Binary,
    }
}

/// # Source
/// Iceberg specification, appendix A "Parquet": the mapping that every engine reads.
fn parquet_field(column: &Column, required: bool) -> Result<Type, RewriteError> {
    let micros = |utc: bool| LogicalType::timestamp(utc, ParquetTimeUnit::MICROS);
    let (physical, logical, length) = match column.ty {
        ColumnType::Boolean => (PhysicalType::BOOLEAN, None, None),
        ColumnType::Int => (PhysicalType::INT32, None, None),
        ColumnType::Long => (PhysicalType::INT64, None, None),
        ColumnType::Float => (PhysicalType::FLOAT, None, None),
        ColumnType::Double => (PhysicalType::DOUBLE, None, None),
        ColumnType::Decimal(d) => {
            let logical = Some(LogicalType::decimal(i32::from(d.scale), i32::from(d.precision)));
            match d.precision {
                ..=9 => (PhysicalType::INT32, logical, None),
                10..=18 => (PhysicalType::INT64, logical, None),
                precision => (PhysicalType::FIXED_LEN_BYTE_ARRAY, logical, Some(decimal_bytes(precision))),
            }
        }
        ColumnType::Date => (PhysicalType::INT32, Some(LogicalType::Date), None),
        ColumnType::Time => (PhysicalType::INT64, Some(LogicalType::time(false, ParquetTimeUnit::MICROS)), None),
        ColumnType::Timestamp => (PhysicalType::INT64, Some(micros(false)), None),
        ColumnType::Timestamptz => (PhysicalType::INT64, Some(micros(true)), None),
        ColumnType::String => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String), None),
        ColumnType::Uuid => (PhysicalType::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Uuid), Some(16)),
        ColumnType::Binary => (PhysicalType::BYTE_ARRAY, None, None),
    };
    let id = i32::try_from(column.field_id.0).map_err(|_| RewriteError::Internal("a field id exceeds 32 bits"))?;
    let mut builder = Type::primitive_type_builder(&column.name, physical)
        .with_repetition(if required { Repetition::REQUIRED } else { Repetition::OPTIONAL })
        .with_logical_type(logical)
        .with_id(Some(id));
    if let ColumnType::Decimal(d) = column.ty {
        builder = builder.with_precision(i32::from(d.precision)).with_scale(i32::from(d.scale));
    }
    if let Some(length) = length {
        builder = builder.with_length(length);
    }
    Ok(builder.build()?)
}

/// The fewest bytes that hold every unscaled value of `precision` digits.
fn decimal_bytes(precision: u8) -> i32 {
    let largest = 10_i128.checked_pow(u32::from(precision)).unwrap_or(i128::MAX) - 1;
    i32::try_from((128 - largest.leading_zeros()) / 8 + 1).unwrap_or(16)
}
