//! There and back again: a table converted to another format, and from that alone to its own, has the same files, rows,
//! deletes, partitioning and schema, but for the losses of that pair, which `docs/CONVERSION.md` lists. Readers of the format
//! see the same rows.

use crate::corpus::{Case, cases, live, rows};
use crate::judged::current_metadata;
use crate::judges::{see, unzip};
use crate::to_iceberg::copy;
use crate::watched::plain;
use hoglake_formats::delta::{DeltaSource, DeltaTarget, DeltaTargetOptions};
use hoglake_formats::hudi::{HudiOptions, HudiSource, HudiTarget};
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource, IcebergTarget, IcebergTargetOptions};
use hoglake_formats::sync::{Error, Mode, Options, Result, Source, Target, UnsupportedDeletes, sync};
use hoglake_model::table::TableFormat::{self, Delta, Hudi, Iceberg};
use hoglake_model::table::{PartitionField, Primitive, Schema, TableState, Transform, Type, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What a pair loses on the way, and how many tables of the repository's corpus must come through.
struct Pair {
    formats: (TableFormat, TableFormat),
    /// Of Iceberg on the way: deletes are position-delete files in version 2, and vectors in 3.
    version: Option<i32>,
    losses: &'static [&'static str],
    at_least: usize,
}

const BYTES: &str = "byte becomes int";
const SHORTS: &str = "short becomes int";
const FIXED: &str = "fixed becomes binary";
const KEY: &str = "the key";
const PARTITION_NULLS: &str = "NOT NULL of partition columns";
/// Of a binary column that the files hold, or by a field that older files were not written with.
const IDENTITY: &str = "partitioning by identity";

/// Tables that their own readers do not read alike for reasons of their own.
const UNREAD: [(&str, &str); 2] = [
    ("duckdbice-partition_binary", "its files lack a column whose size its manifest tells"),
    ("duckdbice-uuid", "PyIceberg fails at predicates on uuids"),
];

const PAIRS: [Pair; 7] = [
    Pair { formats: (Delta, Iceberg), version: Some(2), losses: &[BYTES, SHORTS, PARTITION_NULLS], at_least: 30 },
    Pair { formats: (Delta, Iceberg), version: Some(3), losses: &[BYTES, SHORTS, PARTITION_NULLS], at_least: 30 },
    Pair { formats: (Delta, Hudi), version: None, losses: &[BYTES, SHORTS], at_least: 15 },
    Pair {
        formats: (Iceberg, Delta),
        version: None,
        losses: &[
            FIXED,
            KEY,
            PARTITION_NULLS,
            "partitioning by bucket",
            "partitioning by day",
            "partitioning by hour",
            IDENTITY,
            "partitioning by month",
            "partitioning by truncate",
            "partitioning by year",
        ],
        at_least: 15,
    },
    Pair { formats: (Iceberg, Hudi), version: None, losses: &[], at_least: 5 },
    Pair { formats: (Hudi, Delta), version: None, losses: &[KEY], at_least: 8 },
    Pair { formats: (Hudi, Iceberg), version: None, losses: &[], at_least: 8 },
];

fn source(format: TableFormat, at: &Path) -> Box<dyn Source> {
    match format {
        Delta => Box::new(DeltaSource::new(plain(at))),
        Iceberg => {
            Box::new(IcebergSource::new(plain(at), IcebergOptions { relocated: true, ..IcebergOptions::default() }))
        }
        _ => Box::new(HudiSource::new(plain(at), HudiOptions::default())),
    }
}

fn target(format: TableFormat, format_version: Option<i32>, at: &Path) -> Box<dyn Target> {
    match format {
        Delta => Box::new(DeltaTarget::new(plain(at), DeltaTargetOptions::default())),
        Iceberg => {
            Box::new(IcebergTarget::new(plain(at), IcebergTargetOptions { format_version, ..Default::default() }))
        }
        _ => Box::new(HudiTarget::new(plain(at))),
    }
}

async fn convert(from: TableFormat, to: TableFormat, version: Option<i32>, at: &Path, into: &Path) -> Result<()> {
    // Equality deletes become positions, which both sides hold.
    let options = Options {
        mode: Mode::Incremental,
        on_unsupported_deletes: UnsupportedDeletes::Materialize,
        ..Options::default()
    };
    sync(source(from, at).as_ref(), target(to, version, into).as_mut(), &options).await.map(drop)
}

/// The folder of a format's metadata.
fn metadata(format: TableFormat) -> &'static str {
    match format {
        Delta => "_delta_log",
        Iceberg => "metadata",
        _ => ".hoodie",
    }
}

/// What must come back of a file.
#[derive(Debug, PartialEq)]
struct Kept {
    rows: u64,
    deleted: Vec<u64>,
    partition: Vec<(String, Option<Value>)>,
}

/// Everything that is compared: the state, and the files by their place below `data`.
struct Shown {
    state: TableState,
    files: BTreeMap<String, Kept>,
    rows: u64,
}

async fn shown(format: TableFormat, at: &Path) -> Result<Shown> {
    let source = source(format, at);
    let (state, found) = live(source.as_ref()).await?;
    let total = rows(source.as_ref(), &found).await?;
    let mut files = BTreeMap::new();
    for (path, file) in &found {
        let count = match file.record_count {
            Some(count) => count,
            None => source.record_count(file).await?,
        };
        let spec = state.spec(file.spec_id).cloned().unwrap_or_default();
        let identity = |field: &PartitionField| field.transform == Transform::Identity;
        let values = spec.fields.iter().zip(&file.partition).filter(|(field, _)| identity(field));
        let kept = Kept {
            rows: count,
            deleted: source.deleted_rows(file).await?.iter().collect(),
            partition: values.map(|(field, value)| (field.name.clone(), value.clone())).collect(),
        };
        let place = path.as_str().trim_start_matches("data/").trim_start_matches("file://").to_owned();
        assert!(files.insert(place, kept).is_none(), "{path:?} is there twice");
    }
    Ok(Shown { state: TableState::clone(&state), files, rows: total })
}

/// One column: its type without its children, whether null is forbidden, and its comment.
type Column = (String, bool, Option<String>);

fn columns(schema: &Schema) -> BTreeMap<String, Column> {
    let mut found = BTreeMap::new();
    schema.walk(&mut |path, node| {
        let ty = match node.ty {
            Type::Primitive(primitive) => primitive.to_string(),
            Type::Struct(_) => "struct".to_owned(),
            Type::List(element) => format!("list, required: {}", element.required),
            Type::Map(entry) => format!("map, required: {}", entry.1.required),
        };
        let field = node.field;
        let column = (ty, field.is_some_and(|f| f.required), field.and_then(|f| f.doc.clone()));
        found.insert(path.join("."), column);
    });
    found
}

/// What the way there and back has lost, each kind once.
fn losses(before: &TableState, after: &TableState) -> BTreeSet<String> {
    let mut lost = BTreeSet::new();
    let names = |state: &TableState| state.schema.fields.iter().map(|f| f.name.clone()).collect::<Vec<_>>();
    if names(before) != names(after) {
        lost.insert(format!("columns {:?} become {:?}", names(before), names(after)));
    }
    let (then, now) = (columns(&before.schema), columns(&after.schema));
    if !then.keys().eq(now.keys()) {
        lost.insert("nested columns differ".to_owned());
    }
    let by: Vec<String> = spec(before).into_iter().map(|(column, _)| column).collect();
    for (path, (ty, required, doc)) in &then {
        let Some((new_ty, new_required, new_doc)) = now.get(path) else { continue };
        if ty != new_ty {
            lost.insert(format!("{} becomes {}", kind(ty), kind(new_ty)));
        }
        if *required && !new_required {
            let of = if by.contains(path) { "of partition columns" } else { "of columns" };
            lost.insert(format!("NOT NULL {of}"));
        } else if required != new_required {
            lost.insert(format!("`{path}` becomes NOT NULL"));
        }
        if doc != new_doc {
            lost.insert("comments".to_owned());
        }
    }
    for field in spec(before) {
        if !spec(after).contains(&field) {
            let kind = field.1.to_string();
            lost.insert(format!("partitioning by {}", kind.split('[').next().unwrap()));
        }
    }
    if spec(after).len() > spec(before).len() {
        lost.insert("partitioning is added".to_owned());
    }
    let keys = |state: &TableState| {
        let paths = state.schema.identifier_fields.iter().filter_map(|id| state.schema.path(*id));
        paths.map(|path| path.join(".")).collect::<BTreeSet<_>>()
    };
    if keys(before) != keys(after) {
        lost.insert("the key".to_owned());
    }
    lost
}

/// A type without its parameters.
fn kind(ty: &str) -> &str {
    ty.split(['(', '[']).next().unwrap()
}

/// The columns and transforms of the spec of new files.
fn spec(state: &TableState) -> Vec<(String, Transform)> {
    let spec = state.spec(state.default_spec).cloned().unwrap_or_default();
    let named = |field: &PartitionField| {
        let path = state.schema.path(field.source).map(|path| path.join("."));
        (path.unwrap_or_default(), field.transform)
    };
    spec.fields.iter().map(named).collect()
}

/// The table of a case, in a folder of its own.
fn place(case: &Case, folder: &Path) -> PathBuf {
    let zip = case.root.with_file_name("table.zip");
    let table = folder.join("table");
    if zip.exists() {
        unzip(&zip, folder);
    } else {
        copy(&case.root, &table);
    }
    table
}

/// What the judges are asked to read: the table of a case as it was, copied to `original`, and as it came back.
fn to_read(format: TableFormat, case: &Case, original: &Path, back: &Path) -> Vec<(&'static str, String)> {
    let text = |path: PathBuf| path.to_str().unwrap().to_owned();
    if !matches!(format, Delta | Iceberg) {
        return Vec::new();
    }
    copy(&case.root, original);
    match format {
        Delta => vec![("delta rows", text(original.to_owned())), ("delta rows", text(back.to_owned()))],
        _ => vec![
            ("iceberg rows", text(original.join(current_metadata(case)))),
            ("iceberg", text(back.join("metadata/v1.metadata.json"))),
        ],
    }
}

/// Whether a type of the schema is read as another by one of the engines that compare rows.
fn has(schema: &Schema, what: Primitive) -> bool {
    let mut found = false;
    schema.walk(&mut |_, node| found |= node.ty.primitive() == Some(what));
    found
}

#[tokio::test]
async fn there_and_back_again_the_table_is_the_same() {
    let mut failures = Vec::new();
    for Pair { formats: (from, to), version, losses: declared, at_least } in PAIRS {
        let name = from.as_str().to_lowercase();
        let (mut lost, mut through) = (BTreeMap::new(), 0);
        let (mut asked, mut names, mut folders) = (Vec::new(), Vec::new(), Vec::new());
        for case in cases(&name).into_iter().filter(|case| case.expected["expect"] == "read") {
            let folder = tempfile::tempdir().unwrap();
            let table = place(&case, folder.path());
            let what = format!("{} from {from} to {to} and back", case.name);
            let before = match shown(from, &table).await {
                Ok(before) => before,
                // Other tests know which these are.
                Err(_) => continue,
            };
            // A Hudi table begins where its files lie.
            let there = match to == Hudi && table.join("data").is_dir() {
                true => table.join("data"),
                false => table.clone(),
            };
            match convert(from, to, version, &table, &there).await {
                Ok(()) => {}
                Err(Error::Unsupported(_)) => continue,
                Err(e) => {
                    failures.push(format!("{what}: {e}"));
                    continue;
                }
            }
            std::fs::rename(table.join(metadata(from)), folder.path().join("before")).unwrap();
            match convert(to, from, None, &there, &there).await {
                Ok(()) => {}
                Err(Error::Unsupported(_)) => continue,
                Err(e) => {
                    failures.push(format!("{what}: {e}"));
                    continue;
                }
            }
            let after = shown(from, &there).await.unwrap_or_else(|e| panic!("{what}: {e}"));
            through += 1;
            let mut before = before;
            // What is no part of the layout any more is told as a loss.
            let by: Vec<_> = spec(&after.state).into_iter().map(|(column, _)| column).collect();
            before.files.values_mut().for_each(|kept| kept.partition.retain(|(column, _)| by.contains(column)));
            if before.files != after.files || before.rows != after.rows {
                let differing = before.files.iter().find(|(path, kept)| after.files.get(*path) != Some(kept));
                let other = differing.and_then(|(path, _)| after.files.get(path));
                failures.push(format!("{what}: {differing:?} became {other:?}"));
            }
            for loss in losses(&before.state, &after.state) {
                lost.entry(loss).or_insert_with(|| case.name.clone());
            }
            let unread = UNREAD.iter().any(|(name, _)| *name == case.name);
            if !unread && !has(&before.state.schema, Primitive::Variant) {
                asked.extend(to_read(from, &case, &folder.path().join("original"), &there));
                names.push((what, case.expected["rows"].as_u64().unwrap()));
            }
            folders.push(folder);
        }
        // Its own readers see the rows that they saw before.
        let of_judges = tempfile::tempdir().unwrap();
        let mut compared = 0;
        for ((what, rows), seen) in names.iter().zip(see(of_judges.path(), &asked).chunks(2)) {
            let complete = |reader: &&str| seen[0][*reader].as_array().is_some_and(|found| found.len() as u64 == *rows);
            let readers: Vec<_> = ["delta-rs", "pyiceberg", "duckdb"].into_iter().filter(complete).collect();
            let able: Vec<_> = readers.iter().filter(|reader| seen[1][**reader].is_array()).collect();
            if able.is_empty() && !readers.is_empty() {
                failures.push(format!("{what}: no reader opens it any more: {}", seen[1]["error"]));
            }
            for reader in able {
                compared += 1;
                let (then, now) = (&seen[0][*reader], &seen[1][*reader]);
                if then != now {
                    failures.push(format!("{what}: {reader} sees {now} instead of {then}"));
                }
            }
        }
        assert!(from == Hudi || compared >= at_least, "{from} to {to}: readers were asked {compared} times");
        let undeclared: Vec<_> = lost.iter().filter(|(loss, _)| !declared.contains(&loss.as_str())).collect();
        let missing: Vec<_> = declared.iter().filter(|loss| !lost.contains_key(**loss)).collect();
        if !undeclared.is_empty() || !missing.is_empty() {
            failures.push(format!("{from} to {to}: lost {undeclared:?} undeclared; nothing lost of {missing:?}"));
        }
        if through < at_least {
            failures.push(format!("{from} to {to}: only {through} tables came through"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Files of a Delta table do not hold what it is partitioned by, and a log is not partitioned by binary columns: on the way back
/// the values would be lost.
#[tokio::test]
async fn values_that_only_the_partition_has_are_refused_rather_than_lost() {
    let folder = tempfile::tempdir().unwrap();
    let case = crate::corpus::case("delta", "dat-multi_partitioned");
    let table = place(&case, folder.path());
    convert(Delta, Iceberg, None, &table, &table).await.unwrap();
    let seen = see(folder.path(), &[("iceberg", table.join("metadata/v1.metadata.json").to_str().unwrap().to_owned())]);
    assert_eq!(seen[0]["pyiceberg"].as_array().map(Vec::len), Some(2), "{}", seen[0]["error"]);
    std::fs::remove_dir_all(table.join("_delta_log")).unwrap();
    let refused = convert(Iceberg, Delta, None, &table, &table).await.unwrap_err();
    let said = refused.to_string();
    assert!(
        matches!(refused, Error::Unsupported(_)) && said.contains("data") && said.contains("does not hold"),
        "{said}"
    );
    assert!(!table.join("_delta_log").exists());
}
