//! Encodings of rewritten files: dictionaries where they pay, and nothing that an engine cannot read.

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use hoglake_formats::parquet::Column;
use hoglake_formats::parquet::footer::RegisteredFile;
use hoglake_formats::parquet::rewrite::{RewriteInput, RewriteOptions, RowIds, rewrite};
use hoglake_formats::store::{Object, StoreConfig, Stores};
use hoglake_model::{ColumnType, FieldId, Location};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

fn object(stores: &Stores, path: &Path) -> Object {
    stores.open(&Location::parse(path.to_str().unwrap()).unwrap()).unwrap()
}

#[tokio::test]
async fn columns_keep_dictionaries_that_pay_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let stores = Stores::new(StoreConfig { local: true, ..StoreConfig::default() });
    let rows = 30_000_i64;
    let mut inputs = Vec::new();
    for file in 0..3 {
        // the writer keeps a dictionary to the end for each: none has more distinct values than fit
        let columns: [(&str, ArrayRef); 3] = [
            ("distinct", Arc::new(Int64Array::from_iter_values((0..rows).map(|i| i * 7_919 % rows)))),
            ("repeated", Arc::new(Int64Array::from_iter_values((0..rows).map(|i| i % 100)))),
            (
                "kind",
                Arc::new(StringArray::from_iter_values((0..rows).map(|i| ["view", "click", "buy"][i as usize % 3]))),
            ),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let path = folder.path().join(format!("{file}.parquet"));
        let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        let written = writer.close().unwrap();
        assert!(written.row_group(0).columns().iter().all(|chunk| chunk.dictionary_page_offset().is_some()));
        inputs.push(RewriteInput {
            object: object(&stores, &path),
            file: RegisteredFile {
                file_size_bytes: std::fs::metadata(&path).unwrap().len(),
                footer_size: None,
                record_count: Some(rows),
                max_whole_object_bytes: 1 << 20,
            },
            row_ids: RowIds::Positional(file * rows),
            deletions: None,
            names: Vec::new(),
        });
    }
    let column = |(name, ty, id): (&str, ColumnType, i64)| Column {
        field_id: FieldId(id),
        name: name.to_owned(),
        ty,
        nullable: true,
    };
    let columns: Vec<Column> =
        [("distinct", ColumnType::Long, 1), ("repeated", ColumnType::Long, 2), ("kind", ColumnType::String, 3)]
            .map(column)
            .into();
    let output = folder.path().join("output.parquet");
    rewrite(inputs, &columns, &[], &object(&stores, &output), &RewriteOptions::default()).await.unwrap().unwrap();
    let reader = SerializedFileReader::new(File::open(&output).unwrap()).unwrap();
    for group in reader.metadata().row_groups() {
        let dictionaries: Vec<bool> = group.columns().iter().map(|c| c.dictionary_page_offset().is_some()).collect();
        assert_eq!(dictionaries, [false, true, true, false]);
        for chunk in &group.columns()[..3] {
            assert!(matches!(chunk.compression(), Compression::ZSTD(_)));
            // Iceberg before 1.10 and others read nothing else at speed
            let plain = [Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY];
            assert!(chunk.encodings().all(|encoding| plain.contains(&encoding)), "{chunk:?}");
        }
    }
}
