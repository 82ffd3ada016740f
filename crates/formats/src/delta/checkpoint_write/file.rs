//! A checkpoint in the making: row groups leave memory as they are done.

use super::super::action::{self, Add, DomainMetadata, Metadata, Pairs, Protocol, Remove, Txn};
use super::super::log_reader::Block;
use super::super::replay::Keys;
use super::columns::{
    Tombstone, VectorRow, add_fields, domain_fields, field, map_type, metadata_fields, protocol_fields, remove_fields,
    schema, txn_fields, vector_column,
};
use crate::sync::{Error, Result, Stage, TableRoot};
use arrow::array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, ListBuilder, MapBuilder, MapFieldNames, RecordBatch, StringArray,
    StringBuilder, StructArray, new_null_array,
};
use arrow::datatypes::{DataType, Fields, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Rows per batch; row groups are larger.
const BATCH_ROWS: usize = 8192;

/// A row group ends when it takes so much memory.
const GROUP_BYTES: usize = 16 << 20;

/// Encoded row groups beyond this many bytes leave memory.
const PART_BYTES: usize = 8 << 20;

/// The file in the making. After any error it is to be [discarded](Self::discard).
pub(super) struct Out {
    place: String,
    schema: Arc<Schema>,
    writer: ArrowWriter<Encoded>,
    /// Row groups that are encoded and still in memory.
    encoded: Encoded,
    /// Where those go that are not.
    stage: Option<Stage>,
    spilled: usize,
    pub actions: u64,
    pub adds: u64,
    txns: BTreeMap<String, Txn>,
    domains: BTreeMap<String, DomainMetadata>,
    path: Vec<String>,
    partition: MapBuilder<StringBuilder, StringBuilder>,
    size: Vec<Option<i64>>,
    modified: Vec<Option<i64>>,
    stats: Vec<Option<String>>,
    tags: MapBuilder<StringBuilder, StringBuilder>,
    vectors: Vec<Option<VectorRow>>,
    removed: Vec<Tombstone>,
}

fn map_builder() -> MapBuilder<StringBuilder, StringBuilder> {
    let names = MapFieldNames { entry: "key_value".to_owned(), key: "key".to_owned(), value: "value".to_owned() };
    MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new())
}

impl Out {
    pub fn new(place: &str) -> Result<Self> {
        let schema = Arc::new(schema());
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let encoded = Encoded::default();
        let writer = ArrowWriter::try_new(encoded.clone(), Arc::clone(&schema), Some(properties));
        Ok(Self {
            writer: writer.map_err(|e| Error::malformed(place, e.to_string()))?,
            place: place.to_owned(),
            encoded,
            stage: None,
            spilled: 0,
            schema,
            actions: 0,
            adds: 0,
            txns: BTreeMap::new(),
            domains: BTreeMap::new(),
            path: Vec::new(),
            partition: map_builder(),
            size: Vec::new(),
            modified: Vec::new(),
            stats: Vec::new(),
            tags: map_builder(),
            vectors: Vec::new(),
            removed: Vec::new(),
        })
    }

    /// Writes a batch in which one of the actions is filled.
    fn batch(&mut self, name: &str, filled: StructArray) -> Result<()> {
        let rows = arrow::array::Array::len(&filled);
        let mut filled = Some(Arc::new(filled) as ArrayRef);
        let columns = self.schema.fields().iter().map(|f| match filled.take_if(|_| f.name() == name) {
            Some(column) => column,
            None => new_null_array(f.data_type(), rows),
        });
        let fail = |e: &dyn std::fmt::Display| Error::malformed(&self.place, e.to_string());
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns.collect()).map_err(|e| fail(&e))?;
        self.writer.write(&batch).map_err(|e| fail(&e))?;
        if self.writer.in_progress_size() >= GROUP_BYTES {
            self.writer.flush().map_err(|e| fail(&e))?;
        }
        self.actions += rows as u64;
        Ok(())
    }

    fn structure(&self, fields: Fields, columns: Vec<ArrayRef>) -> Result<StructArray> {
        StructArray::try_new(fields, columns, None).map_err(|e| Error::malformed(&self.place, e.to_string()))
    }

    pub fn definition(&mut self, protocol: &Protocol, metadata: &Metadata) -> Result<()> {
        let list = |values: Option<&Vec<String>>| {
            let mut builder = ListBuilder::new(StringBuilder::new()).with_field(field("element", DataType::Utf8));
            values.into_iter().flatten().for_each(|v| builder.values().append_value(v));
            builder.append(values.is_some());
            Arc::new(builder.finish()) as ArrayRef
        };
        let text = |value: Option<&str>| Arc::new(StringArray::from(vec![value])) as ArrayRef;
        let int = |n: i32| Arc::new(Int32Array::from(vec![n])) as ArrayRef;
        let columns = vec![
            int(protocol.min_reader_version),
            int(protocol.min_writer_version),
            list(protocol.reader_features.as_ref()),
            list(protocol.writer_features.as_ref()),
        ];
        let filled = self.structure(protocol_fields(), columns)?;
        self.batch("protocol", filled)?;

        let map = |entries: Vec<(&str, Option<&str>)>| -> Result<ArrayRef> {
            let mut builder = map_builder();
            for (key, value) in entries {
                builder.keys().append_value(key);
                builder.values().append_option(value);
            }
            builder.append(true).map_err(|e| Error::malformed("checkpoint", e.to_string()))?;
            Ok(Arc::new(builder.finish()))
        };
        let provider = metadata.format.as_ref().map_or("parquet", |f| f.provider.as_str());
        let format_fields = vec![field("provider", DataType::Utf8), field("options", map_type())];
        let format = self.structure(format_fields.into(), vec![text(Some(provider)), map(Vec::new())?])?;
        let mut configuration: Vec<_> =
            metadata.configuration.iter().flatten().map(|(k, v)| (k.as_str(), v.as_deref())).collect();
        configuration.sort_unstable();
        let none = Vec::new();
        let columns = vec![
            text(Some(&metadata.id)),
            text(metadata.name.as_deref()),
            text(metadata.description.as_deref()),
            Arc::new(format),
            text(Some(&metadata.schema_string)),
            list(Some(metadata.partition_columns.as_ref().unwrap_or(&none))),
            Arc::new(Int64Array::from(vec![metadata.created_time])),
            map(configuration)?,
        ];
        let filled = self.structure(metadata_fields(), columns)?;
        self.batch("metaData", filled)
    }

    /// The actions of a block of a commit, or of a JSON part of a checkpoint, about which nothing newer has decided; what it
    /// removes waits in `removed` for the end of the file.
    pub fn block(
        &mut self,
        block: &Block,
        (keys, removed): (&mut Keys, &mut Vec<u128>),
        lives: impl Fn(&Remove<'_>) -> bool,
    ) -> Result<()> {
        for (number, text) in block.lines()? {
            let line: action::Kept<'_> = action::parse_as(&block.place, number, text)?;
            if let Some(remove) = line.remove {
                let key = keys.key(&remove.path, remove.deletion_vector.as_ref());
                removed.push(key);
                if !keys.contains(key) && lives(&remove) {
                    self.remove(&remove)?;
                }
            }
            if let Some(add) = line.add {
                let key = keys.key(&add.path, add.deletion_vector.as_ref());
                if keys.insert(key) {
                    self.add(&add, add.tags())?;
                }
            }
            if let Some(txn) = line.txn {
                self.txn(txn);
            }
            if let Some(domain) = line.domain_metadata {
                self.domain(domain);
            }
        }
        if block.last {
            for key in removed.drain(..) {
                keys.insert(key);
            }
        }
        Ok(())
    }

    /// The newest word about how far an application has come.
    pub fn txn(&mut self, txn: Txn) {
        self.txns.entry(txn.app_id.clone()).or_insert(txn);
    }

    /// The newest word about a domain.
    pub fn domain(&mut self, domain: DomainMetadata) {
        self.domains.entry(domain.domain.clone()).or_insert(domain);
    }

    fn flush_named(&mut self) -> Result<()> {
        let txns: Vec<_> = std::mem::take(&mut self.txns).into_values().collect();
        if !txns.is_empty() {
            let columns: Vec<ArrayRef> = vec![
                Arc::new(StringArray::from_iter_values(txns.iter().map(|t| &t.app_id))),
                Arc::new(Int64Array::from_iter_values(txns.iter().map(|t| t.version))),
                Arc::new(txns.iter().map(|t| t.last_updated).collect::<Int64Array>()),
            ];
            let filled = self.structure(txn_fields(), columns)?;
            self.batch("txn", filled)?;
        }
        // Removed ones are kept by the log alone.
        let domains = std::mem::take(&mut self.domains).into_values();
        let domains: Vec<_> = domains.filter(|d| !d.removed).collect();
        if !domains.is_empty() {
            let columns: Vec<ArrayRef> = vec![
                Arc::new(StringArray::from_iter_values(domains.iter().map(|d| &d.domain))),
                Arc::new(domains.iter().map(|d| d.configuration.as_deref()).collect::<StringArray>()),
                Arc::new(BooleanArray::from(vec![false; domains.len()])),
            ];
            let filled = self.structure(domain_fields(), columns)?;
            self.batch("domainMetadata", filled)?;
        }
        Ok(())
    }

    /// Moves encoded row groups out of memory when there is enough for a part.
    pub async fn spill(&mut self, root: &TableRoot) -> Result<()> {
        if self.encoded.0.lock().unwrap_or_else(PoisonError::into_inner).len() < PART_BYTES {
            return Ok(());
        }
        if self.stage.is_none() {
            self.stage = Some(root.stage(&self.place).await?);
        }
        let part = self.encoded.take();
        self.spilled += part.len();
        if let Some(stage) = &mut self.stage {
            stage.append(part.into()).await?;
        }
        Ok(())
    }

    pub fn add(&mut self, add: &Add<'_>, tags: Option<Pairs<'_>>) -> Result<()> {
        let vector = add.deletion_vector.as_ref().map(|v| VectorRow::new(&add.path, v)).transpose()?;
        self.path.push(add.path.to_string());
        let maps = [(&mut self.partition, Some(&add.partition_values)), (&mut self.tags, tags.as_ref())];
        for (map, entries) in maps {
            for (key, value) in entries.into_iter().flatten() {
                map.keys().append_value(key);
                map.values().append_option(value.as_deref());
            }
            map.append(entries.is_some()).map_err(|e| Error::malformed(&self.place, e.to_string()))?;
        }
        self.size.push(add.size);
        self.modified.push(add.modification_time);
        self.stats.push(add.stats.as_ref().map(ToString::to_string));
        self.vectors.push(vector);
        self.adds += 1;
        if self.path.len() >= BATCH_ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        if self.path.is_empty() {
            return Ok(());
        }
        let paths = std::mem::take(&mut self.path);
        let rows = paths.len();
        let vectors = std::mem::take(&mut self.vectors);
        let vector = vector_column(vectors);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(paths)),
            Arc::new(self.partition.finish()),
            Arc::new(Int64Array::from(std::mem::take(&mut self.size))),
            Arc::new(Int64Array::from(std::mem::take(&mut self.modified))),
            Arc::new(BooleanArray::from(vec![false; rows])),
            Arc::new(StringArray::from(std::mem::take(&mut self.stats))),
            Arc::new(self.tags.finish()),
            Arc::new(vector.map_err(|e| Error::malformed(&self.place, e.to_string()))?),
        ];
        let filled = self.structure(add_fields(), columns)?;
        self.batch("add", filled)
    }

    /// A tombstone.
    pub fn remove(&mut self, remove: &Remove<'_>) -> Result<()> {
        let vector = remove.deletion_vector.as_ref().map(|v| VectorRow::new(&remove.path, v)).transpose()?;
        self.removed.push(Tombstone {
            path: remove.path.to_string(),
            timestamp: remove.deletion_timestamp,
            size: remove.size,
            vector,
        });
        if self.removed.len() >= BATCH_ROWS { self.flush_removed() } else { Ok(()) }
    }

    fn flush_removed(&mut self) -> Result<()> {
        let mut removed = std::mem::take(&mut self.removed);
        if removed.is_empty() {
            return Ok(());
        }
        let vector = vector_column(removed.iter_mut().map(|r| r.vector.take()).collect());
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values(removed.iter().map(|r| &r.path))),
            Arc::new(removed.iter().map(|r| r.timestamp).collect::<Int64Array>()),
            Arc::new(BooleanArray::from(vec![false; removed.len()])),
            Arc::new(removed.iter().map(|r| r.size).collect::<Int64Array>()),
            Arc::new(vector.map_err(|e| Error::malformed(&self.place, e.to_string()))?),
        ];
        let filled = self.structure(remove_fields(), columns)?;
        self.batch("remove", filled)
    }

    /// Ends the file and makes it visible; says how large it is.
    pub async fn finish(&mut self, root: &TableRoot) -> Result<usize> {
        self.flush()?;
        self.flush_removed()?;
        self.flush_named()?;
        self.writer.finish().map_err(|e| Error::malformed(&self.place, e.to_string()))?;
        let rest = self.encoded.take();
        let size = self.spilled + rest.len();
        let Some(stage) = &mut self.stage else {
            root.put(&self.place, rest).await?;
            return Ok(size);
        };
        stage.append(rest.into()).await?;
        stage.finish().await?;
        // No parts any longer that could be taken back.
        self.stage = None;
        Ok(size)
    }

    /// Takes back what was staged.
    pub async fn discard(self) {
        if let Some(stage) = self.stage {
            stage.discard().await;
        }
    }
}

/// What the encoder has put out and nobody has taken yet.
#[derive(Clone, Default)]
struct Encoded(Arc<Mutex<Vec<u8>>>);

impl Encoded {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::io::Write for Encoded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
