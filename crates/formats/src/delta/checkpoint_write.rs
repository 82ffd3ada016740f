//! Writing classic checkpoints ("Checkpoint Schema", "V1 Spec").
//!
//! Actions are carried over as the log has them, statistics as text, so that a checkpoint loses and invents nothing.
//! Tombstones are kept until they expire (`delta.deletedFileRetentionDuration`), those of the checkpoint before included.

use super::action::{self, Add, Metadata, Protocol, Remove, VectorDescriptor};
use super::checkpoint;
use super::log::{Checkpoint, Segment};
use super::replay::Keys;
use super::source::{Definition, define};
use super::{LOG, protocol};
use crate::sync::{Error, Result, TableRoot};
use arrow::array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, ListBuilder, MapBuilder, MapFieldNames, RecordBatch, StringArray,
    StringBuilder, StructArray, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Fields, Schema};
use futures::TryStreamExt;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use serde_json::json;
use std::sync::Arc;

/// Rows per batch; row groups are larger.
const BATCH_ROWS: usize = 8192;

/// Writes the checkpoint of a segment and the hint to it.
///
/// # Errors
/// As reading the segment, and [`Error::Store`].
pub(super) async fn write(root: &TableRoot, segment: &Segment) -> Result<Checkpoint> {
    let (Definition { protocol, metadata }, _, sidecars) = define(root, segment).await?;
    let key = format!("{LOG}/{:020}.checkpoint.parquet", segment.version);
    let mut out = Out::new(&key)?;
    out.definition(&protocol, &metadata)?;
    let mut keys = Keys::default();
    let expired = chrono::Utc::now().timestamp_millis() - tombstone_retention_ms(&metadata);
    let lives = |remove: &Remove<'_>| remove.deletion_timestamp.unwrap_or(0) > expired;
    let mut files = std::pin::pin!(root.get_all(segment.commit_keys()));
    while let Some((commit, bytes)) = files.try_next().await? {
        out.log_file(&root.spell(&commit), &bytes, &mut keys, lives)?;
    }
    for part in segment.checkpoint.iter().flat_map(|c| &c.parts).chain(&sidecars) {
        if part.ends_with(".json") {
            out.log_file(&root.spell(part), &root.get(part).await?, &mut keys, lives)?;
            continue;
        }
        let damaged = |e| Error::parquet(root.spell(part), &e);
        let (mut batches, _) = checkpoint::adds(root, part).await?;
        while let Some(batch) = batches.try_next().await.map_err(damaged)? {
            checkpoint::each_add(&keys, &batch, |add| out.add(add))?;
        }
        let mut batches = checkpoint::removes(root, part).await?;
        while let Some(batch) = batches.try_next().await.map_err(damaged)? {
            checkpoint::each_remove(&batch, |remove| {
                let decided = keys.contains(keys.key(&remove.path, remove.deletion_vector.as_ref()));
                if decided || !lives(remove) { Ok(()) } else { out.remove(remove) }
            })?;
        }
    }
    let (bytes, actions, adds) = out.finish()?;
    let size = bytes.len();
    root.put(&key, bytes).await?;
    let hint = json!({"version": segment.version, "size": actions, "sizeInBytes": size, "numOfAddFiles": adds});
    root.put(&format!("{LOG}/_last_checkpoint"), hint.to_string()).await?;
    let modified_ms = chrono::Utc::now().timestamp_millis();
    Ok(Checkpoint { version: segment.version, parts: vec![key], modified_ms })
}

/// How long tombstones are kept: an interval such as `interval 1 week`, a week when nothing readable is said.
fn tombstone_retention_ms(metadata: &Metadata) -> i64 {
    const DAY: i64 = 86_400_000;
    let text = protocol::property(metadata, "delta.deletedFileRetentionDuration").unwrap_or_default();
    let text = text.trim().to_ascii_lowercase();
    let mut words = text.strip_prefix("interval").unwrap_or(&text).split_ascii_whitespace();
    let mut total = None;
    while let (Some(count), Some(unit)) = (words.next(), words.next()) {
        let unit = match unit.trim_end_matches('s') {
            "week" => 7 * DAY,
            "day" => DAY,
            "hour" => DAY / 24,
            "minute" => 60_000,
            "second" => 1000,
            "millisecond" => 1,
            _ => return 7 * DAY,
        };
        total = count.parse::<i64>().ok().and_then(|n| n.checked_mul(unit)?.checked_add(total.unwrap_or(0)));
    }
    total.filter(|ms| *ms >= 0).unwrap_or(7 * DAY)
}

fn field(name: &str, ty: DataType) -> Field {
    Field::new(name, ty, true)
}

fn map_type() -> DataType {
    let entries = vec![Field::new("key", DataType::Utf8, false), field("value", DataType::Utf8)];
    DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(entries.into()), false)), false)
}

fn list_type() -> DataType {
    DataType::List(Arc::new(field("element", DataType::Utf8)))
}

fn vector_fields() -> Fields {
    vec![
        field("storageType", DataType::Utf8),
        field("pathOrInlineDv", DataType::Utf8),
        field("offset", DataType::Int32),
        field("sizeInBytes", DataType::Int32),
        field("cardinality", DataType::Int64),
    ]
    .into()
}

fn protocol_fields() -> Fields {
    vec![
        field("minReaderVersion", DataType::Int32),
        field("minWriterVersion", DataType::Int32),
        field("readerFeatures", list_type()),
        field("writerFeatures", list_type()),
    ]
    .into()
}

fn metadata_fields() -> Fields {
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

fn add_fields() -> Fields {
    vec![
        field("path", DataType::Utf8),
        field("partitionValues", map_type()),
        field("size", DataType::Int64),
        field("modificationTime", DataType::Int64),
        field("dataChange", DataType::Boolean),
        field("stats", DataType::Utf8),
        field("deletionVector", DataType::Struct(vector_fields())),
    ]
    .into()
}

fn remove_fields() -> Fields {
    vec![
        field("path", DataType::Utf8),
        field("deletionTimestamp", DataType::Int64),
        field("dataChange", DataType::Boolean),
        field("size", DataType::Int64),
        field("deletionVector", DataType::Struct(vector_fields())),
    ]
    .into()
}

/// A vector's columns.
#[derive(Default)]
struct VectorRow {
    storage_type: String,
    path: String,
    offset: Option<i32>,
    size: i32,
    cardinality: i64,
}

/// A remove's columns.
struct Tombstone {
    path: String,
    timestamp: Option<i64>,
    size: Option<i64>,
    vector: Option<VectorRow>,
}

impl VectorRow {
    fn new(v: &VectorDescriptor<'_>) -> Self {
        Self {
            storage_type: v.storage_type.to_string(),
            path: v.path_or_inline_dv.to_string(),
            offset: v.offset.and_then(|n| i32::try_from(n).ok()),
            size: i32::try_from(v.size_in_bytes).unwrap_or(0),
            cardinality: v.cardinality,
        }
    }
}

/// The column of some vectors.
fn vector_column(vectors: Vec<Option<VectorRow>>) -> std::result::Result<StructArray, arrow::error::ArrowError> {
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

/// The file in the making.
struct Out {
    place: String,
    schema: Arc<Schema>,
    writer: ArrowWriter<Vec<u8>>,
    actions: u64,
    adds: u64,
    path: Vec<String>,
    partition: MapBuilder<StringBuilder, StringBuilder>,
    size: Vec<Option<i64>>,
    modified: Vec<Option<i64>>,
    stats: Vec<Option<String>>,
    vectors: Vec<Option<VectorRow>>,
    removed: Vec<Tombstone>,
}

fn map_builder() -> MapBuilder<StringBuilder, StringBuilder> {
    let names = MapFieldNames { entry: "key_value".to_owned(), key: "key".to_owned(), value: "value".to_owned() };
    MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new())
}

impl Out {
    fn new(place: &str) -> Result<Self> {
        let schema = Arc::new(Schema::new(vec![
            field("metaData", DataType::Struct(metadata_fields())),
            field("protocol", DataType::Struct(protocol_fields())),
            field("add", DataType::Struct(add_fields())),
            field("remove", DataType::Struct(remove_fields())),
        ]));
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), Some(properties));
        Ok(Self {
            writer: writer.map_err(|e| Error::malformed(place, e.to_string()))?,
            place: place.to_owned(),
            schema,
            actions: 0,
            adds: 0,
            path: Vec::new(),
            partition: map_builder(),
            size: Vec::new(),
            modified: Vec::new(),
            stats: Vec::new(),
            vectors: Vec::new(),
            removed: Vec::new(),
        })
    }

    /// Writes a batch in which one of the four actions is filled.
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
        self.actions += rows as u64;
        Ok(())
    }

    fn structure(&self, fields: Fields, columns: Vec<ArrayRef>) -> Result<StructArray> {
        StructArray::try_new(fields, columns, None).map_err(|e| Error::malformed(&self.place, e.to_string()))
    }

    fn definition(&mut self, protocol: &Protocol, metadata: &Metadata) -> Result<()> {
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

    /// The file actions of a commit or of a JSON part of a checkpoint about which nothing newer has decided.
    fn log_file(
        &mut self,
        place: &str,
        bytes: &[u8],
        keys: &mut Keys,
        lives: impl Fn(&Remove<'_>) -> bool,
    ) -> Result<()> {
        let mut removed = Vec::new();
        for (number, text) in action::lines(place, bytes)? {
            let line = action::parse(place, number, text)?;
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
                    self.add(&add)?;
                }
            }
        }
        for key in removed {
            keys.insert(key);
        }
        Ok(())
    }

    fn add(&mut self, add: &Add<'_>) -> Result<()> {
        self.path.push(add.path.to_string());
        for (key, value) in &add.partition_values {
            self.partition.keys().append_value(key);
            self.partition.values().append_option(value.as_deref());
        }
        self.partition.append(true).map_err(|e| Error::malformed(&self.place, e.to_string()))?;
        self.size.push(add.size);
        self.modified.push(add.modification_time);
        self.stats.push(add.stats.as_ref().map(ToString::to_string));
        self.vectors.push(add.deletion_vector.as_ref().map(VectorRow::new));
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
            Arc::new(vector.map_err(|e| Error::malformed(&self.place, e.to_string()))?),
        ];
        let filled = self.structure(add_fields(), columns)?;
        self.batch("add", filled)
    }

    /// A tombstone.
    fn remove(&mut self, remove: &Remove<'_>) -> Result<()> {
        self.removed.push(Tombstone {
            path: remove.path.to_string(),
            timestamp: remove.deletion_timestamp,
            size: remove.size,
            vector: remove.deletion_vector.as_ref().map(VectorRow::new),
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

    fn finish(mut self) -> Result<(Vec<u8>, u64, u64)> {
        self.flush()?;
        self.flush_removed()?;
        let (place, actions, adds) = (self.place, self.actions, self.adds);
        let bytes = self.writer.into_inner().map_err(|e| Error::malformed(place, e.to_string()))?;
        Ok((bytes, actions, adds))
    }
}
