//! Checkpoints that a Delta target writes after those of others.

use crate::corpus::case;
use crate::following::{Log, to_iceberg};
use crate::judges::{judge, see};
use crate::to_iceberg::copy;
use crate::watched::plain;
use hoglake_formats::delta::{DeltaSource, DeltaTarget, DeltaTargetOptions};
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource, IcebergTarget, IcebergTargetOptions};
use hoglake_formats::sync::{Mode, Options, sync};
use hoglake_model::table::Value;

#[tokio::test]
async fn a_checkpoint_after_one_with_sidecars_holds_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let case = case("delta", "checkpoint-v2-table");
    let table = folder.path().join("table");
    copy(&case.root, &table);
    // Identity columns would be refused.
    for entry in std::fs::read_dir(table.join("_delta_log")).unwrap().map(|e| e.unwrap().path()) {
        if entry.extension().is_some_and(|end| end == "json") {
            let text = std::fs::read_to_string(&entry).unwrap();
            std::fs::write(&entry, text.replace("delta.identity.", "delta.formerly.")).unwrap();
        }
    }
    let mut iceberg = IcebergTarget::new(plain(&table), IcebergTargetOptions::default());
    sync(&DeltaSource::new(plain(&table)), &mut iceberg, &Options::default()).await.unwrap();
    // Its last checkpoint is that of version 8, JSON with a sidecar; version 10 gets the next one.
    let source = IcebergSource::new(plain(&table), IcebergOptions::default());
    let mut delta = DeltaTarget::new(plain(&table), DeltaTargetOptions::default());
    let full = Options { mode: Mode::Full, ..Options::default() };
    let report = sync(&source, &mut delta, &full).await.unwrap();
    let committed = &report.steps[0].committed;
    assert_eq!((committed.version.as_str(), committed.added, committed.removed), ("10", 0, 0));
    let log = table.join("_delta_log");
    assert!(log.join("00000000000000000010.checkpoint.parquet").exists());
    // As after the log's clean-up.
    for version in 0..10 {
        std::fs::remove_file(log.join(format!("{version:020}.json"))).unwrap();
    }
    let asked = [&case.root, &table].map(|table| ("delta", table.to_str().unwrap().to_owned()));
    let seen = see(folder.path(), &asked);
    assert_eq!(seen[0]["delta-rs"].as_array().map(Vec::len), case.expected["rows"].as_u64().map(|n| n as usize));
    for reader in ["delta-rs", "duckdb"] {
        assert_eq!(seen[1][reader], seen[0][reader], "{reader} {}", seen[1]["error"]);
    }
}

/// A Delta target of a table with a log in the making.
async fn follow(table: &std::path::Path, target: &std::path::Path, mode: Mode) {
    to_iceberg(plain(table), Mode::Incremental).await.unwrap();
    let source = IcebergSource::new(plain(table), IcebergOptions::default());
    let options = DeltaTargetOptions { checkpoint_interval: 2, ..DeltaTargetOptions::default() };
    let mut delta = DeltaTarget::new(plain(target), options);
    sync(&source, &mut delta, &Options { mode, ..Options::default() }).await.unwrap();
}

#[tokio::test]
async fn checkpoints_keep_what_applications_and_domains_have_noted() {
    let folder = tempfile::tempdir().unwrap();
    let (table, target) = (folder.path().join("source"), folder.path().join("target"));
    let mut log = Log::new(&table);
    log.commit(&[Log::add("a")]);
    follow(&table, &target, Mode::Incremental).await;
    let foreign = |version: u64, lines: &[&str]| {
        std::fs::write(target.join(format!("_delta_log/{version:020}.json")), lines.join("\n")).unwrap();
    };
    let txn = |app: &str, version: i64| format!(r#"{{"txn":{{"appId":"{app}","version":{version},"lastUpdated":5}}}}"#);
    let domain = |name: &str, text: &str, removed: bool| {
        format!(r#"{{"domainMetadata":{{"domain":"{name}","configuration":"{text}","removed":{removed}}}}}"#)
    };
    foreign(1, &[&txn("app", 3), &txn("other", 1), &domain("kept", "one", false), &domain("gone", "x", false)]);
    // Version 2 has a checkpoint, version 4 one that is made of it.
    log.commit(&[Log::add("b")]);
    follow(&table, &target, Mode::Incremental).await;
    let look = || judge("checkpoint.py", &[target.to_str().unwrap(), "app"]);
    let seen = look();
    assert_eq!((&seen["files"], &seen["txn"]), (&2.into(), &3.into()), "{seen}");
    assert_eq!(seen["txns"], serde_json::json!({"app": 3, "other": 1}));
    assert_eq!(seen["domains"], serde_json::json!({"kept": "one", "gone": "x"}));
    foreign(3, &[&txn("app", 7), &domain("kept", "two", false), &domain("gone", "", true)]);
    log.commit(&[Log::add("c")]);
    follow(&table, &target, Mode::Incremental).await;
    for version in 0..4 {
        std::fs::remove_file(target.join(format!("_delta_log/{version:020}.json"))).unwrap();
    }
    let seen = look();
    assert_eq!((&seen["files"], &seen["txn"]), (&3.into(), &7.into()), "{seen}");
    assert_eq!(seen["txns"], serde_json::json!({"app": 7, "other": 1}));
    assert_eq!(seen["domains"], serde_json::json!({"kept": "two"}));
}

#[tokio::test]
async fn checkpoints_keep_the_tags_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let (table, target) = (folder.path().join("source"), folder.path().join("target"));
    let mut log = Log::new(&table);
    log.commit(&[Log::add("a")]);
    follow(&table, &target, Mode::Incremental).await;
    // Another writer tags the file.
    let first = target.join("_delta_log/00000000000000000000.json");
    let add: serde_json::Value = std::fs::read_to_string(&first)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .find(|line| line["add"].is_object())
        .unwrap();
    let mut tagged = add.clone();
    tagged["add"]["tags"] = serde_json::json!({"INSERTION_TIME": "1677811178336000", "ZCUBE_ID": null});
    std::fs::write(target.join(format!("_delta_log/{:020}.json", 1)), tagged.to_string()).unwrap();
    let path = add["add"]["path"].as_str().unwrap();
    let expected = serde_json::json!({path: {"INSERTION_TIME": "1677811178336000", "ZCUBE_ID": null}});
    // The first checkpoint is made of commits, the second of the first.
    for (name, version) in [("b", 2), ("c", 3), ("d", 4)] {
        log.commit(&[Log::add(name)]);
        follow(&table, &target, Mode::Incremental).await;
        let checkpoint = target.join(format!("_delta_log/{version:020}.checkpoint.parquet"));
        assert_eq!(checkpoint.exists(), version != 3);
    }
    let seen = judge("checkpoint.py", &[target.to_str().unwrap(), "app"]);
    assert_eq!((&seen["files"], &seen["tags"]), (&4.into(), &expected), "{seen}");
}

#[tokio::test]
async fn a_large_checkpoint_leaves_memory_as_it_is_made() {
    const FILES: usize = 60_000;
    let folder = tempfile::tempdir().unwrap();
    let (table, target) = (folder.path().join("source"), folder.path().join("target"));
    let mut log = Log::new(&table);
    // Nothing that compresses.
    let word = |n: usize, at: u32| {
        format!(
            "{:016x}",
            (n * 40 + 17).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(at * 7).wrapping_mul(0xbf58_476d_1ce4_e5b9)
        )
    };
    let name = |n: usize| format!("{n:06}-{}", (0..24).map(|at| word(n, at)).collect::<String>());
    log.commit(&(0..FILES).map(|n| Log::add(&name(n))).collect::<Vec<_>>());
    follow(&table, &target, Mode::Incremental).await;
    for n in 0..2 {
        log.commit(&[Log::add(&format!("new-{n}"))]);
    }
    follow(&table, &target, Mode::Incremental).await;
    for version in 0..2 {
        std::fs::remove_file(target.join(format!("_delta_log/{version:020}.json"))).unwrap();
    }
    let seen = judge("checkpoint.py", &[target.to_str().unwrap(), "app"]);
    assert_eq!(seen["files"], FILES + 2, "{seen}");
    assert!(seen["groups"].as_u64().unwrap() >= 2, "{seen}");
}

/// Statistics of the file `name`: rows, and the bounds of its column.
async fn statistics(table: &std::path::Path, name: &str) -> (Option<u64>, Vec<[Option<Value>; 2]>) {
    let (_, files) = crate::corpus::live(&DeltaSource::new(plain(table))).await.unwrap();
    let (_, file) = files.iter().find(|(path, _)| path.as_str().ends_with(&format!("{name}.parquet"))).unwrap();
    (file.record_count, file.columns.iter().map(|c| [c.lower.clone(), c.upper.clone()]).collect())
}

#[tokio::test]
async fn statistics_that_a_checkpoint_has_typed_only_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (table, target) = (folder.path().join("source"), folder.path().join("target"));
    let mut log = Log::new(&table);
    log.commit(&[Log::add("a"), Log::add("b")]);
    follow(&table, &target, Mode::Incremental).await;
    let bounds = (Some(5), vec![[Some(Value::Long(1)), Some(Value::Long(9))]]);
    assert_eq!(statistics(&target, "a").await, bounds);
    let typed = judge("typed_checkpoint.py", &[target.to_str().unwrap()]).as_u64().unwrap();
    let cut = |until: u64| {
        for version in 0..until {
            let _ = std::fs::remove_file(target.join(format!("_delta_log/{version:020}.json")));
        }
    };
    cut(typed);
    assert_eq!(statistics(&target, "a").await, bounds, "as they are read");
    // The next checkpoint is made of that one, and so is a translation.
    for name in ["c", "d", "e"] {
        log.commit(&[Log::add(name)]);
        follow(&table, &target, Mode::Incremental).await;
    }
    let names = std::fs::read_dir(target.join("_delta_log")).unwrap().map(|e| e.unwrap().file_name());
    let made = names.filter_map(|name| name.to_str()?.strip_suffix(".checkpoint.parquet")?.parse::<u64>().ok());
    let made = made.max().unwrap();
    assert!(made > typed);
    cut(made);
    for name in ["a", "b", "c"] {
        assert_eq!(statistics(&target, name).await, bounds, "{name}");
    }
    let seen = judge("checkpoint.py", &[target.to_str().unwrap(), "app"]);
    assert_eq!(seen["files"], 5, "{seen}");
    let mut iceberg = IcebergTarget::new(plain(&folder.path().join("back")), IcebergTargetOptions::default());
    sync(&DeltaSource::new(plain(&target)), &mut iceberg, &Options::default()).await.unwrap();
    let back = IcebergSource::new(plain(&folder.path().join("back")), IcebergOptions::default());
    let (_, files) = crate::corpus::live(&back).await.unwrap();
    assert!(
        files
            .values()
            .all(|f| f.columns[0].lower == Some(Value::Long(1)) && f.columns[0].upper == Some(Value::Long(9)))
    );
}
