//! Every table of the corpus in one format converted to another, at once and commit by commit, and read by engines that
//! others wrote.

use crate::corpus::{Case, cases};
use crate::judges::see;
use crate::to_iceberg::copy;
use hoglake_formats::sync::{BoxFuture, Error, Outcome, Plan, Report, Result};
use serde_json::Value;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// What is converted, and how.
pub struct Trial {
    pub source: &'static str,
    pub target: &'static str,
    /// The readers of the target.
    pub readers: [&'static str; 2],
    /// Tables in which one of the readers finds something else, with the reason.
    pub exceptions: &'static [(&'static str, &'static str)],
    /// Tables that are refused before anything is written, with a part of what is said.
    pub refused: &'static [(&'static str, &'static str)],
    pub convert: fn(&Path) -> BoxFuture<'_, Result<Report>>,
    /// Converts the table as it was early, then lets the target follow; `None` when there is no earlier version.
    pub follow: fn(&Path) -> BoxFuture<'_, Option<Result<Report>>>,
    /// How many tables must have a history that is followed.
    pub histories: usize,
}

struct Converted {
    case: Case,
    table: PathBuf,
    metadata: String,
}

fn reason<'a>(list: &[(&str, &'a str)], name: &str) -> Option<&'a str> {
    list.iter().find(|(listed, _)| *listed == name).map(|(_, reason)| *reason)
}

impl Trial {
    /// Runs it. Every difference that any reader sees is a failure, and so is one that was expected and is not there.
    pub async fn run(&self) {
        let folder = tempfile::tempdir().unwrap();
        let (mut tables, mut failures, mut replayed) = (Vec::new(), Vec::new(), 0);
        for case in cases(self.source).into_iter().filter(|c| c.expected["expect"] == "read") {
            let table = folder.path().join(&case.name);
            copy(&case.root, &table);
            match (self.convert)(&table).await {
                Ok(report) => {
                    assert_eq!(report.outcome, Outcome::Committed, "{}", case.name);
                    let again = (self.convert)(&table).await.unwrap();
                    assert_eq!((again.plan, &again.metadata_path), (Plan::NoChange, &report.metadata_path));
                    failures.extend(reason(self.refused, &case.name).map(|_| format!("{}: is not refused", case.name)));
                    tables.push(Converted { case, table, metadata: report.metadata_path.unwrap() });
                }
                Err(error) => {
                    failures.extend(self.not_refused(&case.name, &table, &error));
                    continue;
                }
            }
        }
        for case in cases(self.source).into_iter().filter(|c| c.expected["expect"] == "read") {
            let table = folder.path().join(format!("{}-followed", case.name));
            copy(&case.root, &table);
            match (self.follow)(&table).await {
                None => {}
                Some(Ok(report)) => {
                    replayed += usize::from(report.plan == Plan::Incremental);
                    tables.push(Converted { case, table, metadata: report.metadata_path.unwrap() });
                }
                Some(Err(error)) if reason(self.refused, &case.name).is_some_and(|r| error.to_string().contains(r)) => {
                }
                Some(Err(error)) => failures.push(format!("{} followed: {error}", case.name)),
            }
        }
        assert!(replayed >= self.histories, "only {replayed} tables were followed commit by commit");
        failures.extend(self.differences(folder.path(), &tables));
        let (failed, all) = (failures.len(), tables.len());
        assert!(failed == 0, "{failed} of {all}:\n{}", failures.join("\n"));
    }

    /// What is wrong with a refusal.
    fn not_refused(&self, name: &str, table: &Path, error: &Error) -> Option<String> {
        let expected = reason(self.refused, name).is_some_and(|reason| error.to_string().contains(reason));
        let refusal =
            matches!(error, Error::Unsupported(_) | Error::UnsupportedSource { .. } | Error::Malformed { .. });
        let log = table.join(if self.target == "delta" { "_delta_log" } else { "metadata/v1.metadata.json" });
        if !refusal || !expected {
            return Some(format!("{name}: {error}"));
        }
        log.exists().then(|| format!("{name}: refused, yet something was written"))
    }

    fn differences(&self, folder: &Path, tables: &[Converted]) -> Vec<String> {
        let mut asked = Vec::new();
        for Converted { case, table, metadata } in tables {
            let path = table.to_str().unwrap().to_owned();
            asked.push((self.target, if self.target == "iceberg" { metadata.clone() } else { path.clone() }));
            asked.push(match self.source {
                "iceberg" => ("iceberg rows", format!("{path}/{}", current_metadata(case))),
                _ => ("delta rows", path),
            });
            asked.push(("expected rows", case.root.with_file_name("expected.json").to_str().unwrap().to_owned()));
        }
        let (mut failures, mut excepted) = (Vec::new(), HashSet::new());
        for (table, seen) in tables.iter().zip(see(folder, &asked).chunks(3)) {
            let wrong = self.wrong(&table.case, &seen[0], &seen[1..]);
            if wrong.is_empty() {
                continue;
            }
            match reason(self.exceptions, &table.case.name) {
                None => failures.push(format!("{}: {}", table.table.file_name().unwrap().display(), wrong.join("; "))),
                Some(_) => drop(excepted.insert(table.case.name.as_str())),
            }
        }
        for (name, reason) in self.exceptions {
            if tables.iter().any(|table| table.case.name == *name) && !excepted.contains(name) {
                failures.push(format!("{name}: no reader finds anything else, though {reason}"));
            }
        }
        failures
    }

    /// How the target differs from what the source's own readers see, or failing that from what the corpus has noted.
    fn wrong(&self, case: &Case, target: &Value, sources: &[Value]) -> Vec<String> {
        let mut wrong: Vec<String> = target["error"].as_str().map(str::to_owned).into_iter().collect();
        let expected = case.expected["rows"].as_u64().unwrap();
        let own = ["delta-rs", "pyiceberg", "duckdb", "expected"];
        let read = own.iter().flat_map(|reader| sources.iter().map(move |source| &source[reader]));
        let complete = |rows: &&Value| rows.as_array().is_some_and(|rows| rows.len() as u64 == expected);
        let known: Vec<&Value> = read.filter(complete).collect();
        if known.is_empty() && expected > 0 && !COUNTED.contains(&case.name.as_str()) {
            wrong.push(format!("no reader sees {expected} rows in the source: {}", sources[0]["error"]));
        }
        for reader in self.readers {
            let rows = target[reader].as_array().map_or(0, Vec::len) as u64;
            if rows != expected {
                wrong.push(format!("{reader} sees {rows} rows instead of {expected}"));
            } else if !known.is_empty() && !known.contains(&&target[reader]) {
                wrong.push(format!("{reader} sees {} instead of {}", target[reader][0], known[0][0]));
            }
        }
        let [one, other] = self.readers.map(|reader| &target[reader]);
        if known.is_empty() && one != other {
            wrong.push(format!("one reader sees {}, the other {}", one[0], other[0]));
        }
        wrong.extend(target["problems"].as_array().into_iter().flatten().map(|p| p.as_str().unwrap().to_owned()));
        wrong
    }
}

/// Tables that no reader of their own format opens, and whose rows the corpus has only counted.
const COUNTED: [&str; 3] = ["dremio-nation", "duckdbice-v1_inline_manifests", "impala-airports_parquet"];

/// The metadata file that those who collected the corpus took for the newest.
pub fn current_metadata(case: &Case) -> &str {
    let state = case.expected["state"].as_str().unwrap();
    let (_, file) = state.split_once("current metadata ").unwrap_or_else(|| panic!("{}: {state}", case.name));
    file.split([',', ' ', ';']).next().unwrap()
}
