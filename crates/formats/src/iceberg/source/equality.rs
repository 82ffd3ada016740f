//! Equality deletes resolved to row positions ("Equality Delete Files"): the values of the deleted rows are held in
//! memory, as many as fit, and the columns compared are read from the data file.
//!
//! Which delete files apply to a data file, by sequence number and partition, is decided before
//! ([`DeleteIndex`](crate::iceberg::deletes::DeleteIndex)).

use super::Head;
use crate::deletion_vector::DeletionVector;
use crate::sync::{Error, Result, batch_rows};
use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch,
    StringArray, StructArray, Time64MicrosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray, UInt64Array,
    make_array, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::row::{RowConverter, Rows, SortField};
use futures::TryStreamExt;
use hoglake_model::FieldId;
use hoglake_model::table::{DataFile, DeleteFile, FileFormat, FilePath, Primitive, Transform, Value};
use parquet::arrow::ProjectionMask;
use parquet::arrow::async_reader::{ParquetRecordBatchStream, ParquetRecordBatchStreamBuilder};
use parquet::schema::types::SchemaDescriptor;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Values of deleted rows held at a time, in bytes.
const KEPT_BYTES: usize = 64 << 20;
/// What a key costs beside its bytes.
const KEY_OVERHEAD: usize = 40;
const BATCH_ROWS: usize = 8192;

type Keys = HashSet<Box<[u8]>>;

/// The keys of the deletes that were resolved last; data files that follow each other often share them.
#[derive(Debug, Default)]
pub(super) struct KeyCache {
    last: Mutex<Option<(Vec<FilePath>, Arc<Keys>)>>,
}

impl KeyCache {
    /// The keys of these deletes, if they are the last ones.
    fn of(&self, paths: &[FilePath]) -> Option<Arc<Keys>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|(of, _)| of == paths).map(|(_, keys)| Arc::clone(keys))
    }
}

/// A column that is compared.
struct Column {
    field: FieldId,
    ty: DataType,
    /// The value of files that do not hold the column.
    absent: Option<Value>,
    /// The names that each step of its path may have in files without ids.
    steps: Vec<Vec<String>>,
}

/// The rows of `file` that its equality deletes name.
///
/// # Memory
/// At most 64 MiB of values and a batch of rows. Deletes beyond that read the data file once more each time.
///
/// # Errors
/// [`Error::UnsupportedSource`] for files that are not Parquet, and columns that cannot be compared.
pub(super) async fn rows(
    head: &Head,
    types: &HashMap<i64, Primitive>,
    cache: &KeyCache,
    file: &DataFile,
    deletes: &[&DeleteFile],
) -> Result<DeletionVector> {
    let mut groups: BTreeMap<Vec<FieldId>, Vec<&DeleteFile>> = BTreeMap::new();
    for deletes in deletes {
        let mut fields = deletes.equality_fields.clone();
        fields.sort_unstable();
        fields.dedup();
        groups.entry(fields).or_default().push(deletes);
    }
    let mut all = DeletionVector::default();
    for (fields, deletes) in groups {
        let place = || deletes.first().map_or("equality deletes", |d| d.path.as_str());
        if fields.is_empty() {
            return Err(Error::malformed(place(), "an equality delete file names no columns to compare"));
        }
        let columns = fields.iter().map(|id| column(head, types, *id, place(), file)).collect::<Result<Vec<_>>>()?;
        let mut paths: Vec<_> = deletes.iter().map(|d| d.path.clone()).collect();
        paths.sort();
        if let Some(keys) = cache.of(&paths) {
            all.extend(&matching(head, file, &columns, &keys).await?);
            continue;
        }
        // Before the next ones are held.
        *cache.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let mut keys = Keys::new();
        let (mut bytes, mut whole) = (0, true);
        for deletes in deletes {
            let mut rows = Reader::open(head, &deletes.path, deletes.format, &columns, false).await?;
            while let Some(batch) = rows.next().await? {
                for row in &batch {
                    let key = row.as_ref();
                    if !keys.contains(key) {
                        bytes += key.len() + KEY_OVERHEAD;
                        keys.insert(key.into());
                    }
                }
                if bytes > KEPT_BYTES {
                    all.extend(&matching(head, file, &columns, &keys).await?);
                    keys.clear();
                    (bytes, whole) = (0, false);
                }
            }
        }
        if !keys.is_empty() {
            all.extend(&matching(head, file, &columns, &keys).await?);
        }
        if whole {
            *cache.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((paths, Arc::new(keys)));
        }
    }
    Ok(all)
}

/// The positions of the rows of `file` whose key is among `keys`.
async fn matching(head: &Head, file: &DataFile, columns: &[Column], keys: &Keys) -> Result<DeletionVector> {
    let mut reader = Reader::open(head, &file.path, file.format, columns, true).await?;
    let mut position = 0;
    let mut found = Vec::new();
    while let Some(batch) = reader.next().await? {
        for row in &batch {
            if keys.contains(row.as_ref()) {
                found.push(position);
            }
            position += 1;
        }
    }
    Ok(DeletionVector::from_positions(found))
}

fn column(
    head: &Head,
    types: &HashMap<i64, Primitive>,
    field: FieldId,
    place: &str,
    file: &DataFile,
) -> Result<Column> {
    let refuse = |detail: String| Error::UnsupportedSource {
        feature: "equality deletes".to_owned(),
        place: place.to_owned(),
        detail,
    };
    let Some(primitive) = types.get(&field.0).copied() else {
        return Err(refuse(format!("the table's current schema lacks the column {field} that they compare")));
    };
    let ty = comparable(primitive).ok_or_else(|| refuse(format!("columns of type {primitive} are not compared")))?;
    // "Column Projection": the partition value where the file does not hold the column, else the default.
    let spec = head.state.spec(file.spec_id);
    let at = spec.and_then(|s| s.fields.iter().position(|f| f.source == field && f.transform == Transform::Identity));
    let partition = at.and_then(|at| file.partition.get(at)).cloned().flatten();
    let default = || head.state.schema.node(field).and_then(|n| n.field?.initial_default.clone());
    let mut steps: Vec<Vec<String>> = Vec::new();
    let mapping = head.metadata().property("schema.name-mapping.default");
    let mapping = mapping.and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    super::binding::visit_mapping(mapping.as_ref(), &mut Vec::new(), &mut |id, found| {
        if id == field {
            steps = found.iter().map(|names| names.iter().map(|name| (*name).to_owned()).collect()).collect();
        }
    });
    if mapping.is_none() {
        let path = head.state.schema.path(field).unwrap_or_default();
        steps = path.into_iter().map(|name| vec![name.to_owned()]).collect();
    }
    Ok(Column { field, ty, absent: partition.or_else(default), steps })
}

/// The type in which values are compared: one for all types that a column may have had before it was promoted.
fn comparable(primitive: Primitive) -> Option<DataType> {
    Some(match primitive {
        Primitive::Boolean => DataType::Boolean,
        Primitive::Byte | Primitive::Short | Primitive::Int | Primitive::Long => DataType::Int64,
        Primitive::Float | Primitive::Double => DataType::Float64,
        Primitive::Decimal(d) => DataType::Decimal128(38, i8::try_from(d.scale).ok()?),
        Primitive::Date => DataType::Date32,
        Primitive::Time => DataType::Time64(TimeUnit::Microsecond),
        Primitive::Timestamp | Primitive::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, None),
        Primitive::TimestampNs | Primitive::TimestamptzNs => DataType::Timestamp(TimeUnit::Nanosecond, None),
        Primitive::String => DataType::Utf8,
        Primitive::Uuid | Primitive::Fixed(_) | Primitive::Binary => DataType::Binary,
        Primitive::Variant | Primitive::Unknown => return None,
    })
}

/// One row of one value.
fn constant(value: &Value, ty: &DataType) -> Option<ArrayRef> {
    let array: ArrayRef = match value {
        Value::Boolean(b) => Arc::new(BooleanArray::from(vec![*b])),
        Value::Int(n) => Arc::new(Int64Array::from(vec![i64::from(*n)])),
        Value::Long(n) => Arc::new(Int64Array::from(vec![*n])),
        Value::Float(f) => Arc::new(Float64Array::from(vec![f64::from(*f)])),
        Value::Double(f) => Arc::new(Float64Array::from(vec![*f])),
        Value::Decimal { unscaled, scale } => {
            let scale = i8::try_from(*scale).ok()?;
            Arc::new(Decimal128Array::from(vec![*unscaled]).with_precision_and_scale(38, scale).ok()?)
        }
        Value::Date(n) => Arc::new(Date32Array::from(vec![*n])),
        Value::Time(n) => Arc::new(Time64MicrosecondArray::from(vec![*n])),
        Value::Timestamp(n) => Arc::new(TimestampMicrosecondArray::from(vec![*n])),
        Value::TimestampNs(n) => Arc::new(TimestampNanosecondArray::from(vec![*n])),
        Value::String(s) => Arc::new(StringArray::from(vec![s.as_ref()])),
        Value::Uuid(u) => Arc::new(BinaryArray::from(vec![u.to_be_bytes().as_slice()])),
        Value::Binary(b) => Arc::new(BinaryArray::from(vec![b.as_ref()])),
    };
    cast(&array, ty).ok()
}

/// Where a file holds the columns: the leaf and the names on the way to it.
fn leaf(schema: &SchemaDescriptor, column: &Column) -> Option<(usize, Vec<String>)> {
    let has_ids = (0..schema.num_columns()).any(|i| schema.column(i).self_type().get_basic_info().has_id());
    (0..schema.num_columns()).find_map(|index| {
        let leaf = schema.column(index);
        let info = leaf.self_type().get_basic_info();
        let parts = leaf.path().parts();
        let found = if has_ids {
            info.has_id() && i64::from(info.id()) == column.field.0
        } else {
            parts.len() == column.steps.len()
                && parts.iter().zip(&column.steps).all(|(part, names)| names.contains(part))
        };
        (found && leaf.max_rep_level() == 0).then(|| (index, parts.to_vec()))
    })
}

/// Reads the compared columns of a file as keys.
struct Reader<'a> {
    place: &'a str,
    stream: ParquetRecordBatchStream<crate::sync::ParquetObject>,
    /// Names on the way to each column, `None` where the file does not hold it.
    parts: Vec<Option<Vec<String>>>,
    columns: &'a [Column],
    converter: RowConverter,
    /// Files that hold none of the columns have their rows counted instead.
    empty_rows: Option<usize>,
}

impl<'a> Reader<'a> {
    /// `fill` says whether columns that the file does not hold get their value for such files.
    async fn open(
        head: &Head,
        path: &'a FilePath,
        format: FileFormat,
        columns: &'a [Column],
        fill: bool,
    ) -> Result<Self> {
        let place = path.as_str();
        let bad = |e: &dyn std::fmt::Display| Error::malformed(place, e.to_string());
        if format != FileFormat::Parquet {
            return Err(Error::UnsupportedSource {
                feature: "equality deletes in or against files that are not Parquet".to_owned(),
                place: place.to_owned(),
                detail: "compact the table first".to_owned(),
            });
        }
        // Manifests have been seen to get sizes wrong.
        let object = head.root.parquet(path, None)?;
        let builder = ParquetRecordBatchStreamBuilder::new(object).await.map_err(|e| Error::parquet(place, &e))?;
        let schema = builder.parquet_schema();
        let found: Vec<_> = columns.iter().map(|column| leaf(schema, column)).collect();
        if !fill && found.iter().any(Option::is_none) {
            return Err(bad(&"the equality delete file lacks a column that its manifest names"));
        }
        let empty_rows = found.iter().all(Option::is_none).then(|| builder.metadata().file_metadata().num_rows());
        let mask = ProjectionMask::leaves(schema, found.iter().flatten().map(|(index, _)| *index));
        let rows = batch_rows(builder.metadata(), &mask, BATCH_ROWS);
        let stream = builder.with_projection(mask).with_batch_size(rows).build();
        let stream = stream.map_err(|e| Error::parquet(place, &e))?;
        let fields = columns.iter().map(|c| SortField::new(c.ty.clone())).collect();
        Ok(Self {
            place,
            stream,
            parts: found.into_iter().map(|f| f.map(|(_, parts)| parts)).collect(),
            columns,
            converter: RowConverter::new(fields).map_err(|e| bad(&e))?,
            empty_rows: empty_rows.and_then(|n| usize::try_from(n).ok()),
        })
    }

    async fn next(&mut self) -> Result<Option<Rows>> {
        let bad = |e: &dyn std::fmt::Display| Error::malformed(self.place, e.to_string());
        let (batch, rows) = match &mut self.empty_rows {
            Some(0) => return Ok(None),
            Some(left) => {
                let rows = (*left).min(BATCH_ROWS);
                *left -= rows;
                (None, rows)
            }
            None => match self.stream.try_next().await.map_err(|e| Error::parquet(self.place, &e))? {
                None => return Ok(None),
                Some(batch) => {
                    let rows = batch.num_rows();
                    (Some(batch), rows)
                }
            },
        };
        let mut arrays = Vec::with_capacity(self.columns.len());
        for (column, parts) in self.columns.iter().zip(&self.parts) {
            let array = match (parts, &batch) {
                (Some(parts), Some(batch)) => {
                    let array = descend(batch, parts).ok_or_else(|| bad(&"a compared column is not readable"))?;
                    cast(&array, &column.ty).map_err(|e| bad(&e))?
                }
                _ => match column.absent.as_ref().and_then(|value| constant(value, &column.ty)) {
                    Some(one) => take(&one, &UInt64Array::from(vec![0; rows]), None).map_err(|e| bad(&e))?,
                    None => new_null_array(&column.ty, rows),
                },
            };
            arrays.push(array);
        }
        self.converter.convert_columns(&arrays).map(Some).map_err(|e| bad(&e))
    }
}

/// A member of nested structs; null where one of the structs is.
fn descend(batch: &RecordBatch, parts: &[String]) -> Option<ArrayRef> {
    let (first, rest) = parts.split_first()?;
    let mut array = Arc::clone(batch.column_by_name(first)?);
    for part in rest {
        let parent = array.as_any().downcast_ref::<StructArray>()?;
        let member = Arc::clone(parent.column_by_name(part)?);
        let nulls = NullBuffer::union(parent.nulls(), member.nulls());
        array = make_array(member.to_data().into_builder().nulls(nulls).build().ok()?);
    }
    Some(array)
}
