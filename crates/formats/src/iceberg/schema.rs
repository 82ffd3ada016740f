//! Schemas and types as JSON ("Appendix C: JSON serialization").

use super::single_value;
use crate::sync::{Error, Result};
use hoglake_model::table::{Element, Field, Primitive, Schema, Type, Value};
use hoglake_model::{DecimalType, FieldId};
use serde_json::{Map, Value as Json, json};

const MAX_DEPTH: usize = 64;

/// Reads a schema object.
///
/// # Errors
/// [`Error::Malformed`], or [`Error::UnsupportedSource`] for a type that we do not know.
pub(super) fn parse(place: &str, json: &Json) -> Result<Schema> {
    let reader = Reader { place };
    let fields = reader.fields(json, &mut Vec::new())?;
    let ids = json.get("identifier-field-ids").and_then(Json::as_array);
    let identifier_fields = ids.into_iter().flatten().filter_map(Json::as_i64).map(FieldId).collect();
    let schema = Schema { fields, identifier_fields };
    match schema.duplicate_id() {
        Some(id) => Err(Error::malformed(place, format!("the schema uses field id {id} twice"))),
        None => Ok(schema),
    }
}

struct Reader<'a> {
    place: &'a str,
}

impl Reader<'_> {
    fn malformed(&self, path: &[String], detail: &str) -> Error {
        Error::malformed(self.place, format!("schema at {}: {detail}", path.join(".")))
    }

    fn id(&self, json: &Json, key: &str, path: &[String]) -> Result<FieldId> {
        let id = json.get(key).and_then(Json::as_i64).filter(|id| (0..=i64::from(i32::MAX)).contains(id));
        id.map(FieldId).ok_or_else(|| self.malformed(path, &format!("{key} must be a field id")))
    }

    fn fields(&self, json: &Json, path: &mut Vec<String>) -> Result<Vec<Field>> {
        if path.len() > MAX_DEPTH {
            return Err(self.malformed(&[], "the schema is nested too deeply"));
        }
        let fields = json.get("fields").and_then(Json::as_array);
        let fields = fields.ok_or_else(|| self.malformed(path, "a struct needs fields"))?;
        fields
            .iter()
            .map(|field| {
                let name = field.get("name").and_then(Json::as_str);
                let name = name.ok_or_else(|| self.malformed(path, "a field needs a name"))?;
                let id = self.id(field, "id", path)?;
                path.push(name.to_owned());
                let ty = self.ty(field.get("type"), path)?;
                path.pop();
                let default = |key: &str| {
                    let value = field.get(key).filter(|v| !v.is_null());
                    value.map(|v| self.default(&ty, v, path)).transpose()
                };
                let (initial_default, write_default) = (default("initial-default")?, default("write-default")?);
                Ok(Field {
                    required: field.get("required").and_then(Json::as_bool).unwrap_or(false),
                    doc: field.get("doc").and_then(Json::as_str).map(str::to_owned),
                    initial_default,
                    write_default,
                    ..Field::optional(id.0, name, ty)
                })
            })
            .collect()
    }

    fn default(&self, ty: &Type, json: &Json, path: &[String]) -> Result<Value> {
        let value = ty.primitive().and_then(|primitive| single_value::from_json(primitive, json));
        value.ok_or_else(|| self.malformed(path, "the default value does not fit the type"))
    }

    fn ty(&self, json: Option<&Json>, path: &mut Vec<String>) -> Result<Type> {
        let json = json.ok_or_else(|| self.malformed(path, "a type is missing"))?;
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
        if path.len() > MAX_DEPTH {
            return Err(self.malformed(&[], "the schema is nested too deeply"));
        }
        let flag = |key: &str| json.get(key).and_then(Json::as_bool).unwrap_or(false);
        let mut element = |role: &str, required: bool| {
            let id = self.id(json, &format!("{role}-id"), path)?;
            path.push(role.to_owned());
            let ty = self.ty(json.get(role), path)?;
            path.pop();
            Ok::<_, Error>(Element { id, required, ty })
        };
        match json.get("type").and_then(Json::as_str) {
            Some("struct") => Ok(Type::Struct(self.fields(json, path)?)),
            Some("list") => Ok(Type::List(Box::new(element("element", flag("element-required"))?))),
            Some("map") => Ok(Type::Map(Box::new((element("key", true)?, element("value", flag("value-required"))?)))),
            _ => Err(self.malformed(path, "the type is neither a name nor a struct, list or map")),
        }
    }
}

fn primitive(name: &str) -> Option<Primitive> {
    Some(match name {
        "boolean" => Primitive::Boolean,
        "int" => Primitive::Int,
        "long" => Primitive::Long,
        "float" => Primitive::Float,
        "double" => Primitive::Double,
        "date" => Primitive::Date,
        "time" => Primitive::Time,
        "timestamp" => Primitive::Timestamp,
        "timestamptz" => Primitive::Timestamptz,
        "timestamp_ns" => Primitive::TimestampNs,
        "timestamptz_ns" => Primitive::TimestamptzNs,
        "string" => Primitive::String,
        "uuid" => Primitive::Uuid,
        "binary" => Primitive::Binary,
        "variant" => Primitive::Variant,
        "unknown" => Primitive::Unknown,
        other => {
            let arguments = |prefix: &str, open: char, close: char| {
                other.strip_prefix(prefix)?.trim_start().strip_prefix(open)?.strip_suffix(close)
            };
            if let Some(length) = arguments("fixed", '[', ']') {
                return length.trim().parse().ok().map(Primitive::Fixed);
            }
            let (precision, scale) = arguments("decimal", '(', ')')?.split_once(',')?;
            let (precision, scale) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
            let valid = (1..=DecimalType::MAX_PRECISION).contains(&precision) && scale <= precision;
            valid.then_some(Primitive::Decimal(DecimalType { precision, scale }))?
        }
    })
}

/// The type that a column has in an Iceberg table: small integers widen, everything else stays.
pub(super) const fn stored(primitive: Primitive) -> Primitive {
    match primitive {
        Primitive::Byte | Primitive::Short => Primitive::Int,
        other => other,
    }
}

/// Writes a schema object.
pub(super) fn format(schema: &Schema, schema_id: i32) -> Json {
    let mut json = Map::new();
    json.insert("type".to_owned(), json!("struct"));
    json.insert("schema-id".to_owned(), json!(schema_id));
    json.insert("fields".to_owned(), Json::Array(fields_json(&schema.fields)));
    if !schema.identifier_fields.is_empty() {
        let ids: Vec<_> = schema.identifier_fields.iter().map(|id| id.0).collect();
        json.insert("identifier-field-ids".to_owned(), json!(ids));
    }
    Json::Object(json)
}

fn fields_json(fields: &[Field]) -> Vec<Json> {
    fields
        .iter()
        .map(|field| {
            let mut json = Map::new();
            json.insert("id".to_owned(), json!(field.id.0));
            json.insert("name".to_owned(), json!(field.name));
            json.insert("required".to_owned(), json!(field.required));
            json.insert("type".to_owned(), type_json(&field.ty));
            if let Some(doc) = &field.doc {
                json.insert("doc".to_owned(), json!(doc));
            }
            if let (Some(value), Some(primitive)) = (&field.initial_default, field.ty.primitive()) {
                json.insert("initial-default".to_owned(), single_value::to_json(primitive, value));
            }
            if let (Some(value), Some(primitive)) = (&field.write_default, field.ty.primitive()) {
                json.insert("write-default".to_owned(), single_value::to_json(primitive, value));
            }
            Json::Object(json)
        })
        .collect()
}

fn type_json(ty: &Type) -> Json {
    match ty {
        Type::Primitive(primitive) => json!(stored(*primitive).to_string()),
        Type::Struct(fields) => json!({ "type": "struct", "fields": fields_json(fields) }),
        Type::List(element) => json!({
            "type": "list",
            "element-id": element.id.0,
            "element": type_json(&element.ty),
            "element-required": element.required,
        }),
        Type::Map(entry) => json!({
            "type": "map",
            "key-id": entry.0.id.0,
            "key": type_json(&entry.0.ty),
            "value-id": entry.1.id.0,
            "value": type_json(&entry.1.ty),
            "value-required": entry.1.required,
        }),
    }
}

/// "Schema Evolution": the promotions of primitive types.
pub(super) fn promotes(from: Primitive, to: Primitive) -> bool {
    match (from, to) {
        (Primitive::Int, Primitive::Long) | (Primitive::Float, Primitive::Double) | (Primitive::Unknown, _) => true,
        (Primitive::Date, Primitive::Timestamp | Primitive::TimestampNs) => true,
        (Primitive::Decimal(from), Primitive::Decimal(to)) => from.scale == to.scale && from.precision <= to.precision,
        (from, to) => from == to,
    }
}

/// The default name mapping of a schema ("Name Mapping Serialization"): how readers find the columns of files without
/// field ids. The stored name comes first, the name of today second. PyIceberg reads no file with a column that has none:
/// `unlisted` ones that have a reserved id ("Reserved Field IDs") are named, too.
pub(super) fn name_mapping(schema: &Schema, unlisted: &[String]) -> Json {
    let reserved =
        RESERVED.iter().filter(|(name, _)| unlisted.iter().any(|u| u == name) && schema.column(name).is_none());
    let reserved = reserved.map(|(name, id)| json!({"field-id": id, "names": [name]}));
    let columns = schema.fields.iter().map(|f| mapped(f.id, &[f.stored_name(), &f.name], &f.ty));
    Json::Array(columns.chain(reserved).collect())
}

const RESERVED: [(&str, i64); 1] = [("_change_type", 2_147_483_543)];

fn mapped(id: FieldId, names: &[&str], ty: &Type) -> Json {
    let mut unique: Vec<&str> = Vec::new();
    for name in names {
        if !unique.contains(name) {
            unique.push(name);
        }
    }
    let mut json = Map::new();
    json.insert("field-id".to_owned(), json!(id.0));
    json.insert("names".to_owned(), json!(unique));
    let children: Vec<Json> = match ty {
        Type::Primitive(_) => return Json::Object(json),
        Type::Struct(fields) => fields.iter().map(|f| mapped(f.id, &[f.stored_name(), &f.name], &f.ty)).collect(),
        // Files with lists of two levels call the element `array`.
        Type::List(element) => vec![mapped(element.id, &["element", "array"], &element.ty)],
        Type::Map(entry) => {
            vec![mapped(entry.0.id, &["key"], &entry.0.ty), mapped(entry.1.id, &["value"], &entry.1.ty)]
        }
    };
    json.insert("fields".to_owned(), Json::Array(children));
    Json::Object(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_survive_the_round_trip() {
        let json = json!({"type": "struct", "schema-id": 3, "identifier-field-ids": [1], "fields": [
            {"id": 1, "name": "id", "required": true, "type": "long", "doc": "key"},
            {"id": 2, "name": "d", "required": false, "type": "decimal(9, 2)", "initial-default": "1.50", "write-default": "2.00"},
            {"id": 3, "name": "l", "required": false, "type": {"type": "list", "element-id": 4, "element-required": false,
                "element": {"type": "struct", "fields": [{"id": 5, "name": "f", "required": false, "type": "fixed[16]"}]}}},
            {"id": 6, "name": "m", "required": false, "type": {"type": "map", "key-id": 7, "key": "string",
                "value-id": 8, "value": "timestamptz_ns", "value-required": true}}]});
        let schema = parse("t", &json).unwrap();
        assert_eq!(schema.fields[1].initial_default, Some(Value::Decimal { unscaled: 150, scale: 2 }));
        assert_eq!(parse("t", &format(&schema, 3)).unwrap(), schema);
        let mapping = name_mapping(&schema, &[]).to_string();
        assert!(mapping.contains(r#""names":["element","array"]"#), "{mapping}");
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [
            json!({}),
            json!({"fields": [{"name": "a", "type": "int"}]}),
            json!({"fields": [{"id": 1, "name": "a", "type": "int"}, {"id": 1, "name": "b", "type": "int"}]}),
            json!({"fields": [{"id": 1, "name": "a", "type": {"type": "list", "element": "int"}}]}),
            json!({"fields": [{"id": 5_000_000_000_i64, "name": "a", "type": "int"}]}),
        ] {
            assert!(matches!(parse("t", &bad), Err(Error::Malformed { .. })), "{bad}");
        }
        let geometry = json!({"fields": [{"id": 1, "name": "g", "type": "geometry(srid:4326)"}]});
        assert!(matches!(parse("t", &geometry), Err(Error::UnsupportedSource { .. })));
    }
}
