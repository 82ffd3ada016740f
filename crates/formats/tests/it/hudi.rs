//! Hudi tables written by Hudi itself as a source.

use crate::corpus::{self, Case};
use futures::StreamExt;
use hoglake_formats::hudi::{HudiOptions, HudiSource};
use hoglake_formats::sync::{Changes, Error, Source};
use hoglake_model::table::{RowDeletes, VersionId};
use std::path::PathBuf;

/// A case with its table unpacked.
struct Table {
    case: Case,
    root: PathBuf,
    _folder: tempfile::TempDir,
}

fn unpack(case: Case) -> Table {
    let folder = tempfile::tempdir().unwrap();
    let zip = case.root.with_file_name("table.zip");
    let root = if zip.exists() {
        crate::judges::unzip(&zip, folder.path());
        folder.path().join("table")
    } else {
        case.root.clone()
    };
    Table { case, root, _folder: folder }
}

fn table(name: &str) -> Table {
    unpack(corpus::case("hudi", name))
}

fn open(table: &Table, options: HudiOptions) -> HudiSource {
    HudiSource::new(corpus::root(&table.root), options)
}

/// Tables whose newest slices have log files, with the rows of the base files alone.
const LAGGING: [(&str, u64); 5] = [
    ("mor-avro-v6_trips_8i3d", 8),
    ("mor-avro-v8_trips_8i3u1d", 6),
    ("mor-avro-v9_timebasedkeygen_nonhivestyle", 7),
    ("mor-parquetlog-v6_complexkeygen_hivestyle", 4),
    ("mor-parquetlog-v6_nonpartitioned", 4),
];

/// Spark stored the partition path's text in the partition column of some files, and numbers in others.
const CONTRADICTORY: &str = "cow-v9_timebasedkeygen_epochmillis";

#[tokio::test]
async fn the_corpus_reads_as_other_readers_read_it() {
    let mut read = 0;
    for table in corpus::cases("hudi").into_iter().map(unpack) {
        let name = table.case.name.as_str();
        if table.case.expected["expect"] == "refuse" {
            let error = open(&table, HudiOptions::default()).head().await.unwrap_err();
            assert!(matches!(&error, Error::UnsupportedSource { .. }) && error.to_string().contains("LANCE"), "{name}");
            continue;
        }
        if name == CONTRADICTORY {
            let error = corpus::live(&open(&table, HudiOptions::default())).await.unwrap_err();
            assert!(error.to_string().contains("`ts_millis` is string in the table and long in the file"), "{error}");
            continue;
        }
        let lagging = LAGGING.iter().find(|(n, _)| *n == name);
        let options = HudiOptions { read_optimised: lagging.is_some(), ..HudiOptions::default() };
        let source = open(&table, options.clone());
        let (state, files) = corpus::live(&source).await.unwrap_or_else(|e| panic!("{name}: {e}"));
        let rows = corpus::rows(&source, &files).await.unwrap();
        let expected = lagging.map_or(table.case.expected["rows"].as_u64(), |(_, rows)| Some(*rows));
        assert_eq!(Some(rows), expected, "{name}");
        assert_eq!(Some(files.len() as u64), table.case.expected["live_files"].as_u64(), "{name}");
        for path in
            table.case.expected["state"].as_str().unwrap().split("live base files: ").nth(1).unwrap().split("; ")
        {
            let path = path.trim_end_matches(" ...");
            assert!(path.is_empty() || files.keys().any(|f| f.as_str() == path), "{name}: {path} is missing");
        }
        let columns: Vec<&str> =
            state.schema.fields.iter().map(|f| f.name.as_str()).filter(|n| !n.starts_with("_hoodie_")).collect();
        let expected = table.case.expected["schema"].as_array().into_iter().flatten();
        let expected = expected.map(|c| c.as_str().unwrap().split(": ").next().unwrap());
        let expected: Vec<&str> = expected.filter(|n| !n.starts_with("_hoodie_")).collect();
        assert_eq!(columns, expected, "{name}");
        assert_eq!(state.warnings.iter().any(|w| w.contains("read-optimised")), lagging.is_some(), "{name}");
        // A target of the view without log files is not taken for one of the table itself.
        let exact = open(&table, HudiOptions::default());
        let head = exact.head().await.unwrap();
        assert_eq!(state.watermark().covers(&head.version), lagging.is_none(), "{name}");
        if lagging.is_some() {
            let changes = exact.changes(&state.watermark(), &head).await.unwrap();
            assert!(matches!(changes, Changes::HistoryGone { reason } if reason.contains("log files")), "{name}");
            let changes = source.changes(&state.watermark(), &state).await.unwrap();
            assert!(matches!(changes, Changes::Replay(_)), "{name}");
        }

        // The same from listing folders alone.
        let walked = open(&table, HudiOptions { ignore_metadata_table: true, ..options });
        let (_, walked) = corpus::live(&walked).await.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(files, walked, "{name}: the metadata table and the folders disagree");
        read += 1;
    }
    assert_eq!(read, 21);
}

#[tokio::test]
async fn log_files_are_marked_and_never_dropped_silently() {
    for (name, _) in LAGGING {
        let table = table(name);
        let source = open(&table, HudiOptions::default());
        let head = source.head().await.unwrap();
        let snapshot = source.snapshot(&head).await.unwrap();
        assert!(matches!(snapshot.delete_kinds.as_slice(), [RowDeletes::Log(_)]), "{name}");
        let files: Vec<_> = snapshot.files.collect().await;
        let files: Vec<_> = files.into_iter().flat_map(|batch| batch.unwrap()).collect();
        let marked: Vec<_> = files.iter().filter(|f| !f.deletes.is_empty()).collect();
        assert!(!marked.is_empty(), "{name}");
        for file in marked {
            assert!(source.deleted_rows(file).await.unwrap_err().to_string().contains("compact"), "{name}");
        }
    }
}

/// Every instant of every table as a watermark: replaying from there gives the files of the head, or says why not.
#[tokio::test]
async fn replaying_equals_reading() {
    let (mut replayed, mut gone) = (0, 0);
    for table in corpus::cases("hudi").into_iter().map(unpack) {
        let name = table.case.name.clone();
        if table.case.expected["expect"] == "refuse" || name == CONTRADICTORY || LAGGING.iter().any(|(n, _)| *n == name)
        {
            continue;
        }
        let source = open(&table, HudiOptions::default());
        let (head, files) = corpus::live(&source).await.unwrap();
        for instant in instants(&table) {
            let mut mark = head.watermark();
            mark.version = Some(VersionId(instant.clone()));
            mark.revision = None;
            let changes = match source.changes(&mark, &head).await.unwrap() {
                Changes::Replay(changes) => changes,
                Changes::HistoryGone { reason } => {
                    assert!(
                        reason.contains("took commits back")
                            || reason.contains("log files")
                            || reason.contains("clean"),
                        "{name} {instant}: {reason}"
                    );
                    gone += 1;
                    continue;
                }
            };
            let mut added = std::collections::BTreeMap::new();
            let mut removed = std::collections::BTreeSet::new();
            let mut last = None;
            let changes: Vec<_> = changes.collect().await;
            for change in changes {
                let change = change.unwrap_or_else(|e| panic!("{name} {instant}: {e}"));
                for file in change.files.removed {
                    // What is removed was live: added before, or at the watermark.
                    if added.remove(&file.path).is_none() {
                        assert!(removed.insert(file.path.clone()), "{name}: {:?} is removed twice", file.path);
                        assert!(!files.contains_key(&file.path), "{name}: {:?} is live and removed", file.path);
                    }
                }
                for file in change.files.added {
                    assert!(added.insert(file.path.clone(), file).is_none(), "{name} is added twice");
                }
                last = Some(change.state.version.clone());
            }
            for (path, file) in &added {
                assert_eq!(files.get(path), Some(file), "{name} {instant}");
            }
            if instant != head.version.id.0 {
                assert_eq!(last.as_ref(), Some(&head.version), "{name} {instant}");
            }
            replayed += 1;
        }
    }
    assert!(replayed >= 30, "{replayed} replayed, {gone} gone");
}

/// Completed writes of a table, from the names in its timeline.
fn instants(table: &Table) -> Vec<String> {
    let mut found: Vec<String> = [".hoodie", ".hoodie/timeline"]
        .iter()
        .filter_map(|folder| std::fs::read_dir(table.root.join(folder)).ok())
        .flatten()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter_map(|name| {
            let (time, action) = name.split_once('.')?;
            let time = time.split('_').next()?;
            matches!(action, "commit" | "deltacommit" | "replacecommit").then(|| time.to_owned())
        })
        .collect();
    found.sort();
    found
}

#[tokio::test]
async fn another_history_is_not_replayed() {
    let table = table("cow-v9_txns_simple_meta");
    let source = open(&table, HudiOptions::default());
    let head = source.head().await.unwrap();
    let mut mark = head.watermark();
    mark.version = Some(VersionId("20200101000000000".to_owned()));
    let changes = source.changes(&mark, &head).await.unwrap();
    assert!(matches!(changes, Changes::HistoryGone { reason } if reason.contains("active timeline")));
}

/// Every object of the metadata cut short or changed is an error or another reading, never a panic.
#[tokio::test]
async fn damaged_metadata_is_refused_in_peace() {
    let table = table("xtable-demo_hudi_dimCustomer");
    let folder = tempfile::tempdir().unwrap();
    let copied = std::process::Command::new("cp").arg("-r").arg(&table.root).arg(folder.path()).status().unwrap();
    assert!(copied.success());
    let root = folder.path().join("table");
    let hoodie = root.join(".hoodie");
    let files = hoodie.join("metadata/files");
    let mut victims = vec![hoodie.join("hoodie.properties"), hoodie.join("20231105172136406.commit")];
    victims.extend(
        std::fs::read_dir(&files)
            .unwrap()
            .map(|e| e.unwrap().path())
            .filter(|p| !p.ends_with(".hoodie_partition_metadata")),
    );
    let mut errors = 0;
    for victim in victims {
        let whole = std::fs::read(&victim).unwrap();
        let step = (whole.len() / 60).max(1);
        for at in (0..whole.len()).step_by(step) {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x5a;
            for bytes in [whole[..at].to_vec(), flipped] {
                std::fs::write(&victim, bytes).unwrap();
                let source = HudiSource::new(corpus::root(&root), HudiOptions::default());
                errors += usize::from(corpus::live(&source).await.is_err());
            }
        }
        std::fs::write(&victim, &whole).unwrap();
    }
    assert!(errors > 100, "{errors}");
    let source = HudiSource::new(corpus::root(&root), HudiOptions::default());
    assert_eq!(corpus::live(&source).await.unwrap().1.len(), 1);
    std::fs::remove_dir_all(&hoodie).unwrap();
    let source = HudiSource::new(corpus::root(&root), HudiOptions::default());
    assert!(matches!(source.head().await.unwrap_err(), Error::NotATable { .. }));
}
