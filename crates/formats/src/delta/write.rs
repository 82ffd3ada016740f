//! Actions as JSON lines, written straight into a buffer.

use super::action::{Metadata, Protocol, VectorDescriptor};
use super::partition;
use super::replay;
use super::time;
use crate::sync::{Result, TableRoot};
use hoglake_model::FieldId;
use hoglake_model::table::{ColumnStats, DataFile, Field, FilePath, Primitive, Schema, Type, Value, VectorRef};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::json;
use std::collections::HashMap;
use std::fmt::Write;

/// What a path must not contain in the log: everything that a URI gives a meaning, and what it forbids. A colon could
/// make the first segment look like a scheme.
const PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}')
    .add(b':');

/// Iceberg cuts string bounds at 16 characters: from there on a bound may not occur in the file.
const MAYBE_CUT: usize = 16;

/// How to write the files of one state.
#[derive(Debug)]
pub(super) struct FileWriter {
    tree: Vec<Branch>,
    /// Stored name, type and place in the source's tuple (by spec) of each partition column.
    pub partition: Vec<PartitionColumn>,
}

/// A file that becomes live.
#[derive(Debug, Clone, Copy)]
pub(super) struct Added<'a> {
    pub file: &'a DataFile,
    /// Its path as the log writes it.
    pub uri: &'a str,
    pub record_count: u64,
    pub data_change: bool,
    /// For files that do not say when they were written.
    pub modified_ms: i64,
    pub vector: Option<&'a Descriptor>,
}

/// A partition column of the target.
#[derive(Debug)]
pub(super) struct PartitionColumn {
    pub name: String,
    pub ty: Primitive,
    /// Where its value stands in the tuples of each source spec.
    pub places: HashMap<i32, usize>,
}

#[derive(Debug)]
struct Branch {
    /// The name as a JSON string with its colon.
    key: String,
    node: Node,
}

#[derive(Debug)]
enum Node {
    Leaf(FieldId, Primitive),
    Struct(Vec<Branch>),
}

/// The deletion vector of a logical file, as the log writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub storage_type: char,
    pub path_or_inline: String,
    pub offset: Option<u64>,
    pub size_bytes: u64,
    pub cardinality: u64,
}

impl Descriptor {
    /// A descriptor as it is written in a log.
    pub fn written(d: &VectorDescriptor<'_>) -> Self {
        Self {
            storage_type: d.storage_type.chars().next().unwrap_or_default(),
            path_or_inline: d.path_or_inline_dv.to_string(),
            offset: d.offset.and_then(|n| u64::try_from(n).ok()),
            size_bytes: u64::try_from(d.size_in_bytes).unwrap_or_default(),
            cardinality: u64::try_from(d.cardinality).unwrap_or_default(),
        }
    }

    /// Where the vector is.
    ///
    /// # Errors
    /// As [`replay::vector`].
    pub fn locate(&self, root: &TableRoot, place: &str) -> Result<VectorRef> {
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let descriptor = VectorDescriptor {
            storage_type: self.storage_type.to_string().into(),
            path_or_inline_dv: self.path_or_inline.as_str().into(),
            offset: self.offset.map(signed),
            size_in_bytes: signed(self.size_bytes),
            cardinality: signed(self.cardinality),
        };
        replay::vector(root, place, &descriptor)
    }

    fn write(&self, out: &mut String) {
        let offset = self.offset.map(|o| format!(r#""offset":{o},"#)).unwrap_or_default();
        let _ = write!(
            out,
            r#""deletionVector":{{"storageType":"{}","pathOrInlineDv":{},{offset}"sizeInBytes":{},"cardinality":{}}}"#,
            self.storage_type,
            json!(self.path_or_inline),
            self.size_bytes,
            self.cardinality
        );
    }
}

/// A path as the log writes it.
pub(super) fn uri(path: &FilePath) -> String {
    match path {
        FilePath::Under(relative) => utf8_percent_encode(relative, PATH).to_string(),
        FilePath::Outside(absolute) => match absolute.split_once("://") {
            Some((scheme, rest)) => format!("{scheme}://{}", utf8_percent_encode(rest, PATH)),
            None if absolute.starts_with('/') => format!("file://{}", utf8_percent_encode(absolute, PATH)),
            None => utf8_percent_encode(absolute, PATH).to_string(),
        },
    }
}

impl FileWriter {
    pub fn new(schema: &Schema, partition: Vec<PartitionColumn>) -> Self {
        let fields = schema.fields.iter().filter(|f| !partition.iter().any(|p| p.name == f.stored_name()));
        Self { tree: branches(fields), partition }
    }

    /// Appends an `add` line.
    ///
    /// # Errors
    /// The partition column whose value the log cannot carry.
    pub fn add(&self, out: &mut String, scratch: &mut String, added: &Added<'_>) -> Result<(), String> {
        let Added { file, uri, record_count, data_change, modified_ms, vector } = *added;
        out.push_str(r#"{"add":{"path":"#);
        string(out, uri);
        out.push_str(r#","partitionValues":{"#);
        for (index, column) in self.partition.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            string(out, &column.name);
            out.push(':');
            let value =
                column.places.get(&file.spec_id).and_then(|at| file.partition.get(*at)).and_then(Option::as_ref);
            match value {
                None => out.push_str("null"),
                Some(value) => {
                    string(out, &partition::format(column.ty, value).ok_or_else(|| column.name.clone())?);
                }
            }
        }
        let size = file.size_bytes.unwrap_or(0);
        let modified = file.modified_ms.unwrap_or(modified_ms);
        let _ = write!(out, r#"}},"size":{size},"modificationTime":{modified},"dataChange":{data_change},"stats":"#);
        scratch.clear();
        self.stats(scratch, file, record_count);
        string(out, scratch);
        if let Some(vector) = vector {
            out.push(',');
            vector.write(out);
        }
        out.push_str("}}\n");
        Ok(())
    }

    /// "Per-file Statistics".
    fn stats(&self, out: &mut String, file: &DataFile, record_count: u64) {
        let _ = write!(out, r#"{{"numRecords":{record_count}"#);
        let mut exact = file.deletes.is_empty();
        for (name, kind) in [("minValues", Kind::Min), ("maxValues", Kind::Max), ("nullCount", Kind::Nulls)] {
            let start = out.len();
            let _ = write!(out, r#","{name}":"#);
            if !group(out, &self.tree, &file.columns, kind, &mut exact) {
                out.truncate(start);
            }
        }
        if !exact {
            // Deleted rows or widened values: the bounds hold, but need not occur.
            out.push_str(r#","tightBounds":false"#);
        }
        out.push('}');
    }
}

/// Appends a `remove` line.
pub(super) fn remove(out: &mut String, uri: &str, now_ms: i64, data_change: bool, vector: Option<&Descriptor>) {
    out.push_str(r#"{"remove":{"path":"#);
    string(out, uri);
    let _ = write!(out, r#","deletionTimestamp":{now_ms},"dataChange":{data_change}"#);
    if let Some(vector) = vector {
        out.push(',');
        vector.write(out);
    }
    out.push_str("}}\n");
}

/// A `protocol` line.
pub(super) fn protocol(out: &mut String, protocol: &Protocol) {
    let mut json = json!({
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
    });
    if let Some(features) = &protocol.reader_features {
        json["readerFeatures"] = json!(features);
    }
    if let Some(features) = &protocol.writer_features {
        json["writerFeatures"] = json!(features);
    }
    let _ = writeln!(out, "{}", json!({ "protocol": json }));
}

/// A `metaData` line.
pub(super) fn metadata(out: &mut String, metadata: &Metadata) {
    let mut json = json!({
        "id": metadata.id,
        "format": { "provider": "parquet", "options": {} },
        "schemaString": metadata.schema_string,
        "partitionColumns": metadata.partition_columns.clone().unwrap_or_default(),
        "configuration": metadata.configuration.clone().unwrap_or_default(),
    });
    for (key, value) in [("name", &metadata.name), ("description", &metadata.description)] {
        if let Some(value) = value {
            json[key] = json!(value);
        }
    }
    if let Some(created) = metadata.created_time {
        json["createdTime"] = json!(created);
    }
    let _ = writeln!(out, "{}", json!({ "metaData": json }));
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Min,
    Max,
    Nulls,
}

fn branches<'a>(fields: impl IntoIterator<Item = &'a Field>) -> Vec<Branch> {
    let branch = |field: &Field| {
        let node = match &field.ty {
            Type::Primitive(primitive) => Node::Leaf(field.id, *primitive),
            Type::Struct(members) => Node::Struct(branches(members)),
            Type::List(_) | Type::Map(_) => return None,
        };
        Some(Branch { key: format!("{}:", json!(field.stored_name())), node })
    };
    fields.into_iter().filter_map(branch).collect()
}

/// Writes one group of statistics as nested objects; false when there is nothing to say.
fn group(out: &mut String, tree: &[Branch], columns: &[ColumnStats], kind: Kind, exact: &mut bool) -> bool {
    let mut first = true;
    out.push('{');
    for branch in tree {
        let start = out.len();
        if !first {
            out.push(',');
        }
        out.push_str(&branch.key);
        let written = match &branch.node {
            Node::Struct(members) => group(out, members, columns, kind, exact),
            Node::Leaf(id, ty) => {
                let stats = columns.binary_search_by_key(id, |c| c.field).ok().and_then(|at| columns.get(at));
                stats.is_some_and(|stats| leaf(out, stats, *ty, kind, exact))
            }
        };
        if written {
            first = false;
        } else {
            out.truncate(start);
        }
    }
    out.push('}');
    !first
}

fn leaf(out: &mut String, stats: &ColumnStats, ty: Primitive, kind: Kind, exact: &mut bool) -> bool {
    let value = match kind {
        Kind::Nulls => {
            let Some(nulls) = stats.null_count else { return false };
            let _ = write!(out, "{nulls}");
            return true;
        }
        Kind::Min => stats.lower.as_ref(),
        Kind::Max => stats.upper.as_ref(),
    };
    let Some(value) = value else { return false };
    match value {
        Value::Int(n) => drop(write!(out, "{n}")),
        Value::Long(n) => drop(write!(out, "{n}")),
        Value::Float(f) if f.is_finite() => drop(write!(out, "{}", json!(f))),
        Value::Double(f) if f.is_finite() => drop(write!(out, "{}", json!(f))),
        Value::Decimal { unscaled, scale } => out.push_str(&partition::format_decimal(*unscaled, *scale)),
        Value::Date(days) => match time::format_date(*days) {
            Some(text) => string(out, &text),
            None => return false,
        },
        Value::Timestamp(micros) => {
            // Readers expect milliseconds and allow for nothing cut off a maximum.
            let millis = micros.div_euclid(1000) + i64::from(kind == Kind::Max && micros.rem_euclid(1000) != 0);
            *exact &= micros.rem_euclid(1000) == 0;
            let text = millis.checked_mul(1000).and_then(|m| time::format_stamp(m, 3, ty == Primitive::Timestamptz));
            match text {
                Some(text) => string(out, &text),
                None => return false,
            }
        }
        Value::String(text) => {
            *exact &= text.chars().take(MAYBE_CUT).count() < MAYBE_CUT;
            string(out, text);
        }
        // Readers have no use for bounds of the other types.
        _ => return false,
    }
    true
}

/// A JSON string.
fn string(out: &mut String, text: &str) {
    if text.bytes().all(|b| b >= 0x20 && b != b'"' && b != b'\\') {
        out.push('"');
        out.push_str(text);
        out.push('"');
        return;
    }
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => drop(write!(out, "\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::super::action;
    use super::super::stats::{Scratch, StatsSchema};
    use super::*;
    use hoglake_model::table::VectorContainer;

    #[test]
    fn an_add_reads_back_as_it_was() {
        let struct_field = Type::Struct(vec![Field::optional(4, "x", Primitive::Long.into())]);
        let schema = Schema {
            fields: vec![
                Field::optional(1, "s", Primitive::String.into()),
                Field::optional(2, "t", Primitive::Timestamptz.into()),
                Field::optional(3, "n", struct_field),
                Field::optional(5, "p", Primitive::String.into()),
            ],
            identifier_fields: Vec::new(),
        };
        let column = PartitionColumn { name: "p".to_owned(), ty: Primitive::String, places: HashMap::from([(0, 0)]) };
        let writer = FileWriter::new(&schema, vec![column]);
        let mut file = DataFile::new(FilePath::Under("p=a b/100%/é:1.parquet".into()));
        file.partition = vec![Some(Value::String("a \"b\"\n".into()))];
        let stats = |id, lower, upper| ColumnStats {
            lower: Some(lower),
            upper: Some(upper),
            null_count: Some(1),
            value_count: Some(9),
            ..ColumnStats::unknown(FieldId(id))
        };
        file.columns = vec![
            stats(1, Value::String("a\\".into()), Value::String("z\"".into())),
            stats(2, Value::Timestamp(1_001), Value::Timestamp(2_001)),
            stats(4, Value::Long(i64::MIN), Value::Long(i64::MAX)),
        ];
        let mut out = String::new();
        let added = Added {
            file: &file,
            uri: &uri(&file.path),
            record_count: 9,
            data_change: true,
            modified_ms: 7,
            vector: None,
        };
        writer.add(&mut out, &mut String::new(), &added).unwrap();
        let add = action::parse("x", 1, &out).unwrap().add.unwrap();
        assert_eq!(add.path, "p=a%20b/100%25/%C3%A9%3A1.parquet");
        assert_eq!(add.partition_values[0].1.as_deref(), Some("a \"b\"\n"));
        let text = add.stats.unwrap();
        assert!(
            text.contains(r#""minValues":{"s":"a\\","t":"1970-01-01T00:00:00.001Z","n":{"x":-9223372036854775808}}"#),
            "{text}"
        );
        assert!(text.contains(r#""t":"1970-01-01T00:00:00.003Z""#), "the maximum is rounded up: {text}");
        assert!(text.contains(r#""tightBounds":false"#));
        let read = StatsSchema::new(&schema).parse(&text, &mut Scratch::default());
        assert_eq!(read.columns[2].upper, Some(Value::Long(i64::MAX)));
    }

    #[test]
    fn descriptors_stay_as_they_were_written() {
        let root = TableRoot::with_store(
            std::sync::Arc::new(object_store::memory::InMemory::new()),
            hoglake_model::Location::parse("s3://b/t").unwrap(),
        );
        let uuid = "d2c639aa-8816-431a-aaf6-d3fe2512ff61";
        // The first is the example of the protocol.
        for (storage_type, path) in
            [("u", "ab^-aqEH.-t@S}K{vb[*k^"), ("p", &format!("s3://b/t/ab/deletion_vector_{uuid}.bin"))]
        {
            let text = format!(
                r#"{{"storageType":"{storage_type}","pathOrInlineDv":"{path}","offset":4,"sizeInBytes":40,"cardinality":6}}"#
            );
            let descriptor = Descriptor::written(&serde_json::from_str(&text).unwrap());
            let mut written = String::new();
            descriptor.write(&mut written);
            assert_eq!(written, format!(r#""deletionVector":{text}"#));
            let container = VectorContainer::File {
                path: FilePath::Under(format!("ab/deletion_vector_{uuid}.bin").into()),
                offset: 4,
                length: Some(40),
            };
            assert_eq!(descriptor.locate(&root, "x").unwrap(), VectorRef { container, cardinality: Some(6) });
        }
    }
}
