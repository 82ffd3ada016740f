//! Targets that the real Apache XTable has written are carried on from its watermark, commit by commit.
//!
//! The other way round, and in turns, needs Java: `./x verify-xtable`.

use crate::judges::{data, see, unzip};
use crate::pairs::target;
use crate::watched::plain;
use hoglake_formats::delta::DeltaSource;
use hoglake_formats::hudi::{HudiOptions, HudiSource};
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource};
use hoglake_formats::sync::{Mode, Options, Plan, Source, sync};
use hoglake_model::table::TableFormat::{self, Delta, Hudi, Iceberg};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// The commits of a Hudi table that hoglake has written name, among those replaced, every partition that they write to:
/// XTable follows by those alone.
fn names_its_partitions(table: &Path) {
    let mut own = 0;
    for entry in std::fs::read_dir(table.join(".hoodie")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "replacecommit") {
            continue;
        }
        let commit: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        if commit["extraMetadata"]["hoglake.watermark"].is_string() {
            own += 1;
            for partition in commit["partitionToWriteStats"].as_object().unwrap().keys() {
                assert!(commit["partitionToReplaceFileIds"][partition].is_array(), "{partition}");
            }
        }
    }
    assert_eq!(own, 2);
}

/// Where the tables were when their metadata was written; a folder of as long a name takes its place.
const MADE_AT: &str = "/tmp/xtable-made-0000";

fn respell(folder: &Path, to: &str) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            respell(&path, to);
            continue;
        }
        let mut bytes = std::fs::read(&path).unwrap();
        let found = |at: &usize| bytes[*at..].starts_with(MADE_AT.as_bytes());
        for at in (0..bytes.len()).filter(found).collect::<Vec<_>>() {
            bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
        std::fs::write(&path, bytes).unwrap();
    }
}

fn source(format: TableFormat, table: &Path) -> Box<dyn Source> {
    match format {
        Delta => Box::new(DeltaSource::new(plain(table))),
        Iceberg => Box::new(IcebergSource::new(plain(table), IcebergOptions::default())),
        _ => Box::new(HudiSource::new(plain(table), HudiOptions::default())),
    }
}

async fn live(format: TableFormat, table: &Path) -> Vec<(String, Option<u64>)> {
    let (_, files) = crate::corpus::live(source(format, table).as_ref()).await.unwrap();
    files.values().map(|file| (file.path.as_str().to_owned(), file.record_count)).collect()
}

#[tokio::test]
async fn what_xtable_began_goes_on_from_its_watermark() {
    for (origin, others) in [(Delta, [Iceberg, Hudi]), (Iceberg, [Delta, Hudi])] {
        let folder = tempfile::Builder::new().prefix("xtable-made-").rand_bytes(4).tempdir_in("/tmp").unwrap();
        let name = format!("from-{}", origin.as_str().to_lowercase());
        unzip(&data(&format!("xtable/{name}.zip")), folder.path());
        respell(folder.path(), folder.path().to_str().unwrap());
        let table = folder.path().join(name).join("orders");
        let mut asked = Vec::new();
        for format in others {
            let mut to = target(format, plain(&table));
            let mark = to.load().await.unwrap().watermark.unwrap();
            assert_eq!(mark.format, origin);
            if origin == Delta {
                // XTable notes when the log's file was written, which an archive does not keep.
                let version: u64 = mark.version.unwrap().0.parse().unwrap();
                let commit = std::fs::File::options()
                    .write(true)
                    .open(table.join(format!("_delta_log/{version:020}.json")))
                    .unwrap();
                commit.set_modified(UNIX_EPOCH + Duration::from_millis(mark.timestamp_ms as u64)).unwrap();
            }
            let from = source(origin, &table);
            let options = Options { mode: Mode::Incremental, ..Options::default() };
            let report = sync(from.as_ref(), to.as_mut(), &options).await.unwrap();
            assert_eq!(report.plan, Plan::Incremental, "{origin} to {format}");
            let counts: Vec<_> = report.steps.iter().map(|s| (s.committed.added, s.committed.removed)).collect();
            assert_eq!(counts, [(2, 0), (2, 2)], "{origin} to {format}");
            assert_eq!(live(format, &table).await, live(origin, &table).await, "{origin} to {format}");
            let again = sync(source(origin, &table).as_ref(), target(format, plain(&table)).as_mut(), &options).await;
            assert_eq!(again.unwrap().plan, Plan::NoChange, "{origin} to {format}");
            if format == Hudi {
                names_its_partitions(&table);
            }
            if let Some(path) = report.metadata_path.filter(|_| format != Hudi) {
                let path = path.trim_start_matches("file://").trim_end_matches("/_delta_log").to_owned();
                asked.push((if format == Delta { "delta" } else { "iceberg" }, path));
            }
        }
        for seen in see(folder.path(), &asked) {
            for reader in ["pyiceberg", "delta-rs", "duckdb"].into_iter().filter(|r| seen.get(r).is_some()) {
                let ids: Vec<_> = (3..12).map(|id| format!("\"id\": {id},")).collect();
                let rows = seen[reader].as_array().unwrap();
                let has =
                    |id: &String| rows.iter().filter(|row| row.as_str().unwrap().contains(id.as_str())).count() == 1;
                assert!(rows.len() == 9 && ids.iter().all(has), "{reader}: {seen}");
            }
            assert!(seen.get("error").is_none() && seen["problems"] == serde_json::json!([]), "{seen}");
        }
    }
}
