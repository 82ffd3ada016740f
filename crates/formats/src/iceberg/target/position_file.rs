//! Position-delete files of version 2 tables ("Position Delete Files"): one per data file, sorted by position.

use crate::deletion_vector::DeletionVector;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::{ArrowWriter, PARQUET_FIELD_ID_META_KEY};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;
use std::collections::HashMap;
use std::sync::Arc;

/// Reserved field ids ("Reserved Field IDs").
const FILE_PATH: i64 = super::super::manifest::DELETE_FILE_PATH;
const POSITION: i64 = super::super::manifest::DELETE_POSITION;
const BATCH_ROWS: usize = 64 << 10;

/// The file that deletes `rows` of the data file spelled `path`.
pub(super) fn write(path: &str, rows: &DeletionVector) -> Result<Vec<u8>> {
    let field = |name: &str, ty: DataType, id: i64| {
        let metadata = HashMap::from([(PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string())]);
        Field::new(name, ty, false).with_metadata(metadata)
    };
    let fields = vec![field("file_path", DataType::Utf8, FILE_PATH), field("pos", DataType::Int64, POSITION)];
    let schema = Arc::new(Schema::new(fields));
    let position = ColumnPath::from("pos");
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_column_dictionary_enabled(position.clone(), false)
        .set_column_encoding(position, Encoding::DELTA_BINARY_PACKED)
        // Readers compare the bounds of the path with paths, so that they must be whole.
        .set_statistics_truncate_length(None)
        .set_column_index_truncate_length(None)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), Some(properties))?;
    let mut positions = rows.iter().filter_map(|p| i64::try_from(p).ok());
    loop {
        let batch: Vec<i64> = positions.by_ref().take(BATCH_ROWS).collect();
        if batch.is_empty() {
            return writer.into_inner();
        }
        let paths = StringArray::from_iter_values(std::iter::repeat_n(path, batch.len()));
        let columns = vec![Arc::new(paths) as ArrayRef, Arc::new(Int64Array::from(batch)) as ArrayRef];
        writer.write(&RecordBatch::try_new(Arc::clone(&schema), columns)?)?;
    }
}
