//! Reading manifests: one pass along the writer's schema, straight into the model.

use super::super::avro::{Decoder, Fault, Node, Reader, Scalar};
use super::super::manifest_list::ManifestFile;
use super::super::single_value;
use super::{DELETE_FILE_PATH, EntryKind};
use crate::sync::{Error, Result};
use hoglake_model::FieldId;
use hoglake_model::table::{ColumnStats, DataFile, FileFormat, FilePath, Primitive, Value};
use std::borrow::Cow;
use std::collections::HashMap;

/// What happened to a file in the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Existing,
    Added,
    Deleted,
}

/// One entry, what it inherits from the manifest filled in.
#[derive(Debug, Clone)]
pub struct Entry {
    pub status: Status,
    pub snapshot_id: i64,
    pub sequence: i64,
    pub file_sequence: i64,
    /// 0 data, 1 position deletes, 2 equality deletes.
    pub content: i64,
    /// The data or delete file.
    pub file: DataFile,
    /// `puffin` for deletion vectors.
    pub puffin: bool,
    pub equality_ids: Vec<i64>,
    /// The one data file that the deletes are about.
    pub referenced: Option<FilePath>,
    /// How the manifest spells the paths, when the reader asked for that.
    pub spelled: Option<Spelled>,
    pub content_offset: Option<i64>,
    pub content_size: Option<i64>,
    pub encrypted: bool,
}

/// The paths of an entry as they stand in the manifest. Readers compare them letter by letter.
#[derive(Debug, Clone)]
pub struct Spelled {
    pub path: Box<str>,
    pub referenced: Option<Box<str>>,
}

impl Entry {
    /// The kind of the entry in a later snapshot that keeps the file.
    pub const fn existing(&self) -> EntryKind {
        EntryKind::Existing {
            snapshot_id: self.snapshot_id,
            sequence: self.sequence,
            file_sequence: self.file_sequence,
        }
    }
}

/// How to read the manifests of one state.
pub struct ManifestReader<'a> {
    /// Types of the leaf columns.
    pub types: &'a HashMap<i64, Primitive>,
    /// Partition field ids and result types, by spec id.
    pub specs: &'a HashMap<i32, Vec<(i32, Option<Primitive>)>>,
    /// From a path as written to the model's.
    pub path: &'a dyn Fn(&str) -> Result<FilePath>,
    /// Whether entries keep the spelling of their paths, for writing them again.
    pub spelled: bool,
}

#[derive(Clone, Copy)]
enum Slot {
    Content,
    Path,
    Format,
    Partition,
    Records,
    Size,
    ColumnSizes,
    ValueCounts,
    NullCounts,
    NanCounts,
    Lower,
    Upper,
    KeyMetadata,
    SplitOffsets,
    EqualityIds,
    FirstRowId,
    Referenced,
    Offset,
    ContentSize,
    Other,
}

fn slot(id: Option<i32>, name: &str) -> Slot {
    match (id, name) {
        (Some(134), _) | (None, "content") => Slot::Content,
        (Some(100), _) | (None, "file_path") => Slot::Path,
        (Some(101), _) | (None, "file_format") => Slot::Format,
        (Some(102), _) | (None, "partition") => Slot::Partition,
        (Some(103), _) | (None, "record_count") => Slot::Records,
        (Some(104), _) | (None, "file_size_in_bytes") => Slot::Size,
        (Some(108), _) | (None, "column_sizes") => Slot::ColumnSizes,
        (Some(109), _) | (None, "value_counts") => Slot::ValueCounts,
        (Some(110), _) | (None, "null_value_counts") => Slot::NullCounts,
        (Some(137), _) | (None, "nan_value_counts") => Slot::NanCounts,
        (Some(125), _) | (None, "lower_bounds") => Slot::Lower,
        (Some(128), _) | (None, "upper_bounds") => Slot::Upper,
        (Some(131), _) | (None, "key_metadata") => Slot::KeyMetadata,
        (Some(132), _) | (None, "split_offsets") => Slot::SplitOffsets,
        (Some(135), _) | (None, "equality_ids") => Slot::EqualityIds,
        (Some(142), _) | (None, "first_row_id") => Slot::FirstRowId,
        (Some(143), _) | (None, "referenced_data_file") => Slot::Referenced,
        (Some(144), _) | (None, "content_offset") => Slot::Offset,
        (Some(145), _) | (None, "content_size_in_bytes") => Slot::ContentSize,
        _ => Slot::Other,
    }
}

impl ManifestReader<'_> {
    /// Visits every entry, deleted ones included.
    ///
    /// # Errors
    /// [`Error::Malformed`] naming the manifest.
    pub fn read(
        &self,
        place: &str,
        manifest: &ManifestFile,
        bytes: &[u8],
        mut visit: impl FnMut(Entry) -> Result<()>,
    ) -> Result<()> {
        let fail = |fault: Fault| Error::malformed(place, fault);
        let mut reader = Reader::new(bytes).map_err(fail)?;
        let tuple = self.specs.get(&manifest.spec_id);
        let tuple = tuple.ok_or_else(|| fail(format!("the table has no partition spec {}", manifest.spec_id)))?;
        let schema = reader.schema.clone();
        let plan = Plan::new(&schema, tuple).map_err(fail)?;
        let mut stopped = None;
        // The ids of rows are handed out in the order of the files ("First Row ID Inheritance").
        let mut next_row_id = manifest.first_row_id.filter(|_| !manifest.deletes);
        let read = reader.records(|d, _| {
            let mut entry = self.entry(d, &plan, manifest)?;
            if entry.status != Status::Deleted
                && entry.file.first_row_id.is_none()
                && let (Some(next), Some(records)) = (next_row_id, entry.file.record_count)
            {
                entry.file.first_row_id = Some(next);
                next_row_id = next.checked_add_unsigned(records);
            }
            visit(entry).map_err(|e| {
                let fault = e.to_string();
                stopped = Some(e);
                fault
            })
        });
        match (read, stopped) {
            (_, Some(error)) => Err(error),
            (Err(fault), None) => Err(fail(fault)),
            (Ok(()), None) => Ok(()),
        }
    }

    fn entry(&self, d: &mut Decoder<'_>, plan: &Plan<'_>, manifest: &ManifestFile) -> Result<Entry, Fault> {
        let mut entry = Entry {
            status: Status::Existing,
            snapshot_id: manifest.added_snapshot_id,
            sequence: 0,
            file_sequence: 0,
            content: 0,
            file: DataFile::new(FilePath::Under("".into())),
            puffin: false,
            equality_ids: Vec::new(),
            referenced: None,
            spelled: None,
            content_offset: None,
            content_size: None,
            encrypted: false,
        };
        let (mut sequence, mut file_sequence) = (None, None);
        for (id, node) in &plan.entry {
            match id {
                0 => {
                    entry.status = match d.optional_long(node)? {
                        Some(0) => Status::Existing,
                        Some(1) => Status::Added,
                        Some(2) => Status::Deleted,
                        other => return Err(format!("an entry has the status {other:?}")),
                    };
                }
                1 => entry.snapshot_id = d.optional_long(node)?.unwrap_or(manifest.added_snapshot_id),
                3 => sequence = d.optional_long(node)?,
                4 => file_sequence = d.optional_long(node)?,
                2 => {
                    d.branch(node)?;
                    self.file(d, plan, manifest, &mut entry)?;
                }
                _ => d.skip(node)?,
            }
        }
        entry.sequence = sequence.unwrap_or(manifest.sequence_number);
        entry.file_sequence = file_sequence.unwrap_or(manifest.sequence_number);
        Ok(entry)
    }

    fn file(
        &self,
        d: &mut Decoder<'_>,
        plan: &Plan<'_>,
        manifest: &ManifestFile,
        entry: &mut Entry,
    ) -> Result<(), Fault> {
        let path = |text: &str| (self.path)(text).map_err(|e| e.to_string());
        let count = |n: Option<i64>| n.and_then(|n| u64::try_from(n).ok());
        let mut columns: Vec<ColumnStats> = Vec::with_capacity(self.types.len().min(64));
        let (mut own, mut referenced): (_, Option<Cow<'_, str>>) = ("", None);
        entry.file.spec_id = manifest.spec_id;
        for (slot, node) in &plan.file {
            match slot {
                Slot::Content => entry.content = d.optional_long(node)?.unwrap_or(0),
                Slot::Path => {
                    own = d.required_string(node)?;
                    entry.file.path = path(own)?;
                }
                Slot::Format => {
                    let format = d.required_string(node)?;
                    entry.puffin = format.eq_ignore_ascii_case("puffin");
                    entry.file.format = match () {
                        () if format.eq_ignore_ascii_case("orc") => FileFormat::Orc,
                        () if format.eq_ignore_ascii_case("avro") => FileFormat::Avro,
                        () if entry.puffin || format.eq_ignore_ascii_case("parquet") => FileFormat::Parquet,
                        () => return Err(format!("the file format {format:?} does not exist")),
                    };
                }
                Slot::Partition => entry.file.partition = tuple(d, node, plan)?,
                Slot::Records => entry.file.record_count = count(d.optional_long(node)?),
                Slot::Size => entry.file.size_bytes = count(d.optional_long(node)?),
                Slot::ColumnSizes => self.counts(d, node, &mut columns, |c, n| c.size_bytes = Some(n))?,
                Slot::ValueCounts => self.counts(d, node, &mut columns, |c, n| c.value_count = Some(n))?,
                Slot::NullCounts => self.counts(d, node, &mut columns, |c, n| c.null_count = Some(n))?,
                Slot::NanCounts => self.counts(d, node, &mut columns, |c, n| c.nan_count = Some(n))?,
                Slot::Lower => self.bounds(d, node, &mut columns, |c, v| c.lower = Some(v))?,
                Slot::Upper => self.bounds(d, node, &mut columns, |c, v| c.upper = Some(v))?,
                Slot::KeyMetadata => entry.encrypted = d.scalar(node)? != Scalar::Null,
                Slot::SplitOffsets => entry.file.split_offsets = longs(d, node)?,
                Slot::EqualityIds => entry.equality_ids = longs(d, node)?,
                Slot::FirstRowId => entry.file.first_row_id = d.optional_long(node)?,
                Slot::Referenced => {
                    if let Scalar::String(text) = d.scalar(node)? {
                        referenced = Some(text.into());
                    }
                }
                Slot::Offset => entry.content_offset = d.optional_long(node)?,
                Slot::ContentSize => entry.content_size = d.optional_long(node)?,
                Slot::Other => d.skip(node)?,
            }
        }
        columns.sort_unstable_by_key(|c| c.field);
        for column in &mut columns {
            let ordered = |l: &Value, u: &Value| l.compare(u).is_some_and(std::cmp::Ordering::is_le);
            let nan = column.lower.iter().chain(&column.upper).any(Value::is_nan);
            let inverted = matches!((&column.lower, &column.upper), (Some(l), Some(u)) if !ordered(l, u));
            if nan || inverted {
                (column.lower, column.upper) = (None, None);
            }
        }
        entry.file.columns = columns;
        if entry.content == 1 && !entry.puffin && referenced.is_none() {
            referenced = single_path(&entry.file).map(Cow::Owned);
        }
        entry.referenced = referenced.as_deref().map(path).transpose()?;
        if self.spelled {
            entry.spelled = Some(Spelled { path: own.into(), referenced: referenced.as_deref().map(Into::into) });
        }
        Ok(())
    }

    fn counts(
        &self,
        d: &mut Decoder<'_>,
        node: &Node,
        columns: &mut Vec<ColumnStats>,
        set: impl Fn(&mut ColumnStats, u64),
    ) -> Result<(), Fault> {
        let mut next = 0;
        d.items(node, |d, item| {
            let (key, value) = key_value(item)?;
            let id = d.optional_long(key)?.unwrap_or(-1);
            let count = d.optional_long(value)?;
            if self.types.contains_key(&id)
                && let Some(count) = count.and_then(|n| u64::try_from(n).ok())
            {
                set(column(columns, &mut next, id), count);
            }
            Ok(())
        })
    }

    fn bounds(
        &self,
        d: &mut Decoder<'_>,
        node: &Node,
        columns: &mut Vec<ColumnStats>,
        set: impl Fn(&mut ColumnStats, Value),
    ) -> Result<(), Fault> {
        let mut next = 0;
        d.items(node, |d, item| {
            let (key, value) = key_value(item)?;
            let id = d.optional_long(key)?.unwrap_or(-1);
            let Scalar::Bytes(bytes) = d.scalar(value)? else { return Ok(()) };
            let ty = if id == DELETE_FILE_PATH { Some(Primitive::String) } else { self.types.get(&id).copied() };
            if let Some(value) = ty.and_then(|ty| single_value::from_bytes(ty, bytes)) {
                set(column(columns, &mut next, id), value);
            }
            Ok(())
        })
    }
}

/// Visits the paths of the live files of a manifest, and reads nothing else of them.
///
/// # Errors
/// [`Error::Malformed`] naming the manifest; whatever `visit` returns.
pub fn live_paths(place: &str, bytes: &[u8], mut visit: impl FnMut(&str) -> Result<()>) -> Result<()> {
    let fail = |fault: Fault| Error::malformed(place, fault);
    let mut reader = Reader::new(bytes).map_err(fail)?;
    let schema = reader.schema.clone();
    let plan = Plan::new(&schema, &[]).map_err(fail)?;
    let mut stopped = None;
    let read = reader.records(|d, _| {
        let mut live = true;
        let mut path = None;
        for (id, node) in &plan.entry {
            match id {
                0 => live = d.optional_long(node)? != Some(2),
                2 => {
                    d.branch(node)?;
                    for (slot, node) in &plan.file {
                        match slot {
                            Slot::Path => path = Some(d.required_string(node)?),
                            _ => d.skip(node)?,
                        }
                    }
                }
                _ => d.skip(node)?,
            }
        }
        match path {
            Some(path) if live => visit(path).map_err(|e| {
                let fault = e.to_string();
                stopped = Some(e);
                fault
            }),
            _ => Ok(()),
        }
    });
    match (read, stopped) {
        (_, Some(error)) => Err(error),
        (Err(fault), None) => Err(fail(fault)),
        (Ok(()), None) => Ok(()),
    }
}

/// Writers list columns in one order in all maps, so that the next one is tried first.
fn column<'c>(columns: &'c mut Vec<ColumnStats>, next: &mut usize, id: i64) -> &'c mut ColumnStats {
    let at = match columns.get(*next) {
        Some(c) if c.field.0 == id => *next,
        _ => columns.iter().position(|c| c.field.0 == id).unwrap_or_else(|| {
            columns.push(ColumnStats::unknown(FieldId(id)));
            columns.len() - 1
        }),
    };
    *next = at + 1;
    &mut columns[at]
}

/// The data file that a position-delete file is about, when its bounds name exactly one.
fn single_path(file: &DataFile) -> Option<String> {
    let column = file.columns.iter().find(|c| c.field.0 == DELETE_FILE_PATH)?;
    match (&column.lower, &column.upper) {
        (Some(Value::String(lower)), Some(Value::String(upper))) if lower == upper => Some(lower.to_string()),
        _ => None,
    }
}

fn key_value(item: &Node) -> Result<(&Node, &Node), Fault> {
    match item.record() {
        Some([key, value]) => Ok((&key.node, &value.node)),
        _ => Err("a map holds key-value records".to_owned()),
    }
}

fn longs(d: &mut Decoder<'_>, node: &Node) -> Result<Vec<i64>, Fault> {
    let mut out = Vec::new();
    d.items(node, |d, item| {
        out.extend(d.optional_long(item)?);
        Ok(())
    })?;
    Ok(out)
}

/// The writer's fields, resolved once per manifest.
struct Plan<'n> {
    entry: Vec<(i32, &'n Node)>,
    file: Vec<(Slot, &'n Node)>,
    /// For each partition field of the writer: where its value goes, and its type.
    tuple: Vec<(Option<usize>, Option<Primitive>)>,
    width: usize,
}

impl<'n> Plan<'n> {
    fn new(schema: &'n Node, spec: &[(i32, Option<Primitive>)]) -> Result<Self, Fault> {
        let fields = schema.record().ok_or("a manifest holds records")?;
        let entry_id = |id: Option<i32>, name: &str| match (id, name) {
            (Some(id), _) => id,
            (None, "status") => 0,
            (None, "snapshot_id") => 1,
            (None, "data_file") => 2,
            (None, "sequence_number") => 3,
            (None, "file_sequence_number") => 4,
            _ => -1,
        };
        let entry: Vec<_> = fields.iter().map(|f| (entry_id(f.id, &f.name), &f.node)).collect();
        let data_file = entry.iter().find(|(id, _)| *id == 2).and_then(|(_, node)| node.record());
        let file: Vec<_> = data_file
            .ok_or("a manifest entry has no data_file")?
            .iter()
            .map(|f| (slot(f.id, &f.name), &f.node))
            .collect();
        if !file.iter().any(|(s, _)| matches!(s, Slot::Path)) {
            return Err("a manifest entry has no file_path".to_owned());
        }
        let partition = file.iter().find(|(slot, _)| matches!(slot, Slot::Partition)).and_then(|(_, n)| n.record());
        let tuple = partition.unwrap_or_default().iter().enumerate().map(|(index, field)| {
            let at = spec.iter().position(|(id, _)| Some(*id) == field.id);
            // Old writers left wrong ids in version 1; their order is that of the spec.
            let at = at.or_else(|| (partition.map_or(0, <[_]>::len) == spec.len()).then_some(index));
            (at, at.and_then(|at| spec.get(at)).and_then(|(_, ty)| *ty))
        });
        Ok(Self { tuple: tuple.collect(), width: spec.len(), entry, file })
    }
}

fn tuple(d: &mut Decoder<'_>, node: &Node, plan: &Plan<'_>) -> Result<Vec<Option<Value>>, Fault> {
    let mut values = vec![None; plan.width];
    let fields = d.branch(node)?.record().unwrap_or_default();
    for (field, (at, ty)) in fields.iter().zip(&plan.tuple) {
        let scalar = d.scalar(&field.node)?;
        if let Some(slot) = at.and_then(|at| values.get_mut(at)) {
            *slot = partition_value(scalar, *ty)?;
        }
    }
    Ok(values)
}

/// A partition value, by the type that the transform results in, or by its encoding when the column is gone.
fn partition_value(scalar: Scalar<'_>, ty: Option<Primitive>) -> Result<Option<Value>, Fault> {
    let narrow = |n: i64| i32::try_from(n).map_err(|_| format!("the partition value {n} is out of range"));
    Ok(Some(match (scalar, ty) {
        (Scalar::Null, _) => return Ok(None),
        (Scalar::Boolean(b), _) => Value::Boolean(b),
        (Scalar::Long(n), Some(Primitive::Date)) => Value::Date(narrow(n)?),
        (Scalar::Long(n), Some(Primitive::Int | Primitive::Short | Primitive::Byte)) => Value::Int(narrow(n)?),
        (Scalar::Long(n), Some(Primitive::Time)) => Value::Time(n),
        (Scalar::Long(n), Some(Primitive::Timestamp | Primitive::Timestamptz)) => Value::Timestamp(n),
        (Scalar::Long(n), Some(Primitive::TimestampNs | Primitive::TimestamptzNs)) => Value::TimestampNs(n),
        (Scalar::Long(n), _) => Value::Long(n),
        (Scalar::Float(f), Some(Primitive::Double)) => Value::Double(f.into()),
        (Scalar::Float(f), _) => Value::Float(f),
        (Scalar::Double(f), _) => Value::Double(f),
        (Scalar::String(s), Some(Primitive::Uuid)) => {
            Value::Uuid(uuid::Uuid::parse_str(s).map_err(|e| e.to_string())?.as_u128())
        }
        (Scalar::String(s), _) => Value::String(s.into()),
        (Scalar::Bytes(b), Some(ty @ (Primitive::Decimal(_) | Primitive::Uuid))) => {
            single_value::from_bytes(ty, b).ok_or_else(|| format!("a partition value is no {ty}"))?
        }
        (Scalar::Bytes(b), _) => Value::Binary(b.into()),
    }))
}
