//! What a completed write says of itself.
//!
//! # Source
//! `HoodieCommitMetadata.avsc` and `HoodieReplaceCommitMetadata.avsc`; layout 1 stores the same members as JSON.

use super::timeline::Instant;
use crate::sync::{Error, Result, TableRoot, fingerprint};
use apache_avro::types::Value as Avro;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// The largest metadata object that is read, in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// The metadata of a commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CommitMetadata {
    /// Files written.
    pub(super) stats: Vec<WriteStat>,
    /// File groups that the commit made obsolete: partition path and file id.
    pub(super) replaced: Vec<(String, String)>,
    /// `extraMetadata`: the schema and what writers add.
    pub(super) extra: BTreeMap<String, String>,
    /// `UPSERT`, `INSERT_OVERWRITE`, `COMPACT`, ...
    pub(super) operation: Option<String>,
    /// What tells the commit from another one of the same instant; absent when it was not read from a file.
    pub(super) fingerprint: Option<String>,
}

/// One file that a commit wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct WriteStat {
    pub(super) file_id: String,
    /// Relative to the table's root.
    pub(super) path: String,
    pub(super) partition: String,
    /// The instant of the base file that this one supersedes.
    pub(super) previous: Option<String>,
    pub(super) size: Option<u64>,
}

impl CommitMetadata {
    /// Reads the metadata of a completed write.
    pub(super) async fn read(root: &TableRoot, instant: &Instant) -> Result<Self> {
        if instant.size > MAX_BYTES {
            return Err(Error::malformed(
                &instant.key,
                format!("commit metadata of {} bytes is not read", instant.size),
            ));
        }
        let bytes = root.get(&instant.key).await?;
        let fingerprint = Some(fingerprint(bytes.len() as u64, &bytes));
        Ok(Self { fingerprint, ..Self::parse(&instant.key, &bytes)? })
    }

    /// Parses commit metadata in either encoding.
    pub(super) fn parse(place: &str, bytes: &[u8]) -> Result<Self> {
        let malformed = |detail: String| Error::malformed(place, detail);
        if bytes.starts_with(b"Obj\x01") {
            let mut reader = apache_avro::Reader::new(bytes).map_err(|e| malformed(e.to_string()))?;
            let record = reader.next().ok_or_else(|| malformed("it holds no record".to_owned()))?;
            return Ok(Self::from_avro(&record.map_err(|e| malformed(e.to_string()))?));
        }
        let json: Json = serde_json::from_slice(bytes).map_err(|e| malformed(e.to_string()))?;
        if !json.is_object() {
            return Err(malformed("commit metadata must be a JSON object".to_owned()));
        }
        Ok(Self::from_json(&json))
    }

    /// The schema that the commit wrote with.
    pub(super) fn schema(&self) -> Option<&str> {
        self.extra.get("schema").map(|s| s.trim()).filter(|s| !s.is_empty())
    }

    pub(super) fn from_json(json: &Json) -> Self {
        let text = |value: &Json, key: &str| value.get(key).and_then(Json::as_str).map(str::to_owned);
        let mut found = Self { operation: text(json, "operationType"), ..Self::default() };
        for (partition, stats) in json.get("partitionToWriteStats").and_then(Json::as_object).into_iter().flatten() {
            for stat in stats.as_array().into_iter().flatten() {
                let Some(path) = text(stat, "path") else { continue };
                found.stats.push(WriteStat {
                    file_id: text(stat, "fileId").unwrap_or_default(),
                    path,
                    partition: text(stat, "partitionPath").unwrap_or_else(|| partition.clone()),
                    previous: text(stat, "prevCommit").filter(|p| p != "null"),
                    size: stat.get("fileSizeInBytes").and_then(Json::as_u64).filter(|size| *size > 0),
                });
            }
        }
        for (partition, ids) in json.get("partitionToReplaceFileIds").and_then(Json::as_object).into_iter().flatten() {
            let ids = ids.as_array().into_iter().flatten().filter_map(Json::as_str);
            found.replaced.extend(ids.map(|id| (partition.clone(), id.to_owned())));
        }
        for (key, value) in json.get("extraMetadata").and_then(Json::as_object).into_iter().flatten() {
            found.extra.insert(key.clone(), value.as_str().unwrap_or_default().to_owned());
        }
        found
    }

    fn from_avro(record: &Avro) -> Self {
        let text = |value: &Avro, key: &str| member(value, key).and_then(string);
        let mut found = Self { operation: text(record, "operationType"), ..Self::default() };
        for (partition, stats) in map(member(record, "partitionToWriteStats")) {
            for stat in array(Some(stats)) {
                let Some(path) = text(stat, "path") else { continue };
                found.stats.push(WriteStat {
                    file_id: text(stat, "fileId").unwrap_or_default(),
                    path,
                    partition: text(stat, "partitionPath").unwrap_or_else(|| partition.clone()),
                    previous: text(stat, "prevCommit").filter(|p| p != "null"),
                    size: member(stat, "fileSizeInBytes").and_then(long).filter(|size| *size > 0),
                });
            }
        }
        for (partition, ids) in map(member(record, "partitionToReplaceFileIds")) {
            found.replaced.extend(array(Some(ids)).filter_map(string).map(|id| (partition.clone(), id)));
        }
        for (key, value) in map(member(record, "extraMetadata")) {
            found.extra.insert(key.clone(), string(value).unwrap_or_default());
        }
        found
    }
}

/// The value inside unions.
pub(super) fn plain(value: &Avro) -> &Avro {
    match value {
        Avro::Union(_, inner) => plain(inner),
        other => other,
    }
}

/// A member of a record.
pub(super) fn member<'a>(value: &'a Avro, name: &str) -> Option<&'a Avro> {
    match plain(value) {
        Avro::Record(fields) => fields.iter().find(|(n, _)| n == name).map(|(_, v)| plain(v)),
        _ => None,
    }
}

pub(super) fn string(value: &Avro) -> Option<String> {
    match plain(value) {
        Avro::String(text) | Avro::Enum(_, text) => Some(text.clone()),
        Avro::Bytes(bytes) => String::from_utf8(bytes.clone()).ok(),
        _ => None,
    }
}

pub(super) fn long(value: &Avro) -> Option<u64> {
    match plain(value) {
        Avro::Long(n) => u64::try_from(*n).ok(),
        Avro::Int(n) => u64::try_from(*n).ok(),
        _ => None,
    }
}

pub(super) fn map(value: Option<&Avro>) -> impl Iterator<Item = (&String, &Avro)> {
    match value.map(plain) {
        Some(Avro::Map(entries)) => Some(entries.iter()),
        _ => None,
    }
    .into_iter()
    .flatten()
}

fn array(value: Option<&Avro>) -> impl Iterator<Item = &Avro> {
    match value.map(plain) {
        Some(Avro::Array(items)) => Some(items.iter()),
        _ => None,
    }
    .into_iter()
    .flatten()
}
