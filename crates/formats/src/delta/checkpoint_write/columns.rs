//! The columns of a checkpoint ("Checkpoint Schema").

use super::super::action::VectorDescriptor;
use crate::sync::{Error, Result};
use arrow::array::{Int32Array, Int64Array, StringArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Fields, Schema};
use std::sync::Arc;

pub(super) fn field(name: &str, ty: DataType) -> Field {
    Field::new(name, ty, true)
}

pub(super) fn map_type() -> DataType {
    let entries = vec![Field::new("key", DataType::Utf8, false), field("value", DataType::Utf8)];
    DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(entries.into()), false)), false)
}

pub(super) fn list_type() -> DataType {
    DataType::List(Arc::new(field("element", DataType::Utf8)))
}

pub(super) fn vector_fields() -> Fields {
    vec![
        field("storageType", DataType::Utf8),
        field("pathOrInlineDv", DataType::Utf8),
        field("offset", DataType::Int32),
        field("sizeInBytes", DataType::Int32),
        field("cardinality", DataType::Int64),
    ]
    .into()
}

pub(super) fn protocol_fields() -> Fields {
    vec![
        field("minReaderVersion", DataType::Int32),
        field("minWriterVersion", DataType::Int32),
        field("readerFeatures", list_type()),
        field("writerFeatures", list_type()),
    ]
    .into()
}

pub(super) fn metadata_fields() -> Fields {
    let format = vec![field("provider", DataType::Utf8), field("options", map_type())];
    vec![
        field("id", DataType::Utf8),
        field("name", DataType::Utf8),
        field("description", DataType::Utf8),
        field("format", DataType::Struct(format.into())),
        field("schemaString", DataType::Utf8),
        field("partitionColumns", list_type()),
        field("createdTime", DataType::Int64),
        field("configuration", map_type()),
    ]
    .into()
}

pub(super) fn add_fields() -> Fields {
    vec![
        field("path", DataType::Utf8),
        field("partitionValues", map_type()),
        field("size", DataType::Int64),
        field("modificationTime", DataType::Int64),
        field("dataChange", DataType::Boolean),
        field("stats", DataType::Utf8),
        field("tags", map_type()),
        field("deletionVector", DataType::Struct(vector_fields())),
    ]
    .into()
}

pub(super) fn remove_fields() -> Fields {
    vec![
        field("path", DataType::Utf8),
        field("deletionTimestamp", DataType::Int64),
        field("dataChange", DataType::Boolean),
        field("size", DataType::Int64),
        field("deletionVector", DataType::Struct(vector_fields())),
    ]
    .into()
}

pub(super) fn txn_fields() -> Fields {
    vec![field("appId", DataType::Utf8), field("version", DataType::Int64), field("lastUpdated", DataType::Int64)]
        .into()
}

pub(super) fn domain_fields() -> Fields {
    vec![field("domain", DataType::Utf8), field("configuration", DataType::Utf8), field("removed", DataType::Boolean)]
        .into()
}

/// All columns of a checkpoint.
pub(super) fn schema() -> Schema {
    let action = |name, fields| field(name, DataType::Struct(fields));
    Schema::new(vec![
        action("metaData", metadata_fields()),
        action("protocol", protocol_fields()),
        action("txn", txn_fields()),
        action("domainMetadata", domain_fields()),
        action("add", add_fields()),
        action("remove", remove_fields()),
    ])
}

/// A vector's columns.
#[derive(Default)]
pub(super) struct VectorRow {
    storage_type: String,
    path: String,
    offset: Option<i32>,
    size: i32,
    cardinality: i64,
}

/// A remove's columns.
pub(super) struct Tombstone {
    pub path: String,
    pub timestamp: Option<i64>,
    pub size: Option<i64>,
    pub vector: Option<VectorRow>,
}

impl VectorRow {
    /// The vector of the file at `path`.
    ///
    /// # Errors
    /// [`Error::Malformed`] for one that is larger, or begins further on, than the protocol has numbers for.
    pub fn new(path: &str, v: &VectorDescriptor<'_>) -> Result<Self> {
        let int = |n: i64| {
            let detail =
                || format!("its deletion vector has the size or offset {n}; the protocol ends at 2 GiB: rewrite it");
            i32::try_from(n).map_err(|_| Error::malformed(path, detail()))
        };
        Ok(Self {
            storage_type: v.storage_type.to_string(),
            path: v.path_or_inline_dv.to_string(),
            offset: v.offset.map(int).transpose()?,
            size: int(v.size_in_bytes)?,
            cardinality: v.cardinality,
        })
    }
}

/// The column of some vectors.
pub(super) fn vector_column(
    vectors: Vec<Option<VectorRow>>,
) -> std::result::Result<StructArray, arrow::error::ArrowError> {
    let present = NullBuffer::from(vectors.iter().map(Option::is_some).collect::<Vec<_>>());
    let vectors: Vec<_> = vectors.into_iter().map(Option::unwrap_or_default).collect();
    StructArray::try_new(
        vector_fields(),
        vec![
            Arc::new(StringArray::from_iter_values(vectors.iter().map(|v| &v.storage_type))),
            Arc::new(StringArray::from_iter_values(vectors.iter().map(|v| &v.path))),
            Arc::new(Int32Array::from_iter(vectors.iter().map(|v| v.offset))),
            Arc::new(Int32Array::from_iter_values(vectors.iter().map(|v| v.size))),
            Arc::new(Int64Array::from_iter_values(vectors.iter().map(|v| v.cardinality))),
        ],
        Some(present),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_beyond_the_numbers_of_the_protocol_are_refused() {
        let vector = |offset, size_in_bytes| VectorDescriptor {
            storage_type: "u".into(),
            path_or_inline_dv: "x".into(),
            offset: Some(offset),
            size_in_bytes,
            cardinality: 1 << 40,
        };
        let most = i64::from(i32::MAX);
        let row = VectorRow::new("a", &vector(most, most)).unwrap();
        assert_eq!((row.offset, row.size, row.cardinality), (Some(i32::MAX), i32::MAX, 1 << 40));
        for (offset, size) in [(1, most + 1), (most + 1, 1)] {
            let error = VectorRow::new("a.parquet", &vector(offset, size)).err().unwrap();
            assert!(error.to_string().contains("a.parquet") && error.to_string().contains("2147483648"), "{error}");
        }
    }
}
