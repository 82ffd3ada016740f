//! What a clean says: its plan, and its outcome.
//!
//! The cleans that we make take replaced files out of the metadata table and leave them where they are: other formats
//! may still show them, and whoever owns the source deletes them. So the plan names no path to delete, and a writer of
//! Hudi that finds it pending carries out nothing.
//!
//! # Source
//! Hudi specification, "Timeline" and "Cleaning"; `HoodieCleanerPlan.avsc` and `HoodieCleanMetadata.avsc`, without the
//! members that only Hudi's own cleaner uses: readers fill in their defaults.

use super::avro_writer::{container, map_of, optional, text};
use crate::sync::{Error, Result};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Keep what the newest commits show.
const POLICY: &str = "KEEP_LATEST_COMMITS";

/// A clean.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Clean {
    pub(super) instant: String,
    /// The oldest commit that is kept, and its action.
    pub(super) earliest: (String, String),
    /// The newest completed commit before the clean.
    pub(super) last: String,
    /// Registered names that leave the table, by partition path.
    pub(super) files: BTreeMap<String, Vec<String>>,
}

impl Clean {
    /// What [`Self::from_json`] reads.
    pub(super) fn to_json(&self) -> Value {
        json!({"earliest": [self.earliest.0, self.earliest.1], "last": self.last, "files": self.files})
    }

    /// The clean at `instant` from what [`Self::to_json`] wrote.
    pub(super) fn from_json(instant: &str, value: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let names = |names: &Value| names.as_array()?.iter().map(text).collect::<Option<Vec<_>>>();
        let files = value["files"].as_object()?.iter();
        Some(Self {
            instant: instant.to_owned(),
            earliest: (text(&value["earliest"][0])?, text(&value["earliest"][1])?),
            last: text(&value["last"])?,
            files: files.map(|(path, list)| Some((path.clone(), names(list)?))).collect::<Option<_>>()?,
        })
    }

    /// The plan: what `.clean.requested` and `.clean.inflight` hold.
    pub(super) fn plan(&self) -> Result<Vec<u8>> {
        let value = json!({
            "earliestInstantToRetain":
                {"timestamp": self.earliest.0, "action": self.earliest.1, "state": "COMPLETED"},
            "lastCompletedCommitTimestamp": self.last,
            "policy": POLICY,
            "filesToBeDeletedPerPartition": {},
            "version": 2,
            "filePathsToBeDeletedPerPartition": {},
            "partitionsToBeDeleted": [],
        });
        container(&plan_schema(), &value).map_err(|detail| Error::malformed(&self.instant, detail))
    }

    /// The outcome: what `.clean` holds.
    pub(super) fn outcome(&self) -> Result<Vec<u8>> {
        container(&outcome_schema(), &self.outcome_value()).map_err(|detail| Error::malformed(&self.instant, detail))
    }

    fn outcome_value(&self) -> Value {
        let partition = |(path, files): (&String, &Vec<String>)| {
            let value = json!({
                "partitionPath": path, "policy": POLICY, "deletePathPatterns": files, "successDeleteFiles": files,
                "failedDeleteFiles": [], "isPartitionDeleted": false,
            });
            (path.clone(), value)
        };
        json!({
            "startCleanTime": self.instant,
            "timeTakenInMillis": 0,
            "totalFilesDeleted": self.files.values().map(Vec::len).sum::<usize>(),
            "earliestCommitToRetain": self.earliest.0,
            "lastCompletedCommitTimestamp": self.last,
            "partitionMetadata": self.files.iter().map(partition).collect::<Map<_, _>>(),
            "version": 2,
            "bootstrapPartitionMetadata": {},
        })
    }
}

fn plan_schema() -> Value {
    let field = |name: &str| json!({"name": name, "type": text()});
    let instant = json!({
        "type": "record", "name": "HoodieActionInstant",
        "fields": [field("timestamp"), field("action"), field("state")],
    });
    let file = json!({
        "type": "record", "name": "HoodieCleanFileInfo",
        "fields": [optional("filePath", &text()), optional("isBootstrapBaseFile", &json!("boolean"))],
    });
    let list = |items: Value| json!({"type": "array", "items": items});
    json!({
        "type": "record", "name": "HoodieCleanerPlan", "namespace": "org.apache.hudi.avro.model",
        "fields": [
            optional("earliestInstantToRetain", &instant),
            {"name": "lastCompletedCommitTimestamp", "type": text(), "default": ""},
            field("policy"),
            optional("filesToBeDeletedPerPartition", &map_of(&list(text()))),
            {"name": "version", "type": ["int", "null"], "default": 1},
            optional("filePathsToBeDeletedPerPartition", &map_of(&list(file))),
            optional("partitionsToBeDeleted", &list(text())),
        ],
    })
}

/// The schema of an outcome.
pub(super) fn outcome_schema() -> Value {
    let field = |name: &str| json!({"name": name, "type": text()});
    let names = |name: &str| json!({"name": name, "type": {"type": "array", "items": text()}});
    let partition = json!({
        "type": "record", "name": "HoodieCleanPartitionMetadata",
        "fields": [
            field("partitionPath"), field("policy"), names("deletePathPatterns"), names("successDeleteFiles"),
            names("failedDeleteFiles"), optional("isPartitionDeleted", &json!("boolean")),
        ],
    });
    json!({
        "type": "record", "name": "HoodieCleanMetadata", "namespace": "org.apache.hudi.avro.model",
        "fields": [
            field("startCleanTime"),
            {"name": "timeTakenInMillis", "type": "long"},
            {"name": "totalFilesDeleted", "type": "int"},
            field("earliestCommitToRetain"),
            {"name": "lastCompletedCommitTimestamp", "type": text(), "default": ""},
            {"name": "partitionMetadata", "type": map_of(&partition)},
            {"name": "version", "type": ["int", "null"], "default": 1},
            optional("bootstrapPartitionMetadata", &map_of(&json!("HoodieCleanPartitionMetadata"))),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::super::commit::{member, string};
    use super::*;
    use apache_avro::types::Value as Avro;

    fn read(bytes: &[u8]) -> Avro {
        apache_avro::Reader::new(bytes).unwrap().next().unwrap().unwrap()
    }

    #[test]
    fn a_clean_deletes_no_path_and_names_what_left_the_table() {
        let clean = Clean {
            instant: "20240101000000003".to_owned(),
            earliest: ("20240101000000001".to_owned(), "replacecommit".to_owned()),
            last: "20240101000000002".to_owned(),
            files: [("k=1".to_owned(), vec!["a.parquet_20240101000000000_hudiext".to_owned()])].into(),
        };
        let plan = read(&clean.plan().unwrap());
        assert_eq!(member(&plan, "filePathsToBeDeletedPerPartition"), Some(&Avro::Map([].into())));
        let earliest = member(&plan, "earliestInstantToRetain").unwrap();
        assert_eq!(member(earliest, "timestamp").and_then(string).as_deref(), Some("20240101000000001"));
        let outcome = read(&clean.outcome().unwrap());
        assert_eq!(member(&outcome, "totalFilesDeleted"), Some(&Avro::Int(1)));
        let Some(Avro::Map(partitions)) = member(&outcome, "partitionMetadata") else { panic!("{outcome:?}") };
        let Some(Avro::Array(names)) = member(&partitions["k=1"], "deletePathPatterns") else { panic!("{outcome:?}") };
        assert_eq!(names.len(), 1);
        assert_eq!(Clean::from_json(&clean.instant, &clean.to_json()), Some(clean));
    }
}
