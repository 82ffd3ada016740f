//! Writing manifests of version 2 and 3 tables, entry by entry, into memory of one manifest.

use super::super::avro::{Encoder, Writer};
use super::super::manifest_list::{FieldSummary, ManifestFile};
use super::super::single_value;
use super::{DELETE_FILE_PATH, DELETE_POSITION, tuple_types};
use hoglake_model::FieldId;
use hoglake_model::table::{ColumnStats, DataFile, FileFormat, PartitionSpec, Primitive, Schema, Value};
use std::collections::HashMap;

/// What an entry says happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// In this snapshot; snapshot and sequence numbers are inherited.
    Added,
    /// Live before.
    Existing { snapshot_id: i64, sequence: i64, file_sequence: i64 },
    /// Removed in this snapshot.
    Deleted { sequence: i64, file_sequence: i64 },
}

/// A data file to be written.
pub struct FileEntry<'a> {
    pub kind: EntryKind,
    pub file: &'a DataFile,
    pub path: &'a str,
    pub record_count: u64,
}

/// What a delete file about one data file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteContent {
    /// A deletion vector in a Puffin file.
    Vector { offset: i64, length: i64 },
    /// A file of positions, with the first and the last where they are known.
    Positions { format: FileFormat, range: Option<(u64, u64)> },
}

/// The deletes of one data file to be written.
pub struct DeleteEntry<'a> {
    pub kind: EntryKind,
    /// The delete file.
    pub path: &'a str,
    pub size_bytes: u64,
    pub cardinality: u64,
    pub content: DeleteContent,
    /// The data file.
    pub referenced: &'a str,
    pub partition: &'a [Option<Value>],
}

/// One manifest in the making.
#[derive(Debug)]
pub struct ManifestWriter {
    writer: Writer,
    version: i32,
    snapshot_id: i64,
    spec_id: i32,
    deletes: bool,
    types: Vec<Primitive>,
    summaries: Vec<Summary>,
    counts: [(i64, i64); 3],
    min_sequence: Option<i64>,
}

#[derive(Debug, Default)]
struct Summary {
    null: bool,
    nan: bool,
    lower: Option<Value>,
    upper: Option<Value>,
}

impl ManifestWriter {
    /// Starts a manifest of `spec`; `schema_json` is the table's current schema.
    pub fn new(
        version: i32,
        snapshot_id: i64,
        deletes: bool,
        spec: &PartitionSpec,
        schema: &Schema,
        (schema_id, schema_json): (i32, &str),
    ) -> Self {
        let types: Vec<_> = tuple_types(spec, schema).into_iter().map(|ty| ty.unwrap_or(Primitive::Int)).collect();
        let (schema_id, spec_id, version_text) = (schema_id.to_string(), spec.id.to_string(), version.to_string());
        let spec_json = super::super::metadata::spec_fields(spec).to_string();
        let metadata = [
            ("schema", schema_json),
            ("schema-id", &schema_id),
            ("partition-spec", &spec_json),
            ("partition-spec-id", &spec_id),
            ("format-version", &version_text),
            ("content", if deletes { "deletes" } else { "data" }),
        ];
        Self {
            writer: Writer::new(&avro_schema(version, deletes, spec, &types), &metadata),
            version,
            snapshot_id,
            spec_id: spec.id,
            deletes,
            summaries: types.iter().map(|_| Summary::default()).collect(),
            types,
            counts: [(0, 0); 3],
            min_sequence: None,
        }
    }

    /// Bytes so far, about.
    pub fn len(&self) -> usize {
        self.writer.len()
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.counts.iter().all(|(files, _)| *files == 0)
    }

    /// Appends a data file; `ids` renames the source's field ids where they differ.
    pub fn data(&mut self, entry: &FileEntry<'_>, ids: Option<&HashMap<FieldId, FieldId>>) {
        let (file, version, inherits) = (entry.file, self.version, entry.kind == EntryKind::Added);
        self.head(entry.kind, entry.record_count, &file.partition);
        let out = self.writer.record();
        out.long(0);
        out.bytes(entry.path.as_bytes());
        out.bytes(format_name(file.format));
        tuple(out, &file.partition, &self.types);
        out.long(i64::try_from(entry.record_count).unwrap_or(i64::MAX));
        out.long(file.size_bytes.and_then(|n| i64::try_from(n).ok()).unwrap_or(0));
        // Ids are looked up once a file, not once for each of the six maps.
        let columns: Vec<Named<'_>> = file.columns.iter().filter_map(|c| Some((target_id(ids, c.field)?, c))).collect();
        counts(out, &columns, |c| c.size_bytes);
        counts(out, &columns, |c| c.value_count);
        counts(out, &columns, |c| c.null_count);
        counts(out, &columns, |c| c.nan_count);
        bounds(out, &columns, true);
        bounds(out, &columns, false);
        if file.split_offsets.is_empty() {
            out.long(0);
        } else {
            out.long(1);
            out.long(i64::try_from(file.split_offsets.len()).unwrap_or(0));
            file.split_offsets.iter().for_each(|offset| out.long(*offset));
            out.long(0);
        }
        // equality_ids, sort_order_id
        out.long(0);
        out.long(0);
        if version >= 3 {
            // A new file's id is assigned by inheritance.
            out.optional_long(file.first_row_id.filter(|_| !inherits));
            (0..3).for_each(|_| out.long(0));
        }
        self.writer.end_record();
    }

    /// Appends a delete file.
    pub fn deletes(&mut self, entry: &DeleteEntry<'_>) {
        self.head(entry.kind, entry.cardinality, entry.partition);
        let version = self.version;
        let out = self.writer.record();
        out.long(1);
        out.bytes(entry.path.as_bytes());
        let (format, positions) = match entry.content {
            DeleteContent::Vector { .. } => (&b"PUFFIN"[..], None),
            DeleteContent::Positions { format, range } => (format_name(format), Some(range)),
        };
        out.bytes(format);
        tuple(out, entry.partition, &self.types);
        out.long(i64::try_from(entry.cardinality).unwrap_or(i64::MAX));
        out.long(i64::try_from(entry.size_bytes).unwrap_or(i64::MAX));
        // No sizes and no counts.
        (0..4).for_each(|_| out.long(0));
        let mut columns = Vec::new();
        if let Some(range) = positions {
            let bounds = |field, lower, upper| ColumnStats {
                lower: Some(lower),
                upper: Some(upper),
                ..ColumnStats::unknown(FieldId(field))
            };
            let position = |p: u64| Value::Long(i64::try_from(p).unwrap_or(i64::MAX));
            columns.extend(range.map(|(first, last)| bounds(DELETE_POSITION, position(first), position(last))));
            // Both are the data file's path: that the deletes are about it alone.
            let path = || Value::String(entry.referenced.into());
            columns.push(bounds(DELETE_FILE_PATH, path(), path()));
        }
        let columns: Vec<Named<'_>> = columns.iter().map(|c| (c.field.0, c)).collect();
        bounds(out, &columns, true);
        bounds(out, &columns, false);
        // No split offsets, no equality ids, no sort order.
        (0..3).for_each(|_| out.long(0));
        if version >= 3 {
            // No first row id.
            out.long(0);
        }
        out.long(1);
        out.bytes(entry.referenced.as_bytes());
        if version >= 3 {
            let blob = match entry.content {
                DeleteContent::Vector { offset, length } => Some((offset, length)),
                DeleteContent::Positions { .. } => None,
            };
            out.optional_long(blob.map(|b| b.0));
            out.optional_long(blob.map(|b| b.1));
        }
        self.writer.end_record();
    }

    fn head(&mut self, kind: EntryKind, records: u64, partition: &[Option<Value>]) {
        let (status, snapshot, sequences) = match kind {
            EntryKind::Added => (1, None, None),
            EntryKind::Existing { snapshot_id, sequence, file_sequence } => {
                (0, Some(snapshot_id), Some((sequence, file_sequence)))
            }
            EntryKind::Deleted { sequence, file_sequence } => {
                (2, Some(self.snapshot_id), Some((sequence, file_sequence)))
            }
        };
        let out = self.writer.record();
        out.long(status);
        out.optional_long(snapshot.or(Some(self.snapshot_id)));
        out.optional_long(sequences.map(|s| s.0));
        out.optional_long(sequences.map(|s| s.1));
        if let Some(count) = usize::try_from(status).ok().and_then(|s| self.counts.get_mut(s)) {
            count.0 += 1;
            count.1 = count.1.saturating_add(i64::try_from(records).unwrap_or(i64::MAX));
        }
        if let (Some((sequence, _)), false) = (sequences, status == 2) {
            self.min_sequence = Some(self.min_sequence.map_or(sequence, |min| min.min(sequence)));
        }
        for (summary, value) in
            self.summaries.iter_mut().zip(partition.iter().map(Option::as_ref).chain(std::iter::repeat(None)))
        {
            summary.add(value);
        }
    }

    /// The file and its description, `sequence` being that of the commit.
    pub fn finish(self, path: String, sequence: i64) -> (Vec<u8>, ManifestFile) {
        let bytes = self.writer.finish();
        let [existing, added, deleted] = self.counts;
        let min = if added.0 > 0 {
            self.min_sequence.map_or(sequence, |m| m.min(sequence))
        } else {
            self.min_sequence.unwrap_or(sequence)
        };
        let summary = |(s, ty): (Summary, &Primitive)| {
            let bytes = |value: &Value, lower| {
                let mut bytes = Vec::new();
                single_value::to_bytes(value, lower, &mut bytes);
                bytes
            };
            let float = matches!(ty, Primitive::Float | Primitive::Double);
            FieldSummary {
                contains_null: s.null,
                contains_nan: Some(s.nan && float),
                lower: s.lower.as_ref().map(|v| bytes(v, true)),
                upper: s.upper.as_ref().map(|v| bytes(v, false)),
            }
        };
        let description = ManifestFile {
            path,
            length: i64::try_from(bytes.len()).unwrap_or(i64::MAX),
            spec_id: self.spec_id,
            deletes: self.deletes,
            sequence_number: sequence,
            min_sequence_number: min,
            added_snapshot_id: self.snapshot_id,
            added_files: Some(added.0),
            existing_files: Some(existing.0),
            deleted_files: Some(deleted.0),
            added_rows: Some(added.1),
            existing_rows: Some(existing.1),
            deleted_rows: Some(deleted.1),
            partitions: Some(self.summaries.into_iter().zip(&self.types).map(summary).collect()),
            key_metadata: false,
            first_row_id: None,
        };
        (bytes, description)
    }
}

impl Summary {
    fn add(&mut self, value: Option<&Value>) {
        let Some(value) = value else {
            self.null = true;
            return;
        };
        if value.is_nan() {
            self.nan = true;
            return;
        }
        if self.lower.as_ref().is_none_or(|l| value.compare(l).is_some_and(std::cmp::Ordering::is_lt)) {
            self.lower = Some(value.clone());
        }
        if self.upper.as_ref().is_none_or(|u| value.compare(u).is_some_and(std::cmp::Ordering::is_gt)) {
            self.upper = Some(value.clone());
        }
    }
}

const fn format_name(format: FileFormat) -> &'static [u8] {
    match format {
        FileFormat::Parquet => b"PARQUET",
        FileFormat::Orc => b"ORC",
        FileFormat::Avro => b"AVRO",
    }
}

fn target_id(ids: Option<&HashMap<FieldId, FieldId>>, field: FieldId) -> Option<i64> {
    ids.map_or(Some(field.0), |ids| ids.get(&field).map(|id| id.0))
}

/// A column under the table's id.
type Named<'a> = (i64, &'a ColumnStats);

fn counts(out: &mut Vec<u8>, columns: &[Named<'_>], of: impl Fn(&ColumnStats) -> Option<u64>) {
    let known = || columns.iter().filter_map(|(id, c)| Some((*id, i64::try_from(of(c)?).ok()?)));
    let count = known().count();
    if count == 0 {
        out.long(0);
        return;
    }
    out.long(1);
    out.long(i64::try_from(count).unwrap_or(0));
    for (id, n) in known() {
        out.long(id);
        out.long(n);
    }
    out.long(0);
}

fn bounds(out: &mut Vec<u8>, columns: &[Named<'_>], lower: bool) {
    let known = || {
        columns.iter().filter_map(|(id, c)| {
            let bound = if lower { &c.lower } else { &c.upper };
            Some((*id, bound.as_ref().filter(|v| !v.is_nan())?))
        })
    };
    let count = known().count();
    if count == 0 {
        out.long(0);
        return;
    }
    out.long(1);
    out.long(i64::try_from(count).unwrap_or(0));
    let mut bytes = Vec::with_capacity(64);
    for (id, value) in known() {
        out.long(id);
        bytes.clear();
        single_value::to_bytes(value, lower, &mut bytes);
        out.bytes(&bytes);
    }
    out.long(0);
}

/// The partition tuple: every field is optional.
fn tuple(out: &mut Vec<u8>, values: &[Option<Value>], types: &[Primitive]) {
    for (index, ty) in types.iter().enumerate() {
        let Some(value) = values.get(index).and_then(Option::as_ref) else {
            out.long(0);
            continue;
        };
        out.long(1);
        match value {
            Value::Boolean(b) => out.push((*b).into()),
            Value::Int(n) | Value::Date(n) => out.long((*n).into()),
            Value::Long(n) | Value::Time(n) | Value::Timestamp(n) | Value::TimestampNs(n) => out.long(*n),
            Value::Float(f) => out.extend_from_slice(&f.to_le_bytes()),
            Value::Double(f) => out.extend_from_slice(&f.to_le_bytes()),
            Value::Decimal { unscaled, .. } => {
                let length =
                    if let Primitive::Decimal(d) = ty { single_value::decimal_fixed_length(d.precision) } else { 16 };
                out.extend_from_slice(&unscaled.to_be_bytes()[16 - length..]);
            }
            Value::String(s) => out.bytes(s.as_bytes()),
            Value::Uuid(u) => out.extend_from_slice(&u.to_be_bytes()),
            Value::Binary(b) if matches!(ty, Primitive::Fixed(_)) => out.extend_from_slice(b),
            Value::Binary(b) => out.bytes(b),
        }
    }
}

fn avro_schema(version: i32, deletes: bool, spec: &PartitionSpec, types: &[Primitive]) -> String {
    let field = |id: i32, name: &str, ty: &str| format!(r#"{{"name":"{name}","type":{ty},"field-id":{id}}}"#);
    let optional = |id: i32, name: &str, ty: &str| {
        format!(r#"{{"name":"{name}","type":["null",{ty}],"default":null,"field-id":{id}}}"#)
    };
    let map = |key: i32, value: i32, ty: &str| {
        format!(
            r#"{{"type":"array","items":{{"type":"record","name":"k{key}_v{value}","fields":[{},{}]}},"logicalType":"map"}}"#,
            field(key, "key", r#""int""#),
            field(value, "value", ty)
        )
    };
    let list = |id: i32, ty: &str| format!(r#"{{"type":"array","items":{ty},"element-id":{id}}}"#);
    let partition: Vec<_> = spec
        .fields
        .iter()
        .zip(types)
        .map(|(f, ty)| optional(f.field_id, &avro_name(&f.name, f.field_id), &avro_type(*ty, f.field_id)))
        .collect();
    let partition = format!(r#"{{"type":"record","name":"r102","fields":[{}]}}"#, partition.join(","));
    let (long, bytes) = (r#""long""#, r#""bytes""#);
    let mut file = vec![
        field(134, "content", r#""int""#),
        field(100, "file_path", r#""string""#),
        field(101, "file_format", r#""string""#),
        field(102, "partition", &partition),
        field(103, "record_count", long),
        field(104, "file_size_in_bytes", long),
        optional(108, "column_sizes", &map(117, 118, long)),
        optional(109, "value_counts", &map(119, 120, long)),
        optional(110, "null_value_counts", &map(121, 122, long)),
        optional(137, "nan_value_counts", &map(138, 139, long)),
        optional(125, "lower_bounds", &map(126, 127, bytes)),
        optional(128, "upper_bounds", &map(129, 130, bytes)),
        optional(132, "split_offsets", &list(133, long)),
        optional(135, "equality_ids", &list(136, r#""int""#)),
        optional(140, "sort_order_id", r#""int""#),
    ];
    if version >= 3 {
        file.extend([
            optional(142, "first_row_id", long),
            optional(143, "referenced_data_file", r#""string""#),
            optional(144, "content_offset", long),
            optional(145, "content_size_in_bytes", long),
        ]);
    } else if deletes {
        file.push(optional(143, "referenced_data_file", r#""string""#));
    }
    let file = format!(r#"{{"type":"record","name":"r2","fields":[{}]}}"#, file.join(","));
    let entry = [
        field(0, "status", r#""int""#),
        optional(1, "snapshot_id", long),
        optional(3, "sequence_number", long),
        optional(4, "file_sequence_number", long),
        field(2, "data_file", &file),
    ];
    format!(r#"{{"type":"record","name":"manifest_entry","fields":[{}]}}"#, entry.join(","))
}

/// A name that Avro allows; readers go by field id.
fn avro_name(name: &str, id: i32) -> String {
    let valid = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if valid {
        return name.to_owned();
    }
    let safe: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    format!("_{safe}_{id}")
}

fn avro_type(ty: Primitive, id: i32) -> String {
    let logical = |base: &str, logical: &str| format!(r#"{{"type":"{base}","logicalType":"{logical}"}}"#);
    match ty {
        Primitive::Boolean => r#""boolean""#.to_owned(),
        Primitive::Byte | Primitive::Short | Primitive::Int => r#""int""#.to_owned(),
        Primitive::Long => r#""long""#.to_owned(),
        Primitive::Float => r#""float""#.to_owned(),
        Primitive::Double => r#""double""#.to_owned(),
        Primitive::String => r#""string""#.to_owned(),
        Primitive::Date => logical("int", "date"),
        Primitive::Time => logical("long", "time-micros"),
        Primitive::Timestamp => r#"{"type":"long","logicalType":"timestamp-micros","adjust-to-utc":false}"#.to_owned(),
        Primitive::Timestamptz => r#"{"type":"long","logicalType":"timestamp-micros","adjust-to-utc":true}"#.to_owned(),
        Primitive::TimestampNs => r#"{"type":"long","logicalType":"timestamp-nanos","adjust-to-utc":false}"#.to_owned(),
        Primitive::TimestamptzNs => {
            r#"{"type":"long","logicalType":"timestamp-nanos","adjust-to-utc":true}"#.to_owned()
        }
        Primitive::Decimal(d) => format!(
            r#"{{"type":"fixed","name":"decimal_{}_{}_{id}","size":{},"logicalType":"decimal","precision":{},"scale":{}}}"#,
            d.precision,
            d.scale,
            single_value::decimal_fixed_length(d.precision),
            d.precision,
            d.scale
        ),
        Primitive::Uuid => format!(r#"{{"type":"fixed","name":"uuid_{id}","size":16,"logicalType":"uuid"}}"#),
        Primitive::Fixed(n) => format!(r#"{{"type":"fixed","name":"fixed_{n}_{id}","size":{n}}}"#),
        Primitive::Binary | Primitive::Variant | Primitive::Unknown => r#""bytes""#.to_owned(),
    }
}
