//! For random histories: the state that a snapshot read finds is the state that replaying every commit ends at, in every
//! format, row-level deletes included, from every version that the history goes back to.

use crate::corpus::{live, replay};
use crate::origin::Origin;
use crate::watched::plain;
use hoglake_formats::delta::DeltaSource;
use hoglake_formats::hudi::{HudiOptions, HudiSource, HudiTarget};
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource, IcebergTarget, IcebergTargetOptions};
use hoglake_formats::sync::{Source, Target};
use hoglake_model::table::{DataFile, FilePath, TableFormat};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

/// The live files by name, with their deleted rows.
type Live = BTreeMap<String, BTreeSet<u64>>;

/// What is to happen to some of the files; rows are there to be deleted where that is possible.
type Change = Vec<(usize, BTreeSet<u64>)>;

fn histories() -> impl Strategy<Value = Vec<Change>> {
    let rows = prop_oneof![
        2 => Just(BTreeSet::new()),
        3 => prop::collection::btree_set(0..5_u64, 1..4),
    ];
    let change = prop::collection::btree_map(0..NAMES.len(), rows, 1..4).prop_map(|m| m.into_iter().collect());
    prop::collection::vec(change, 3..10)
}

/// Applies a change: a file that is not live is added, one that is live is removed, or loses rows.
fn step(live: &mut Live, change: &Change, deleting: bool) -> Vec<String> {
    let mut words = Vec::new();
    for (file, rows) in change {
        let name = NAMES[*file];
        match live.get_mut(name) {
            None => {
                live.insert(name.to_owned(), BTreeSet::new());
                words.push(name.to_owned());
            }
            Some(deleted) if deleting && !rows.is_empty() && !deleted.is_superset(rows) => {
                deleted.extend(rows);
                let text: Vec<_> = deleted.iter().map(u64::to_string).collect();
                words.push(format!("{name}/{}", text.join(",")));
            }
            Some(_) => {
                live.remove(name);
                words.push(format!("-{name}"));
            }
        }
    }
    words
}

#[derive(Debug, Clone, Copy)]
struct Kind {
    format: TableFormat,
    version: Option<i32>,
}

fn source(kind: Kind, table: &Path) -> Box<dyn Source> {
    match kind.format {
        TableFormat::Delta => Box::new(DeltaSource::new(plain(table))),
        TableFormat::Iceberg => Box::new(IcebergSource::new(plain(table), IcebergOptions::default())),
        _ => Box::new(HudiSource::new(plain(table), HudiOptions::default())),
    }
}

fn target(kind: Kind, table: &Path) -> Option<Box<dyn Target>> {
    Some(match kind.format {
        TableFormat::Delta => return None,
        TableFormat::Iceberg => {
            let options = IcebergTargetOptions { format_version: kind.version, ..IcebergTargetOptions::default() };
            Box::new(IcebergTarget::new(plain(table), options))
        }
        _ => Box::new(HudiTarget::new(plain(table))),
    })
}

/// The files with their deletes resolved.
async fn resolved(source: &dyn Source, files: &BTreeMap<FilePath, DataFile>) -> Live {
    let mut found = Live::new();
    for file in files.values() {
        let name = file.path.as_str().rsplit('/').next().unwrap().trim_end_matches(".parquet").to_owned();
        found.insert(name, source.deleted_rows(file).await.unwrap().iter().collect());
    }
    found
}

/// Runs a history; returns how many of the replays were possible.
async fn check(kind: Kind, history: &[Change]) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table");
    let mut origin = Origin::new(&table);
    let (mut expected, mut versions) = (Live::new(), Vec::new());
    let source = || source(kind, &table);
    for change in history {
        let words = step(&mut expected, change, kind.format != TableFormat::Hudi);
        origin.step(&words.iter().map(String::as_str).collect::<Vec<_>>());
        origin.bring(target(kind, &table)).await;
        let source = source();
        let (state, files) = live(source.as_ref()).await.unwrap();
        assert_eq!(resolved(source.as_ref(), &files).await, expected, "{kind:?} after {words:?}");
        versions.push((state.version.id.clone(), files));
    }
    let source = source();
    let (_, head) = versions.last().unwrap();
    let mut replayed = 0;
    for (version, files) in &versions {
        let Some(ended) = replay(source.as_ref(), version.clone(), files.clone()).await.unwrap() else { continue };
        assert_eq!(ended.keys().collect::<Vec<_>>(), head.keys().collect::<Vec<_>>(), "{kind:?} from {version}");
        assert_eq!(resolved(source.as_ref(), &ended).await, expected, "{kind:?} from {version}");
        for (path, file) in &ended {
            let (counts, tuples) =
                ((file.record_count, head[path].record_count), (&file.partition, &head[path].partition));
            assert_eq!((counts.0, tuples.0), (counts.1, tuples.1), "{kind:?} {path:?} from {version}");
        }
        replayed += 1;
    }
    (replayed, versions.len())
}

#[test]
fn replaying_every_commit_of_random_histories_ends_at_the_snapshot() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let kinds = [
        Kind { format: TableFormat::Delta, version: None },
        Kind { format: TableFormat::Iceberg, version: Some(2) },
        Kind { format: TableFormat::Iceberg, version: Some(3) },
        Kind { format: TableFormat::Hudi, version: None },
    ];
    for kind in kinds {
        let totals = std::cell::Cell::new((0, 0));
        let config = ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() };
        let mut runner = proptest::test_runner::TestRunner::new(config);
        runner
            .run(&histories(), |history| {
                let (replayed, all) = runtime.block_on(check(kind, &history));
                let (sum, most) = totals.get();
                totals.set((sum + replayed, most + all));
                Ok(())
            })
            .unwrap();
        let (replayed, all) = totals.get();
        // A Hudi target archives at once what would hide a file that has come back.
        let needed = if kind.format == TableFormat::Hudi { all / 3 } else { all };
        assert!(replayed >= needed && replayed > 0, "{kind:?}: {replayed} of {all}");
    }
}
