//! `hoglake sync`

mod dataset;
mod found;
mod progress;
mod report;

use super::failure::Failure;
use super::serve::runtime;
use crate::config::stores::StoresConfig;
use crate::conversion::{self, Place, SourceOptions, TargetOptions};
use dataset::{Dataset, Datasets};
use hoglake_formats::hudi::PartitionPathSpec;
use hoglake_formats::store::Stores;
use hoglake_formats::sync::{self, Mode, Named, Report, UnsupportedDeletes};
use hoglake_model::Location;
use hoglake_model::table::TableFormat;
use progress::Display;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Settings of `sync`.
#[derive(Debug, clap::Args)]
pub(super) struct Sync {
    /// XTable's dataset YAML: sourceFormat, targetFormats, datasets
    #[arg(long, value_name = "FILE", conflicts_with_all = ["source", "path", "target"])]
    config: Option<PathBuf>,
    /// Format of the table: DELTA, ICEBERG, HUDI or PARQUET [default: what is found there, or what the targets there follow]
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    source: Option<TableFormat>,
    /// The table: its root, its metadata folder, or one Iceberg metadata file
    #[arg(long, value_name = "LOCATION", required_unless_present = "config")]
    path: Option<String>,
    /// Formats to write, separated by commas: ICEBERG, DELTA, HUDI
    #[arg(long, value_name = "FORMATS", value_delimiter = ',', value_parser = format, required_unless_present = "config")]
    target: Vec<TableFormat>,
    /// Where to write the targets [default: tableDataPath of the file, else the table's root]
    #[arg(long, value_name = "LOCATION")]
    target_path: Option<String>,
    /// What targets call the table when they are made [default: the table's own name]
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    table_name: Option<String>,
    /// How partition paths of a Hudi table become columns, as XTable writes it: level:VALUE, at:DAY:yyyy-MM-dd
    #[arg(long, value_name = "SPEC", conflicts_with = "config")]
    partition_spec: Option<String>,
    /// Compare all files instead of replaying commits
    #[arg(long)]
    full: bool,
    /// Show merge-on-read Hudi tables without what their log files add
    #[arg(long)]
    read_optimised: bool,
    /// Row-level deletes that a target cannot hold (equality deletes, log files): fail, materialize (resolve equality
    /// deletes to positions by reading the data) or ignore (the target shows the deleted rows)
    #[arg(long, value_name = "HOW", default_value = "fail", value_parser = unsupported_deletes)]
    on_unsupported_deletes: UnsupportedDeletes,
    /// Format version of Iceberg targets, 2 or 3 [default: 2, unless the table has or needs 3]
    #[arg(long, value_name = "VERSION", value_parser = clap::value_parser!(i32).range(2..=3))]
    iceberg_format_version: Option<i32>,
    /// Leave the feature typeWidening of Delta undeclared in tables whose older files hold narrower types, for readers that
    /// do not know it
    #[arg(long)]
    without_type_widening: bool,
    /// Say what would be committed and what cannot be expressed; write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object per table instead of text
    #[arg(long)]
    json: bool,
    /// Tell on standard error how far it is, also when that is no terminal
    #[arg(long)]
    progress: bool,
    /// Sync again this many seconds after each round, for ever
    #[arg(long, value_name = "SECONDS")]
    continuous: Option<u64>,
    /// Hours for which snapshots and commits of the targets are kept
    #[arg(long, value_name = "HOURS")]
    retention_hours: Option<i64>,
    #[command(flatten)]
    stores: StoresConfig,
}

fn format(text: &str) -> Result<TableFormat, String> {
    TableFormat::parse(text).ok_or_else(|| format!("{text} is no table format; use DELTA, ICEBERG, HUDI or PARQUET"))
}

fn unsupported_deletes(text: &str) -> Result<UnsupportedDeletes, String> {
    UnsupportedDeletes::parse(text).ok_or_else(|| format!("use one of {}", UnsupportedDeletes::NAMES.join(", ")))
}

/// What happened to one target of one table.
struct Line {
    table: String,
    target: TableFormat,
    outcome: Result<Report, String>,
    /// Keys of the dataset file that were ignored.
    ignored: Vec<String>,
}

impl Sync {
    pub(super) fn run(self) -> Result<(), Failure> {
        let stores = self.stores.open()?;
        runtime(0)?.block_on(async {
            let mut last = None;
            loop {
                // The file is read anew each round, so that datasets can be added while it runs.
                let datasets = match (self.datasets(), &last) {
                    (Ok(datasets), _) => datasets,
                    // Somebody is just changing the file: go on with what it said before.
                    (Err(failure), Some(before)) => {
                        eprintln!("hoglake: {failure}; going on with what it said before");
                        Datasets::clone(before)
                    }
                    (Err(failure), None) => return Err(failure),
                };
                warn_of_ignored(&datasets, last.as_ref());
                let mut failed = 0;
                let mut total = 0;
                for dataset in &datasets.datasets {
                    for line in self.sync_table(&stores, &datasets, dataset).await {
                        total += 1;
                        failed += usize::from(line.outcome.is_err());
                        report::print(&line, self.json);
                    }
                }
                let Some(seconds) = self.continuous else {
                    return match failed {
                        0 => Ok(()),
                        _ => Err(Failure::at("sync", format!("{failed} of {total} targets failed"))),
                    };
                };
                last = Some(datasets);
                tokio::time::sleep(Duration::from_secs(seconds.max(1))).await;
            }
        })
    }

    fn datasets(&self) -> Result<Datasets, Failure> {
        match &self.config {
            Some(file) => Datasets::read(file),
            None => {
                let path = absolute(self.path.as_deref().unwrap_or_default());
                let dataset = Dataset::at(path, self.table_name.clone(), self.partition_spec.clone());
                Ok(Datasets::one(self.source, self.target.clone(), dataset))
            }
        }
    }

    async fn sync_table(&self, stores: &Arc<Stores>, all: &Datasets, dataset: &Dataset) -> Vec<Line> {
        let (table, ignored) = (dataset.title(), all.ignored(dataset));
        let line = |target, outcome| Line { table: table.clone(), target, outcome, ignored: ignored.clone() };
        let (source, root) = match self.open(stores, all.source_format, dataset).await {
            Ok(opened) => opened,
            Err(error) => {
                return all.target_formats.iter().map(|target| line(*target, Err(error.clone()))).collect();
            }
        };
        let options = sync::Options {
            mode: if self.full { Mode::Full } else { Mode::Incremental },
            dry_run: self.dry_run,
            on_unsupported_deletes: self.on_unsupported_deletes,
            roots: None,
        };
        let target_options = TargetOptions {
            retention_ms: self.retention_hours.map(|h| h.saturating_mul(3_600_000)),
            iceberg_format_version: self.iceberg_format_version,
            type_widening: self.without_type_widening.then_some(false),
            ..TargetOptions::default()
        };
        let mut lines = Vec::new();
        for target in all.target_formats.iter().copied().filter(|t| *t != sync::Source::format(&source)) {
            let run = async {
                let mut target = conversion::open_target(target, stores, &root, &target_options)?;
                sync::sync(&source, target.as_mut(), &options).await
            };
            let display = Display::new(format!("{table} -> {target}"), source.progress(), self.progress);
            let outcome = display.during(run).await.map_err(|e| e.to_string());
            lines.push(line(target, outcome));
        }
        if lines.is_empty() {
            let format = sync::Source::format(&source);
            let error = format!(
                "{format} is the format of the source itself; name another with --target, or the source with --source"
            );
            lines.push(line(format, Err(error)));
        }
        lines
    }

    /// The source of a dataset, and where its targets go.
    async fn open(
        &self,
        stores: &Arc<Stores>,
        format: Option<TableFormat>,
        dataset: &Dataset,
    ) -> Result<(Named, Location), String> {
        let place = Place::parse(&absolute(&dataset.table_base_path)).map_err(|e| e.detail)?;
        let root = match self.target_path.as_ref().or(dataset.table_data_path.as_ref()) {
            Some(path) => Location::parse(&absolute(path)).map_err(|e| e.detail)?,
            None => place.root.clone(),
        };
        let format = match format {
            Some(format) => format,
            None => found::source(stores, &place.root, &root, &self.target).await?,
        };
        // As in XTable, what is said of partition paths concerns Hudi tables; others say it themselves.
        let spec = dataset.partition_spec.as_deref().filter(|_| format == TableFormat::Hudi);
        let partition_spec = spec.map(str::parse::<PartitionPathSpec>).transpose()?;
        let options = SourceOptions { read_optimised: self.read_optimised, partition_spec };
        let source = conversion::open_source(format, stores, &place, &options).map_err(|e| e.to_string())?;
        Ok((Named::new(source, dataset.table_name.clone()), root))
    }
}

/// Names the keys of a dataset file that mean nothing here, each once, unless the round before has done so.
fn warn_of_ignored(datasets: &Datasets, before: Option<&Datasets>) {
    let ignored = |all: &Datasets| -> BTreeSet<String> { all.datasets.iter().flat_map(|d| all.ignored(d)).collect() };
    let said = before.map(ignored).unwrap_or_default();
    for warning in ignored(datasets).difference(&said) {
        eprintln!("hoglake: {warning}");
    }
}

/// A local path made absolute; locations with a scheme stay as they are.
pub(super) fn absolute(text: &str) -> String {
    if text.starts_with('/') || text.contains("://") || text.starts_with("file:") {
        return text.to_owned();
    }
    match std::path::absolute(text) {
        Ok(path) => path.to_string_lossy().into_owned(),
        Err(_) => text.to_owned(),
    }
}
