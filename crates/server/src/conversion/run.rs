//! Doing a conversion: source to each target, and what was written read back.

use super::failure::Failure;
use super::request::Conversion;
use super::{SourceOptions, TargetOptions, open_source, open_target};
use hoglake_formats::store::Stores;
use hoglake_formats::sync::{self, Named, Options, Outcome, Plan, Report, Source, TableRoot};
use hoglake_formats::{delta, hudi, iceberg};
use hoglake_model::table::TableFormat;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// `ConvertTableResponse` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConvertTableResponse {
    /// One entry a target, in the order of the request.
    pub conversions: Vec<TargetTable>,
}

/// `TargetTable` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TargetTable {
    /// The format.
    pub target_format: String,
    /// What an engine registers.
    pub target_metadata_path: String,
    /// The schema in the target's own JSON.
    pub target_schema: String,
    /// `committed` or `no-change`.
    pub outcome: String,
    /// `incremental` or `full`; absent without change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_mode: Option<String>,
    /// Why not incremental.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_sync_reason: Option<String>,
    /// The source's version that the target shows.
    pub source_version: String,
    /// Commits made in the target.
    pub commits: usize,
    /// What was lost or left out, and remarks of the source.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<String>,
}

impl ConvertTableResponse {
    /// What was done in one line, for the audit trail.
    pub fn summary(&self) -> String {
        let targets = self.conversions.iter().map(|target| {
            let mode = target.sync_mode.as_deref().unwrap_or("no change");
            format!("{}: {mode}, {} commits", target.target_format, target.commits)
        });
        targets.collect::<Vec<_>>().join("; ")
    }
}

/// Brings every target up to date.
///
/// # Errors
/// When any target fails. The message says what became of each; those that were brought up to date stay so, and repeating
/// the request goes on where this one stopped.
pub async fn convert(stores: &Arc<Stores>, conversion: &Conversion) -> Result<ConvertTableResponse, Failure> {
    let options = SourceOptions {
        read_optimised: conversion.settings.read_optimised,
        partition_spec: conversion.settings.partition_spec.clone(),
    };
    let source = open_source(conversion.source, stores, &conversion.place, &options)?;
    let source = Named::new(source, Some(conversion.name.clone()));
    source.head().await?;
    let mut outcomes = Vec::with_capacity(conversion.targets.len());
    for target in &conversion.targets {
        let outcome = one(stores, conversion, &source, *target).await;
        record(conversion.source, *target, &outcome);
        outcomes.push((*target, outcome));
    }
    if outcomes.iter().any(|(_, outcome)| outcome.is_err()) {
        return Err(all_told(&outcomes));
    }
    Ok(ConvertTableResponse { conversions: outcomes.into_iter().filter_map(|(_, outcome)| outcome.ok()).collect() })
}

async fn one(
    stores: &Arc<Stores>,
    conversion: &Conversion,
    source: &Named,
    format: TableFormat,
) -> Result<TargetTable, Failure> {
    let settings = &conversion.settings;
    let options = TargetOptions {
        retention_ms: settings.retention_ms,
        checkpoint_interval: settings.checkpoint_interval,
        iceberg_format_version: settings.iceberg_format_version,
        type_widening: settings.type_widening,
    };
    let mut target = open_target(format, stores, &conversion.target_root, &options)?;
    let run = Options {
        mode: settings.mode,
        dry_run: false,
        on_unsupported_deletes: settings.on_unsupported_deletes,
        roots: stores.roots().cloned(),
    };
    let report = sync::sync(source, target.as_mut(), &run).await?;
    let Some(path) = report.metadata_path.clone() else {
        return Err(Failure::fault(format!("{format}: a sync ended without a metadata path")));
    };
    let root = TableRoot::open(stores, conversion.target_root.clone())?;
    let schema = match format {
        TableFormat::Iceberg => iceberg::schema_text(&root, &path).await?,
        TableFormat::Hudi => hudi::schema_text(&root).await?,
        _ => delta::schema_text(&root).await?,
    };
    Ok(described(report, path, schema, conversion))
}

fn described(report: Report, path: String, schema: String, conversion: &Conversion) -> TargetTable {
    let (sync_mode, full_sync_reason) = match report.plan {
        Plan::NoChange => (None, None),
        Plan::Incremental => (Some("incremental"), None),
        Plan::Full { reason } => (Some("full"), Some(reason)),
    };
    let mut warnings = report.warnings;
    if conversion.settings.partition_spec.is_some() && conversion.source != TableFormat::Hudi {
        warnings.push(format!(
            "`partition-spec` was not used: a {} table says itself how it is partitioned",
            conversion.source
        ));
    }
    TargetTable {
        target_format: report.target.as_str().to_owned(),
        target_metadata_path: path,
        target_schema: schema,
        outcome: if report.outcome == Outcome::NoChange { "no-change" } else { "committed" }.to_owned(),
        sync_mode: sync_mode.map(str::to_owned),
        full_sync_reason,
        source_version: report.version.id.0,
        commits: report.steps.len(),
        warnings,
    }
}

fn record(source: TableFormat, target: TableFormat, outcome: &Result<TargetTable, Failure>) {
    let result = match outcome {
        Ok(table) if table.commits == 0 => "no_change",
        Ok(_) => "committed",
        Err(_) => "failed",
    };
    let labels = [("source", source.as_str()), ("target", target.as_str()), ("result", result)];
    metrics::counter!("hoglake_conversions_total", &labels).increment(1);
}

/// One failure that tells what became of each target. Its kind is that of the first that failed; a fault of ours outranks.
fn all_told(outcomes: &[(TableFormat, Result<TargetTable, Failure>)]) -> Failure {
    let failures: Vec<&Failure> = outcomes.iter().filter_map(|(_, outcome)| outcome.as_ref().err()).collect();
    let leading = failures.iter().find(|f| f.model.code == 500).or(failures.first());
    let Some(leading) = leading else { return Failure::fault("no target failed") };
    let mut failure = Failure::clone(leading);
    let causes: Vec<&str> = failures.iter().filter_map(|f| f.cause.as_deref()).collect();
    failure.cause = (!causes.is_empty()).then(|| causes.join("; "));
    let each = outcomes.iter().map(|(target, outcome)| match outcome {
        Ok(table) => format!("{target}: brought up to date ({})", table.outcome),
        Err(failure) => format!("{target}: failed ({}): {}", failure.model.kind, failure.model.message),
    });
    let each: Vec<_> = each.collect();
    failure.model.message = match outcomes {
        [_] => leading.model.message.clone(),
        _ => format!("{} of {} targets failed. {}", failures.len(), outcomes.len(), each.join(". ")),
    };
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(path: &str) -> TargetTable {
        TargetTable {
            target_format: "ICEBERG".to_owned(),
            target_metadata_path: path.to_owned(),
            target_schema: "{}".to_owned(),
            outcome: "committed".to_owned(),
            sync_mode: None,
            full_sync_reason: None,
            source_version: "1".to_owned(),
            commits: 1,
            warnings: Vec::new(),
        }
    }

    #[test]
    fn a_failure_tells_of_every_target_and_of_no_path() {
        let failed = Failure::new(422, "unsupported", "column `x` has a type that Hudi lacks");
        let failure = all_told(&[
            (TableFormat::Iceberg, Ok(table("s3://b/t/metadata/v1.metadata.json"))),
            (TableFormat::Hudi, Err(failed.clone())),
        ]);
        let message = &failure.model.message;
        assert_eq!((failure.model.code, failure.model.kind.as_str()), (422, "unsupported"));
        assert!(message.starts_with("1 of 2") && message.contains("ICEBERG: brought up to date"), "{message}");
        assert!(message.contains("HUDI: failed") && message.contains("column `x`") && !message.contains("v1.metadata"));
        let worse = all_told(&[(TableFormat::Hudi, Err(failed)), (TableFormat::Delta, Err(Failure::fault("broken")))]);
        assert_eq!((worse.model.code, worse.cause.as_deref()), (500, Some("broken")));
        assert!(!worse.model.message.contains("broken"));
    }
}
