//! Delta tables written by hand, with real files, partitions and deletion vectors, as the origin of tables of every format.

use crate::to_iceberg::copy;
use crate::watched::plain;
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use hoglake_formats::deletion_vector::{DeletionVector, z85};
use hoglake_formats::delta::DeltaSource;
use hoglake_formats::sync::{Options, Target, sync};
use hoglake_model::table::TableFormat::{self, Delta};
use parquet::arrow::ArrowWriter;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A table of rows `id` 1 to 5 in every file, partitioned by `k`, which depends on the file's name.
pub struct Origin {
    pub table: PathBuf,
    version: u64,
    /// The vectors of the live files, as the log spells them.
    vectors: HashMap<String, String>,
}

/// The partition of a file.
fn folder(name: &str) -> &'static str {
    if name.as_bytes()[0] % 2 == 1 { "k=x" } else { "k=y" }
}

impl Origin {
    pub fn new(table: &Path) -> Self {
        std::fs::create_dir_all(table.join("_delta_log")).unwrap();
        let mut origin = Self { table: table.to_owned(), version: 0, vectors: HashMap::new() };
        let field = |name: &str, ty: &str| {
            format!(r#"{{\"name\":\"{name}\",\"type\":\"{ty}\",\"nullable\":true,\"metadata\":{{}}}}"#)
        };
        let schema =
            format!(r#"{{\"type\":\"struct\",\"fields\":[{},{}]}}"#, field("id", "long"), field("k", "string"));
        origin.commit(&[
            r#"{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["deletionVectors"],"writerFeatures":["deletionVectors"]}}"#.to_owned(),
            format!(r#"{{"metaData":{{"id":"5f0a3b1e-0000-4000-8000-000000000001","format":{{"provider":"parquet","options":{{}}}},"schemaString":"{schema}","partitionColumns":["k"],"configuration":{{}}}}}}"#),
        ]);
        origin
    }

    fn commit(&mut self, lines: &[String]) {
        let path = self.table.join(format!("_delta_log/{:020}.json", self.version));
        std::fs::write(path, lines.join("\n")).unwrap();
        self.version += 1;
    }

    /// One commit: `a` adds a file, `-a` removes it, and `a/0,3` deletes these of its rows instead of others.
    pub fn step(&mut self, changes: &[&str]) {
        let mut lines = Vec::new();
        for change in changes {
            if let Some(name) = change.strip_prefix('-') {
                lines.push(self.remove(name));
            } else if let Some((name, rows)) = change.split_once('/') {
                lines.push(self.remove(name));
                let vector = self.vector(name, rows.split(',').map(|row| row.parse().unwrap()));
                self.vectors.insert(name.to_owned(), vector);
                lines.push(self.add(name));
            } else {
                lines.push(self.add(change));
            }
        }
        self.commit(&lines);
    }

    /// A vector within the log, or in a file of its own, by turns.
    fn vector(&self, name: &str, rows: impl Iterator<Item = u64>) -> String {
        let vector = DeletionVector::from_positions(rows);
        let (cardinality, bytes) = (vector.cardinality(), vector.encode_unframed());
        if self.version.is_multiple_of(2) {
            let text = z85::encode(&bytes).replace('\\', "\\\\").replace('"', "\\\"");
            let size = bytes.len();
            return format!(
                r#","deletionVector":{{"storageType":"i","pathOrInlineDv":"{text}","sizeInBytes":{size},"cardinality":{cardinality}}}"#
            );
        }
        let id = uuid::Uuid::from_u128((u128::from(self.version) << 64) | u128::from(name.as_bytes()[0]));
        let file = self.table.join(format!("deletion_vector_{id}.bin"));
        std::fs::write(file, [&[1], &vector.encode()[..]].concat()).unwrap();
        let (name, size) = (z85::encode(id.as_bytes()), vector.encode().len() - 8);
        format!(
            r#","deletionVector":{{"storageType":"u","pathOrInlineDv":"{name}","offset":1,"sizeInBytes":{size},"cardinality":{cardinality}}}"#
        )
    }

    fn remove(&mut self, name: &str) -> String {
        let (path, vector) =
            (format!("{}/{name}.parquet", folder(name)), self.vectors.remove(name).unwrap_or_default());
        format!(r#"{{"remove":{{"path":"{path}","deletionTimestamp":1,"dataChange":true{vector}}}}}"#)
    }

    fn add(&self, name: &str) -> String {
        let (place, value) = (folder(name), &folder(name)[2..]);
        let file = self.table.join(place).join(format!("{name}.parquet"));
        if !file.exists() {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            let ids = Arc::new(Int64Array::from_iter_values(1..=5)) as ArrayRef;
            let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
            let mut bytes = Vec::new();
            let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
            writer.write(&batch).unwrap();
            writer.close().unwrap();
            std::fs::write(&file, bytes).unwrap();
        }
        let size = std::fs::metadata(&file).unwrap().len();
        let vector = self.vectors.get(name).map_or("", String::as_str);
        format!(
            r#"{{"add":{{"path":"{place}/{name}.parquet","partitionValues":{{"k":"{value}"}},"size":{size},"modificationTime":1,"dataChange":true,"stats":"{{\"numRecords\":5,\"minValues\":{{\"id\":1}},\"maxValues\":{{\"id\":5}},\"nullCount\":{{\"id\":0}}}}"{vector}}}}}"#
        )
    }

    /// Brings the table as it is now into another format, one commit for each of its own.
    pub async fn bring(&self, target: Option<Box<dyn Target>>) {
        if let Some(mut target) = target {
            let source = DeltaSource::new(plain(&self.table));
            sync(&source, target.as_mut(), &Options::default()).await.unwrap();
        }
    }

    /// The table in one format alone, as it is now.
    pub fn save(&self, to: &Path, format: TableFormat) {
        copy(&self.table, to);
        if format != Delta {
            std::fs::remove_dir_all(to.join("_delta_log")).unwrap();
        }
    }
}
