//! Columns.

use crate::{ColumnType, FieldId, Refusal};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, value::RawValue};

/// A live column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Its name; case-sensitive, unique among the live columns.
    pub name: String,
    /// Its type.
    #[serde(rename = "type", serialize_with = "literal")]
    pub column_type: ColumnType,
    /// Parameters of the type, as the client wrote them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub type_params: Option<TypeParams>,
    /// Whether a value may be null.
    pub nullable: bool,
    /// Stands for the column in files, statistics and specs.
    pub field_id: FieldId,
    /// Place among the columns; gaps are left by dropped ones.
    pub ordinal: i32,
}

/// `ColumnDef` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnDef {
    /// The name.
    pub name: String,
    /// The type literal.
    #[serde(rename = "type")]
    pub type_literal: String,
    /// Parameters of the type.
    pub type_params: Option<TypeParams>,
    /// Absent: true.
    pub nullable: Option<bool>,
}

impl ColumnDef {
    /// The type that literal and parameters say.
    ///
    /// # Errors
    /// 422 as [`ColumnType::parse`], naming the column.
    pub fn column_type(&self) -> Result<ColumnType, Refusal> {
        ColumnType::parse(&self.type_literal, self.type_params.as_ref().map(TypeParams::map))
            .map_err(|r| Refusal::new(r.code, format!("column {}: {}", crate::name::quoted(&self.name), r.detail)))
    }
}

/// `type_params`: a JSON object, kept letter by letter.
#[derive(Debug, Clone)]
pub struct TypeParams {
    text: Box<RawValue>,
    map: Map<String, Value>,
}

impl TypeParams {
    /// Longest text that a request may bring. Taken apart, JSON needs some forty times its length in memory, and the
    /// text comes back with every definition of the table.
    pub const MAX_BYTES: usize = 65_536;

    /// Reads the text of a JSON object.
    ///
    /// # Errors
    /// When it is not one, or nests deeper than 127 levels.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        Ok(Self { map: serde_json::from_str(text)?, text: RawValue::from_string(text.to_owned())? })
    }

    /// The object.
    pub fn map(&self) -> &Map<String, Value> {
        &self.map
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.text.get()
    }
}

impl PartialEq for TypeParams {
    fn eq(&self, other: &Self) -> bool {
        self.text.get() == other.text.get()
    }
}

impl Eq for TypeParams {}

impl Serialize for TypeParams {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TypeParams {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        if text.get().len() > Self::MAX_BYTES {
            return Err(serde::de::Error::custom(format!(
                "type_params have {} bytes; at most {} are allowed",
                text.get().len(),
                Self::MAX_BYTES
            )));
        }
        let map = serde_json::from_str(text.get())
            .map_err(|e| serde::de::Error::custom(format!("type_params must be a JSON object: {e}")))?;
        Ok(Self { text, map })
    }
}

fn literal<S: Serializer>(column_type: &ColumnType, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(column_type.literal())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_params_come_back_as_sent() {
        let sent = r#"{"scale": 2, "precision":10, "note": {"big": 123456789012345678901234567890, "z": [1.0]}}"#;
        let body = format!(r#"{{"name": "d", "type": "decimal", "type_params": {sent}}}"#);
        let def: ColumnDef = serde_json::from_str(&body).unwrap();
        assert_eq!(serde_json::to_string(&def.type_params).unwrap(), sent);
        assert_eq!(def.column_type().unwrap().to_string(), "decimal(10,2)");
    }

    #[test]
    fn type_params_are_an_object_or_absent() {
        let parse = |params: &str| {
            serde_json::from_str::<ColumnDef>(&format!(r#"{{"name":"a","type":"int","type_params":{params}}}"#))
        };
        assert_eq!(parse("null").unwrap().type_params, None);
        let nested = format!("{}1{}", r#"{"a":"#.repeat(50), "}".repeat(50));
        assert_eq!(parse(&nested).unwrap().type_params.unwrap().as_str(), nested);
        let long = |bytes: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - 8));
        assert!(parse(&long(TypeParams::MAX_BYTES)).is_ok());
        for bad in ["1", "[]", r#""x""#, &"[".repeat(200), &long(TypeParams::MAX_BYTES + 1)] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
