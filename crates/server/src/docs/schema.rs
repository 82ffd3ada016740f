//! Schemas in words.

use super::markdown::{escape, inline};
use serde_json::{Map, Value};

/// The last part of a `$ref`.
pub fn name_of(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or(reference)
}

/// A type in a few words, with links to the schemas it names.
pub fn type_of(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = escape(name_of(reference));
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    for (key, joint) in [("allOf", " and "), ("anyOf", " or "), ("oneOf", " or ")] {
        if let Some(parts) = schema[key].as_array() {
            return parts.iter().map(type_of).collect::<Vec<_>>().join(joint);
        }
    }
    let kind = schema["type"].as_str().unwrap_or("any");
    if kind == "array" {
        return format!("list of {}", type_of(&schema["items"]));
    }
    if let Some(values) = schema["enum"].as_array() {
        let values = values.iter().filter_map(Value::as_str).map(|value| format!("<code>{}</code>", escape(value)));
        return values.collect::<Vec<_>>().join(" | ");
    }
    match schema["format"].as_str() {
        Some(format) => escape(&format!("{kind} ({format})")),
        None => escape(kind),
    }
}

/// What a value must be beside its type.
pub fn limits_of(schema: &Value) -> String {
    const LIMITS: [(&str, &str); 7] = [
        ("minimum", "at least"),
        ("maximum", "at most"),
        ("minLength", "characters, at least"),
        ("maxLength", "characters, at most"),
        ("minItems", "entries, at least"),
        ("pattern", "matches"),
        ("default", "default"),
    ];
    let said = LIMITS.iter().filter(|(key, _)| !schema[key].is_null());
    let said: Vec<String> = said
        .map(|(key, words)| {
            let value = &schema[key];
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("{words} <code>{}</code>", escape(&value))
        })
        .collect();
    said.join(", ")
}

/// One named schema: its fields, or its type.
pub fn section(name: &str, schema: &Value) -> String {
    let name = escape(name);
    let description = schema["description"].as_str().map(|text| format!("<p>{}</p>", inline(text))).unwrap_or_default();
    let body = match schema["properties"].as_object() {
        Some(properties) => fields(properties, &schema["required"]),
        None => format!("<p>{} {}</p>", type_of(schema), limits_of(schema)),
    };
    format!("<section id=\"schema-{name}\"><h3>{name}</h3>{description}{body}</section>")
}

fn fields(properties: &Map<String, Value>, required: &Value) -> String {
    let required: Vec<&str> = required.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let rows = properties.iter().map(|(name, schema)| {
        let mark = if required.contains(&name.as_str()) { "" } else { "optional" };
        let description = schema["description"].as_str().map(inline).unwrap_or_default();
        format!(
            "<tr><td><code>{}</code></td><td>{}</td><td>{mark}</td><td>{description} {}</td></tr>",
            escape(name),
            type_of(schema),
            limits_of(schema)
        )
    });
    format!("<table>{}</table>", rows.collect::<String>())
}
