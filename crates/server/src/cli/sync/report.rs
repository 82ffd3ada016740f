//! What was done to a target, for people and for programs.

use super::Line;
use crate::cli::stdout::say;
use hoglake_formats::sync::{Committed, Outcome, Plan, Report};
use serde_json::json;

/// Prints a line, as JSON or as text with its warnings below.
pub(super) fn print(line: &Line, json: bool) {
    if json {
        say!("{}", as_json(line));
        return;
    }
    match &line.outcome {
        Err(error) => say!("{} -> {}: FAILED: {error}", line.table, line.target),
        Ok(report) => {
            say!("{} -> {}: {}", line.table, line.target, in_words(report));
            for warning in &report.warnings {
                say!("  warning: {warning}");
            }
        }
    }
}

fn in_words(report: &Report) -> String {
    let sum = |of: fn(&Committed) -> u64| report.steps.iter().map(|s| of(&s.committed)).sum::<u64>();
    let (added, removed, redeleted) = (sum(|c| c.added), sum(|c| c.removed), sum(|c| c.redeleted));
    let path = report.metadata_path.as_deref().unwrap_or("nothing written");
    match (&report.plan, report.outcome) {
        (Plan::NoChange, _) => format!("up to date; {path}"),
        (Plan::Incremental, Outcome::DryRun) => format!(
            "would be: {} commits replayed; {added} files added, {removed} removed, {redeleted} with other deletes",
            report.steps.len()
        ),
        (Plan::Full { reason }, Outcome::DryRun) => format!(
            "would be: all files compared ({reason}); {added} files added, {removed} removed, {redeleted} with other deletes"
        ),
        (plan, _) => {
            let plan = match plan {
                Plan::Full { reason } => format!("all files compared ({reason})"),
                _ => format!("{} commits replayed", report.steps.len()),
            };
            format!("{plan}; {added} files added, {removed} removed, {redeleted} with other deletes; {path}")
        }
    }
}

fn as_json(line: &Line) -> serde_json::Value {
    let report = match &line.outcome {
        Ok(report) => report,
        Err(error) => {
            return json!({"table": line.table, "target": line.target.as_str(), "status": "failed", "error": error,
                          "warnings": line.ignored});
        }
    };
    let (plan, reason) = match &report.plan {
        Plan::NoChange => ("no-change", None),
        Plan::Incremental => ("incremental", None),
        Plan::Full { reason } => ("full", Some(reason)),
    };
    let status = match report.outcome {
        Outcome::NoChange => "no-change",
        Outcome::Committed => "committed",
        Outcome::DryRun => "dry-run",
    };
    let warnings: Vec<_> = line.ignored.iter().chain(&report.warnings).collect();
    let commits: Vec<_> = report
        .steps
        .iter()
        .map(|s| {
            json!({"source-version": s.source_version, "target-version": s.committed.version,
                   "added": s.committed.added, "removed": s.committed.removed, "redeleted": s.committed.redeleted})
        })
        .collect();
    json!({"table": line.table, "target": line.target.as_str(), "status": status, "plan": plan, "reason": reason,
           "source-version": report.version.id.0, "metadata-path": report.metadata_path, "commits": commits,
           "warnings": warnings})
}
