//! The page of `/docs`.

use super::markdown::{blocks, escape, inline};
use super::schema::{limits_of, name_of, section, type_of};
use serde_json::Value;
use std::borrow::Cow;

const STYLE: &str = include_str!("style.css");
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Renders contracts, given as YAML, as one page.
///
/// # Errors
/// When a contract is not YAML; the tests see to it that ours are.
pub fn render(contracts: &[&str]) -> Result<String, serde_norway::Error> {
    let contracts: Vec<Value> = contracts.iter().map(|text| serde_norway::from_str(text)).collect::<Result<_, _>>()?;
    let nav: String = contracts.iter().map(navigation).collect();
    let main: String = contracts.iter().map(contract).collect();
    Ok(format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\
         \"width=device-width, initial-scale=1\"><title>hoglake API</title><style>{STYLE}</style></head>\
         <body><nav>{nav}</nav><main>{main}</main></body></html>"
    ))
}

struct Entry<'a> {
    id: &'a str,
    method: &'a str,
    path: String,
    operation: &'a Value,
}

/// The operations of a contract, in the order of its paths and of the methods.
fn entries(contract: &Value) -> Vec<Entry<'_>> {
    let prefix = contract["servers"][0]["url"].as_str().unwrap_or_default().trim_end_matches('/');
    let paths = contract["paths"].as_object().into_iter().flatten();
    let mut entries = Vec::new();
    for (path, methods) in paths {
        for method in METHODS {
            let operation = &methods[method];
            if let Some(id) = operation["operationId"].as_str() {
                entries.push(Entry { id, method, path: format!("{prefix}{path}"), operation });
            }
        }
    }
    entries
}

fn title(contract: &Value) -> Cow<'_, str> {
    contract["info"]["title"].as_str().unwrap_or("API").into()
}

fn navigation(contract: &Value) -> String {
    let entries = entries(contract);
    let mut html = format!("<h2><a href=\"#{0}\">{0}</a></h2>", escape(&title(contract)));
    for tag in contract["tags"].as_array().into_iter().flatten().filter_map(|tag| tag["name"].as_str()) {
        let of_tag = entries.iter().filter(|entry| entry.operation["tags"][0] == tag);
        let items = of_tag.map(|entry| format!("<li><a href=\"#{0}\">{0}</a></li>", escape(entry.id)));
        html.push_str(&format!("<h3>{}</h3><ul>{}</ul>", escape(tag), items.collect::<String>()));
    }
    html
}

fn contract(contract: &Value) -> String {
    let title = escape(&title(contract));
    let about = contract["info"]["description"].as_str().map(blocks).unwrap_or_default();
    let operations: String = entries(contract).iter().map(|entry| operation(contract, entry)).collect();
    let schemas = contract["components"]["schemas"].as_object().into_iter().flatten();
    let schemas: String = schemas.map(|(name, schema)| section(name, schema)).collect();
    format!("<h1 id=\"{title}\">{title}</h1>{about}{operations}<h2>Schemas</h2>{schemas}")
}

fn operation(contract: &Value, entry: &Entry<'_>) -> String {
    let Entry { id, method, path, operation } = entry;
    let text = |key: &str| operation[key].as_str().map(inline).unwrap_or_default();
    let mut html = format!(
        "<section id=\"{id}\"><h3><span class=\"{method}\">{method}</span> <code>{path}</code> <small>{id}</small></h3>\
         <p><b>{summary}</b></p><p>{description}</p>",
        id = escape(id),
        path = escape(path),
        summary = text("summary"),
        description = text("description"),
    );
    if let Some(parameters) = operation["parameters"].as_array() {
        let rows: String = parameters.iter().map(|p| parameter(resolve(contract, p))).collect();
        html.push_str(&format!("<table>{rows}</table>"));
    }
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    if !body.is_null() {
        html.push_str(&format!("<p>Body: {}</p>", type_of(body)));
    }
    let responses = operation["responses"].as_object().into_iter().flatten();
    let rows: String = responses.map(|(status, answer)| response(contract, status, answer)).collect();
    html.push_str(&format!("<table>{rows}</table></section>"));
    html
}

fn resolve<'a>(contract: &'a Value, node: &'a Value) -> &'a Value {
    let pointer = node["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    pointer.and_then(|pointer| contract.pointer(pointer)).unwrap_or(node)
}

fn parameter(parameter: &Value) -> String {
    let field = |key: &str| parameter[key].as_str().unwrap_or_default();
    let mark = if parameter["required"] == true { "" } else { "optional" };
    let schema = &parameter["schema"];
    format!(
        "<tr><td><code>{}</code></td><td>{}, {}</td><td>{mark}</td><td>{} {}</td></tr>",
        escape(field("name")),
        escape(field("in")),
        type_of(schema),
        blocks(field("description")),
        limits_of(schema)
    )
}

fn response(contract: &Value, status: &str, answer: &Value) -> String {
    let shared = answer["$ref"].as_str().map(name_of).unwrap_or_default();
    let answer = resolve(contract, answer);
    let schema = &answer["content"]["application/json"]["schema"];
    let shown = if schema.is_null() { String::new() } else { type_of(schema) };
    let headers = answer["headers"].as_object().into_iter().flatten().map(|(name, _)| escape(name));
    format!(
        "<tr class=\"s{}\"><td><code>{}</code></td><td title=\"{}\">{shown}</td><td>{}</td><td><small>{}</small></td></tr>",
        escape(status.get(..1).unwrap_or_default()),
        escape(status),
        escape(shared),
        answer["description"].as_str().map(inline).unwrap_or_default(),
        headers.collect::<Vec<_>>().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{CATALOG, CONVERSION};

    #[test]
    fn every_operation_and_schema_is_on_the_page_once() {
        let page = render(&[CATALOG, CONVERSION]).unwrap();
        for operation in crate::router::operations() {
            let section = format!("<section id=\"{}\">", operation.id);
            assert_eq!(page.matches(&section).count(), 1, "{}", operation.id);
            assert!(page.contains(&format!("<code>{}</code>", operation.path)), "{}", operation.path);
        }
        for part in page.split("href=\"#").skip(1) {
            let target = part.split('"').next().unwrap();
            assert!(page.contains(&format!("id=\"{target}\"")), "a link leads to #{target}, which is not there");
        }
    }

    #[test]
    fn the_page_needs_nothing_else() {
        let page = render(&[CATALOG, CONVERSION]).unwrap();
        for forbidden in ["<script", "src=", "<link", "@import"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn what_is_not_yaml_is_an_error() {
        assert!(render(&["{"]).is_err());
    }
}
