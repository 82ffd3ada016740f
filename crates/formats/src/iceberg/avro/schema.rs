//! The writer's schema.

use super::Fault;
use serde_json::Value as Json;
use std::collections::HashMap;

const MAX_DEPTH: usize = 32;

/// A type of the writer's schema. `int` and `long` are encoded alike, and so are both representations of a map with
/// Iceberg's key-value records.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    Null,
    Boolean,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(usize),
    Enum,
    Array(Box<Node>),
    Map(Box<Node>),
    Record(Vec<Field>),
    Union(Vec<Node>),
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub name: Box<str>,
    /// Iceberg's field id, where the writer left one.
    pub id: Option<i32>,
    pub node: Node,
}

impl Node {
    /// Parses a schema.
    pub fn parse(text: &[u8]) -> Result<Self, Fault> {
        let json: Json = serde_json::from_slice(text).map_err(|e| format!("the Avro schema is no JSON: {e}"))?;
        Parser { named: HashMap::new(), budget: 100_000 }.node(&json, 0)
    }

    /// The record itself, or the record branch of a nullable one.
    pub fn record(&self) -> Option<&[Field]> {
        match self {
            Self::Record(fields) => Some(fields),
            Self::Union(branches) => branches.iter().find_map(Self::record),
            _ => None,
        }
    }
}

struct Parser {
    named: HashMap<String, Node>,
    /// Nodes left, so that references to references cannot grow without bound.
    budget: usize,
}

fn size(node: &Node) -> usize {
    1 + match node {
        Node::Array(inner) | Node::Map(inner) => size(inner),
        Node::Record(fields) => fields.iter().map(|f| size(&f.node)).sum(),
        Node::Union(branches) => branches.iter().map(size).sum(),
        _ => 0,
    }
}

impl Parser {
    fn node(&mut self, json: &Json, depth: usize) -> Result<Node, Fault> {
        if depth > MAX_DEPTH {
            return Err("the Avro schema is nested too deeply".to_owned());
        }
        let (name, object) = match json {
            Json::String(name) => (name.as_str(), None),
            Json::Array(branches) => {
                let branches = branches.iter().map(|b| self.node(b, depth + 1)).collect::<Result<_, _>>()?;
                return Ok(Node::Union(branches));
            }
            Json::Object(object) => match object.get("type") {
                Some(Json::String(name)) => (name.as_str(), Some(object)),
                Some(inner) => return self.node(inner, depth + 1),
                None => return Err("an Avro type needs a type".to_owned()),
            },
            _ => return Err("the Avro schema is no schema".to_owned()),
        };
        let get = |key: &str| object.and_then(|o| o.get(key));
        let node = match name {
            "null" => Node::Null,
            "boolean" => Node::Boolean,
            "int" | "long" => Node::Long,
            "float" => Node::Float,
            "double" => Node::Double,
            "bytes" => Node::Bytes,
            "string" => Node::String,
            "enum" => Node::Enum,
            "fixed" => {
                let length = get("size").and_then(Json::as_u64).and_then(|n| usize::try_from(n).ok());
                Node::Fixed(length.ok_or("a fixed type needs a size")?)
            }
            "array" => Node::Array(Box::new(self.node(get("items").ok_or("an array needs items")?, depth + 1)?)),
            "map" => Node::Map(Box::new(self.node(get("values").ok_or("a map needs values")?, depth + 1)?)),
            "record" => {
                let fields = get("fields").and_then(Json::as_array).ok_or("a record needs fields")?;
                let fields = fields.iter().map(|field| {
                    let name = field.get("name").and_then(Json::as_str).ok_or("a record field needs a name")?;
                    let ty = field.get("type").ok_or("a record field needs a type")?;
                    let id = field.get("field-id").and_then(Json::as_i64).and_then(|n| i32::try_from(n).ok());
                    Ok(Field { name: name.into(), id, node: self.node(ty, depth + 1)? })
                });
                Node::Record(fields.collect::<Result<_, Fault>>()?)
            }
            reference => {
                let short = reference.rsplit('.').next().unwrap_or(reference);
                let node = self.named.get(short).cloned();
                let node = node.ok_or_else(|| format!("the Avro type {reference:?} is not defined before its use"))?;
                self.budget = self.budget.checked_sub(size(&node)).ok_or("the Avro schema is too large")?;
                node
            }
        };
        if let (Some(name), "record" | "fixed" | "enum") = (get("name").and_then(Json::as_str), name) {
            let short = name.rsplit('.').next().unwrap_or(name);
            self.named.insert(short.to_owned(), node.clone());
        }
        Ok(node)
    }
}
