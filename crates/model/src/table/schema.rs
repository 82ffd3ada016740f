//! The schema tree: structs, lists and maps over primitive columns, every node with a field id.

use crate::{DecimalType, FieldId};
use std::fmt;

/// The schema of one version of a table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Schema {
    /// Top-level columns, in order.
    pub fields: Vec<Field>,
    /// The columns that identify a row (Iceberg identifier fields, Hudi record key); empty when the source has none.
    pub identifier_fields: Vec<FieldId>,
}

/// What the field ids of a schema mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldIds {
    /// The table assigned them: an id names the same column in every version, through renames, and is never reused.
    Assigned,
    /// The source counted columns of this version; only names connect versions.
    Positional,
}

/// A named column or struct member.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Unique in the schema.
    pub id: FieldId,
    /// The name that queries use.
    pub name: String,
    /// The name inside the data files where it differs from `name` (Delta column mapping).
    pub physical_name: Option<String>,
    /// Whether null is forbidden.
    pub required: bool,
    /// The type.
    pub ty: Type,
    /// The comment.
    pub doc: Option<String>,
    /// What rows of files without this column read as (Iceberg v3 `initial-default`).
    pub initial_default: Option<super::Value>,
    /// What a writer that omits the column writes (Iceberg v3 `write-default`, Delta `CURRENT_DEFAULT` literals).
    pub write_default: Option<super::Value>,
}

/// The element of a list, or the key or value of a map: a field without a name of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Element {
    /// Unique in the schema.
    pub id: FieldId,
    /// Whether null is forbidden; always true for a map key. Never taken from the container.
    pub required: bool,
    /// The type.
    pub ty: Type,
}

/// The type of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// A leaf.
    Primitive(Primitive),
    /// A struct of named members.
    Struct(Vec<Field>),
    /// A list.
    List(Box<Element>),
    /// A map: key, value.
    Map(Box<(Element, Element)>),
}

/// The type of a leaf column: the union of what the formats can store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Primitive {
    /// True or false.
    Boolean,
    /// 8-bit signed (Delta `byte`).
    Byte,
    /// 16-bit signed (Delta `short`).
    Short,
    /// 32-bit signed.
    Int,
    /// 64-bit signed.
    Long,
    /// IEEE 754 binary32.
    Float,
    /// IEEE 754 binary64.
    Double,
    /// Fixed point.
    Decimal(DecimalType),
    /// Days since 1970-01-01.
    Date,
    /// Microseconds since midnight.
    Time,
    /// Microseconds since 1970-01-01T00:00:00, no zone (Iceberg `timestamp`, Delta `timestamp_ntz`).
    Timestamp,
    /// Microseconds since 1970-01-01T00:00:00Z (Iceberg `timestamptz`, Delta `timestamp`).
    Timestamptz,
    /// Nanoseconds since 1970-01-01T00:00:00, no zone.
    TimestampNs,
    /// Nanoseconds since 1970-01-01T00:00:00Z.
    TimestamptzNs,
    /// UTF-8.
    String,
    /// 16 bytes, big-endian.
    Uuid,
    /// Bytes of one length.
    Fixed(u32),
    /// Bytes.
    Binary,
    /// Semi-structured (Parquet Variant).
    Variant,
    /// Always null (Iceberg `unknown`, Delta `void`).
    Unknown,
}

/// One node of the schema, as [`Schema::walk`] visits it.
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    /// The node's id.
    pub id: FieldId,
    /// Its type.
    pub ty: &'a Type,
    /// The named field, unless this is a list element, map key or map value.
    pub field: Option<&'a Field>,
}

impl Schema {
    /// Visits every node in depth-first order, parents before children; `path` holds the logical names down to the
    /// node, with `element`, `key` and `value` for the children of lists and maps.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&[&'a str], Node<'a>)) {
        let mut path = Vec::new();
        walk_fields(&self.fields, &mut path, visit);
    }

    /// The node with this id.
    pub fn node(&self, id: FieldId) -> Option<Node<'_>> {
        let mut found = None;
        self.walk(&mut |_, node| {
            if node.id == id && found.is_none() {
                found = Some(node);
            }
        });
        found
    }

    /// The names down to the node with this id, for messages and for formats that address columns by path.
    pub fn path(&self, id: FieldId) -> Option<Vec<&str>> {
        let mut found = None;
        self.walk(&mut |path, node| {
            if node.id == id && found.is_none() {
                found = Some(path.to_vec());
            }
        });
        found
    }

    /// The primitive type of the node with this id; `None` when it is absent or not a leaf.
    pub fn primitive(&self, id: FieldId) -> Option<Primitive> {
        self.node(id).and_then(|node| node.ty.primitive())
    }

    /// The top-level column of this name (case-sensitive).
    pub fn column(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }

    /// The largest id in use, 0 for an empty schema.
    pub fn max_id(&self) -> FieldId {
        let mut max = 0;
        self.walk(&mut |_, node| max = max.max(node.id.0));
        FieldId(max)
    }

    /// An id that occurs more than once, if any: such a schema cannot be translated.
    pub fn duplicate_id(&self) -> Option<FieldId> {
        let mut seen = std::collections::HashSet::new();
        let mut duplicate = None;
        self.walk(&mut |_, node| {
            if !seen.insert(node.id) && duplicate.is_none() {
                duplicate = Some(node.id);
            }
        });
        duplicate
    }

    /// This schema with ids that stay the same as in `previous` wherever a column of the same path was there, and new
    /// ones above `last_id` elsewhere: how a target numbers the columns of a source without ids.
    ///
    /// Children are numbered after all fields of their struct, level by level, as Iceberg writers do. Returns the new
    /// schema, the map from old id to new, and the largest id ever given.
    pub fn renumbered(&self, previous: Option<&Schema>, last_id: FieldId) -> Renumbered {
        let mut known = std::collections::HashMap::new();
        if let Some(previous) = previous {
            previous.walk(&mut |path, node| {
                // Those of files may have none.
                if node.id.0 > 0 {
                    known.insert(path.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>(), node.id);
                }
            });
        }
        let mut out = Renumbered { schema: self.clone(), ids: std::collections::HashMap::new(), last_id };
        let mut path = Vec::new();
        let mut numbering = Numbering { known: &known, ids: &mut out.ids, last: last_id.0 };
        numbering.fields(&mut out.schema.fields, &mut path);
        out.last_id = FieldId(numbering.last);
        let ids = &out.ids;
        out.schema.identifier_fields = self.identifier_fields.iter().filter_map(|id| ids.get(id).copied()).collect();
        out
    }
}

/// The result of [`Schema::renumbered`].
#[derive(Debug, Clone)]
pub struct Renumbered {
    /// The schema with new ids.
    pub schema: Schema,
    /// From the old ids to the new.
    pub ids: std::collections::HashMap<FieldId, FieldId>,
    /// The largest id ever given to this table.
    pub last_id: FieldId,
}

struct Numbering<'a> {
    known: &'a std::collections::HashMap<Vec<String>, FieldId>,
    ids: &'a mut std::collections::HashMap<FieldId, FieldId>,
    last: i64,
}

impl Numbering<'_> {
    fn assign(&mut self, id: &mut FieldId, path: &[String]) {
        let new = self.known.get(path).copied().unwrap_or_else(|| {
            self.last += 1;
            FieldId(self.last)
        });
        self.ids.insert(*id, new);
        *id = new;
    }

    fn fields(&mut self, fields: &mut [Field], path: &mut Vec<String>) {
        for field in fields.iter_mut() {
            path.push(field.name.clone());
            self.assign(&mut field.id, path);
            path.pop();
        }
        for field in fields.iter_mut() {
            path.push(field.name.clone());
            self.children(&mut field.ty, path);
            path.pop();
        }
    }

    fn children(&mut self, ty: &mut Type, path: &mut Vec<String>) {
        let mut element = |this: &mut Self, element: &mut Element, name: &str, descend: bool| {
            path.push(name.to_owned());
            if descend {
                this.children(&mut element.ty, path);
            } else {
                this.assign(&mut element.id, path);
            }
            path.pop();
        };
        match ty {
            Type::Primitive(_) => {}
            Type::List(item) => {
                element(self, item, "element", false);
                element(self, item, "element", true);
            }
            Type::Map(entry) => {
                element(self, &mut entry.0, "key", false);
                element(self, &mut entry.1, "value", false);
                element(self, &mut entry.0, "key", true);
                element(self, &mut entry.1, "value", true);
            }
            Type::Struct(fields) => self.fields(fields, path),
        }
    }
}

fn walk_fields<'a>(fields: &'a [Field], path: &mut Vec<&'a str>, visit: &mut dyn FnMut(&[&'a str], Node<'a>)) {
    for field in fields {
        path.push(&field.name);
        visit(path, Node { id: field.id, ty: &field.ty, field: Some(field) });
        walk_children(&field.ty, path, visit);
        path.pop();
    }
}

fn walk_children<'a>(ty: &'a Type, path: &mut Vec<&'a str>, visit: &mut dyn FnMut(&[&'a str], Node<'a>)) {
    let mut element = |element: &'a Element, name: &'static str| {
        path.push(name);
        visit(path, Node { id: element.id, ty: &element.ty, field: None });
        walk_children(&element.ty, path, visit);
        path.pop();
    };
    match ty {
        Type::Primitive(_) => {}
        Type::List(item) => element(item, "element"),
        Type::Map(entry) => {
            element(&entry.0, "key");
            element(&entry.1, "value");
        }
        Type::Struct(fields) => walk_fields(fields, path, visit),
    }
}

impl Field {
    /// An optional field without comment, defaults or another physical name.
    pub fn optional(id: i64, name: impl Into<String>, ty: Type) -> Self {
        Self {
            id: FieldId(id),
            name: name.into(),
            physical_name: None,
            required: false,
            ty,
            doc: None,
            initial_default: None,
            write_default: None,
        }
    }

    /// The name inside the data files.
    pub fn stored_name(&self) -> &str {
        self.physical_name.as_deref().unwrap_or(&self.name)
    }
}

impl Type {
    /// The leaf type, `None` for a nested one.
    pub const fn primitive(&self) -> Option<Primitive> {
        match self {
            Self::Primitive(primitive) => Some(*primitive),
            _ => None,
        }
    }
}

impl From<Primitive> for Type {
    fn from(primitive: Primitive) -> Self {
        Self::Primitive(primitive)
    }
}

impl fmt::Display for Primitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Decimal(d) => return write!(f, "decimal({},{})", d.precision, d.scale),
            Self::Fixed(length) => return write!(f, "fixed[{length}]"),
            Self::Boolean => "boolean",
            Self::Byte => "byte",
            Self::Short => "short",
            Self::Int => "int",
            Self::Long => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::Date => "date",
            Self::Time => "time",
            Self::Timestamp => "timestamp",
            Self::Timestamptz => "timestamptz",
            Self::TimestampNs => "timestamp_ns",
            Self::TimestamptzNs => "timestamptz_ns",
            Self::String => "string",
            Self::Uuid => "uuid",
            Self::Binary => "binary",
            Self::Variant => "variant",
            Self::Unknown => "unknown",
        })
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Primitive(primitive) => primitive.fmt(f),
            Self::List(element) => write!(f, "list<{}>", element.ty),
            Self::Map(entry) => write!(f, "map<{}, {}>", entry.0.ty, entry.1.ty),
            Self::Struct(fields) => {
                f.write_str("struct<")?;
                for (i, field) in fields.iter().enumerate() {
                    let comma = if i > 0 { ", " } else { "" };
                    write!(f, "{comma}{}: {}", field.name, field.ty)?;
                }
                f.write_str(">")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested() -> Schema {
        let member = Field::optional(3, "x", Primitive::Int.into());
        let element = Element { id: FieldId(2), required: true, ty: Type::Struct(vec![member]) };
        Schema {
            fields: vec![
                Field::optional(1, "items", Type::List(Box::new(element))),
                Field::optional(4, "b", Primitive::Long.into()),
            ],
            identifier_fields: vec![FieldId(4)],
        }
    }

    #[test]
    fn nodes_are_found_by_id_with_their_path() {
        let schema = nested();
        assert_eq!(schema.path(FieldId(3)), Some(vec!["items", "element", "x"]));
        assert_eq!(schema.primitive(FieldId(3)), Some(Primitive::Int));
        assert_eq!(schema.primitive(FieldId(1)), None);
        assert_eq!(schema.max_id(), FieldId(4));
        assert_eq!(schema.duplicate_id(), None);
    }

    #[test]
    fn renumbering_keeps_known_paths_and_never_reuses() {
        let first = nested().renumbered(None, FieldId(0));
        // Level by level: the two columns first, then the element, then its member.
        assert_eq!(first.schema.column("b").map(|f| f.id), Some(FieldId(2)));
        assert_eq!(first.schema.path(FieldId(4)), Some(vec!["items", "element", "x"]));
        assert_eq!(first.schema.identifier_fields, [FieldId(2)]);

        let mut changed = nested();
        changed.fields.remove(1);
        changed.fields.push(Field::optional(9, "c", Primitive::Date.into()));
        let second = changed.renumbered(Some(&first.schema), first.last_id);
        assert_eq!(second.schema.column("items").map(|f| f.id), Some(FieldId(1)));
        assert_eq!(second.schema.column("c").map(|f| f.id), Some(FieldId(5)));
        assert_eq!(second.ids[&FieldId(9)], FieldId(5));
    }

    #[test]
    fn types_print_as_people_write_them() {
        assert_eq!(nested().fields[0].ty.to_string(), "list<struct<x: int>>");
    }
}
