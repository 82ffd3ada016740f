//! Actions as JSON lines, borrowed from the commit file ("Actions").

use crate::sync::{Error, Result};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// A JSON object of nullable strings, in order.
pub(super) type Pairs<'a> = Vec<(Cow<'a, str>, Option<Cow<'a, str>>)>;

/// One line of a commit file. Actions that say nothing about the live files are skipped unread.
#[derive(Debug, Deserialize)]
pub(super) struct Line<'a> {
    #[serde(borrow)]
    pub add: Option<Add<'a>>,
    #[serde(borrow)]
    pub remove: Option<Remove<'a>>,
    #[serde(rename = "metaData")]
    pub metadata: Option<Metadata>,
    pub protocol: Option<Protocol>,
    #[serde(rename = "commitInfo")]
    pub commit_info: Option<CommitInfo>,
    pub sidecar: Option<Sidecar>,
}

/// `add`: a logical file becomes live.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Add<'a> {
    #[serde(borrow)]
    pub path: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "nullable_pairs")]
    pub partition_values: Pairs<'a>,
    pub size: Option<i64>,
    pub modification_time: Option<i64>,
    #[serde(default = "yes")]
    pub data_change: bool,
    #[serde(borrow)]
    pub stats: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub deletion_vector: Option<VectorDescriptor<'a>>,
    pub base_row_id: Option<i64>,
    /// Read only where they are kept.
    #[serde(borrow)]
    pub tags: Option<&'a RawValue>,
}

impl Add<'_> {
    /// The tags; what is no text is one as JSON.
    pub fn tags(&self) -> Option<Pairs<'static>> {
        let tags: BTreeMap<String, serde_json::Value> = serde_json::from_str(self.tags?.get()).ok()?;
        let text = |value: serde_json::Value| match value {
            serde_json::Value::Null => None,
            serde_json::Value::String(text) => Some(text.into()),
            other => Some(other.to_string().into()),
        };
        Some(tags.into_iter().map(|(key, value)| (key.into(), text(value))).collect())
    }
}

/// A line as far as checkpoints keep it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Kept<'a> {
    #[serde(borrow)]
    pub add: Option<Add<'a>>,
    #[serde(borrow)]
    pub remove: Option<Remove<'a>>,
    pub txn: Option<Txn>,
    pub domain_metadata: Option<DomainMetadata>,
}

/// `txn`: how far an application has come ("Transaction Identifiers").
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Txn {
    pub app_id: String,
    pub version: i64,
    pub last_updated: Option<i64>,
}

/// `domainMetadata` ("Domain Metadata").
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct DomainMetadata {
    pub domain: String,
    pub configuration: Option<String>,
    #[serde(default)]
    pub removed: bool,
}

/// A line of which only the identity of the logical file is wanted.
#[derive(Debug, Deserialize)]
pub(super) struct References<'a> {
    #[serde(borrow)]
    pub add: Option<Reference<'a>>,
    #[serde(borrow)]
    pub remove: Option<Reference<'a>>,
}

/// What identifies a logical file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reference<'a> {
    #[serde(borrow)]
    pub path: Cow<'a, str>,
    #[serde(borrow)]
    pub deletion_vector: Option<VectorDescriptor<'a>>,
}

/// `remove`: a logical file is no longer live.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Remove<'a> {
    #[serde(borrow)]
    pub path: Cow<'a, str>,
    pub deletion_timestamp: Option<i64>,
    #[serde(default = "yes")]
    pub data_change: bool,
    pub size: Option<i64>,
    #[serde(borrow)]
    pub deletion_vector: Option<VectorDescriptor<'a>>,
}

/// "Deletion Vector Descriptor Schema".
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VectorDescriptor<'a> {
    #[serde(borrow)]
    pub storage_type: Cow<'a, str>,
    #[serde(borrow)]
    pub path_or_inline_dv: Cow<'a, str>,
    pub offset: Option<i64>,
    pub size_in_bytes: i64,
    pub cardinality: i64,
}

/// `metaData` ("Change Metadata").
#[derive(Debug, Clone, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    #[serde(default)]
    pub id: String,
    pub name: Option<String>,
    pub description: Option<String>,
    pub format: Option<Format>,
    #[serde(default)]
    pub schema_string: String,
    pub partition_columns: Option<Vec<String>>,
    pub configuration: Option<HashMap<String, Option<String>>>,
    pub created_time: Option<i64>,
}

/// "Format Specification".
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Format {
    pub provider: String,
}

/// `protocol` ("Protocol Evolution").
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Protocol {
    pub min_reader_version: i32,
    pub min_writer_version: i32,
    pub reader_features: Option<Vec<String>>,
    pub writer_features: Option<Vec<String>>,
}

/// `commitInfo`; only what the converter uses, and never a reason to fail.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CommitInfo {
    #[serde(default, deserialize_with = "lenient")]
    pub in_commit_timestamp: Option<i64>,
    #[serde(default, deserialize_with = "lenient")]
    pub tags: Option<HashMap<String, String>>,
}

/// "Sidecar File Information".
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Sidecar {
    pub path: String,
}

const fn yes() -> bool {
    true
}

fn lenient<'de, D: serde::Deserializer<'de>, T: serde::de::DeserializeOwned>(d: D) -> Result<Option<T>, D::Error> {
    let value = serde_json::Value::deserialize(d)?;
    Ok(serde_json::from_value(value).ok())
}

/// A JSON object as pairs in order, without a map's allocations; null as the empty object.
fn nullable_pairs<'de: 'a, 'a, D: serde::Deserializer<'de>>(d: D) -> Result<Pairs<'a>, D::Error> {
    struct Object;
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    #[derive(Deserialize)]
    struct OptionalText<'a>(#[serde(borrow)] Option<Cow<'a, str>>);
    impl<'de> serde::de::Visitor<'de> for Object {
        type Value = Pairs<'de>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object of strings")
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs = Vec::new();
            while let Some((Text(key), OptionalText(value))) = map.next_entry()? {
                pairs.push((key, value));
            }
            Ok(pairs)
        }
    }
    d.deserialize_any(Object)
}

/// The actions of a commit file as JSON texts, with the number of their first line for messages.
///
/// An action is a line; hand-edited files that spread one over several lines are read, too, since other readers do.
///
/// # Errors
/// [`Error::Malformed`] for a file that is not UTF-8, or no sequence of JSON objects.
pub(super) fn lines<'a>(place: &str, bytes: &'a [u8]) -> Result<Vec<(usize, &'a str)>> {
    let text = std::str::from_utf8(bytes).map_err(|_| Error::malformed(place, "the file is not UTF-8"))?;
    let numbered = text.split('\n').enumerate().map(|(i, line)| (i + 1, line.trim_ascii()));
    let lines: Vec<_> = numbered.filter(|(_, line)| !line.is_empty()).collect();
    if lines.iter().all(|(_, line)| line.starts_with('{') && line.ends_with('}')) {
        return Ok(lines);
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&serde_json::value::RawValue>();
    let (mut found, mut counted, mut number) = (Vec::new(), 0, 1);
    loop {
        let rest = text.get(values.byte_offset()..).unwrap_or_default().trim_ascii_start();
        let begin = text.len() - rest.len();
        number += text.get(counted..begin).map_or(0, |passed| passed.matches('\n').count());
        counted = begin;
        match values.next() {
            None => return Ok(found),
            Some(Ok(value)) => found.push((number, value.get())),
            Some(Err(e)) => return Err(malformed(place, number, &e.to_string())),
        }
    }
}

/// Parses one line.
pub(super) fn parse<'a>(place: &str, number: usize, text: &'a str) -> Result<Line<'a>> {
    parse_as(place, number, text)
}

/// Parses one line as far as it is wanted.
pub(super) fn parse_as<'a, T: Deserialize<'a>>(place: &str, number: usize, text: &'a str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| malformed(place, number, &e.to_string()))
}

fn malformed(place: &str, line: usize, detail: &str) -> Error {
    Error::malformed(format!("{place} line {line}"), detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_and_missing_fields_are_tolerated() {
        let text = r#"{"add":{"path":"a%20b","partitionValues":null,"size":1,"modificationTime":2,"dataChange":true,"tags":null,"deletionVector":null}}"#;
        let add = parse("x", 1, text).unwrap().add.unwrap();
        assert_eq!((add.path.as_ref(), add.partition_values.len()), ("a%20b", 0));
        assert_eq!(add.tags(), None);
        let text = r#"{"commitInfo":{"operation":7,"tags":"none","inCommitTimestamp":12}}"#;
        let info = parse("x", 1, text).unwrap().commit_info.unwrap();
        assert_eq!((info.in_commit_timestamp, info.tags.is_none()), (Some(12), true));
        assert!(parse("x", 3, r#"{"cdc":{"path":"c"}}"#).unwrap().add.is_none());
    }

    #[test]
    fn partition_values_keep_null_and_empty_apart() {
        let text = r#"{"add":{"path":"p","partitionValues":{"a":null,"b":"","c":"\u00e9"}}}"#;
        let add = parse("x", 1, text).unwrap().add.unwrap();
        let values: Vec<_> = add.partition_values.iter().map(|(k, v)| (k.as_ref(), v.as_deref())).collect();
        assert_eq!(values, [("a", None), ("b", Some("")), ("c", Some("é"))]);
    }

    #[test]
    fn tags_are_texts_whatever_their_writer_put_there() {
        let text = r#"{"add":{"path":"p","tags":{"b":"1","a":null,"n":7}}}"#;
        let add = parse("x", 1, text).unwrap().add.unwrap();
        let expected: Pairs<'_> =
            vec![("a".into(), None), ("b".into(), Some("1".into())), ("n".into(), Some("7".into()))];
        assert_eq!(add.tags(), Some(expected));
        let add = parse("x", 1, r#"{"add":{"path":"p","tags":"none"}}"#).unwrap().add.unwrap();
        assert_eq!(add.tags(), None);
    }

    #[test]
    fn damaged_lines_are_named() {
        let lines = super::lines("0.json", b"{}\n\n{\"add\":1}\n").unwrap();
        assert_eq!(lines.len(), 2);
        let error = parse("0.json", lines[1].0, lines[1].1).unwrap_err();
        assert!(error.to_string().starts_with("0.json line 3: "), "{error}");
        assert!(super::lines("0.json", b"{}\n{\"add\":").is_err());
        assert!(super::lines("0.json", b"\xff").is_err());
    }

    #[test]
    fn actions_over_several_lines_are_read() {
        let lines = lines("0.json", b"{\n \"add\": {\"path\": \"a\"}\n}\n{\"remove\":{\"path\":\"b\"}}\n").unwrap();
        assert_eq!(parse("0.json", 1, lines[0].1).unwrap().add.unwrap().path, "a");
        assert_eq!(parse("0.json", 1, lines[1].1).unwrap().remove.unwrap().path, "b");
    }
}
