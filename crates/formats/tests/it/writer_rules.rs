//! What tables ask of their writers, and files and columns that no target can carry.

use crate::following::{Log, to_iceberg};
use crate::judges::judge;
use crate::watched::plain;
use hoglake_formats::delta::{DeltaSource, DeltaTarget, DeltaTargetOptions};
use hoglake_formats::sync::{Error, Mode, Options, Report, Result, sync};
use std::path::Path;

async fn replace(from: &Path, to: &Path, dry_run: bool) -> Result<Report> {
    let mut target = DeltaTarget::new(plain(to), DeltaTargetOptions::default());
    let options = Options { mode: Mode::Full, dry_run, ..Options::default() };
    sync(&DeltaSource::new(plain(from)), &mut target, &options).await
}

#[tokio::test]
async fn features_that_are_not_honoured_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    judge("writer_rules.py", &[folder.path().to_str().unwrap()]);
    let from = folder.path().join("from");
    Log::new(&from).commit(&[Log::add("a")]);
    for (feature, when_planned) in [("appendOnly", false), ("checkConstraints", true)] {
        let to = folder.path().join(feature);
        let commits = || std::fs::read_dir(to.join("_delta_log")).unwrap().count();
        let before = commits();
        for dry_run in [true, false] {
            match replace(&from, &to, dry_run).await {
                Err(Error::Unsupported(found)) => assert!(found[0].detail.contains(feature), "{found:?}"),
                Ok(_) => assert!(dry_run && !when_planned, "{feature} was not refused"),
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(commits(), before, "{feature}: something was written");
    }
    replace(&from, &folder.path().join("plain"), false).await.unwrap();
}

/// A log whose schema has these fields.
fn log_of<'a>(table: &'a Path, fields: &str) -> Log<'a> {
    let log = Log::new(table);
    let first = table.join("_delta_log/00000000000000000000.json");
    let text = std::fs::read_to_string(&first).unwrap();
    let mut lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    lines[1]["metaData"]["schemaString"] = format!(r#"{{"type":"struct","fields":[{fields}]}}"#).into();
    let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
    std::fs::write(&first, lines.join("\n")).unwrap();
    log
}

#[tokio::test]
async fn columns_that_cannot_be_told_apart_are_refused() {
    let field = |name: &str| format!(r#"{{"name":"{name}","type":"long","nullable":true,"metadata":{{}}}}"#);
    let inside = |name: &str, members: &str| {
        format!(
            r#"{{"name":"{name}","type":{{"type":"struct","fields":[{members}]}},"nullable":true,"metadata":{{}}}}"#
        )
    };
    for (fields, column) in [
        (format!("{},{}", field("id"), field("id")), "id"),
        (format!("{},{}", field("id"), field("ID")), "ID"),
        (inside("s", &format!("{},{}", field("x"), field("X"))), "s.X"),
        // Legal in Delta; readers of Iceberg find columns by their path.
        (format!("{},{}", field("a.b"), inside("a", &field("b"))), "a.b"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        log_of(folder.path(), &fields).commit(&[Log::add("a")]);
        let refused = to_iceberg(plain(folder.path()), Mode::Incremental).await.unwrap_err();
        let typed = matches!(refused, Error::Unsupported(_) | Error::Malformed { .. });
        assert!(typed && refused.to_string().contains(column), "{refused}");
        assert!(refused.to_string().contains("another column"), "{refused}");
        assert!(!folder.path().join("metadata").exists());
    }
}

#[tokio::test]
async fn paths_with_control_characters_are_refused() {
    for name in ["a\\u0000b", "a%00b", "a\\u001fb", "a%0Ab", "a%7Fb", "a\\u0085b"] {
        for mode in [Mode::Full, Mode::Incremental] {
            let folder = tempfile::tempdir().unwrap();
            let mut log = Log::new(folder.path());
            log.commit(&[Log::add("a")]);
            if mode == Mode::Incremental {
                to_iceberg(plain(folder.path()), mode).await.unwrap();
            }
            log.commit(&[Log::add(name)]);
            let refused = to_iceberg(plain(folder.path()), mode).await.unwrap_err();
            assert!(matches!(refused, Error::Malformed { .. }), "{name}: {refused:?}");
            assert!(refused.to_string().contains("control characters"), "{name}: {refused}");
            assert!(!refused.to_string().chars().any(char::is_control), "{name}: {refused:?}");
        }
    }
}
