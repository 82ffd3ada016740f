//! The schema as Spark JSON ("Schema Serialization Format", "Column Mapping") and as the model has it.

use super::type_widening;
use crate::sync::{Error, Result};
use hoglake_model::table::{Element, Field, FieldIds, Primitive, Schema, TableFormat, Type, capability};
use hoglake_model::{DecimalType, FieldId, name};
use serde_json::{Map, Value as Json, json};

/// How columns are found in the data files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mapping {
    /// By logical name.
    None,
    /// By physical name.
    Name,
    /// By Parquet field id.
    Id,
}

const ID: &str = "delta.columnMapping.id";
const PHYSICAL: &str = "delta.columnMapping.physicalName";
const NESTED_IDS: &str = "delta.columnMapping.nested.ids";
const COMMENT: &str = "comment";
const TYPE_CHANGES: &str = "delta.typeChanges";
/// The same in tables that do not declare the feature, as asked for or by former versions of hoglake.
const OLDER_TYPES: &str = "hoglake.olderTypes";
/// XTable's mark for a uuid that Delta only knows as binary.
const LOGICAL: &str = "xtableLogicalType";
const MAX_DEPTH: usize = 64;
/// Ids of list elements, map keys and map values that Delta leaves without one lie above all that it assigns.
const NESTED_BASE: i64 = 1 << 30;

/// Reads `schemaString`.
///
/// # Errors
/// [`Error::Malformed`] for what is no schema, [`Error::UnsupportedSource`] for a type that we do not know.
pub(super) fn parse(place: &str, text: &str, mapping: Mapping) -> Result<(Schema, FieldIds)> {
    let json: Json = serde_json::from_str(text).map_err(|e| Error::malformed(place, format!("schemaString: {e}")))?;
    let mut reader = Reader { place, mapping, next: 0, nested: 0 };
    let fields = reader.fields(&json, &mut Vec::new())?;
    let mut schema = Schema { fields, identifier_fields: Vec::new() };
    if let Some(twin) = capability::twins(TableFormat::Delta, &schema, true).first() {
        let detail = format!("the column {}: {}", name::quoted(&twin.place), twin.detail);
        return Err(Error::malformed(place, detail));
    }
    if mapping == Mapping::None {
        // Positions only: number everything in one sequence.
        schema = schema.renumbered(None, FieldId(0)).schema;
        return Ok((schema, FieldIds::Positional));
    }
    if let Some(id) = schema.duplicate_id() {
        return Err(Error::malformed(place, format!("the schema uses column id {id} twice")));
    }
    Ok((schema, FieldIds::Assigned))
}

struct Reader<'a> {
    place: &'a str,
    mapping: Mapping,
    next: i64,
    /// Nested nodes met below the current named field.
    nested: i64,
}

/// The named field around a list or map: its id, and the ids that Delta gave to its nested nodes.
#[derive(Clone, Copy)]
struct Owner<'a> {
    id: i64,
    nested_ids: Option<&'a Map<String, Json>>,
}

impl Reader<'_> {
    fn malformed(&self, path: &[String], detail: &str) -> Error {
        Error::malformed(self.place, format!("schema at {}: {detail}", path.join(".")))
    }

    fn fields(&mut self, json: &Json, path: &mut Vec<String>) -> Result<Vec<Field>> {
        let fields = json.get("fields").and_then(Json::as_array);
        let fields = fields.ok_or_else(|| self.malformed(path, "a struct needs fields"))?;
        if path.len() > MAX_DEPTH {
            return Err(self.malformed(&[], "the schema is nested too deeply"));
        }
        fields.iter().map(|field| self.field(field, path)).collect()
    }

    fn field(&mut self, json: &Json, path: &mut Vec<String>) -> Result<Field> {
        let name =
            json.get("name").and_then(Json::as_str).ok_or_else(|| self.malformed(path, "a field needs a name"))?;
        path.push(name.to_owned());
        let empty = Map::new();
        let metadata = json.get("metadata").and_then(Json::as_object).unwrap_or(&empty);
        self.next += 1;
        let (id, physical) = match self.mapping {
            Mapping::None => (self.next, None),
            _ => {
                let id = metadata.get(ID).and_then(Json::as_i64);
                let physical = metadata.get(PHYSICAL).and_then(Json::as_str);
                let (Some(id @ 1..NESTED_BASE), Some(physical)) = (id, physical) else {
                    return Err(self.malformed(path, "column mapping needs an id and a physical name"));
                };
                (id, Some(physical))
            }
        };
        let ty = json.get("type").ok_or_else(|| self.malformed(path, "a field needs a type"))?;
        let nested_ids = metadata.get(NESTED_IDS).and_then(Json::as_object);
        let outer = std::mem::replace(&mut self.nested, 0);
        let mut key = physical.unwrap_or(name).to_owned();
        let mut ty = self.ty(ty, path, Owner { id, nested_ids }, &mut key)?;
        self.nested = outer;
        if ty == Type::Primitive(Primitive::Binary) && metadata.get(LOGICAL).and_then(Json::as_str) == Some("uuid") {
            ty = Primitive::Uuid.into();
        }
        path.pop();
        Ok(Field {
            required: json.get("nullable").and_then(Json::as_bool) == Some(false),
            doc: metadata.get(COMMENT).and_then(Json::as_str).map(str::to_owned),
            physical_name: physical.filter(|p| *p != name).map(str::to_owned),
            ..Field::optional(id, name, ty)
        })
    }

    fn element(
        &mut self,
        json: Option<&Json>,
        required: bool,
        path: &mut Vec<String>,
        owner: Owner<'_>,
        key: &mut String,
        role: &str,
    ) -> Result<Element> {
        let json = json.ok_or_else(|| self.malformed(path, "a list or map needs the types of its children"))?;
        let length = key.len();
        key.push('.');
        key.push_str(role);
        self.next += 1;
        let id = if self.mapping == Mapping::None {
            self.next
        } else {
            let given = owner.nested_ids.and_then(|ids| ids.get(key.as_str())).and_then(Json::as_i64);
            self.nested += 1;
            given.unwrap_or(NESTED_BASE + owner.id * 16 + self.nested)
        };
        if self.nested > 15 || path.len() + self.nested as usize > MAX_DEPTH {
            return Err(self.malformed(path, "lists and maps are nested too deeply"));
        }
        path.push(role.to_owned());
        let ty = self.ty(json, path, owner, key)?;
        path.pop();
        key.truncate(length);
        Ok(Element { id: FieldId(id), required, ty })
    }

    fn ty(&mut self, json: &Json, path: &mut Vec<String>, owner: Owner<'_>, key: &mut String) -> Result<Type> {
        if let Some(name) = json.as_str() {
            return match primitive(name) {
                Some(primitive) => Ok(primitive.into()),
                None => Err(Error::UnsupportedSource {
                    feature: format!("the type {name}"),
                    place: format!("{} column {}", self.place, path.join(".")),
                    detail: "hoglake does not read columns of this type".to_owned(),
                }),
            };
        }
        let flag = |name: &str| json.get(name).and_then(Json::as_bool) == Some(false);
        match json.get("type").and_then(Json::as_str) {
            Some("struct") => Ok(Type::Struct(self.fields(json, path)?)),
            Some("array") => {
                let element =
                    self.element(json.get("elementType"), flag("containsNull"), path, owner, key, "element")?;
                Ok(Type::List(Box::new(element)))
            }
            Some("map") => {
                let entry = (
                    self.element(json.get("keyType"), true, path, owner, key, "key")?,
                    self.element(json.get("valueType"), flag("valueContainsNull"), path, owner, key, "value")?,
                );
                Ok(Type::Map(Box::new(entry)))
            }
            _ => Err(self.malformed(path, "the type is neither a name nor a struct, array or map")),
        }
    }
}

/// List elements, map keys and map values that have no id of their own: with column mapping files give ids to the named
/// fields around them, and to them only where `delta.columnMapping.nested.ids` says so.
pub(super) fn without_ids(schema: &Schema) -> Vec<FieldId> {
    let mut found = Vec::new();
    schema.walk(&mut |_, node| {
        if node.field.is_none() && node.id.0 >= NESTED_BASE {
            found.push(node.id);
        }
    });
    found
}

/// As [`older_types`], by the names down to the column.
pub(super) fn older_paths(text: &str) -> Vec<(Vec<String>, Primitive)> {
    fn fields(json: &Json, path: &mut Vec<String>, out: &mut Vec<(Vec<String>, Primitive)>) {
        for field in json.get("fields").and_then(Json::as_array).into_iter().flatten() {
            let Some(name) = field.get("name").and_then(Json::as_str) else { continue };
            path.push(name.to_owned());
            let changes = |key| field.get("metadata").and_then(|m| m.get(key)).and_then(Json::as_array);
            for change in [TYPE_CHANGES, OLDER_TYPES].into_iter().filter_map(changes).flatten() {
                let from = change.get("fromType").and_then(Json::as_str).and_then(primitive);
                let below = change.get("fieldPath").and_then(Json::as_str).into_iter().flat_map(|p| p.split('.'));
                if let Some(from) = from {
                    out.push((path.iter().cloned().chain(below.map(str::to_owned)).collect(), from));
                }
            }
            nested(field.get("type"), path, out);
            path.pop();
        }
    }
    fn nested(json: Option<&Json>, path: &mut Vec<String>, out: &mut Vec<(Vec<String>, Primitive)>) {
        let Some(json) = json.filter(|j| j.is_object() && path.len() <= MAX_DEPTH) else { return };
        fields(json, path, out);
        for (key, role) in [("elementType", "element"), ("keyType", "key"), ("valueType", "value")] {
            path.push(role.to_owned());
            nested(json.get(key), path, out);
            path.pop();
        }
    }
    if !text.contains(TYPE_CHANGES) && !text.contains(OLDER_TYPES) {
        return Vec::new();
    }
    let mut found = Vec::new();
    fields(&serde_json::from_str(text).unwrap_or_default(), &mut Vec::new(), &mut found);
    found
}

/// The types that columns had before they were widened ("Type Change Metadata").
pub(super) fn older_types(text: &str, schema: &Schema) -> Vec<(FieldId, Primitive)> {
    let found = type_widening::of_columns(schema, &older_paths(text));
    found.into_iter().map(|(id, then, _)| (id, then)).collect()
}

fn primitive(name: &str) -> Option<Primitive> {
    Some(match name {
        "boolean" => Primitive::Boolean,
        "byte" => Primitive::Byte,
        "short" => Primitive::Short,
        "integer" => Primitive::Int,
        "long" => Primitive::Long,
        "float" => Primitive::Float,
        "double" => Primitive::Double,
        "date" => Primitive::Date,
        "timestamp" => Primitive::Timestamptz,
        "timestamp_ntz" => Primitive::Timestamp,
        "string" => Primitive::String,
        "binary" => Primitive::Binary,
        "variant" => Primitive::Variant,
        "void" => Primitive::Unknown,
        "decimal" => Primitive::Decimal(DecimalType { precision: 10, scale: 0 }),
        other => {
            // Collated strings and varchar(n) are strings with a rule about comparing or writing them.
            if other.starts_with("string collate ") || other.starts_with("varchar(") || other.starts_with("char(") {
                return Some(Primitive::String);
            }
            let (precision, scale) = other.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
            let (precision, scale) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
            let valid = (1..=DecimalType::MAX_PRECISION).contains(&precision) && scale <= precision;
            valid.then_some(Primitive::Decimal(DecimalType { precision, scale }))?
        }
    })
}

/// The Spark name of a type, `None` when Delta has none.
pub(super) fn type_name(primitive: Primitive) -> Option<String> {
    Some(
        match primitive {
            Primitive::Decimal(d) => return Some(format!("decimal({},{})", d.precision, d.scale)),
            Primitive::Boolean => "boolean",
            Primitive::Byte => "byte",
            Primitive::Short => "short",
            Primitive::Int => "integer",
            Primitive::Long => "long",
            Primitive::Float => "float",
            Primitive::Double => "double",
            Primitive::Date => "date",
            Primitive::Timestamptz => "timestamp",
            Primitive::Timestamp => "timestamp_ntz",
            Primitive::String => "string",
            Primitive::Binary | Primitive::Fixed(_) | Primitive::Uuid => "binary",
            Primitive::Variant => "variant",
            Primitive::Unknown => "void",
            Primitive::Time | Primitive::TimestampNs | Primitive::TimestamptzNs => return None,
        }
        .to_owned(),
    )
}

/// Writes `schemaString`. With column mapping every named field gets its id and its physical name. `declares` says whether
/// the table has the feature by which older types are noted.
pub(super) fn format(
    schema: &Schema,
    mapping: Mapping,
    older_types: &[(FieldId, Primitive)],
    declares: bool,
) -> String {
    let writer = Writer { mapping, older_types, type_changes: if declares { TYPE_CHANGES } else { OLDER_TYPES } };
    json!({ "type": "struct", "fields": writer.fields(&schema.fields) }).to_string()
}

struct Writer<'a> {
    mapping: Mapping,
    /// Types that columns have in older files.
    older_types: &'a [(FieldId, Primitive)],
    /// The key under which they are noted.
    type_changes: &'static str,
}

impl Writer<'_> {
    fn fields(&self, fields: &[Field]) -> Vec<Json> {
        let mapping = self.mapping;
        fields
            .iter()
            .map(|field| {
                let mut metadata = Map::new();
                let mut changes = Vec::new();
                self.changes(field.id, &field.ty, &mut Vec::new(), &mut changes);
                if !changes.is_empty() {
                    metadata.insert(self.type_changes.to_owned(), Json::Array(changes));
                }
                if mapping != Mapping::None {
                    metadata.insert(ID.to_owned(), json!(field.id.0));
                    metadata.insert(PHYSICAL.to_owned(), json!(field.stored_name()));
                    let mut nested = Map::new();
                    nested_ids(&field.ty, field.stored_name(), &mut nested);
                    if !nested.is_empty() {
                        metadata.insert(NESTED_IDS.to_owned(), Json::Object(nested));
                    }
                }
                if let Some(doc) = &field.doc {
                    metadata.insert(COMMENT.to_owned(), json!(doc));
                }
                if field.ty == Type::Primitive(Primitive::Uuid) {
                    metadata.insert(LOGICAL.to_owned(), json!("uuid"));
                }
                json!({
                    "name": field.name,
                    "type": self.ty(&field.ty),
                    "nullable": !field.required,
                    "metadata": metadata,
                })
            })
            .collect()
    }

    /// How the type of a column changed, and of what lies in it without a name of its own ("Type Change Metadata").
    fn changes(&self, id: FieldId, ty: &Type, path: &mut Vec<&'static str>, out: &mut Vec<Json>) {
        let mut below = |element: &Element, role| {
            path.push(role);
            self.changes(element.id, &element.ty, path, out);
            path.pop();
        };
        match ty {
            Type::Struct(_) => {}
            Type::List(element) => below(element, "element"),
            Type::Map(entry) => {
                below(&entry.0, "key");
                below(&entry.1, "value");
            }
            Type::Primitive(now) => {
                let older = self.older_types.iter().filter(|(older, _)| *older == id).map(|(_, then)| *then);
                for (from, to) in type_widening::steps(older, *now) {
                    let mut change = Map::new();
                    change.insert("fromType".to_owned(), json!(type_name(from)));
                    change.insert("toType".to_owned(), json!(type_name(to)));
                    if !path.is_empty() {
                        change.insert("fieldPath".to_owned(), json!(path.join(".")));
                    }
                    out.push(Json::Object(change));
                }
            }
        }
    }

    fn ty(&self, ty: &Type) -> Json {
        match ty {
            Type::Primitive(primitive) => json!(type_name(*primitive).unwrap_or_default()),
            Type::Struct(fields) => json!({ "type": "struct", "fields": self.fields(fields) }),
            Type::List(element) => json!({
                "type": "array",
                "elementType": self.ty(&element.ty),
                "containsNull": !element.required,
            }),
            Type::Map(entry) => json!({
                "type": "map",
                "keyType": self.ty(&entry.0.ty),
                "valueType": self.ty(&entry.1.ty),
                "valueContainsNull": !entry.1.required,
            }),
        }
    }
}

fn nested_ids(ty: &Type, key: &str, out: &mut Map<String, Json>) {
    let mut element = |element: &Element, role: &str| {
        let key = format!("{key}.{role}");
        nested_ids(&element.ty, &key, out);
        out.insert(key, json!(element.id.0));
    };
    match ty {
        Type::List(item) => element(item, "element"),
        Type::Map(entry) => {
            element(&entry.0, "key");
            element(&entry.1, "value");
        }
        Type::Primitive(_) | Type::Struct(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = r#"{"type":"struct","fields":[
        {"name":"a","type":"long","nullable":false,"metadata":{"comment":"the key"}},
        {"name":"l","type":{"type":"array","elementType":{"type":"struct","fields":[
            {"name":"x","type":"decimal(10,2)","nullable":true,"metadata":{}}]},"containsNull":true},"nullable":true,"metadata":{}},
        {"name":"m","type":{"type":"map","keyType":"string","valueType":"timestamp_ntz","valueContainsNull":false},"nullable":true,"metadata":{}}]}"#;

    #[test]
    fn a_schema_without_ids_survives_the_round_trip() {
        let (schema, ids) = parse("t", PLAIN, Mapping::None).unwrap();
        assert_eq!(ids, FieldIds::Positional);
        assert!(schema.fields[0].required);
        let Type::List(element) = &schema.fields[1].ty else { panic!() };
        assert!(!element.required);
        let Type::Map(entry) = &schema.fields[2].ty else { panic!() };
        assert!(entry.1.required && entry.0.required);
        let again = parse("t", &format(&schema, Mapping::None, &[], true), Mapping::None).unwrap().0;
        assert_eq!(again, schema);
    }

    #[test]
    fn column_mapping_keeps_ids_and_numbers_nested_nodes_apart() {
        let text = r#"{"type":"struct","fields":[
            {"name":"tags","type":{"type":"array","elementType":"long","containsNull":true},"nullable":true,
             "metadata":{"delta.columnMapping.id":5,"delta.columnMapping.physicalName":"col-5"}},
            {"name":"m","type":{"type":"map","keyType":"string","valueType":"integer","valueContainsNull":true},"nullable":true,
             "metadata":{"delta.columnMapping.id":6,"delta.columnMapping.physicalName":"col-6",
                         "delta.columnMapping.nested.ids":{"col-6.key":7,"col-6.value":8}}}]}"#;
        let (schema, ids) = parse("t", text, Mapping::Name).unwrap();
        assert_eq!(ids, FieldIds::Assigned);
        assert_eq!(schema.fields[0].stored_name(), "col-5");
        assert_eq!(schema.path(FieldId(7)), Some(vec!["m", "key"]));
        assert_eq!(schema.path(FieldId(NESTED_BASE + 81)), Some(vec!["tags", "element"]));
        assert_eq!(schema.duplicate_id(), None);
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for bad in ["", "[]", r#"{"type":"struct"}"#, r#"{"type":"struct","fields":[{"name":"a"}]}"#] {
            assert!(matches!(parse("t", bad, Mapping::None), Err(Error::Malformed { .. })), "{bad}");
        }
        let odd =
            r#"{"type":"struct","fields":[{"name":"a","type":"geometry(OGC:CRS84)","nullable":true,"metadata":{}}]}"#;
        assert!(matches!(parse("t", odd, Mapping::None), Err(Error::UnsupportedSource { .. })));
        let deep = format!(
            r#"{{"type":"struct","fields":[{{"name":"a","type":{}"long"{},"nullable":true,"metadata":{{}}}}]}}"#,
            r#"{"type":"array","containsNull":true,"elementType":"#.repeat(100),
            "}".repeat(100)
        );
        assert!(parse("t", &deep, Mapping::None).is_err());
        let unmapped = r#"{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}}]}"#;
        assert!(parse("t", unmapped, Mapping::Id).is_err());
    }
}
