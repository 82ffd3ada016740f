//! Writing JSON values as Avro, by a schema that is JSON itself.
//!
//! # Source
//! Avro specification 1.11, "Binary encoding" and "Object container files".

use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// Marks the end of a block. Readers take it from the header, so that it may be the same in every file.
const SYNC: &[u8; 16] = b"hoglake:timeline";

type Written = Result<(), String>;

/// Writes `value` as a container file of one record.
///
/// # Errors
/// A sentence that names what does not fit the schema.
pub(super) fn container(schema: &Value, value: &Value) -> Result<Vec<u8>, String> {
    let record = datum(schema, value)?;
    let mut out = b"Obj\x01".to_vec();
    long(&mut out, 2);
    for (key, text) in [("avro.codec", "null".to_owned()), ("avro.schema", schema.to_string())] {
        bytes(&mut out, key.as_bytes());
        bytes(&mut out, text.as_bytes());
    }
    long(&mut out, 0);
    out.extend(SYNC);
    long(&mut out, 1);
    bytes(&mut out, &record);
    out.extend(SYNC);
    Ok(out)
}

/// Writes `value` without its schema. Members that it lacks have their default, or null.
///
/// # Errors
/// As [`container`].
pub(super) fn datum(schema: &Value, value: &Value) -> Result<Vec<u8>, String> {
    let mut writer = Writer { out: Vec::new(), named: HashMap::new() };
    writer.name(schema);
    writer.node(schema, value)?;
    Ok(writer.out)
}

struct Writer<'a> {
    out: Vec<u8>,
    named: HashMap<&'a str, &'a Value>,
}

impl<'a> Writer<'a> {
    /// Collects the records that the schema declares, wherever that is.
    fn name(&mut self, schema: &'a Value) {
        match schema {
            Value::Array(parts) => parts.iter().for_each(|part| self.name(part)),
            Value::Object(parts) => {
                if let (Some("record"), Some(name)) = (schema["type"].as_str(), schema["name"].as_str()) {
                    self.named.insert(name, schema);
                }
                parts.values().filter(|part| !part.is_string()).for_each(|part| self.name(part));
            }
            _ => {}
        }
    }

    fn node(&mut self, schema: &'a Value, value: &Value) -> Written {
        let unfit = || format!("{value} does not fit {schema}");
        match schema {
            Value::Array(branches) => {
                let is_null = |branch: &&Value| branch.as_str() == Some("null");
                let branch = branches.iter().position(|branch| is_null(&branch) == value.is_null());
                let branch = branch.ok_or_else(unfit)?;
                long(&mut self.out, i64::try_from(branch).unwrap_or_default());
                self.node(&branches[branch], value)
            }
            Value::String(name) => match name.as_str() {
                "null" if value.is_null() => Ok(()),
                "boolean" => {
                    self.out.push(u8::from(value.as_bool().ok_or_else(unfit)?));
                    Ok(())
                }
                "int" | "long" => {
                    long(&mut self.out, value.as_i64().ok_or_else(unfit)?);
                    Ok(())
                }
                "string" => {
                    bytes(&mut self.out, value.as_str().ok_or_else(unfit)?.as_bytes());
                    Ok(())
                }
                name => {
                    let declared = *self.named.get(name).ok_or_else(|| format!("`{name}` is not declared"))?;
                    self.node(declared, value)
                }
            },
            Value::Object(_) => match schema["type"].as_str() {
                Some("record") => self.record(schema, value.as_object().ok_or_else(unfit)?),
                Some("array") => {
                    let items = value.as_array().ok_or_else(unfit)?;
                    self.blocks(items.len(), items.iter(), |writer, item| writer.node(&schema["items"], item))
                }
                Some("map") => {
                    let entries = value.as_object().ok_or_else(unfit)?;
                    self.blocks(entries.len(), entries.iter(), |writer, (key, item)| {
                        bytes(&mut writer.out, key.as_bytes());
                        writer.node(&schema["values"], item)
                    })
                }
                _ => self.node(&schema["type"], value),
            },
            _ => Err(unfit()),
        }
    }

    fn record(&mut self, schema: &'a Value, members: &Map<String, Value>) -> Written {
        for field in schema["fields"].as_array().into_iter().flatten() {
            let name = field["name"].as_str().unwrap_or_default();
            let value = members.get(name).or_else(|| field.get("default")).unwrap_or(&Value::Null);
            self.node(&field["type"], value).map_err(|why| format!("{name}: {why}"))?;
        }
        Ok(())
    }

    fn blocks<T>(
        &mut self,
        count: usize,
        items: impl Iterator<Item = T>,
        mut one: impl FnMut(&mut Self, T) -> Written,
    ) -> Written {
        if count > 0 {
            long(&mut self.out, i64::try_from(count).unwrap_or(i64::MAX));
            for item in items {
                one(self, item)?;
            }
        }
        self.out.push(0);
        Ok(())
    }
}

/// Text as Hudi declares it: readers in Java take strings of another class unless told.
pub(super) fn text() -> Value {
    json!({"type": "string", "avro.java.string": "String"})
}

/// A map of `values`.
pub(super) fn map_of(values: &Value) -> Value {
    json!({"type": "map", "avro.java.string": "String", "values": values})
}

/// A member that may be null and is by default.
pub(super) fn optional(name: &str, ty: &Value) -> Value {
    json!({"name": name, "type": ["null", ty], "default": null})
}

/// A zig-zag integer.
pub(super) fn long(out: &mut Vec<u8>, value: i64) {
    let mut value = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes, or text, after their length.
pub(super) fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    long(out, i64::try_from(bytes.len()).unwrap_or(i64::MAX));
    out.extend(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use apache_avro::types::Value as Avro;

    #[test]
    fn what_is_written_is_read_back_by_another_implementation() {
        let inner = json!({"type": "record", "name": "Inner", "fields": [{"name": "n", "type": "long"}]});
        let schema = json!({"type": "record", "name": "Outer", "namespace": "a.b", "fields": [
            {"name": "first", "type": inner},
            optional("again", &json!("Inner")),
            {"name": "many", "type": map_of(&json!({"type": "array", "items": text()}))},
            {"name": "yes", "type": ["boolean", "null"], "default": true},
            optional("left", &json!("int")),
        ]});
        let value = json!({"first": {"n": -3_000_000_000i64}, "again": {"n": 7}, "many": {"k": ["x", ""], "none": []}});
        let bytes = container(&schema, &value).unwrap();
        let read: Vec<_> = apache_avro::Reader::new(bytes.as_slice()).unwrap().map(Result::unwrap).collect();
        assert_eq!(read.len(), 1);
        let inner = |n| Avro::Record(vec![("n".to_owned(), Avro::Long(n))]);
        let list = |items: &[&str]| Avro::Array(items.iter().map(|i| Avro::String((*i).to_owned())).collect());
        assert_eq!(
            read[0],
            Avro::Record(vec![
                ("first".to_owned(), inner(-3_000_000_000)),
                ("again".to_owned(), Avro::Union(1, Box::new(inner(7)))),
                (
                    "many".to_owned(),
                    Avro::Map([("k".to_owned(), list(&["x", ""])), ("none".to_owned(), list(&[]))].into())
                ),
                ("yes".to_owned(), Avro::Union(0, Box::new(Avro::Boolean(true)))),
                ("left".to_owned(), Avro::Union(0, Box::new(Avro::Null))),
            ])
        );
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let schema = json!({"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]});
        assert!(datum(&schema, &json!({"n": "x"})).unwrap_err().starts_with("n: "));
        assert!(datum(&schema, &json!([])).is_err() && datum(&schema, &json!({})).is_err());
        assert!(datum(&json!("Missing"), &json!(1)).unwrap_err().contains("Missing"));
    }
}
