//! Every table of the corpus in one format converted to another, at once and commit by commit, and read by engines that
//! others wrote.

use crate::corpus::{Case, cases};
use crate::judges::see;
use crate::to_iceberg::copy;
use hoglake_formats::sync::{BoxFuture, Error, Outcome, Plan, Report, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What is converted, and how.
pub struct Trial {
    pub source: &'static str,
    pub target: &'static str,
    /// The readers of the target.
    pub readers: [&'static str; 2],
    /// Tables that one of the readers cannot compare, with the reason.
    pub exceptions: &'static [(&'static str, &'static str)],
    pub convert: fn(&Path) -> BoxFuture<'_, Result<Report>>,
    /// Converts the table as it was early, then lets the target follow; `None` when there is no earlier version.
    pub follow: fn(&Path) -> BoxFuture<'_, Option<Result<Report>>>,
    /// Whether some tables may be refused, before anything is written.
    pub may_refuse: bool,
    /// How many tables must have a history that is followed.
    pub histories: usize,
    /// Whether the rows of the source are known from its own engine, to be compared with.
    pub source_is_read: bool,
}

struct Converted {
    case: Case,
    table: PathBuf,
    metadata: String,
}

impl Trial {
    /// Runs it. Every difference that any reader sees is a failure.
    pub async fn run(&self) {
        let folder = tempfile::tempdir().unwrap();
        let (mut tables, mut failures, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        let readable = || {
            let excepted = |case: &Case| self.exceptions.iter().any(|(name, _)| *name == case.name);
            cases(self.source).into_iter().filter(move |c| c.expected["expect"] == "read" && !excepted(c))
        };
        for case in readable() {
            let table = folder.path().join(&case.name);
            copy(&case.root, &table);
            match (self.convert)(&table).await {
                Ok(report) => {
                    assert_eq!(report.outcome, Outcome::Committed, "{}", case.name);
                    let again = (self.convert)(&table).await.unwrap();
                    assert_eq!((again.plan, &again.metadata_path), (Plan::NoChange, &report.metadata_path));
                    tables.push(Converted { case, table, metadata: report.metadata_path.unwrap() });
                }
                Err(Error::Unsupported(items)) if self.may_refuse => {
                    assert!(!table.join("_delta_log").exists(), "{}: refused, yet something was written", case.name);
                    refused.push(format!("{}: {}", case.name, items[0]));
                }
                Err(e) => failures.push(format!("{}: {e}", case.name)),
            }
        }
        let mut replayed = 0;
        for case in readable() {
            let table = folder.path().join(format!("{}-followed", case.name));
            copy(&case.root, &table);
            match (self.follow)(&table).await {
                None => {}
                Some(Err(Error::Unsupported(_))) if self.may_refuse => {}
                Some(Ok(report)) => {
                    replayed += usize::from(report.plan == Plan::Incremental);
                    tables.push(Converted { case, table, metadata: report.metadata_path.unwrap() });
                }
                Some(Err(e)) => failures.push(format!("{} followed: {e}", case.name)),
            }
        }
        assert!(replayed >= self.histories, "only {replayed} tables were followed commit by commit");
        failures.extend(self.differences(folder.path(), &tables));
        let (failed, all) = (failures.len(), tables.len());
        assert!(failed == 0, "{failed} of {all}:\n{}\nrefused:\n{}", failures.join("\n"), refused.join("\n"));
    }

    fn differences(&self, folder: &Path, tables: &[Converted]) -> Vec<String> {
        let mut asked = Vec::new();
        for table in tables {
            let path = table.table.to_str().unwrap().to_owned();
            asked.push((self.target, if self.target == "iceberg" { table.metadata.clone() } else { path.clone() }));
            if self.source_is_read {
                asked.push((self.source, path));
            }
        }
        let seen = see(folder, &asked);
        let each = if self.source_is_read { 2 } else { 1 };
        let mut failures = Vec::new();
        for (table, seen) in tables.iter().zip(seen.chunks(each)) {
            let wrong = self.wrong(&table.case, &seen[0], seen.get(1));
            if !wrong.is_empty() {
                failures.push(format!("{}: {}", table.table.file_name().unwrap().display(), wrong.join("; ")));
            }
        }
        failures
    }

    fn wrong(&self, case: &Case, target: &Value, source: Option<&Value>) -> Vec<String> {
        let mut wrong: Vec<String> = target["error"].as_str().map(str::to_owned).into_iter().collect();
        let expected = case.expected["rows"].as_u64().unwrap();
        for reader in self.readers {
            let rows = target[reader].as_array().map_or(0, Vec::len) as u64;
            let read = source.filter(|source| source["delta-rs"].is_array());
            if rows != expected {
                wrong.push(format!("{reader} sees {rows} rows instead of {expected}"));
            } else if let Some(source) = read
                && ![&source["delta-rs"], &source["duckdb"]].contains(&&target[reader])
            {
                wrong.push(format!("{reader} sees {} instead of {}", target[reader][0], source["delta-rs"][0]));
            }
        }
        let [one, other] = self.readers.map(|reader| &target[reader]);
        if source.is_none() && one != other {
            wrong.push(format!("one reader sees {}, the other {}", one[0], other[0]));
        }
        wrong.extend(target["problems"].as_array().into_iter().flatten().map(|p| p.as_str().unwrap().to_owned()));
        wrong
    }
}
