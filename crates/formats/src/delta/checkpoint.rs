//! Reading checkpoints ("Checkpoint Schema", "V2 Spec"): Parquet by row group, JSON by line.

mod stats_text;

use super::action::{Add, DomainMetadata, Format, Metadata, Pairs, Protocol, Remove, Sidecar, Txn, VectorDescriptor};
use super::replay::{Decoder, Keys};
use super::stats::{FileStats, Scratch};
use crate::sync::{Error, OpenParquet, ParquetPages, Requests, Result, TableRoot};
use arrow::array::{Array, AsArray, MapArray, RecordBatch, StructArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
};
use arrow::error::ArrowError;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use hoglake_model::table::{DataFile, FilePath, Primitive, Value};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::errors::ParquetError;
use std::borrow::Cow;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Rows of a batch of `add` actions, statistics and all.
const BATCH_ROWS: usize = 1024;
/// Rows of a batch of a few narrow columns.
const NARROW_ROWS: usize = 8192;
/// Requests for the names of all files of a part, however many they are.
pub(super) const REFERENCE_REQUESTS: Requests = Requests::AtMost(8);

/// Batches of a part as they are decoded.
pub(super) type Batches = BoxStream<'static, Result<RecordBatch, ParquetError>>;

/// Everything in a checkpoint that is not a file action.
#[derive(Debug, Clone, Default)]
pub(super) struct Actions {
    pub protocol: Option<Protocol>,
    pub metadata: Option<Metadata>,
    pub sidecars: Vec<Sidecar>,
}

/// Reads the footer of one Parquet part.
pub(super) async fn open(root: &TableRoot, key: &str) -> Result<OpenParquet> {
    let reader = root.parquet(&FilePath::Under(key.into()), None)?;
    reader.open().await.map_err(|e| Error::parquet(root.spell(key), &e))
}

/// Projects the columns whose dotted path `keep` accepts, without those that are null throughout.
fn project(part: &OpenParquet, keep: impl Fn(&str) -> bool) -> ProjectionMask {
    let schema = part.metadata().file_metadata().schema_descr();
    let wanted = |leaf: &usize| keep(&schema.column(*leaf).path().string());
    let leaves = (0..schema.num_columns()).filter(wanted).filter(|leaf| valid_rows(part, *leaf) != Some(0));
    ProjectionMask::leaves(schema, leaves)
}

/// In how many rows a column that does not repeat is not null, as far as the footer says.
fn valid_rows(part: &OpenParquet, leaf: usize) -> Option<u64> {
    let repeats = part.metadata().file_metadata().schema_descr().column(leaf).max_rep_level() > 0;
    let groups = part.metadata().row_groups().iter().filter(|_| !repeats).map(|group| {
        let nulls = group.column(leaf).statistics().and_then(|s| s.null_count_opt())?;
        u64::try_from(group.num_rows()).ok()?.checked_sub(nulls)
    });
    let valid: Option<u64> = groups.sum();
    valid.filter(|_| !repeats)
}

/// The leaf with this dotted path.
pub(super) fn leaf(part: &OpenParquet, path: &str) -> Option<usize> {
    let schema = part.metadata().file_metadata().schema_descr();
    (0..schema.num_columns()).find(|i| schema.column(*i).path().string() == path)
}

/// Starts to decode the columns of `mask`.
fn decoder(
    part: &OpenParquet,
    pages: &ParquetPages,
    mask: &ProjectionMask,
    rows: usize,
    selection: Option<RowSelection>,
) -> Result<ParquetRecordBatchReader, ParquetError> {
    // Types come from the Parquet schema alone: a writer's own Arrow schema may ask for views or dictionaries.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::try_new(Arc::clone(part.metadata()), options)?;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(pages.clone(), metadata);
    let builder = builder.with_projection(mask.clone()).with_batch_size(rows);
    match selection {
        Some(selection) => builder.with_row_selection(selection).build(),
        None => builder.build(),
    }
}

/// Decodes the columns of `mask` on a thread that may wait, a batch ahead of the reader.
fn batches(part: &OpenParquet, mask: ProjectionMask, rows: usize, requests: Requests) -> Result<Batches, ParquetError> {
    let pages = part.pages(&mask, requests)?;
    let (part, (sender, receiver)) = (part.clone(), mpsc::channel(1));
    tokio::task::spawn_blocking(move || {
        let failed = (|| {
            for batch in decoder(&part, &pages, &mask, rows, None)? {
                let batch = batch.map_err(|e| ParquetError::ArrowError(e.to_string()))?;
                if sender.blocking_send(Ok(batch)).is_err() {
                    break;
                }
            }
            Ok(())
        })();
        if let Err(error) = failed {
            // Nobody is told when nobody reads.
            drop(sender.blocking_send(Err(pages.error(error))));
        }
    });
    Ok(stream::unfold(receiver, async |mut receiver| receiver.recv().await.map(|batch| (batch, receiver))).boxed())
}

/// Reads `protocol`, `metaData` and `sidecar` of one Parquet part: first in which rows they are, then those rows.
pub(super) async fn actions(root: &TableRoot, key: &str, part: &OpenParquet, into: &mut Actions) -> Result<()> {
    let damaged = |e: &ParquetError| Error::parquet(root.spell(key), e);
    // Columns that every one of these actions has.
    let witnesses = ["protocol.minReaderVersion", "metaData.schemaString", "sidecar.path"];
    let expected = |path: &str| leaf(part, path).map_or(Some(0), |leaf| valid_rows(part, leaf));
    let expected = witnesses.map(|path| (path, expected(path)));
    let groups: Vec<_> = expected.iter().filter(|(_, rows)| *rows != Some(0)).map(|(path, _)| *path).collect();
    let most = expected.iter().try_fold(0_u64, |sum, (_, rows)| sum.checked_add((*rows)?));
    if groups.is_empty() {
        return Ok(());
    }
    let narrow = project(part, |path| groups.contains(&path));
    let whole = project(part, |path| {
        groups.iter().any(|group| path.split('.').next().is_some_and(|first| Some(first) == group.split('.').next()))
    });
    let pages = part.pages(&whole, REFERENCE_REQUESTS).map_err(|e| damaged(&e))?;
    let part = part.clone();
    let read = move || -> Result<Vec<RecordBatch>, ParquetError> {
        let failed = |e: ParquetError| pages.error(e);
        let arrow = |e: ArrowError| failed(ParquetError::ArrowError(e.to_string()));
        let (mut found, mut begin) = (Vec::new(), 0);
        for batch in decoder(&part, &pages, &narrow, NARROW_ROWS, None).map_err(failed)? {
            let batch = batch.map_err(arrow)?;
            let valid = |row: &usize| batch.columns().iter().any(|column| column.is_valid(*row));
            found.extend((0..batch.num_rows()).filter(valid).map(|row| begin + row..begin + row + 1));
            begin += batch.num_rows();
            if most.is_some_and(|most| found.len() as u64 >= most) {
                break;
            }
        }
        let rows = part.metadata().row_groups().iter().map(|g| usize::try_from(g.num_rows()).unwrap_or(0)).sum();
        let selection = RowSelection::from_consecutive_ranges(found.into_iter(), rows);
        let batches = decoder(&part, &pages, &whole, BATCH_ROWS, Some(selection)).map_err(failed)?;
        batches.map(|batch| batch.map_err(arrow)).collect()
    };
    let batches = tokio::task::spawn_blocking(read).await.map_err(|e| Error::malformed("checkpoint", e.to_string()))?;
    for batch in batches.map_err(|e| damaged(&e))? {
        add_actions(&batch, into);
    }
    Ok(())
}

fn add_actions(batch: &RecordBatch, into: &mut Actions) {
    let rows = |name: &str| {
        let column = batch.column_by_name(name).and_then(|c| c.as_struct_opt());
        column.into_iter().flat_map(|c| (0..c.len()).filter(|i| c.is_valid(*i)).map(move |i| (c, i)))
    };
    for (column, row) in rows("protocol") {
        let int = |name| integer(column, name, row).and_then(|n| i32::try_from(n).ok());
        let (Some(reader), Some(writer)) = (int("minReaderVersion"), int("minWriterVersion")) else { continue };
        into.protocol = Some(Protocol {
            min_reader_version: reader,
            min_writer_version: writer,
            reader_features: strings(column, "readerFeatures", row),
            writer_features: strings(column, "writerFeatures", row),
        });
    }
    for (column, row) in rows("metaData") {
        let text = |name| string(column, name, row).map(str::to_owned);
        let Some(schema_string) = text("schemaString") else { continue };
        let format = column.column_by_name("format").and_then(|c| c.as_struct_opt());
        into.metadata = Some(Metadata {
            id: text("id").unwrap_or_default(),
            name: text("name"),
            description: text("description"),
            format: format.and_then(|f| string(f, "provider", row)).map(|p| Format { provider: p.to_owned() }),
            schema_string,
            partition_columns: strings(column, "partitionColumns", row),
            configuration: Some(
                pairs(column, "configuration", row)
                    .into_iter()
                    .map(|(k, v)| (k.into_owned(), v.map(Cow::into_owned)))
                    .collect(),
            ),
            created_time: integer(column, "createdTime", row),
        });
    }
    for (column, row) in rows("sidecar") {
        if let Some(path) = string(column, "path", row) {
            into.sidecars.push(Sidecar { path: path.to_owned() });
        }
    }
}

/// Streams batches of the `add` actions of one Parquet file, with their tags or without; the flag says whether only typed
/// statistics exist.
pub(super) async fn adds(root: &TableRoot, key: &str, tags: bool) -> Result<(Batches, bool)> {
    let part = open(root, key).await?;
    let typed_only = leaf(&part, "add.stats").is_none_or(|leaf| valid_rows(&part, leaf) == Some(0));
    let mask = project(&part, |path| {
        let Some(path) = path.strip_prefix("add.") else { return false };
        let (first, _) = path.split_once('.').unwrap_or((path, ""));
        match first {
            "path" | "partitionValues" | "size" | "modificationTime" | "deletionVector" | "baseRowId" => true,
            "tags" => tags,
            "stats" => !typed_only,
            "stats_parsed" => typed_only,
            _ => false,
        }
    });
    let batches = batches(&part, mask, BATCH_ROWS, Requests::AsNeeded);
    Ok((batches.map_err(|e| Error::parquet(root.spell(key), &e))?, typed_only))
}

/// Streams batches of the columns that identify the logical files of one Parquet file.
pub(super) fn references(part: &OpenParquet) -> Result<Batches, ParquetError> {
    let mask = project(part, |path| path == "add.path" || path.starts_with("add.deletionVector."));
    batches(part, mask, NARROW_ROWS, REFERENCE_REQUESTS)
}

/// Visits the logical files of a batch of [`references`] whose path `may_matter`.
pub(super) fn each_reference(
    batch: &RecordBatch,
    may_matter: impl Fn(&str) -> bool,
    mut visit: impl FnMut(&str, Option<&VectorDescriptor<'_>>) -> Result<()>,
) -> Result<()> {
    let Some(add) = batch.column_by_name("add").and_then(|c| c.as_struct_opt()) else { return Ok(()) };
    let paths = add.column_by_name("path").and_then(|c| c.as_string_opt::<i32>());
    for row in (0..add.len()).filter(|row| add.is_valid(*row)) {
        let Some(path) = paths.filter(|paths| paths.is_valid(row)).map(|paths| paths.value(row)) else { continue };
        if may_matter(path) {
            visit(path, vector(add, row).as_ref())?;
        }
    }
    Ok(())
}

/// Streams batches of the tombstones of one Parquet file.
pub(super) async fn removes(root: &TableRoot, key: &str) -> Result<Batches> {
    let part = open(root, key).await?;
    let mask = project(&part, |path| {
        ["remove.path", "remove.deletionTimestamp", "remove.dataChange", "remove.size"].contains(&path)
            || path.starts_with("remove.deletionVector.")
    });
    let batches = batches(&part, mask, NARROW_ROWS, Requests::AsNeeded);
    batches.map_err(|e| Error::parquet(root.spell(key), &e))
}

/// Visits the tombstones of a batch of [`removes`].
pub(super) fn each_remove(batch: &RecordBatch, mut visit: impl FnMut(&Remove<'_>) -> Result<()>) -> Result<()> {
    let Some(remove) = batch.column_by_name("remove").and_then(|c| c.as_struct_opt()) else { return Ok(()) };
    for row in (0..remove.len()).filter(|row| remove.is_valid(*row)) {
        let Some(path) = string(remove, "path", row) else { continue };
        let change = remove.column_by_name("dataChange").and_then(|c| c.as_boolean_opt());
        visit(&Remove {
            path: path.into(),
            deletion_timestamp: integer(remove, "deletionTimestamp", row),
            data_change: change.is_none_or(|c| c.is_valid(row) && c.value(row)),
            size: integer(remove, "size", row),
            deletion_vector: vector(remove, row),
        })?;
    }
    Ok(())
}

/// Streams batches of what applications and domains keep in one Parquet file.
pub(super) async fn named(root: &TableRoot, key: &str) -> Result<Batches> {
    let part = open(root, key).await?;
    let mask = project(&part, |path| path.starts_with("txn.") || path.starts_with("domainMetadata."));
    let batches = batches(&part, mask, NARROW_ROWS, REFERENCE_REQUESTS);
    batches.map_err(|e| Error::parquet(root.spell(key), &e))
}

/// What applications and domains keep in a batch of [`named`].
pub(super) fn named_in(batch: &RecordBatch) -> (Vec<Txn>, Vec<DomainMetadata>) {
    let rows = |name: &str| {
        let column = batch.column_by_name(name).and_then(|c| c.as_struct_opt());
        column.into_iter().flat_map(|c| (0..c.len()).filter(|row| c.is_valid(*row)).map(move |row| (c, row)))
    };
    let txns = rows("txn").filter_map(|(column, row)| {
        let (app_id, version) = (string(column, "appId", row)?.to_owned(), integer(column, "version", row)?);
        Some(Txn { app_id, version, last_updated: integer(column, "lastUpdated", row) })
    });
    let domains = rows("domainMetadata").filter_map(|(column, row)| {
        let removed = column.column_by_name("removed").and_then(|c| c.as_boolean_opt());
        Some(DomainMetadata {
            domain: string(column, "domain", row)?.to_owned(),
            configuration: string(column, "configuration", row).map(str::to_owned),
            removed: removed.is_some_and(|c| c.is_valid(row) && c.value(row)),
        })
    });
    (txns.collect(), domains.collect())
}

/// Decodes the live files of a batch: those about which no newer action has decided.
pub(super) fn decode(
    decoder: &Decoder,
    keys: &Keys,
    place: &str,
    batch: &RecordBatch,
    typed_only: bool,
) -> Result<Vec<DataFile>> {
    let mut files = Vec::with_capacity(batch.num_rows());
    let mut scratch = Scratch::default();
    let add = batch.column_by_name("add").and_then(|c| c.as_struct_opt());
    let parsed = add.and_then(|a| a.column_by_name("stats_parsed")).and_then(|c| c.as_struct_opt());
    let parsed = parsed.filter(|_| typed_only);
    each_row(keys, batch, |row, action| {
        let stats = parsed.map(|p| if p.is_valid(row) { typed_stats(decoder, p, row) } else { FileStats::default() });
        files.push(decoder.file(place, action, &mut scratch, stats)?);
        Ok(())
    })?;
    Ok(files)
}

/// Visits the live `add` actions of a batch with their tags, and with statistics as text in whatever form they are kept.
pub(super) fn each_add(
    keys: &Keys,
    batch: &RecordBatch,
    mut visit: impl FnMut(&Add<'_>, Option<Pairs<'_>>) -> Result<()>,
) -> Result<()> {
    let all = batch.column_by_name("add").and_then(|c| c.as_struct_opt());
    let with_tags = all.and_then(|add| Some((add, add.column_by_name("tags")?)));
    // Only there when there is no text.
    let parsed = all.and_then(|add| add.column_by_name("stats_parsed")).and_then(|c| c.as_struct_opt());
    each_row(keys, batch, |row, add| {
        let tags = with_tags.filter(|(_, tags)| tags.is_valid(row)).map(|(add, _)| pairs(add, "tags", row));
        let text = parsed.filter(|stats| stats.is_valid(row)).and_then(|stats| stats_text::of(stats, row));
        add.stats = text.map(Cow::Owned).or(add.stats.take());
        visit(add, tags)
    })
}

fn each_row(keys: &Keys, batch: &RecordBatch, mut visit: impl FnMut(usize, &mut Add<'_>) -> Result<()>) -> Result<()> {
    let Some(add) = batch.column_by_name("add").and_then(|c| c.as_struct_opt()) else { return Ok(()) };
    for row in (0..add.len()).filter(|row| add.is_valid(*row)) {
        let Some(path) = string(add, "path", row) else { continue };
        let deletion_vector = vector(add, row);
        if keys.contains(keys.key(path, deletion_vector.as_ref())) {
            continue;
        }
        let mut action = Add {
            path: path.into(),
            partition_values: pairs(add, "partitionValues", row),
            size: integer(add, "size", row),
            modification_time: integer(add, "modificationTime", row),
            data_change: false,
            stats: string(add, "stats", row).map(Cow::Borrowed),
            deletion_vector,
            base_row_id: integer(add, "baseRowId", row),
            tags: None,
        };
        visit(row, &mut action)?;
    }
    Ok(())
}

fn vector(add: &StructArray, row: usize) -> Option<VectorDescriptor<'_>> {
    let column = add.column_by_name("deletionVector")?.as_struct_opt().filter(|c| c.is_valid(row))?;
    Some(VectorDescriptor {
        storage_type: string(column, "storageType", row)?.into(),
        path_or_inline_dv: string(column, "pathOrInlineDv", row)?.into(),
        offset: integer(column, "offset", row),
        size_in_bytes: integer(column, "sizeInBytes", row)?,
        cardinality: integer(column, "cardinality", row)?,
    })
}

fn typed_stats(decoder: &Decoder, stats: &StructArray, row: usize) -> FileStats {
    let group = |name: &str| stats.column_by_name(name).and_then(|c| c.as_struct_opt());
    let (min, max, nulls) = (group("minValues"), group("maxValues"), group("nullCount"));
    let records = integer(stats, "numRecords", row).and_then(|n| u64::try_from(n).ok());
    let tight = stats.column_by_name("tightBounds").and_then(|c| c.as_boolean_opt());
    let tight = tight.is_none_or(|c| !c.is_valid(row) || c.value(row));
    decoder.stats.typed(records, tight, |path, ty| {
        let count = nulls
            .and_then(|g| descend(g, path, row))
            .and_then(|c| c.as_primitive_opt::<Int64Type>().map(|c| c.value(row)));
        (
            count.and_then(|n| u64::try_from(n).ok()),
            min.and_then(|g| descend(g, path, row)).and_then(|c| value(c, row, ty)),
            max.and_then(|g| descend(g, path, row)).and_then(|c| value(c, row, ty)),
        )
    })
}

fn descend<'a>(group: &'a StructArray, path: &[&str], row: usize) -> Option<&'a dyn Array> {
    let (first, rest) = path.split_first()?;
    let column = group.column_by_name(first).filter(|c| group.is_valid(row) && c.is_valid(row))?;
    if rest.is_empty() { Some(column.as_ref()) } else { descend(column.as_struct_opt()?, rest, row) }
}

fn value(column: &dyn Array, row: usize, ty: Primitive) -> Option<Value> {
    let value = match (column.data_type(), ty) {
        (DataType::Boolean, Primitive::Boolean) => Value::Boolean(column.as_boolean().value(row)),
        (DataType::Int8, Primitive::Byte) => Value::Int(column.as_primitive::<Int8Type>().value(row).into()),
        (DataType::Int16, Primitive::Short) => Value::Int(column.as_primitive::<Int16Type>().value(row).into()),
        (DataType::Int32, Primitive::Byte | Primitive::Short | Primitive::Int) => {
            Value::Int(column.as_primitive::<Int32Type>().value(row))
        }
        (DataType::Int32, Primitive::Long) => Value::Long(column.as_primitive::<Int32Type>().value(row).into()),
        (DataType::Int64, Primitive::Long) => Value::Long(column.as_primitive::<Int64Type>().value(row)),
        (DataType::Float32, Primitive::Float) => Value::Float(column.as_primitive::<Float32Type>().value(row)),
        (DataType::Float64, Primitive::Double) => Value::Double(column.as_primitive::<Float64Type>().value(row)),
        (DataType::Date32, Primitive::Date) => Value::Date(column.as_primitive::<Date32Type>().value(row)),
        (DataType::Decimal128(_, scale), Primitive::Decimal(d)) if i16::from(*scale) == i16::from(d.scale) => {
            Value::Decimal { unscaled: column.as_primitive::<Decimal128Type>().value(row), scale: d.scale }
        }
        (DataType::Timestamp(unit, _), Primitive::Timestamp | Primitive::Timestamptz) => Value::Timestamp(match unit {
            TimeUnit::Microsecond => column.as_primitive::<TimestampMicrosecondType>().value(row),
            TimeUnit::Millisecond => column.as_primitive::<TimestampMillisecondType>().value(row).checked_mul(1000)?,
            TimeUnit::Nanosecond => column.as_primitive::<TimestampNanosecondType>().value(row).div_euclid(1000),
            TimeUnit::Second => return None,
        }),
        (DataType::Utf8, Primitive::String) => Value::String(column.as_string::<i32>().value(row).into()),
        _ => return None,
    };
    (!value.is_nan()).then_some(value)
}

fn integer(parent: &StructArray, name: &str, row: usize) -> Option<i64> {
    let column = parent.column_by_name(name).filter(|c| c.is_valid(row))?;
    match column.data_type() {
        DataType::Int64 => Some(column.as_primitive::<Int64Type>().value(row)),
        DataType::Int32 => Some(column.as_primitive::<Int32Type>().value(row).into()),
        _ => None,
    }
}

fn string<'a>(parent: &'a StructArray, name: &str, row: usize) -> Option<&'a str> {
    let column = parent.column_by_name(name).filter(|c| c.is_valid(row))?;
    column.as_string_opt::<i32>().map(|c| c.value(row))
}

fn strings(parent: &StructArray, name: &str, row: usize) -> Option<Vec<String>> {
    let column = parent.column_by_name(name)?.as_list_opt::<i32>().filter(|c| c.is_valid(row))?;
    let values = column.value(row);
    let values = values.as_string_opt::<i32>()?;
    Some(values.iter().flatten().map(str::to_owned).collect())
}

fn pairs<'a>(parent: &'a StructArray, name: &str, row: usize) -> Pairs<'a> {
    let map = parent.column_by_name(name).and_then(|c| c.as_map_opt()).filter(|c| c.is_valid(row));
    map.map(|map| entries(map, row)).unwrap_or_default()
}

fn entries(map: &MapArray, row: usize) -> Pairs<'_> {
    let offsets = map.value_offsets();
    let (Some(begin), Some(end)) = (offsets.get(row), offsets.get(row + 1)) else { return Vec::new() };
    let (Some(keys), Some(values)) = (map.keys().as_string_opt::<i32>(), map.values().as_string_opt::<i32>()) else {
        return Vec::new();
    };
    let range = usize::try_from(*begin).unwrap_or(0)..usize::try_from(*end).unwrap_or(0);
    range.map(|i| (keys.value(i).into(), values.is_valid(i).then(|| values.value(i).into()))).collect()
}
