//! Table metadata files ("Table Metadata"): read whole, written back with everything that we do not know kept.

use super::schema;
use crate::sync::{Error, Result, fingerprint};
use hoglake_model::FieldId;
use hoglake_model::table::{PartitionField, PartitionSpec, Schema, Transform};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// One metadata file.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct TableMetadata {
    pub format_version: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_uuid: Option<String>,
    #[serde(default)]
    pub location: String,
    #[serde(default)]
    pub last_sequence_number: i64,
    #[serde(default)]
    pub last_updated_ms: i64,
    #[serde(default)]
    pub last_column_id: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    #[serde(default)]
    pub schemas: Vec<Json>,
    #[serde(default)]
    pub current_schema_id: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_spec: Option<Json>,
    #[serde(default)]
    pub partition_specs: Vec<Json>,
    #[serde(default)]
    pub default_spec_id: i32,
    pub last_partition_id: Option<i32>,
    #[serde(default)]
    pub properties: BTreeMap<String, Json>,
    pub current_snapshot_id: Option<i64>,
    #[serde(default)]
    pub snapshots: Vec<Snapshot>,
    #[serde(default)]
    pub snapshot_log: Vec<Json>,
    #[serde(default)]
    pub metadata_log: Vec<Json>,
    #[serde(default)]
    pub sort_orders: Vec<Json>,
    #[serde(default)]
    pub default_sort_order_id: i32,
    #[serde(default)]
    pub refs: Map<String, Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_row_id: Option<i64>,
    #[serde(flatten)]
    pub other: Map<String, Json>,
}

/// One snapshot ("Snapshots").
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Snapshot {
    pub snapshot_id: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_snapshot_id: Option<i64>,
    #[serde(default)]
    pub sequence_number: i64,
    #[serde(default)]
    pub timestamp_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest_list: Option<String>,
    /// Version 1 may list manifests here instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifests: Option<Vec<String>>,
    #[serde(default)]
    pub summary: BTreeMap<String, Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_id: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_row_id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_rows: Option<i64>,
    #[serde(flatten)]
    pub other: Map<String, Json>,
}

impl TableMetadata {
    /// Parses a metadata file, gzip-compressed or not ("Naming for GZIP compressed Metadata JSON files").
    ///
    /// # Errors
    /// [`Error::Malformed`], or [`Error::UnsupportedSource`] for a format version that does not exist yet.
    pub fn parse(place: &str, bytes: &[u8]) -> Result<Self> {
        use std::io::Read;
        const MAX_BYTES: u64 = 256 << 20;
        let mut unpacked = Vec::new();
        let bytes = if bytes.starts_with(&[0x1f, 0x8b]) {
            let mut reader = flate2::read::MultiGzDecoder::new(bytes).take(MAX_BYTES);
            reader.read_to_end(&mut unpacked).map_err(|e| Error::malformed(place, e.to_string()))?;
            &unpacked
        } else {
            bytes
        };
        let mut parsed: Self = serde_json::from_slice(bytes).map_err(|e| Error::malformed(place, e.to_string()))?;
        if !(1..=3).contains(&parsed.format_version) {
            return Err(Error::UnsupportedSource {
                feature: format!("format version {}", parsed.format_version),
                place: place.to_owned(),
                detail: "versions 1, 2 and 3 are read".to_owned(),
            });
        }
        // "-1" is how early writers said that there is no snapshot.
        parsed.current_snapshot_id = parsed.current_snapshot_id.filter(|id| *id != -1);
        if parsed.schemas.is_empty() {
            parsed.schemas.extend(parsed.schema.clone());
            parsed.current_schema_id = parsed.schema.as_ref().map_or(0, schema_id);
        }
        if parsed.partition_specs.is_empty()
            && let Some(fields) = &parsed.partition_spec
        {
            parsed.partition_specs.push(json!({ "spec-id": 0, "fields": fields }));
            parsed.default_spec_id = 0;
        }
        Ok(parsed)
    }

    /// The schema with this id.
    pub fn schema(&self, place: &str, id: i32) -> Result<Schema> {
        let found = self.schemas.iter().find(|s| schema_id(s) == id);
        let found = found.ok_or_else(|| Error::malformed(place, format!("there is no schema {id}")))?;
        schema::parse(place, found)
    }

    /// All specs.
    pub fn specs(&self, place: &str) -> Result<Vec<PartitionSpec>> {
        self.partition_specs.iter().map(|json| parse_spec(place, json)).collect()
    }

    /// Which schema and spec are current, by number and by what they say: a table that was put back from a backup gives
    /// their numbers anew.
    pub fn revision(&self) -> String {
        let (schema, spec) = (self.current_schema_id, self.default_spec_id);
        let current = self.schemas.iter().filter(|json| schema_id(json) == schema);
        let default = self.partition_specs.iter().filter(|json| json.get("spec-id") == Some(&spec.into()));
        let text: String = current.chain(default).map(Json::to_string).collect();
        format!("schema {schema} spec {spec} {}", fingerprint(text.len() as u64, text.as_bytes()))
    }

    /// Whether the table declares an order for new files.
    pub fn is_sorted(&self) -> bool {
        let number = |order: &Json| order.get("order-id").and_then(Json::as_i64);
        let default = Some(i64::from(self.default_sort_order_id));
        let order = self.sort_orders.iter().find(|order| number(order) == default);
        order.and_then(|o| o.get("fields")?.as_array()).is_some_and(|fields| !fields.is_empty())
    }

    /// The main branch's snapshot.
    pub fn current(&self) -> Option<&Snapshot> {
        self.current_snapshot_id.and_then(|id| self.snapshot(id))
    }

    /// The snapshot with this id.
    pub fn snapshot(&self, id: i64) -> Option<&Snapshot> {
        self.snapshots.iter().find(|s| s.snapshot_id == id)
    }

    /// Whether a number that grows with commits is so high that the next ones have no room; only made-up metadata is.
    pub fn is_exhausted(&self) -> bool {
        const ROOM: i64 = 1 << 20;
        let small = [self.last_column_id, self.last_partition_id.unwrap_or(0).into()]
            .into_iter()
            .chain(self.schemas.iter().map(|s| schema_id(s).into()))
            .chain(self.partition_specs.iter().filter_map(|s| s.get("spec-id").and_then(Json::as_i64)));
        small.max().is_some_and(|n| n > i64::from(i32::MAX) - ROOM)
            || [self.last_sequence_number, self.next_row_id.unwrap_or(0)].into_iter().any(|n| n > i64::MAX - ROOM)
    }

    /// A property that is a string.
    pub fn property(&self, key: &str) -> Option<&str> {
        self.properties.get(key).and_then(Json::as_str)
    }
}

/// The id of a schema object; those of version 1 without one are 0.
pub(super) fn schema_id(json: &Json) -> i32 {
    json.get("schema-id").and_then(Json::as_i64).and_then(|id| i32::try_from(id).ok()).unwrap_or(0)
}

/// Reads a spec object ("Partition Specs").
pub(super) fn parse_spec(place: &str, json: &Json) -> Result<PartitionSpec> {
    let number = |json: &Json, key: &str| json.get(key).and_then(Json::as_i64).and_then(|n| i32::try_from(n).ok());
    let bad = |detail: String| Error::malformed(place, format!("partition spec: {detail}"));
    let id = number(json, "spec-id").ok_or_else(|| bad("spec-id is missing".to_owned()))?;
    let fields = json.get("fields").and_then(Json::as_array).ok_or_else(|| bad("fields are missing".to_owned()))?;
    let fields = fields.iter().enumerate().map(|(index, field)| {
        let name = field.get("name").and_then(Json::as_str).unwrap_or_default();
        let text = field.get("transform").and_then(Json::as_str).unwrap_or_default();
        let transform = Transform::parse(text).ok_or_else(|| Error::UnsupportedSource {
            feature: format!("the partition transform {text:?}"),
            place: format!("{place} partition field {name}"),
            detail: "hoglake does not know it".to_owned(),
        })?;
        let source = number(field, "source-id").or_else(|| {
            let ids = field.get("source-ids").and_then(Json::as_array).filter(|ids| ids.len() == 1);
            ids.and_then(|ids| ids.first()).and_then(Json::as_i64).and_then(|n| i32::try_from(n).ok())
        });
        let source = source.ok_or_else(|| bad(format!("field {name:?} has no single source")))?;
        // Version 1 assigned ids sequentially from 1000.
        let field_id = number(field, "field-id").unwrap_or(1000 + i32::try_from(index).unwrap_or(0));
        Ok(PartitionField { source: FieldId(source.into()), field_id, name: name.to_owned(), transform })
    });
    Ok(PartitionSpec { id, fields: fields.collect::<Result<_>>()? })
}

/// The fields of a spec as JSON.
pub(super) fn spec_fields(spec: &PartitionSpec) -> Json {
    let field = |f: &PartitionField| json!({"source-id": f.source.0, "field-id": f.field_id, "name": f.name, "transform": f.transform.to_string()});
    Json::Array(spec.fields.iter().map(field).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_we_do_not_know_is_kept() {
        let text = r#"{"format-version":2,"table-uuid":"u","location":"s3://b/t","last-sequence-number":1,"last-updated-ms":2,
            "last-column-id":1,"schemas":[{"type":"struct","schema-id":0,"fields":[]}],"current-schema-id":0,
            "partition-specs":[{"spec-id":0,"fields":[]}],"default-spec-id":0,"last-partition-id":999,"properties":{"a":"b"},
            "current-snapshot-id":-1,"snapshots":[],"sort-orders":[{"order-id":0,"fields":[]}],"default-sort-order-id":0,
            "statistics":[{"snapshot-id":1}],"novelty":true}"#;
        let metadata = TableMetadata::parse("t", text.as_bytes()).unwrap();
        assert_eq!(metadata.current_snapshot_id, None);
        let written = serde_json::to_value(&metadata).unwrap();
        assert_eq!((&written["novelty"], &written["statistics"][0]["snapshot-id"]), (&json!(true), &json!(1)));
    }

    #[test]
    fn version_one_is_brought_into_todays_form() {
        let text = r#"{"format-version":1,"location":"t","last-updated-ms":2,"last-column-id":1,
            "schema":{"type":"struct","fields":[{"id":1,"name":"a","required":false,"type":"int"}]},
            "partition-spec":[{"name":"a","transform":"bucket[4]","source-id":1}]}"#;
        let metadata = TableMetadata::parse("t", text.as_bytes()).unwrap();
        assert_eq!(metadata.schema("t", 0).unwrap().fields.len(), 1);
        assert_eq!(metadata.specs("t").unwrap()[0].fields[0].field_id, 1000);
        assert!(matches!(TableMetadata::parse("t", br#"{"format-version":4}"#), Err(Error::UnsupportedSource { .. })));
        assert!(matches!(TableMetadata::parse("t", b"\x1f\x8bxx"), Err(Error::Malformed { .. })));
    }
}
