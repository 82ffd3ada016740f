//! Deciding between replay and full comparison, and doing it.

use super::deletes::{Gate, STILL_LEFT_OUT, UnsupportedDeletes};
use super::{Changes, Commit, Committed, Error, Files, Loaded, Result, Source, Target, dry_run};
use crate::store::{Roots, StoreError};
use futures::StreamExt;
use hoglake_model::Location;
use hoglake_model::table::{
    DataFile, FilePath, Operation, TableFormat, TableState, Unsupported, UnsupportedKind, Version, VersionId,
};
use std::sync::Arc;

/// How many times a run plans again after losing the target's pointer.
const ATTEMPTS: u32 = 10;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Replay commits where possible, otherwise compare all files.
    #[default]
    Incremental,
    /// Compare all files.
    Full,
}

/// How to run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Replay or compare.
    pub mode: Mode,
    /// Plan, check capabilities, write nothing.
    pub dry_run: bool,
    /// What to do with row-level deletes that the target cannot hold.
    pub on_unsupported_deletes: UnsupportedDeletes,
    /// The places that files may lie in; anywhere when absent. What the run itself reads and writes, the stores watch: this
    /// is about files that targets name and readers of theirs would open.
    pub roots: Option<Arc<Roots>>,
}

/// What one run did, or would do, to one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The target.
    pub target: TableFormat,
    /// What was decided.
    pub plan: Plan,
    /// What happened.
    pub outcome: Outcome,
    /// The source version that the target shows afterwards.
    pub version: Version,
    /// The commits made, or that a dry run would make, oldest first.
    pub steps: Vec<Step>,
    /// What an engine registers; absent after a dry run into nothing.
    pub metadata_path: Option<String>,
    /// Declared losses and remarks of source and target, each once.
    pub warnings: Vec<String>,
}

/// What a run decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// The target already shows the head.
    NoChange,
    /// One commit per source commit.
    Incremental,
    /// One commit that compares all files, and finds a difference.
    Full {
        /// Why not incrementally.
        reason: String,
    },
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to do.
    NoChange,
    /// The commits were made.
    Committed,
    /// Asked only to plan.
    DryRun,
}

/// One commit of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The source's version.
    pub source_version: String,
    /// What was committed.
    pub committed: Committed,
}

/// Brings `target` to the head of `source`.
///
/// # Errors
/// As [`Source`] and [`Target`]. Commits made before the failing one stay, each complete with its watermark; running
/// again continues after them.
pub async fn sync(source: &dyn Source, target: &mut dyn Target, options: &Options) -> Result<Report> {
    // Neither needs the other; what is wrong with the source is said first.
    let (head, first) = futures::future::join(source.head(), target.load()).await;
    let (head, mut first) = (head?, Some(first));
    let mut steps = Vec::new();
    let mut force_full: Option<String> = None;
    for _ in 0..ATTEMPTS {
        let loaded = match first.take() {
            Some(loaded) => loaded?,
            None => target.load().await?,
        };
        if loaded.watermark.is_some() && !options.dry_run {
            target.mend().await;
        }
        match attempt(source, target, options, &head, &loaded, force_full.as_deref(), &mut steps).await {
            Ok((plan, outcome)) => {
                if outcome == Outcome::Committed {
                    target.tidy().await;
                }
                return Ok(report(target.format(), plan, outcome, &head, steps, loaded));
            }
            Err(Error::Lost { place }) => tracing::info!(place, "lost the race for the target, planning again"),
            Err(Error::NeedsFull { reason }) if force_full.is_none() => force_full = Some(reason),
            Err(other) => return Err(other),
        }
    }
    Err(Error::Lost { place: format!("{} target", target.format()) })
}

fn report(
    target: TableFormat,
    plan: Plan,
    outcome: Outcome,
    head: &TableState,
    steps: Vec<Step>,
    loaded: Loaded,
) -> Report {
    let mut warnings = head.warnings.clone();
    let full = matches!(plan, Plan::Full { .. });
    if !full && loaded.watermark.as_ref().is_some_and(|mark| mark.deletes_left_out) {
        warnings.push(STILL_LEFT_OUT.to_owned());
    }
    for warning in steps.iter().flat_map(|s| &s.committed.warnings) {
        if !warnings.contains(warning) {
            warnings.push(warning.clone());
        }
    }
    let written = steps.last().filter(|_| outcome == Outcome::Committed).map(|s| s.committed.metadata_path.clone());
    let metadata_path = written.or(loaded.metadata_path);
    Report { target, plan, outcome, version: head.version.clone(), steps, metadata_path, warnings }
}

async fn attempt(
    source: &dyn Source,
    target: &mut dyn Target,
    options: &Options,
    head: &Arc<TableState>,
    loaded: &Loaded,
    force_full: Option<&str>,
    steps: &mut Vec<Step>,
) -> Result<(Plan, Outcome)> {
    let full = |reason: String| Plan::Full { reason };
    if loaded.exists && loaded.watermark.is_none() && options.mode != Mode::Full && force_full.is_none() {
        return Err(Error::Unsupported(vec![Unsupported {
            target: target.format(),
            kind: UnsupportedKind::Feature,
            place: loaded.metadata_path.clone().unwrap_or_default(),
            detail:
                "a table is there that no conversion has written; choose another target path, or ask for a full sync \
                     to replace what it holds"
                    .to_owned(),
        }]));
    }
    let reason = match (&loaded.watermark, force_full) {
        (_, Some(reason)) => Some(reason.to_owned()),
        _ if options.mode == Mode::Full => Some("asked for".to_owned()),
        (None, _) => Some("the target does not exist yet".to_owned()),
        (Some(mark), _) => {
            if mark.format != source.format() {
                Some(format!("the target followed a {} source", mark.format))
            } else if mark.table_id.is_some() && head.table_id.is_some() && mark.table_id != head.table_id {
                Some("the source is another table than the one that the target followed".to_owned())
            } else if loaded.is_foreign {
                Some("somebody else has committed to the target since".to_owned())
            } else if loaded.is_elsewhere {
                Some("the target was written at another place, whose files it names".to_owned())
            } else if mark.version.is_none() {
                Some("the target's watermark names a time, not a version".to_owned())
            } else if mark.deletes_left_out && options.on_unsupported_deletes != UnsupportedDeletes::Ignore {
                Some("row-level deletes were left out of the target before, as asked for then".to_owned())
            } else if mark.covers(&head.version) {
                return Ok((Plan::NoChange, Outcome::NoChange));
            } else {
                None
            }
        }
    };
    refuse(target.unsupported(head))?;
    if let (None, Some(mark)) = (&reason, &loaded.watermark) {
        match source.changes(mark, head).await? {
            Changes::HistoryGone { reason } => {
                return run_full(source, target, options, head, full(reason), loaded.exists, steps).await;
            }
            Changes::Replay(mut changes) => {
                let mut left_out = mark.deletes_left_out;
                while let Some(change) = changes.next().await {
                    let mut change = change?;
                    refuse(target.unsupported(&change.state))?;
                    let version = &change.state.version.id;
                    let gate = Gate::of_commit(target.format(), options.on_unsupported_deletes, version);
                    gate.pass_change(&mut change.files)?;
                    allowed(options.roots.as_deref(), change.files.added.iter().chain(&change.files.redeleted))?;
                    left_out |= gate.warning().is_some();
                    let state = with_left_out(&change.state, left_out);
                    if options.dry_run {
                        let (files, warning) = (&change.files, gate.warning());
                        let counts = [files.added.len(), files.removed.len(), files.redeleted.len()];
                        steps.push(planned(&change.state.version.id, counts, warning));
                        continue;
                    }
                    let commit = Commit {
                        source,
                        state: &state,
                        operation: change.operation,
                        files: Files::Delta(&change.files),
                    };
                    let Some(mut committed) = target.commit(commit).await? else { continue };
                    committed.warnings.extend(gate.warning());
                    steps.push(Step { source_version: change.state.version.id.0.clone(), committed });
                }
                return Ok(match options.dry_run {
                    // Whoever wrote the watermark names the head in another way than we do.
                    _ if steps.is_empty() => (Plan::NoChange, Outcome::NoChange),
                    true => (Plan::Incremental, Outcome::DryRun),
                    false => (Plan::Incremental, Outcome::Committed),
                });
            }
        }
    }
    let reason = reason.unwrap_or_else(|| "the target has no watermark".to_owned());
    run_full(source, target, options, head, full(reason), loaded.exists, steps).await
}

async fn run_full(
    source: &dyn Source,
    target: &mut dyn Target,
    options: &Options,
    head: &Arc<TableState>,
    plan: Plan,
    exists: bool,
    steps: &mut Vec<Step>,
) -> Result<(Plan, Outcome)> {
    let snapshot = source.snapshot(head).await?;
    let gate = Gate::of_version(target.format(), options.on_unsupported_deletes, &head.version.id);
    gate.kinds(&snapshot.delete_kinds)?;
    let state = with_left_out(head, gate.may_leave_out(source.format(), &snapshot.delete_kinds));
    let (checked, roots) = (gate.clone(), options.roots.clone());
    let files = snapshot.files.map(move |batch| {
        let mut batch = batch?;
        checked.pass(&mut batch)?;
        allowed(roots.as_deref(), &batch)?;
        Ok(batch)
    });
    if options.dry_run {
        let shown = exists.then(|| target.reader());
        let counts = dry_run::compare(source, &head.root, files.boxed(), shown.as_deref()).await?;
        steps.push(planned(&head.version.id, counts, gate.warning()));
        return Ok((plan, Outcome::DryRun));
    }
    let commit = Commit { source, state: &state, operation: Operation::Overwrite, files: Files::All(files.boxed()) };
    let Some(mut committed) = target.commit(commit).await? else { return Ok((Plan::NoChange, Outcome::NoChange)) };
    committed.warnings.extend(gate.warning());
    steps.push(Step { source_version: head.version.id.0.clone(), committed });
    Ok((plan, Outcome::Committed))
}

/// The state whose watermark tells later runs that the target does not show all deletes.
fn with_left_out(state: &Arc<TableState>, left_out: bool) -> Arc<TableState> {
    if !left_out {
        return Arc::clone(state);
    }
    Arc::new(TableState { deletes_left_out: true, ..TableState::clone(state) })
}

/// A commit that a dry run would make.
fn planned(version: &VersionId, [added, removed, redeleted]: [usize; 3], warning: Option<String>) -> Step {
    let committed = Committed {
        metadata_path: String::new(),
        version: String::new(),
        added: added as u64,
        removed: removed as u64,
        redeleted: redeleted as u64,
        warnings: warning.into_iter().collect(),
    };
    Step { source_version: version.0.clone(), committed }
}

/// Refuses files whose names no format can carry safely, and those outside of all roots. Those below the table's own root
/// lie where the table does.
fn allowed<'a>(roots: Option<&Roots>, files: impl IntoIterator<Item = &'a DataFile>) -> Result<()> {
    for file in files {
        if file.path.as_str().chars().any(char::is_control) {
            let detail = "the path of a file has control characters in it; rewrite the file under another name";
            return Err(Error::malformed(file.path.as_str().escape_debug().to_string(), detail));
        }
        let Some(roots) = roots else { continue };
        if let FilePath::Outside(absolute) = &file.path {
            let location = Location::parse(absolute)?;
            if !roots.covers(&location) {
                return Err(StoreError::Outside { location: absolute.to_string() }.into());
            }
        }
    }
    Ok(())
}

fn refuse(found: Vec<Unsupported>) -> Result<()> {
    if found.is_empty() { Ok(()) } else { Err(Error::Unsupported(found)) }
}
