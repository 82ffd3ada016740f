//! Delta targets whose log others have gone on with, who spell paths and vectors in ways of their own.

use crate::following::to_iceberg;
use crate::judges::{judge, see};
use crate::to_iceberg::copy;
use crate::watched::plain;
use hoglake_formats::delta::{DeltaSource, DeltaTarget, DeltaTargetOptions};
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource};
use hoglake_formats::sync::{Mode, Options, Plan, Report, Step, WATERMARK_KEY, XTABLE_KEY, sync};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

fn lines(table: &Path, version: u64) -> Vec<Value> {
    let text = std::fs::read_to_string(table.join(format!("_delta_log/{version:020}.json"))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn write(table: &Path, version: u64, lines: &[Value]) {
    let lines: Vec<_> = lines.iter().map(Value::to_string).collect();
    std::fs::write(table.join(format!("_delta_log/{version:020}.json")), lines.join("\n")).unwrap();
}

/// Makes a commit look as XTable would have written it: no property of hoglake's, and other spellings of the files.
fn by_xtable(table: &Path, version: u64, respell: impl Fn(usize, &mut Value)) {
    let mut lines = lines(table, version);
    for (index, line) in lines.iter_mut().enumerate() {
        if let Some(tags) = line.pointer_mut("/commitInfo/tags") {
            tags.as_object_mut().unwrap().remove(WATERMARK_KEY);
        }
        if let Some(configuration) = line.pointer_mut("/metaData/configuration") {
            configuration.as_object_mut().unwrap().retain(|key, _| key == XTABLE_KEY || key.starts_with("delta."));
        }
        if let Some(add) = line.get_mut("add") {
            respell(index, add);
        }
    }
    write(table, version, &lines);
}

/// What is live for a reader that compares names letter by letter.
fn live_texts(table: &Path) -> BTreeSet<String> {
    let mut live = BTreeSet::new();
    let versions = std::fs::read_dir(table.join("_delta_log")).unwrap();
    let versions = versions.filter(|e| e.as_ref().unwrap().path().to_str().unwrap().ends_with(".json")).count();
    for version in 0..versions {
        let lines = lines(table, version as u64);
        let name = |action: &Value| format!("{} {}", action["path"], action["deletionVector"]);
        let gone: Vec<_> = lines.iter().filter_map(|l| l.get("remove")).map(name).collect();
        let new: Vec<_> = lines.iter().filter_map(|l| l.get("add")).map(name).collect();
        assert!(!gone.iter().any(|name| new.contains(name)), "a commit removes what it adds");
        live.retain(|name| !gone.contains(name));
        live.extend(new);
    }
    live
}

#[tokio::test]
async fn files_go_under_the_names_that_the_log_gives_them() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table");
    judge("partitions.py", &[table.to_str().unwrap()]);
    let log = table.join("_delta_log");
    let (source_log, target_log) = (table.join("_source_log"), table.join("_target_log"));
    let show = |from: &Path, away: &Path| {
        std::fs::rename(&log, away).unwrap();
        if from.exists() {
            std::fs::rename(from, &log).unwrap();
        }
    };
    let follow = async |mode: Mode| -> Report {
        let iceberg = IcebergSource::new(plain(&table), IcebergOptions::default());
        let mut delta = DeltaTarget::new(plain(&table), DeltaTargetOptions::default());
        sync(&iceberg, &mut delta, &Options { mode, ..Options::default() }).await.unwrap()
    };
    to_iceberg(plain(&table), Mode::Incremental).await.unwrap();
    show(&target_log, &source_log);
    follow(Mode::Incremental).await;
    let absolute = |path: &str| format!("file://{}/{path}", table.display());
    by_xtable(&table, 0, |index, add| {
        let path = add["path"].as_str().unwrap().to_owned();
        let decoded = percent_encoding::percent_decode_str(&path).decode_utf8().unwrap().into_owned();
        // DuckDB reads no absolute paths of local files; these stay until the end.
        let stays = path.contains("%2523") || path.contains("HIVE");
        add["path"] = match if stays { index % 2 } else { index % 4 } {
            0 => json!(path.replace("%C3", "%c3").replace("%3D", "%3d").replace("%E6", "%e6")),
            1 => json!(decoded.replace('%', "%25").replace(' ', "%20").replace('#', "%23").replace('?', "%3F")),
            2 => json!(absolute(&path)),
            _ => json!(path),
        };
    });
    let before = live_texts(&table);
    let (mut asked, mut left) = (Vec::new(), before.len());
    for (gone, count) in [("id in (0, 1, 2, 3)", 4), ("id = 5", 1), ("id in (4, 6)", 2)] {
        show(&source_log, &target_log);
        judge("delete.py", &[table.to_str().unwrap(), gone]);
        to_iceberg(plain(&table), Mode::Incremental).await.unwrap();
        let now = folder.path().join(format!("source-{left}"));
        copy(&table, &now);
        asked.push(("delta", now.to_str().unwrap().to_owned()));
        show(&target_log, &source_log);
        let report = follow(Mode::Incremental).await;
        assert_eq!(report.plan, Plan::Incremental);
        left -= count;
        let live = live_texts(&table);
        assert!(live.len() == left && live.is_subset(&before), "{live:?} of {before:?}");
        // No file differs; whose names the log holds may have to be noted, once.
        let changed = |s: &Step| s.committed.added + s.committed.removed + s.committed.redeleted;
        assert_eq!(follow(Mode::Full).await.steps.iter().map(changed).sum::<u64>(), 0);
        assert_eq!(follow(Mode::Full).await.plan, Plan::NoChange);
    }
    asked.push(("delta", table.to_str().unwrap().to_owned()));
    let seen = see(folder.path(), &asked);
    let rows = &seen[2]["delta-rs"];
    assert_eq!(rows.as_array().map(Vec::len), Some(left), "{}", seen[2]["error"]);
    for reader in ["delta-rs", "duckdb"] {
        assert_eq!(&seen[3][reader], rows, "{reader} {}", seen[3]["error"]);
    }
}

async fn to_delta(from: &Path, to: &Path) -> Report {
    let mut target = DeltaTarget::new(plain(to), DeltaTargetOptions::default());
    sync(&DeltaSource::new(plain(from)), &mut target, &Options::default()).await.unwrap()
}

#[tokio::test]
async fn vectors_go_under_the_names_that_the_log_gives_them() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    copy(&crate::corpus::case("delta", "table-with-dv-small").root, &from);
    to_delta(&from, &to).await;
    // The same vector, called by an absolute path.
    let vectors = std::fs::read_dir(&to).unwrap().map(|e| e.unwrap().path());
    let vector = vectors.into_iter().find(|p| p.to_str().unwrap().ends_with(".bin")).unwrap();
    by_xtable(&to, 0, |_, add| {
        add["path"] = json!(add["path"].as_str().unwrap().replace("file:///", "file:/"));
        add["deletionVector"]["storageType"] = json!("p");
        add["deletionVector"]["pathOrInlineDv"] = json!(format!("file://{}", vector.display()));
    });
    assert_eq!(live_texts(&to).len(), 1);
    let newest = lines(&from, 1);
    let add = newest.iter().find_map(|l| l.get("add")).unwrap();
    let gone = json!({"remove": {"path": add["path"], "deletionTimestamp": 1, "dataChange": true,
        "deletionVector": add["deletionVector"]}});
    write(&from, 2, &[gone]);
    assert_eq!(to_delta(&from, &to).await.plan, Plan::Incremental);
    assert_eq!(live_texts(&to), BTreeSet::new());
}

#[tokio::test]
async fn names_that_readers_dispute_are_settled() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let mut log = crate::following::Log::new(&from);
    let add = |name: &str| crate::following::Log::add(name);
    log.commit(&[add("p%C3%A9"), add("q%C3%A9"), add("r")]);
    to_delta(&from, &to).await;
    log.commit(&[crate::following::Log::remove("p%C3%A9")]);
    to_delta(&from, &to).await;
    let respelled = |version: u64, action: &str| {
        let mut lines = lines(&to, version);
        for line in &mut lines {
            if let Some(path) = line.get_mut(action).map(|action| &mut action["path"]) {
                *path = json!(path.as_str().unwrap().replace("%C3%A9", "é"));
            }
        }
        write(&to, version, &lines);
    };
    // Some readers take the removed file for live: it was added under another spelling.
    respelled(1, "remove");
    by_xtable(&to, 1, |_, _| {});
    assert_eq!(live_texts(&to).len(), 3);
    log.commit(&[add("s")]);
    let report = to_delta(&from, &to).await;
    assert!(matches!(&report.plan, Plan::Full { reason } if reason.contains("different files")), "{report:?}");
    let live = live_texts(&to);
    assert_eq!(live.len(), 3, "{live:?}");
    assert!(live.iter().all(|name| !name.contains("/p%C3") && !name.contains("/pé")), "{live:?}");
    let (_, files) = crate::corpus::live(&DeltaSource::new(plain(&to))).await.unwrap();
    assert_eq!(files.len(), 3);
    log.commit(&[crate::following::Log::remove("q%C3%A9")]);
    assert_eq!(to_delta(&from, &to).await.plan, Plan::Incremental);
    assert_eq!(live_texts(&to).len(), 2);
}
