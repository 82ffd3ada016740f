//! Requests to the store: counted, the same for any size of a table, and as many as the commits ask for.

use crate::origin::Origin;
use crate::pairs::{PAIRS, as_format, run, source, target};
use crate::to_iceberg::copy;
use crate::watched::{Watched, plain, watched};
use hoglake_formats::sync::{Options, Plan, sync};
use hoglake_model::table::TableFormat::{self, Delta, Hudi, Iceberg};
use std::path::Path;

#[tokio::test]
async fn requests_do_not_grow_with_the_table() {
    for pair in PAIRS {
        let (from, to) = pair;
        let (mut incremental, mut idle) = (Vec::new(), Vec::new());
        for files in [10, 500] {
            let folder = tempfile::tempdir().unwrap();
            let table = folder.path().join("table");
            let mut origin = Origin::new(&table);
            let all: Vec<_> = (0..files).map(|n| format!("f{n:04}")).collect();
            origin.step(&all.iter().map(String::as_str).collect::<Vec<_>>());
            as_format(&origin, from).await;
            if to == Delta {
                std::fs::rename(table.join("_delta_log"), folder.path().join("log")).unwrap();
            }
            run(pair, plain(&table)).await.unwrap();

            // Nothing to do: what the target is asked, and what the source is.
            let (store, of_source) = (Watched::new(usize::MAX), Watched::new(usize::MAX));
            let source = source(from, watched(&of_source, &table));
            let report = sync(source.as_ref(), target(to, watched(&store, &table)).as_mut(), &Options::default()).await;
            assert_eq!(report.unwrap().plan, Plan::NoChange, "{from} to {to}");
            let (asked, read) = (store.taken(), of_source.taken());
            assert!(asked <= 3, "{from} to {to}: {asked} requests for a target that is up to date");
            idle.push((asked, read));

            let target_log = folder.path().join("target");
            if to == Delta {
                std::fs::rename(table.join("_delta_log"), &target_log).unwrap();
                std::fs::rename(folder.path().join("log"), table.join("_delta_log")).unwrap();
            }
            origin.step(&["new", "-f0003"]);
            as_format(&origin, from).await;
            if to == Delta {
                std::fs::remove_dir_all(table.join("_delta_log")).unwrap();
                std::fs::rename(&target_log, table.join("_delta_log")).unwrap();
            }
            store.taken();
            let report = run(pair, watched(&store, &table)).await.unwrap();
            assert_eq!((report.plan, report.steps.len()), (Plan::Incremental, 1), "{from} to {to}");
            incremental.push(store.taken());
        }
        assert_eq!(incremental[0], incremental[1], "{from} to {to}");
        assert_eq!(idle[0], idle[1], "{from} to {to}: nothing to do costs the same for any table");
        let most = match from {
            Delta => 4,
            Iceberg => 3,
            _ => 3,
        };
        assert!(idle[0].1 <= most, "{from} to {to}: {} requests to see that the source has not changed", idle[0].1);
        assert!(incremental[0] <= 32, "{from} to {to}: {incremental:?}");
    }
}

#[tokio::test]
async fn requests_grow_with_the_commits_only() {
    for pair in PAIRS {
        let (from, to) = pair;
        let folder = tempfile::tempdir().unwrap();
        let mut origin = Origin::new(&folder.path().join("origin"));
        origin.step(&["a"]);
        as_format(&origin, from).await;
        let table = folder.path().join("table");
        origin.save(&table, from);
        run(pair, plain(&table)).await.unwrap();
        let mut totals = Vec::new();
        // Together fewer than a Hudi timeline keeps.
        for commits in [12, 12] {
            for n in 0..commits {
                origin.step(&[&format!("f{}-{n}", totals.len())]);
            }
            as_format(&origin, from).await;
            let fresh = folder.path().join(format!("fresh-{}", totals.len()));
            origin.save(&fresh, from);
            copy(&fresh, &table);
            let store = Watched::new(usize::MAX);
            let report = run(pair, watched(&store, &table)).await.unwrap();
            assert_eq!(report.plan, Plan::Incremental, "{from} to {to}");
            assert_eq!(report.steps.len(), commits, "{from} to {to}");
            totals.push(store.taken());
        }
        // Twice the history costs no more for as many commits.
        assert!(totals.iter().all(|t| *t <= 12 * 16 + 40), "{from} to {to}: {totals:?}");
    }
}

/// What it costs to replay so many commits of a table of 200 files, after each of which one file comes, and another goes or
/// loses a row.
async fn requests_of(pair: (TableFormat, TableFormat), deleting: bool, commits: &[usize], folder: &Path) -> Vec<usize> {
    let mut origin = Origin::new(&folder.join("origin"));
    let names: Vec<_> = (0..200).map(|n| format!("base{n:03}")).collect();
    origin.step(&names.iter().map(String::as_str).collect::<Vec<_>>());
    as_format(&origin, pair.0).await;
    // Each time at the same place: a target that was copied elsewhere is written anew.
    let (early, table) = (folder.join("early"), folder.join("table"));
    origin.save(&table, pair.0);
    run(pair, plain(&table)).await.unwrap();
    copy(&table, &early);
    let (mut made, mut asked) = (0, Vec::new());
    for wanted in commits {
        while made < *wanted {
            let other = if deleting { format!("base{made:03}/0") } else { format!("-base{made:03}") };
            origin.step(&[&format!("f{made:03}"), &other]);
            made += 1;
        }
        as_format(&origin, pair.0).await;
        let late = folder.join(format!("late-{made}"));
        origin.save(&late, pair.0);
        std::fs::remove_dir_all(&table).unwrap();
        copy(&early, &table);
        copy(&late, &table);
        let store = Watched::new(usize::MAX);
        let report = run(pair, watched(&store, &table)).await.unwrap();
        assert_eq!((report.plan, report.steps.len()), (Plan::Incremental, made), "{pair:?}");
        asked.push(store.taken());
    }
    asked
}

#[tokio::test]
async fn a_hundred_commits_cost_as_many_requests_each_as_sixty() {
    // In per cent, how far the later commits may cost more: merged manifests and archived instants come in their own rhythm.
    let exactly = [(Delta, Iceberg, false), (Iceberg, Delta, false), (Iceberg, Delta, true)].map(|case| (case, 0));
    let about = [(Delta, Iceberg, true), (Delta, Hudi, false), (Iceberg, Hudi, false)].map(|case| (case, 5));
    for ((from, to, deleting), more) in exactly.into_iter().chain(about) {
        let folder = tempfile::tempdir().unwrap();
        let asked = requests_of((from, to), deleting, &[20, 60, 100], folder.path()).await;
        let (first, second) = (asked[1] - asked[0], asked[2] - asked[1]);
        assert!(
            second <= first * (100 + more) / 100 && first <= second * (100 + more) / 100,
            "{from} to {to}, deleting: {deleting}: {asked:?}"
        );
        assert!(asked[2] <= 100 * 32, "{from} to {to}: {asked:?}");
    }
    // A Hudi timeline keeps no hundred commits.
    for to in [Delta, Iceberg] {
        let folder = tempfile::tempdir().unwrap();
        let asked = requests_of((Hudi, to), false, &[8, 16, 24], folder.path()).await;
        assert_eq!(asked[2] - asked[1], asked[1] - asked[0], "HUDI to {to}: {asked:?}");
    }
}
