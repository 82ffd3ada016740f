//! The archived timeline of layout 1: log files of Avro blocks, one record for each state of each instant.
//!
//! # Source
//! Hudi specification version 6, "Timeline", "Archived timeline", and "Log format"; `HoodieArchivedMetaEntry.avsc`,
//! without the members of actions that are never archived here: readers fill in their defaults.

use super::FOLDER;
use super::avro_writer::{datum, map_of, optional, text};
use super::clean;
use super::log;
use super::properties::Properties;
use super::timeline::{self, Instant};
use crate::sync::{Error, Result, TableRoot};
use bytes::Bytes;
use serde_json::{Value, json};

/// The states of an instant, oldest first.
const STATES: [&str; 3] = ["REQUESTED", "INFLIGHT", "COMPLETED"];

/// Bytes of records after which a new block begins, about.
const BLOCK: usize = 8 << 20;

/// Whether an instant can be archived: we know how its metadata is kept there.
pub(super) fn can_archive(action: &str) -> bool {
    matches!(action, "commit" | "replacecommit" | "clean" | "rollback")
}

/// Appends `instants`, oldest first, to the archived timeline as a new file.
pub(super) async fn append(root: &TableRoot, properties: &Properties, instants: &[Instant]) -> Result<()> {
    if instants.is_empty() {
        return Ok(());
    }
    let schema = schema();
    let mut file = Vec::new();
    let (mut records, mut bytes) = (Vec::new(), 0);
    for instant in instants {
        // Gone when another run archived it in the meantime.
        let Some(content) = root.get_if_exists(&instant.key).await? else { continue };
        for entry in entries(instant, &content)? {
            let record = datum(&schema, &entry).map_err(|detail| Error::malformed(&instant.key, detail))?;
            bytes += record.len();
            records.push(record);
        }
        if bytes > BLOCK {
            file.extend(log::avro_block(&schema.to_string(), &std::mem::take(&mut records)));
            bytes = 0;
        }
    }
    if !records.is_empty() {
        file.extend(log::avro_block(&schema.to_string(), &records));
    }
    if file.is_empty() {
        return Ok(());
    }
    let folder = format!("{FOLDER}/{}", properties.get("hoodie.archivelog.folder").unwrap_or("archived"));
    let names = timeline::list_folder(root, &folder).await?;
    let version = |name: &str| name.strip_prefix(".commits_.archive.")?.split('_').next()?.parse::<u64>().ok();
    let mut version = names.iter().filter_map(|(name, _)| version(name)).max().unwrap_or(0);
    let file = Bytes::from(file);
    loop {
        version += 1;
        if root.put_if_absent(&format!("{folder}/.commits_.archive.{version}_1-0-1"), file.clone()).await? {
            return Ok(());
        }
    }
}

fn entries(instant: &Instant, content: &[u8]) -> Result<Vec<Value>> {
    let entry = |state: &&str| {
        json!({
            "commitTime": instant.requested, "actionType": instant.action, "version": 1, "actionState": state,
            "stateTransitionTime": instant.completed,
        })
    };
    let mut entries: Vec<Value> = STATES.iter().map(entry).collect();
    let details = match instant.action.as_str() {
        "commit" => Some(("hoodieCommitMetadata", commit(instant, content)?)),
        "replacecommit" => Some(("hoodieReplaceCommitMetadata", commit(instant, content)?)),
        "clean" if !content.is_empty() => Some(("hoodieCleanMetadata", clean_outcome(instant, content)?)),
        _ => None,
    };
    if let (Some(last), Some((member, value))) = (entries.last_mut(), details) {
        last[member] = value;
    }
    Ok(entries)
}

/// The metadata of a commit as the archive keeps it: numbers and text that are missing are null there.
fn commit(instant: &Instant, content: &[u8]) -> Result<Value> {
    let malformed = |detail: String| Error::malformed(&instant.key, detail);
    let mut value: Value = serde_json::from_slice(content).map_err(|e| malformed(e.to_string()))?;
    if let Some(members) = value.as_object_mut() {
        members.insert("version".to_owned(), json!(1));
        if let Some(Value::Object(extra)) = members.get_mut("extraMetadata") {
            extra.retain(|_, value| value.is_string());
        }
    }
    Ok(value)
}

fn clean_outcome(instant: &Instant, content: &[u8]) -> Result<Value> {
    let malformed = |detail: String| Error::malformed(&instant.key, detail);
    let mut reader = apache_avro::Reader::new(content).map_err(|e| malformed(e.to_string()))?;
    let record = reader.next().ok_or_else(|| malformed("it holds no record".to_owned()))?;
    Value::try_from(record.map_err(|e| malformed(e.to_string()))?).map_err(|e| malformed(e.to_string()))
}

fn schema() -> Value {
    let numbers = [
        "numWrites",
        "numDeletes",
        "numUpdateWrites",
        "totalWriteBytes",
        "totalWriteErrors",
        "numInserts",
        "fileSizeInBytes",
    ];
    let texts = ["fileId", "path", "prevCommit", "partitionPath"].iter().map(|name| optional(name, &text()));
    let members: Vec<Value> = texts.chain(numbers.iter().map(|name| optional(name, &json!("long")))).collect();
    let stat = json!({"type": "record", "name": "HoodieWriteStat", "fields": members});
    let stats = |stat: &Value| map_of(&json!({"type": "array", "items": stat}));
    let common = |stat: &Value| {
        vec![
            optional("partitionToWriteStats", &stats(stat)),
            optional("extraMetadata", &map_of(&text())),
            json!({"name": "version", "type": ["int", "null"], "default": 1}),
            optional("operationType", &text()),
        ]
    };
    let record = |name: &str, fields: Vec<Value>| json!({"type": "record", "name": name, "fields": fields});
    let commit = record("HoodieCommitMetadata", common(&stat));
    let mut replace = common(&json!("HoodieWriteStat"));
    replace.push(optional("partitionToReplaceFileIds", &map_of(&json!({"type": "array", "items": text()}))));
    let fields = vec![
        optional("hoodieCommitMetadata", &commit),
        optional("hoodieCleanMetadata", &clean::outcome_schema()),
        optional("commitTime", &text()),
        optional("actionType", &text()),
        json!({"name": "version", "type": ["int", "null"], "default": 1}),
        optional("actionState", &text()),
        optional("hoodieReplaceCommitMetadata", &record("HoodieReplaceCommitMetadata", replace)),
        optional("stateTransitionTime", &text()),
    ];
    let mut schema = record("HoodieArchivedMetaEntry", fields);
    schema["namespace"] = json!("org.apache.hudi.avro.model");
    schema
}

#[cfg(test)]
mod tests {
    use super::super::commit::{member, string};
    use super::super::log::Content;
    use super::*;
    use apache_avro::Schema;
    use apache_avro::reader::datum::GenericDatumReader;
    use apache_avro::types::Value as Avro;
    use hoglake_model::Location;
    use std::sync::Arc;

    #[tokio::test]
    async fn every_state_of_an_instant_is_a_record() {
        let store = Arc::new(object_store::memory::InMemory::new());
        let root = TableRoot::with_store(store, Location::parse("s3://b/t").unwrap());
        let instant = |time: &str, action: &str| Instant {
            requested: time.to_owned(),
            completed: time.to_owned(),
            action: action.to_owned(),
            key: format!("{FOLDER}/{time}.{action}"),
            modified_ms: 0,
            size: 1,
        };
        let instants = [instant("20240101000000001", "replacecommit"), instant("20240101000000002", "clean")];
        let commit = json!({
            "partitionToWriteStats": {"": [{"fileId": "a.parquet", "path": "a.parquet_x_hudiext", "numWrites": 5}]},
            "partitionToReplaceFileIds": {"": ["b.parquet"]}, "compacted": false,
            "extraMetadata": {"schema": "{}", "odd": 7}, "operationType": "UNKNOWN",
        });
        root.put(&instants[0].key, commit.to_string()).await.unwrap();
        let clean = clean::Clean { instant: instants[1].requested.clone(), ..clean::Clean::default() };
        root.put(&instants[1].key, clean.outcome().unwrap()).await.unwrap();
        for _ in 0..2 {
            append(&root, &Properties::default(), &instants).await.unwrap();
        }
        let mut files = timeline::list_folder(&root, ".hoodie/archived").await.unwrap();
        files.sort();
        let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, [".commits_.archive.1_1-0-1", ".commits_.archive.2_1-0-1"]);
        let bytes = root.get(&format!(".hoodie/archived/{}", names[0])).await.unwrap();
        let blocks = log::read(&bytes).unwrap();
        let Content::Avro(records, text) = &blocks[0].content else { panic!("{blocks:?}") };
        let schema = Schema::parse_str(text).unwrap();
        let reader = GenericDatumReader::builder(&schema).build().unwrap();
        let read: Vec<Avro> = records.iter().map(|r| reader.read_value(&mut &**r).unwrap()).collect();
        let text = |record: &Avro, name: &str| member(record, name).and_then(string).unwrap_or_default();
        let states: Vec<_> = read.iter().map(|r| (text(r, "actionType"), text(r, "actionState"))).collect();
        let expected = ["replacecommit", "clean"].map(|action| STATES.map(|s| (action.to_owned(), s.to_owned())));
        assert_eq!(states, expected.concat());
        let details = member(&read[2], "hoodieReplaceCommitMetadata").unwrap();
        let Some(Avro::Map(extra)) = member(details, "extraMetadata") else { panic!("{details:?}") };
        assert_eq!(extra.keys().collect::<Vec<_>>(), ["schema"]);
        let Some(Avro::Map(stats)) = member(details, "partitionToWriteStats") else { panic!("{details:?}") };
        let Avro::Array(stats) = &stats[""] else { panic!("{stats:?}") };
        assert_eq!(member(&stats[0], "numWrites"), Some(&Avro::Long(5)));
        assert_eq!(text(member(&read[5], "hoodieCleanMetadata").unwrap(), "startCleanTime"), "20240101000000002");
    }
}
