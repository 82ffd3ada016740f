//! Per-file statistics ("Per-file Statistics"): JSON read straight into the model, guided by the schema.

use super::partition::parse_decimal;
use super::time;
use hoglake_model::FieldId;
use hoglake_model::table::{ColumnStats, Field, Primitive, Schema, Type, Value};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// Strings are cut at this many characters by default; Spark then appends a character above all others to a maximum.
const PREFIX_CHARS: usize = 32;
const ABOVE_ALL: char = '\u{10FFFF}';

/// The columns that statistics may speak of, by physical name.
#[derive(Debug)]
pub(super) struct StatsSchema {
    children: Vec<Child>,
    leaves: usize,
}

#[derive(Debug)]
struct Child {
    name: Box<str>,
    node: Node,
}

#[derive(Debug)]
enum Node {
    /// Position in the scratch row, id and type.
    Leaf(usize, FieldId, Primitive),
    Struct(Vec<Child>),
    /// Lists and maps: only a null count of the container, which the model does not keep.
    Opaque,
}

/// What the statistics of one file say.
#[derive(Debug, Default, PartialEq)]
pub(super) struct FileStats {
    pub record_count: Option<u64>,
    pub columns: Vec<ColumnStats>,
}

/// Reused between files.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    leaves: Vec<Leaf>,
}

#[derive(Debug, Default, Clone)]
struct Leaf {
    nulls: Option<u64>,
    lower: Option<Value>,
    upper: Option<Value>,
    /// A NaN among the bounds: whoever computed them compared wrongly.
    nan: bool,
}

impl StatsSchema {
    pub fn new(schema: &Schema) -> Self {
        let mut leaves = 0;
        let children = children(&schema.fields, &mut leaves);
        Self { children, leaves }
    }

    /// Reads a `stats` string. Statistics that are no JSON object say nothing; they never fail a table.
    pub fn parse(&self, text: &str, scratch: &mut Scratch) -> FileStats {
        scratch.leaves.clear();
        scratch.leaves.resize(self.leaves, Leaf::default());
        let mut top = Top { schema: self, leaves: &mut scratch.leaves, records: None, tight: true };
        let mut deserializer = serde_json::Deserializer::from_str(text);
        if deserializer.deserialize_map(&mut top).is_err() {
            return FileStats::default();
        }
        let (records, tight) = (top.records, top.tight);
        let mut columns = Vec::new();
        collect(&self.children, &mut scratch.leaves, records, tight, &mut columns);
        columns.sort_unstable_by_key(|c: &ColumnStats| c.field);
        FileStats { record_count: records, columns }
    }

    /// Builds the statistics from values that a checkpoint already holds typed.
    pub fn typed(
        &self,
        record_count: Option<u64>,
        tight: bool,
        mut of: impl FnMut(&[&str], Primitive) -> (Option<u64>, Option<Value>, Option<Value>),
    ) -> FileStats {
        let mut leaves = vec![Leaf::default(); self.leaves];
        let mut path = Vec::new();
        fill(&self.children, &mut path, &mut |path, index, ty| {
            let (nulls, lower, upper) = of(path, ty);
            if let Some(leaf) = leaves.get_mut(index) {
                *leaf = Leaf { nulls, nan: false, lower, upper: upper.and_then(|v| widen(v, false)) };
            }
        });
        let mut columns = Vec::new();
        collect(&self.children, &mut leaves, record_count, tight, &mut columns);
        columns.sort_unstable_by_key(|c: &ColumnStats| c.field);
        FileStats { record_count, columns }
    }
}

fn fill<'a>(children: &'a [Child], path: &mut Vec<&'a str>, visit: &mut dyn FnMut(&[&'a str], usize, Primitive)) {
    for child in children {
        path.push(&child.name);
        match &child.node {
            Node::Leaf(index, _, ty) => visit(path, *index, *ty),
            Node::Struct(members) => fill(members, path, visit),
            Node::Opaque => {}
        }
        path.pop();
    }
}

fn children(fields: &[Field], leaves: &mut usize) -> Vec<Child> {
    fields
        .iter()
        .map(|field| {
            let node = match &field.ty {
                Type::Primitive(Primitive::Variant | Primitive::Unknown) | Type::List(_) | Type::Map(_) => Node::Opaque,
                Type::Primitive(primitive) => {
                    *leaves += 1;
                    Node::Leaf(*leaves - 1, field.id, *primitive)
                }
                Type::Struct(members) => Node::Struct(children(members, leaves)),
            };
            Child { name: field.stored_name().into(), node }
        })
        .collect()
}

fn collect(children: &[Child], leaves: &mut [Leaf], records: Option<u64>, tight: bool, out: &mut Vec<ColumnStats>) {
    for child in children {
        match &child.node {
            Node::Struct(members) => collect(members, leaves, records, tight, out),
            Node::Opaque => {}
            Node::Leaf(index, field, _) => {
                let Some(leaf) = leaves.get_mut(*index) else { continue };
                let leaf = std::mem::take(leaf);
                // With wide bounds only "none" and "all" mean anything.
                let nulls = leaf.nulls.filter(|n| tight || *n == 0 || Some(*n) == records);
                let nulls = nulls.filter(|n| records.is_none_or(|r| *n <= r));
                let (mut lower, mut upper) = (leaf.lower, leaf.upper);
                let inverted = matches!((&lower, &upper), (Some(l), Some(u))
                    if !matches!(l.compare(u), Some(std::cmp::Ordering::Less | std::cmp::Ordering::Equal)));
                if leaf.nan || inverted || (nulls.is_some() && nulls == records) {
                    (lower, upper) = (None, None);
                }
                if nulls.is_none() && lower.is_none() && upper.is_none() {
                    continue;
                }
                let value_count = records.filter(|_| nulls.is_some());
                out.push(ColumnStats {
                    null_count: nulls.filter(|_| records.is_some()),
                    value_count,
                    lower,
                    upper,
                    ..ColumnStats::unknown(*field)
                });
            }
        }
    }
}

struct Top<'a> {
    schema: &'a StatsSchema,
    leaves: &'a mut Vec<Leaf>,
    records: Option<u64>,
    tight: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Min,
    Max,
    Nulls,
}

impl<'de> Visitor<'de> for &mut Top<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("statistics")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(Key)? {
            let kind = match key {
                TopKey::Records => {
                    self.records = map.next_value_seed(Count)?;
                    continue;
                }
                TopKey::Tight => {
                    self.tight = map.next_value::<Option<bool>>()?.unwrap_or(true);
                    continue;
                }
                TopKey::Min => Kind::Min,
                TopKey::Max => Kind::Max,
                TopKey::Nulls => Kind::Nulls,
                TopKey::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            map.next_value_seed(Members { children: &self.schema.children, leaves: self.leaves, kind })?;
        }
        Ok(())
    }
}

enum TopKey {
    Records,
    Tight,
    Min,
    Max,
    Nulls,
    Other,
}

struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = TopKey;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<TopKey, D::Error> {
        d.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = TopKey;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_str<E>(self, key: &str) -> Result<TopKey, E> {
        Ok(match key {
            "numRecords" => TopKey::Records,
            "tightBounds" => TopKey::Tight,
            "minValues" => TopKey::Min,
            "maxValues" => TopKey::Max,
            "nullCount" => TopKey::Nulls,
            _ => TopKey::Other,
        })
    }
}

/// A count, or anything else as unknown.
struct Count;

impl<'de> DeserializeSeed<'de> for Count {
    type Value = Option<u64>;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Option<u64>, D::Error> {
        d.deserialize_any(self)
    }
}

macro_rules! unknown {
    ($value:expr; $($method:ident($ty:ty)),*) => {
        $(fn $method<E>(self, _: $ty) -> Result<Self::Value, E> { Ok($value) })*
    };
}

impl<'de> Visitor<'de> for Count {
    type Value = Option<u64>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a count")
    }
    fn visit_u64<E>(self, n: u64) -> Result<Option<u64>, E> {
        Ok(Some(n))
    }
    unknown!(None; visit_i64(i64), visit_f64(f64), visit_bool(bool), visit_str(&str));
    fn visit_unit<E>(self) -> Result<Option<u64>, E> {
        Ok(None)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<u64>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Option<u64>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

struct Members<'a> {
    children: &'a [Child],
    leaves: &'a mut Vec<Leaf>,
    kind: Kind,
}

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

/// Finds a member; writers follow the schema's order, so that the next one is tried first.
struct Find<'a, 'n> {
    children: &'a [Child],
    next: &'n mut usize,
}

impl<'de, 'a> DeserializeSeed<'de> for Find<'a, '_> {
    type Value = Option<&'a Node>;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for Find<'a, '_> {
    type Value = Option<&'a Node>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a column name")
    }
    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        let (head, tail) = self.children.split_at((*self.next).min(self.children.len()));
        for (index, child) in tail.iter().enumerate() {
            if child.name.as_ref() == name {
                *self.next += index + 1;
                return Ok(Some(&child.node));
            }
        }
        Ok(head.iter().find(|child| child.name.as_ref() == name).map(|child| &child.node))
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of columns")
    }
    unknown!((); visit_u64(u64), visit_i64(i64), visit_f64(f64), visit_bool(bool), visit_str(&str));
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut next = 0;
        while let Some(node) = map.next_key_seed(Find { children: self.children, next: &mut next })? {
            match node {
                Some(Node::Struct(children)) => {
                    map.next_value_seed(Members { children, leaves: self.leaves, kind: self.kind })?;
                }
                Some(Node::Leaf(index, _, ty)) => {
                    let mut unused = Leaf::default();
                    let leaf = self.leaves.get_mut(*index).unwrap_or(&mut unused);
                    match self.kind {
                        Kind::Nulls => leaf.nulls = map.next_value_seed(Count)?,
                        kind => bound(leaf, kind, *ty, map.next_value()?),
                    }
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Stores one bound. The raw text keeps the digits of decimals and of 64-bit integers.
fn bound(leaf: &mut Leaf, kind: Kind, ty: Primitive, raw: &RawValue) {
    let raw = raw.get();
    let quoted = raw.starts_with('"');
    let text: std::borrow::Cow<'_, str> = if !quoted {
        raw.into()
    } else if raw.contains('\\') {
        match serde_json::from_str::<String>(raw) {
            Ok(text) => text.into(),
            Err(_) => return,
        }
    } else {
        raw.get(1..raw.len() - 1).unwrap_or_default().into()
    };
    let value = match (value(ty, &text, quoted), kind) {
        (Some(value), _) if value.is_nan() => {
            leaf.nan = true;
            return;
        }
        (Some(Value::Timestamp(_)), Kind::Max) => time::parse_stamp(&text)
            // "Timestamp columns are truncated down to milliseconds": the true maximum may lie above.
            .map(|s| s.micros.saturating_add(if s.fraction_digits > 3 { 0 } else { 999 }))
            .map(Value::Timestamp),
        (Some(value), Kind::Max) => widen(value, true),
        (value, _) => value,
    };
    match kind {
        Kind::Min => leaf.lower = value,
        _ => leaf.upper = value,
    }
}

/// An upper bound that holds even if its writer truncated it.
fn widen(value: Value, stamps_done: bool) -> Option<Value> {
    match value {
        Value::String(text) => {
            let cut = text.chars().count() >= PREFIX_CHARS && !text.ends_with(['\u{10FFFF}', '\u{FFFD}', '\u{7f}']);
            Some(Value::String(if cut { format!("{text}{ABOVE_ALL}").into() } else { text }))
        }
        Value::Timestamp(micros) if !stamps_done && micros % 1000 == 0 => {
            Some(Value::Timestamp(micros.saturating_add(999)))
        }
        other => Some(other),
    }
}

fn value(ty: Primitive, text: &str, quoted: bool) -> Option<Value> {
    Some(match ty {
        Primitive::Boolean if !quoted => Value::Boolean(text.parse().ok()?),
        Primitive::Byte | Primitive::Short | Primitive::Int => Value::Int(integer(text)?.try_into().ok()?),
        Primitive::Long => Value::Long(integer(text)?),
        Primitive::Float => Value::Float(text.parse().ok()?),
        Primitive::Double => Value::Double(text.parse().ok()?),
        Primitive::Decimal(d) => Value::Decimal { unscaled: parse_decimal(text, d.scale)?, scale: d.scale },
        Primitive::Date if quoted => Value::Date(time::parse_date(text)?),
        // A zoned column with a bound that names no zone: whose zone was it? Doubtful, so absent.
        Primitive::Timestamptz if quoted => Value::Timestamp(time::parse_stamp(text).filter(|s| s.zoned)?.micros),
        Primitive::Timestamp if quoted => Value::Timestamp(time::parse_stamp(text)?.micros),
        Primitive::String if quoted => Value::String(text.into()),
        _ => return None,
    })
}

fn integer(text: &str) -> Option<i64> {
    text.parse().ok().or_else(|| {
        // Some writers print whole numbers as 1.0.
        text.strip_suffix(".0")?.parse().ok()
    })
}

#[cfg(test)]
mod tests;
