//! The schema of a Hudi table is an Avro schema.
//!
//! # Source
//! Avro specification 1.11, "Schema Declaration" and "Logical Types". Wider unions than `[null, T]` have no counterpart
//! in a table schema. Map keys are always strings.

use hoglake_model::table::{Element, Field, Primitive, Schema, Type};
use hoglake_model::{DecimalType, FieldId};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// The deepest nesting that is read.
const MAX_DEPTH: usize = 64;

type Read<T> = Result<T, String>;

struct Reading {
    next: i64,
    named: HashMap<String, Value>,
    depth: usize,
    path: Vec<String>,
}

/// Reads a record schema; ids count columns from 1 in depth-first order.
///
/// # Errors
/// A sentence that names the column.
pub(super) fn read(text: &str) -> Read<Schema> {
    let json: Value = serde_json::from_str(text).map_err(|e| format!("the Avro schema is no JSON: {e}"))?;
    let mut reading = Reading { next: 0, named: HashMap::new(), depth: 0, path: Vec::new() };
    let Value::Object(record) = &json else { return Err("the Avro schema must be a record".to_owned()) };
    if record.get("type").and_then(Value::as_str) != Some("record") {
        return Err("the Avro schema must be a record".to_owned());
    }
    let namespace = record.get("namespace").and_then(Value::as_str).unwrap_or_default().to_owned();
    let fields = reading.fields(record, &namespace)?;
    Ok(Schema { fields, identifier_fields: Vec::new() })
}

impl Reading {
    fn refuse<T>(&self, why: &str) -> Read<T> {
        Err(format!("column `{}`: {why}", self.path.join(".")))
    }

    fn id(&mut self) -> FieldId {
        self.next += 1;
        FieldId(self.next)
    }

    fn fields(&mut self, record: &Map<String, Value>, namespace: &str) -> Read<Vec<Field>> {
        let Some(Value::Array(members)) = record.get("fields") else { return self.refuse("a record needs fields") };
        let mut fields: Vec<Field> = Vec::with_capacity(members.len());
        for member in members {
            let Some(name) = member.get("name").and_then(Value::as_str) else {
                return self.refuse("a field has no name");
            };
            self.path.push(name.to_owned());
            if fields.iter().any(|f| f.name == name) {
                return self.refuse("the name is used twice");
            }
            let id = self.id();
            let Some(declared) = member.get("type") else { return self.refuse("it has no type") };
            let (ty, nullable) = self.nullable(declared, namespace)?;
            let mut field = Field::optional(id.0, name, ty);
            field.required = !nullable;
            field.doc = member.get("doc").and_then(Value::as_str).filter(|d| !d.is_empty()).map(str::to_owned);
            fields.push(field);
            self.path.pop();
        }
        Ok(fields)
    }

    fn nullable(&mut self, declared: &Value, namespace: &str) -> Read<(Type, bool)> {
        let Value::Array(branches) = declared else { return Ok((self.node(declared, namespace)?, false)) };
        let is_null = |b: &&Value| b.as_str() == Some("null") || b.get("type").and_then(Value::as_str) == Some("null");
        let nullable = branches.iter().any(|b| is_null(&b));
        let mut others = branches.iter().filter(|b| !is_null(b));
        match (others.next(), others.next()) {
            (Some(only), None) => Ok((self.node(only, namespace)?, nullable)),
            _ => self.refuse("a union of several types has no counterpart in a table"),
        }
    }

    fn element(&mut self, declared: Option<&Value>, namespace: &str, name: &str) -> Read<Element> {
        self.path.push(name.to_owned());
        let id = self.id();
        let Some(declared) = declared else { return self.refuse("it has no type") };
        let (ty, nullable) = self.nullable(declared, namespace)?;
        self.path.pop();
        Ok(Element { id, required: !nullable, ty })
    }

    fn node(&mut self, declared: &Value, namespace: &str) -> Read<Type> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.refuse("the schema is nested too deeply, or contains itself");
        }
        let read = match declared {
            Value::String(name) => self.by_name(name, namespace),
            Value::Object(object) => self.object(object, namespace),
            _ => self.refuse("it has no Avro type"),
        };
        self.depth -= 1;
        read
    }

    fn by_name(&mut self, name: &str, namespace: &str) -> Read<Type> {
        let primitive = match name {
            "boolean" => Primitive::Boolean,
            "int" => Primitive::Int,
            "long" => Primitive::Long,
            "float" => Primitive::Float,
            "double" => Primitive::Double,
            "bytes" => Primitive::Binary,
            "string" => Primitive::String,
            "null" => Primitive::Unknown,
            _ => {
                let full = if name.contains('.') { name.to_owned() } else { format!("{namespace}.{name}") };
                let Some(known) = self.named.get(&full).cloned() else {
                    return self.refuse(&format!("the Avro type `{name}` is not declared"));
                };
                return self.node(&known, namespace);
            }
        };
        Ok(primitive.into())
    }

    fn object(&mut self, object: &Map<String, Value>, namespace: &str) -> Read<Type> {
        let text = |key: &str| object.get(key).and_then(Value::as_str);
        let Some(declared) = object.get("type") else { return self.refuse("it has no type") };
        let Some(kind) = declared.as_str() else { return self.node(declared, namespace) };
        let mut inner = text("namespace").unwrap_or(namespace).to_owned();
        if let ("record" | "enum" | "fixed", Some(name)) = (kind, text("name")) {
            let full = match name.rsplit_once('.') {
                Some((space, _)) => {
                    space.clone_into(&mut inner);
                    name.to_owned()
                }
                None => format!("{inner}.{name}"),
            };
            self.named.insert(full, Value::Object(object.clone()));
        }
        let whole = |key: &str| object.get(key).and_then(Value::as_u64);
        let logical = text("logicalType").or_else(|| text("xtableLogicalType"));
        let primitive = match (kind, logical) {
            ("record", _) => return Ok(Type::Struct(self.fields(object, &inner)?)),
            ("array", _) => {
                return Ok(Type::List(Box::new(self.element(object.get("items"), &inner, "element")?)));
            }
            ("map", _) => {
                let key = Element { id: self.id(), required: true, ty: Primitive::String.into() };
                let value = self.element(object.get("values"), &inner, "value")?;
                return Ok(Type::Map(Box::new((key, value))));
            }
            ("bytes" | "fixed", Some("decimal")) => {
                let (precision, scale) = (whole("precision").unwrap_or(0), whole("scale").unwrap_or(0));
                match (u8::try_from(precision), u8::try_from(scale)) {
                    (Ok(precision), Ok(scale)) if (1..=38).contains(&precision) && scale <= precision => {
                        Primitive::Decimal(DecimalType { precision, scale })
                    }
                    _ => return self.refuse(&format!("decimal({precision},{scale}) is not supported")),
                }
            }
            ("int", Some("date")) => Primitive::Date,
            ("int", Some("time-millis")) | ("long", Some("time-micros")) => Primitive::Time,
            ("long", Some("timestamp-millis" | "timestamp-micros")) => Primitive::Timestamptz,
            ("long", Some("local-timestamp-millis" | "local-timestamp-micros")) => Primitive::Timestamp,
            ("long", Some("timestamp-nanos")) => Primitive::TimestamptzNs,
            ("long", Some("local-timestamp-nanos")) => Primitive::TimestampNs,
            ("fixed", logical) => match (whole("size").and_then(|s| u32::try_from(s).ok()), logical) {
                (Some(16), Some("uuid")) => Primitive::Uuid,
                (Some(size), _) => Primitive::Fixed(size),
                _ => return self.refuse("a fixed type needs a size"),
            },
            ("enum", _) => Primitive::String,
            (simple, _) => return self.by_name(simple, namespace),
        };
        Ok(primitive.into())
    }
}

/// The columns that Hudi adds to every row, in their order.
pub(super) const META_FIELDS: [&str; 5] = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn ty(declared: &str) -> Read<String> {
        let schema = read(&format!(r#"{{"type":"record","name":"r","fields":[{{"name":"c","type":{declared}}}]}}"#))?;
        let field = &schema.fields[0];
        Ok(format!("{}{}", field.ty, if field.required { "" } else { "?" }))
    }

    #[test]
    fn types_are_read() {
        for (declared, expected) in [
            (r#""int""#, "int"),
            (r#"["null","string"]"#, "string?"),
            (r#"["string","null"]"#, "string?"),
            (r#"{"type":"long","logicalType":"timestamp-micros"}"#, "timestamptz"),
            (r#"["null",{"type":"long","logicalType":"local-timestamp-millis"}]"#, "timestamp?"),
            (r#"{"type":"int","logicalType":"date"}"#, "date"),
            (
                r#"{"type":"fixed","name":"f","size":7,"logicalType":"decimal","precision":15,"scale":2}"#,
                "decimal(15,2)",
            ),
            (r#"{"type":"bytes","logicalType":"decimal","precision":10,"scale":0}"#, "decimal(10,0)"),
            (r#"{"type":"fixed","name":"f","size":16,"logicalType":"uuid"}"#, "uuid"),
            (r#"{"type":"fixed","name":"f","size":3}"#, "fixed[3]"),
            (r#"{"type":"enum","name":"e","symbols":["A"]}"#, "string"),
            (r#"{"type":"array","items":["null","int"]}"#, "list<int>"),
            (
                r#"{"type":"map","values":{"type":"record","name":"v","fields":[{"name":"x","type":"float"}]}}"#,
                "map<string, struct<x: float>>",
            ),
            (r#"{"type":{"type":"string"}}"#, "string"),
        ] {
            assert_eq!(ty(declared).as_deref(), Ok(expected), "{declared}");
        }
    }

    #[test]
    fn what_a_table_cannot_have_is_refused() {
        let deep = format!("{}\"int\"{}", r#"{"type":"array","items":"#.repeat(70), "}".repeat(70));
        for bad in [
            r#"["int","string"]"#,
            r#"["null","int","string"]"#,
            r#""missing""#,
            r#"{"type":"bytes","logicalType":"decimal","precision":39,"scale":0}"#,
            r#"{"type":"record","name":"r2","fields":[{"name":"again","type":["null","r2"]}]}"#,
            r#"{"type":"fixed","name":"f"}"#,
            "7",
            deep.as_str(),
        ] {
            assert!(ty(bad).unwrap_err().contains("`c"), "{bad}");
        }
        assert!(read("[]").is_err() && read("{").is_err() && read(r#"{"type":"enum"}"#).is_err());
    }
}
