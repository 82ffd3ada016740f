//! What must hold for every pair of source and target: crashes between any two writes lose nothing, of two converters
//! every commit is made once.

use crate::origin::Origin;
use crate::to_iceberg::copy;
use crate::watched::{Watched, plain, watched};
use hoglake_formats::delta::{DeltaSource, DeltaTarget, DeltaTargetOptions};
use hoglake_formats::hudi::{HudiOptions, HudiSource, HudiTarget};
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource, IcebergTarget, IcebergTargetOptions};
use hoglake_formats::sync::{Error, Mode, Options, Outcome, Plan, Report, Result, Source, TableRoot, Target, sync};
use hoglake_model::table::TableFormat::{self, Delta, Hudi, Iceberg};
use std::path::{Path, PathBuf};

pub const PAIRS: [(TableFormat, TableFormat); 6] =
    [(Delta, Iceberg), (Delta, Hudi), (Iceberg, Delta), (Iceberg, Hudi), (Hudi, Delta), (Hudi, Iceberg)];

pub fn source(format: TableFormat, root: TableRoot) -> Box<dyn Source> {
    match format {
        Delta => Box::new(DeltaSource::new(root)),
        // The tables here are copied to where they are read.
        Iceberg => Box::new(IcebergSource::new(root, IcebergOptions { relocated: true, ..IcebergOptions::default() })),
        _ => Box::new(HudiSource::new(root, HudiOptions::default())),
    }
}

pub fn target(format: TableFormat, root: TableRoot) -> Box<dyn Target> {
    target_of(format, None, root)
}

fn target_of(format: TableFormat, format_version: Option<i32>, root: TableRoot) -> Box<dyn Target> {
    match format {
        Delta => Box::new(DeltaTarget::new(root, DeltaTargetOptions { checkpoint_interval: 2, ..Default::default() })),
        Iceberg => Box::new(IcebergTarget::new(root, IcebergTargetOptions { format_version, ..Default::default() })),
        _ => Box::new(HudiTarget::new(root)),
    }
}

/// Brings an origin into the format, where it has not got that already.
pub async fn as_format(origin: &Origin, format: TableFormat) {
    origin.bring((format != Delta).then(|| target(format, plain(&origin.table)))).await;
}

/// A live file: its name, what is said of its rows, and which of them are deleted.
type Live = (String, Option<u64>, Vec<u64>);

/// The live files of a table by name; nothing when there is no table yet.
async fn live(format: TableFormat, table: &Path) -> Vec<Live> {
    let source = source(format, plain(table));
    let files = match crate::corpus::live(source.as_ref()).await {
        Ok((_, files)) => files,
        Err(Error::NotATable { .. }) => return Vec::new(),
        Err(other) => panic!("{format}: {other}"),
    };
    let mut found = Vec::new();
    for file in files.values() {
        let name = file.path.as_str().rsplit('/').next().unwrap().trim_end_matches(".parquet");
        let deleted = source.deleted_rows(file).await.unwrap().iter().collect();
        found.push((name.to_owned(), file.record_count, deleted));
    }
    found.sort();
    found
}

/// What is live as text: `ab/1,2` are two files, the second without two of its rows.
fn names(files: &[Live]) -> String {
    let deleted = |rows: &[u64]| rows.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let text =
        |(name, _, rows): &Live| if rows.is_empty() { name.clone() } else { format!("{name}/{}", deleted(rows)) };
    files.iter().map(text).collect()
}

/// A commit of the history, and what the table shows after it.
type Step = (&'static [&'static str], &'static str);

/// The history of a pair: an append, a removal, an update that rewrites a file, an overwrite, a partition dropped; and
/// where both sides hold row-level deletes those, an update by them and a file that gets them with others.
const APPENDED: Step = (&["a", "b"], "ab");
const PLAIN: [Step; 5] = [
    (&["c", "-a"], "bc"),
    (&["-b", "d"], "cd"),
    (&["-c", "-d", "e", "f", "g"], "efg"),
    (&["-e", "-g"], "f"),
    (&["h"], "fh"),
];
const DELETING: [Step; 7] = [
    (&["c", "-a"], "bc"),
    (&["b/1,3", "c/0"], "b/1,3c/0"),
    (&["b/1,2,3", "d"], "b/1,2,3c/0d"),
    (&["-c", "b/4"], "b/4d"),
    (&["-b", "-d", "e", "f", "g"], "efg"),
    (&["f/0", "e/1"], "e/1f/0g"),
    (&["-e", "-g"], "f/0"),
];

fn history(pair: (TableFormat, TableFormat)) -> &'static [Step] {
    if pair.0 == Hudi || pair.1 == Hudi { &PLAIN } else { &DELETING }
}

/// A table of the pair's source format as it was early in its history, and as it is later.
async fn early_and_late(
    folder: &Path,
    pair: (TableFormat, TableFormat),
    format_version: Option<i32>,
) -> (PathBuf, PathBuf) {
    let mut origin = Origin::new(&folder.join("origin"));
    let follow = async |origin: &Origin| {
        let target = || target_of(pair.0, format_version, plain(&origin.table));
        origin.bring((pair.0 != Delta).then(target)).await;
    };
    origin.step(APPENDED.0);
    follow(&origin).await;
    let (early, late) = (folder.join("early"), folder.join("late"));
    origin.save(&early, pair.0);
    for (step, _) in history(pair) {
        origin.step(step);
    }
    follow(&origin).await;
    origin.save(&late, pair.0);
    (early, late)
}

pub async fn run(pair: (TableFormat, TableFormat), root: TableRoot) -> Result<Report> {
    run_as(pair, None, root).await
}

async fn run_as(pair: (TableFormat, TableFormat), format_version: Option<i32>, root: TableRoot) -> Result<Report> {
    let source = source(pair.0, root.clone());
    sync(source.as_ref(), target_of(pair.1, format_version, root).as_mut(), &Options::default()).await
}

/// The version that the hint of an Iceberg table names.
fn hint(table: &Path) -> i64 {
    std::fs::read_to_string(table.join("metadata/version-hint.text")).unwrap().parse().unwrap()
}

/// The newest version of an Iceberg table.
fn newest(table: &Path) -> i64 {
    let names = std::fs::read_dir(table.join("metadata")).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    let version = |name: String| name.strip_prefix('v')?.strip_suffix(".metadata.json")?.parse().ok();
    names.filter_map(version).max().unwrap()
}

#[tokio::test]
async fn a_hint_that_a_crash_left_behind_is_mended() {
    let folder = tempfile::tempdir().unwrap();
    let (early, late) = early_and_late(folder.path(), (Delta, Iceberg), None).await;
    let (table, pair) = (folder.path().join("table"), (Delta, Iceberg));
    for state in [&early, &late] {
        copy(state, &table);
        run(pair, plain(&table)).await.unwrap();
    }
    let (path, version) = (table.join("metadata/version-hint.text"), newest(&table));
    assert!(version > 2 && hint(&table) == version);
    let store = Watched::new(usize::MAX);
    let again = async |options: Options| {
        let mut target = target(Iceberg, watched(&store, &table));
        sync(source(Delta, plain(&table)).as_ref(), target.as_mut(), &options).await.unwrap().outcome
    };
    for left in
        [Some("1".to_owned()), Some((version - 1).to_string()), Some("99".to_owned()), Some("?".to_owned()), None]
    {
        let leave = || match &left {
            Some(text) => std::fs::write(&path, text).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        };
        leave();
        // A dry run changes nothing.
        assert_eq!(again(Options { dry_run: true, ..Options::default() }).await, Outcome::NoChange);
        assert_eq!(std::fs::read_to_string(&path).ok(), left);
        assert_eq!(again(Options::default()).await, Outcome::NoChange);
        assert_eq!(hint(&table), version, "{left:?}");
        store.taken();
        again(Options::default()).await;
        assert_eq!(store.taken(), 3, "a true hint is left alone");
        // One that finds nothing new after comparing all says so and mends, too.
        leave();
        again(Options { mode: Mode::Full, ..Options::default() }).await;
        assert_eq!((hint(&table), newest(&table)), (version, version), "{left:?}");
    }
}

/// A table without a hint whose newest metadata is one that a catalog named: no hint can name it.
#[tokio::test]
async fn the_metadata_of_a_catalog_gets_no_hint() {
    let folder = tempfile::tempdir().unwrap();
    let (table, _) = early_and_late(folder.path(), (Delta, Iceberg), None).await;
    run((Delta, Iceberg), plain(&table)).await.unwrap();
    let (metadata, hint) = (table.join("metadata"), table.join("metadata/version-hint.text"));
    let named = metadata.join("00002-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json");
    std::fs::copy(metadata.join("v1.metadata.json"), &named).unwrap();
    std::fs::remove_file(&hint).unwrap();
    let mut target = target(Iceberg, plain(&table));
    let refused = target.load().await.unwrap_err().to_string();
    assert!(refused.contains("belongs to a catalog"), "{refused}");
    target.mend().await;
    assert!(!hint.exists());
    assert!(run((Delta, Iceberg), plain(&table)).await.is_err() && !hint.exists());
    // Once that is gone, the table is one without a catalog again, and gets its hint.
    std::fs::remove_file(&named).unwrap();
    target.load().await.unwrap();
    target.mend().await;
    assert_eq!(std::fs::read_to_string(&hint).unwrap(), "1");
}

#[tokio::test]
async fn a_crash_between_any_two_writes_loses_nothing() {
    // Position deletes in files of their own and vectors in Puffin files, on either side.
    let vectors = [(Delta, Iceberg), (Iceberg, Delta)].map(|pair| (pair, Some(3)));
    for (pair, version) in PAIRS.into_iter().map(|pair| (pair, None)).chain(vectors) {
        let (from, to) = pair;
        let folder = tempfile::tempdir().unwrap();
        let (early, late) = early_and_late(folder.path(), pair, version).await;
        let (steps, last) = (history(pair), history(pair).last().unwrap().1);
        let whole = folder.path().join("whole");
        copy(&early, &whole);
        run_as(pair, version, plain(&whole)).await.unwrap();
        let created = live(to, &whole).await;
        copy(&late, &whole);
        let report = run_as(pair, version, plain(&whole)).await.unwrap();
        assert_eq!(report.steps.len(), steps.len(), "{from} to {to}");
        let followed = live(to, &whole).await;
        assert_eq!((names(&created).as_str(), names(&followed).as_str()), (APPENDED.1, last), "{from} to {to}");

        for follows in [false, true] {
            let mut came_through = None;
            for writes in 0..150 {
                let table = folder.path().join(format!("crash-{follows}-{writes}"));
                copy(&early, &table);
                if follows {
                    run_as(pair, version, plain(&table)).await.unwrap();
                    copy(&late, &table);
                }
                let outcome = run_as(pair, version, watched(&Watched::new(writes), &table)).await;
                // Readers see a commit or none, never a half.
                let between = names(&live(to, &table).await);
                let mut possible = vec![APPENDED.1];
                match follows {
                    true => possible.extend(steps.iter().map(|(_, shown)| *shown)),
                    false => possible.push(""),
                }
                let place = format!("{from} to {to}, {version:?}, {writes} writes, follows: {follows}");
                assert!(possible.contains(&between.as_str()), "{place}: {between}");
                run_as(pair, version, plain(&table)).await.unwrap_or_else(|e| panic!("{place}: {e}"));
                assert_eq!(&live(to, &table).await, if follows { &followed } else { &created }, "{place}");
                assert_eq!(run_as(pair, version, plain(&table)).await.unwrap().plan, Plan::NoChange, "{place}");
                if to == Iceberg {
                    assert_eq!(hint(&table), newest(&table), "{place}");
                }
                std::fs::remove_dir_all(&table).unwrap();
                // The last writes are hints, whose failure is none.
                if outcome.is_ok() {
                    came_through = Some(writes);
                    break;
                }
            }
            let writes = came_through.unwrap_or_else(|| panic!("{from} to {to} never came through"));
            assert!(
                writes >= if follows { steps.len() } else { 1 },
                "{from} to {to}: {writes} writes cannot be enough"
            );
        }
    }
}

#[tokio::test]
async fn of_two_converters_one_wins_and_the_other_plans_again() {
    for pair in PAIRS {
        let (from, to) = pair;
        let folder = tempfile::tempdir().unwrap();
        let (early, late) = early_and_late(folder.path(), pair, None).await;
        for round in 0..5 {
            let table = folder.path().join(format!("raced-{round}"));
            copy(&early, &table);
            let (one, two) = tokio::join!(run(pair, plain(&table)), run(pair, plain(&table)));
            let created = one.unwrap().steps.len() + two.unwrap().steps.len();
            assert!((1..=2).contains(&created), "{from} to {to}");
            assert_eq!(names(&live(to, &table).await), "ab", "{from} to {to}");
            copy(&late, &table);
            let (one, two) = tokio::join!(run(pair, plain(&table)), run(pair, plain(&table)));
            let made = one.unwrap().steps.len() + two.unwrap().steps.len();
            assert_eq!(made, history(pair).len(), "{from} to {to}: every commit is made exactly once");
            assert_eq!(names(&live(to, &table).await), history(pair).last().unwrap().1, "{from} to {to}");
        }
    }
}

#[tokio::test]
async fn a_file_that_is_stated_again_is_live_once() {
    for to in [Iceberg, Hudi] {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("table");
        let mut origin = Origin::new(&table);
        origin.step(&["a", "b"]);
        run((Delta, to), plain(&table)).await.unwrap();
        origin.step(&["a", "c"]);
        origin.step(&["-c", "d"]);
        origin.step(&["c", "b"]);
        let report = run((Delta, to), plain(&table)).await.unwrap();
        let added: Vec<_> = report.steps.iter().map(|s| s.committed.added).collect();
        assert_eq!((report.plan, added), (Plan::Incremental, vec![1, 1, 1]), "{to}");
        assert_eq!(names(&live(to, &table).await), "abcd", "{to}");
        // Once more, on top of what was replayed.
        origin.step(&["d"]);
        let report = run((Delta, to), plain(&table)).await.unwrap();
        assert_eq!((report.plan, names(&live(to, &table).await)), (Plan::Incremental, "abcd".to_owned()), "{to}");
    }
}
