//! From the model's schema to the Avro schema of a Hudi table.
//!
//! # Source
//! Avro specification 1.11; Hudi documentation, "Schema evolution". Avro maps have string keys only, and names are
//! letters, digits and underscores.

use hoglake_model::table::{
    Element, Field, Primitive, Schema, TableFormat, Type, Unsupported, UnsupportedKind, capability,
};
use serde_json::{Value, json};

/// The schema as Avro JSON.
pub(super) fn write(schema: &Schema, table: &str) -> String {
    let mut path = vec![format!("{}_record", avro_name(table))];
    let fields = fields(&schema.fields, &mut path);
    json!({"type": "record", "name": path[0], "namespace": format!("hoodie.{}", avro_name(table)), "fields": fields})
        .to_string()
}

/// A table name with everything replaced that Avro does not allow.
fn avro_name(name: &str) -> String {
    let mut out: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if out.is_empty() || out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, '_');
    }
    out
}

fn fields(fields: &[Field], path: &mut Vec<String>) -> Vec<Value> {
    let one = |field: &Field| {
        path.push(field.name.clone());
        let ty = node(&field.ty, path);
        path.pop();
        let mut out = if field.required {
            json!({"name": field.name, "type": ty})
        } else {
            json!({"name": field.name, "type": ["null", ty], "default": null})
        };
        if let Some(doc) = &field.doc {
            out["doc"] = json!(doc);
        }
        out
    };
    fields.iter().map(one).collect()
}

fn element(element: &Element, name: &str, path: &mut Vec<String>) -> Value {
    path.push(name.to_owned());
    let ty = node(&element.ty, path);
    path.pop();
    if element.required { ty } else { json!(["null", ty]) }
}

fn node(ty: &Type, path: &mut Vec<String>) -> Value {
    let logical = |ty: &str, logical: &str| json!({"type": ty, "logicalType": logical});
    // Named types must differ everywhere in the schema: their name is their place.
    let named = |path: &[String]| path.iter().map(|p| avro_name(p)).collect::<Vec<_>>().join("_");
    match ty {
        Type::Struct(members) => {
            let name = named(path);
            json!({"type": "record", "name": name, "fields": fields(members, path)})
        }
        Type::List(item) => json!({"type": "array", "items": element(item, "element", path)}),
        Type::Map(entry) => json!({"type": "map", "values": element(&entry.1, "value", path)}),
        Type::Primitive(primitive) => match primitive {
            Primitive::Boolean => json!("boolean"),
            Primitive::Byte | Primitive::Short | Primitive::Int => json!("int"),
            Primitive::Long => json!("long"),
            Primitive::Float => json!("float"),
            Primitive::Double => json!("double"),
            Primitive::Decimal(d) => {
                json!({"type": "bytes", "logicalType": "decimal", "precision": d.precision, "scale": d.scale})
            }
            Primitive::Date => logical("int", "date"),
            Primitive::Time => logical("long", "time-micros"),
            Primitive::Timestamp => logical("long", "local-timestamp-micros"),
            Primitive::Timestamptz => logical("long", "timestamp-micros"),
            Primitive::TimestampNs => logical("long", "local-timestamp-nanos"),
            Primitive::TimestamptzNs => logical("long", "timestamp-nanos"),
            Primitive::String => json!("string"),
            Primitive::Uuid => json!({"type": "fixed", "name": named(path), "size": 16, "logicalType": "uuid"}),
            Primitive::Fixed(size) => json!({"type": "fixed", "name": named(path), "size": size}),
            Primitive::Binary => json!("bytes"),
            // Refused before.
            Primitive::Variant | Primitive::Unknown => json!("null"),
        },
    }
}

/// What of a schema an Avro schema, or a reader of Hudi tables, cannot have.
pub(super) fn unsupported(schema: &Schema) -> Vec<Unsupported> {
    let target = TableFormat::Hudi;
    let mut found = capability::unsupported_types(target, schema, |primitive| match primitive {
        Primitive::Time | Primitive::TimestampNs | Primitive::TimestamptzNs => {
            Some("is not read by Hudi's engines; convert the column first")
        }
        Primitive::Variant | Primitive::Unknown => Some("has no counterpart in Avro"),
        _ => None,
    });
    found.extend(capability::initial_defaults(target, schema));
    schema.walk(&mut |path, node| {
        let mut refuse = |kind, detail: &str| {
            let place = path.join(".");
            found.push(Unsupported { target, kind, place, detail: detail.to_owned() });
        };
        if let Type::Map(entry) = node.ty
            && entry.0.ty != Type::Primitive(Primitive::String)
        {
            refuse(UnsupportedKind::Type, "a map whose keys are not strings");
        }
        let Some(field) = node.field else { return };
        if field.physical_name.as_ref().is_some_and(|name| *name != field.name) {
            refuse(UnsupportedKind::Name, "a column that the files call by another name; Hudi binds columns by name");
        }
        if avro_name(&field.name) != field.name {
            refuse(UnsupportedKind::Name, "a name with other characters than letters, digits and underscores");
        }
    });
    found
}

/// A remark about columns of bytes and shorts, for which Avro has `int` alone. Where files annotate them as narrower, Hudi's
/// vectorised reader fails in Spark; it does so too on what Hudi's own bulk insert writes.
pub(super) fn narrow_integers(schema: &Schema) -> Option<String> {
    let mut narrow = Vec::new();
    schema.walk(&mut |path, node| {
        if matches!(node.ty, Type::Primitive(Primitive::Byte | Primitive::Short)) {
            narrow.push(path.join("."));
        }
    });
    (!narrow.is_empty()).then(|| {
        format!(
            "`{}` is of a type narrower than int, which Hudi has not: its vectorised reader in Spark fails on such columns of \
             files, so that Spark needs spark.sql.parquet.enableVectorizedReader=false",
            narrow.join("`, `")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoglake_model::{DecimalType, FieldId};

    #[test]
    fn what_is_written_is_read_back() {
        let member = |id, name: &str, ty: Type| Field::optional(id, name, ty);
        let map_key = Element { id: FieldId(7), required: true, ty: Primitive::String.into() };
        let map_value = Element {
            id: FieldId(8),
            required: false,
            ty: Type::Struct(vec![member(9, "x", Primitive::Fixed(4).into())]),
        };
        let mut required = member(1, "id", Primitive::Long.into());
        required.required = true;
        required.doc = Some("the key".to_owned());
        let schema = Schema {
            fields: vec![
                required,
                member(2, "at", Primitive::Timestamptz.into()),
                member(3, "local", Primitive::Timestamp.into()),
                member(4, "price", Primitive::Decimal(DecimalType { precision: 20, scale: 3 }).into()),
                member(
                    5,
                    "tags",
                    Type::List(Box::new(Element { id: FieldId(6), required: true, ty: Primitive::Date.into() })),
                ),
                member(10, "m", Type::Map(Box::new((map_key, map_value)))),
                member(11, "u", Primitive::Uuid.into()),
            ],
            identifier_fields: Vec::new(),
        };
        assert_eq!(unsupported(&schema), []);
        let text = write(&schema, "my-table 1");
        let back = super::super::avro_schema::read(&text).unwrap();
        let plain = |s: &Schema| {
            let mut out = Vec::new();
            s.walk(&mut |path, node| {
                out.push((path.join("."), node.ty.to_string(), node.field.map(|f| (f.required, f.doc.clone()))));
            });
            out
        };
        assert_eq!(plain(&back), plain(&schema));
        assert!(apache_avro::Schema::parse_str(&text).is_ok());
    }

    #[test]
    fn what_hudi_cannot_have_is_named() {
        let mut renamed = Field::optional(3, "c", Primitive::Int.into());
        renamed.physical_name = Some("col-1".to_owned());
        let schema = Schema {
            fields: vec![
                Field::optional(1, "t", Primitive::Time.into()),
                Field::optional(2, "a b", Primitive::Int.into()),
                renamed,
            ],
            identifier_fields: Vec::new(),
        };
        let places: Vec<_> = unsupported(&schema).into_iter().map(|u| u.place).collect();
        assert_eq!(places, ["t", "a b", "c"]);
    }
}
