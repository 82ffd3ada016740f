//! `hoglake hydrate|expire|clean|compact|verify CATALOG`: what background work does, from the command line.
//!
//! The command works on the database itself, or asks a server to. Without `--batch` it goes on until nothing is left to
//! do. Exit codes: 0 done, 1 failed, also in part, 2 wrong setting, 3 violations found (`verify`).

pub(super) mod remote;

use super::database::Database;
use super::failure::Failure;
use super::serve::{runtime, stop_signal};
use super::spinner::spinner;
use super::stdout::say;
use crate::audit::Audit;
use crate::config::log::{AuditPlace, LogConfig};
use crate::config::maintenance::MaintenanceConfig;
use crate::config::stores::StoresConfig;
use crate::config::{self, ConfigError, Secret, database::DatabaseConfig};
use crate::logging;
use crate::worker::{HYDRATION_BITE, Parts, Trigger, WorkError, Worker};
use hoglake_catalog::catalogs::CatalogIdentity;
use hoglake_catalog::{Catalog, Error};
use hoglake_formats::store::Stores;
use indicatif::ProgressBar;
use remote::Server;
use serde_json::{Value, json};
use std::sync::Arc;

/// Queue entries that are taken before progress is shown: more than timers take, because a larger bite lists less.
const CLEANUP_BITE: i64 = 100_000;

/// The bound of what has none.
const EVERYTHING: i64 = i64::MAX;

/// Settings of a maintenance command.
#[derive(Debug, clap::Args)]
pub(super) struct Maintain {
    /// The catalog to work on
    catalog: String,
    /// The bound of one run: snapshots, queue entries, or groups; without it, all there is
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    batch: Option<i64>,
    /// Say what would happen, and change nothing (expire, clean, compact)
    #[arg(long)]
    dry_run: bool,
    /// Read footers and vectors from the store, too (verify)
    #[arg(long)]
    deep: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Ask this server to do it, instead of working on the database
    #[arg(long, env = "HOGLAKE_SERVER", value_name = "URL")]
    server: Option<String>,
    /// Token for the server
    #[arg(long, env = "HOGLAKE_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    token: Option<Secret>,
    #[command(flatten)]
    database: DatabaseConfig,
    #[command(flatten)]
    stores: StoresConfig,
    #[command(flatten)]
    maintenance: MaintenanceConfig,
    #[command(flatten)]
    log: LogConfig,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    Hydrate,
    Expire,
    Clean,
    Compact,
    Verify,
}

impl Maintain {
    pub(super) fn run(self, task: Task) -> Result<(), Failure> {
        config::refuse_replaced_variables()?;
        self.check(task)?;
        self.database.check()?;
        self.stores.check()?;
        logging::init(&self.log)?;
        let bar = spinner(self.json, format!("{task:?} {}", self.catalog));
        let json = self.json;
        let outcome = runtime(0)?.block_on(async {
            match &self.server {
                Some(server) => self.run_there(&Server::new(server, self.token.as_ref())?, task, &bar).await,
                None => self.run_here(task, &bar).await,
            }
        });
        bar.finish_and_clear();
        let outcome = outcome?;
        if json {
            say!("{outcome}");
        } else {
            print_text(&outcome);
        }
        if task == Task::Verify && outcome["status"] != "pass" {
            return Err(Failure::Violations);
        }
        if has_failures(task, &outcome) {
            return Err(Failure::Incomplete);
        }
        Ok(())
    }

    /// Refuses flags that a task does not know: nobody asks for a preview and means the task itself.
    fn check(&self, task: Task) -> Result<(), ConfigError> {
        if self.dry_run && matches!(task, Task::Hydrate | Task::Verify) {
            return Err(ConfigError("--dry-run is for expire, clean and compact; this task has no preview".to_owned()));
        }
        if self.deep && task != Task::Verify {
            return Err(ConfigError("--deep is for verify".to_owned()));
        }
        Ok(())
    }

    async fn run_there(&self, server: &Server, task: Task, bar: &ProgressBar) -> Result<Value, Failure> {
        let mut total = json!({});
        loop {
            let result = remote::run(server, self, task).await?;
            let more = is_worth_another(task, &result);
            self.show(bar, task, &mut total, result);
            if !more || self.batch.is_some() || self.dry_run {
                return Ok(total);
            }
        }
    }

    fn show(&self, bar: &ProgressBar, task: Task, total: &mut Value, result: Value) {
        add(task, total, result);
        bar.set_message(format!("{task:?} {}: {total}", self.catalog));
    }

    async fn run_here(&self, task: Task, bar: &ProgressBar) -> Result<Value, Failure> {
        let database = Database::existing(&self.database).await?;
        let done = async {
            // what only looks changes nothing, the schema included
            if task == Task::Verify || self.dry_run {
                database.check_schema().await?;
            } else {
                database.migrate().await?;
            }
            let mut options = database.options.clone();
            options.compaction_target_bytes = self.maintenance.compaction_target_bytes;
            options.compaction_lease = self.maintenance.compaction_lease();
            let catalog = Catalog::open(options).map_err(|error| Failure::at("cannot open the database", error))?;
            let worker = Worker::new(Parts {
                catalog: catalog.clone(),
                stores: Arc::new(Stores::new(self.stores.store_config(self.maintenance.local_files))),
                audit: Audit::open(self.log.audit_log.as_ref().unwrap_or(&AuditPlace::Off))?,
                settings: self.maintenance.clone(),
                serves: false,
            });
            let (stop, stopped) = (stop_signal()?, worker.clone());
            let stop = tokio::spawn(async move {
                stop.await;
                stopped.stop();
            });
            let done = self.work(&worker, task, bar).await;
            stop.abort();
            worker.audit.flush();
            catalog.close().await;
            done.map_err(|error| Failure::at(format!("{task:?} of catalog {}", self.catalog), in_words(error)))
        }
        .await;
        database.stop().await;
        done
    }

    async fn work(&self, worker: &Worker, task: Task, bar: &ProgressBar) -> Result<Value, WorkError> {
        let catalog = worker.catalog.catalog_find(&self.catalog).await?;
        let mut total = json!({});
        loop {
            let result = self.step(worker, &catalog, task).await?;
            let more = is_worth_another(task, &result);
            self.show(bar, task, &mut total, result);
            if !more || self.batch.is_some() || self.dry_run {
                return Ok(total);
            }
        }
    }

    /// The bound of one bite without `--batch`. A preview is all that the bites together would do: it takes none away, so
    /// that a second one would see the same.
    const fn bite(&self, bite: i64) -> i64 {
        if self.dry_run { EVERYTHING } else { bite }
    }

    /// One bite.
    async fn step(&self, worker: &Worker, catalog: &CatalogIdentity, task: Task) -> Result<Value, WorkError> {
        let settings = &worker.settings;
        let result = match task {
            Task::Hydrate => serde_json::to_value(worker.hydrate(catalog, HYDRATION_BITE, Trigger::Request).await?),
            Task::Expire => {
                let batch = self.batch.unwrap_or(self.bite(settings.expiry_batch));
                serde_json::to_value(worker.expire(catalog, batch, self.dry_run, Trigger::Request).await?)
            }
            Task::Clean => {
                let batch = self.batch.unwrap_or(self.bite(CLEANUP_BITE));
                serde_json::to_value(worker.clean(catalog, batch, self.dry_run, Trigger::Request).await?)
            }
            Task::Compact => {
                let groups = i64::try_from(settings.compaction_max_groups_per_run).unwrap_or(i64::MAX);
                let groups = self.batch.unwrap_or(self.bite(groups));
                let groups = usize::try_from(groups).unwrap_or(usize::MAX);
                serde_json::to_value(worker.compact(catalog, groups, self.dry_run, Trigger::Request).await?)
            }
            Task::Verify => serde_json::to_value(worker.verify(catalog, self.deep).await?),
        };
        result.map_err(|error| WorkError::Catalog(Error::Corrupt(error.to_string())))
    }
}

/// Whether a bite did something or ended early, so that there may be more to do.
fn is_worth_another(task: Task, result: &Value) -> bool {
    let counts = progress(task).iter();
    result[UNFINISHED] == true || counts.copied().any(|name| result[name].as_i64().is_some_and(|count| count > 0))
}

/// Whether groups of a compaction failed, or a store did not delete what a cleanup asked it to.
fn has_failures(task: Task, outcome: &Value) -> bool {
    match task {
        Task::Compact => outcome[FAILURES].as_array().is_some_and(|failures| !failures.is_empty()),
        Task::Clean => outcome[FAILED].as_i64().is_some_and(|failed| failed > 0),
        _ => false,
    }
}

/// Objects that a store would not delete.
const FAILED: &str = "failed";

/// What failed, in words.
const FAILURES: &str = "failures";

/// Files that a compaction left alone for a while.
const PUT_OFF: &str = "put_off";

/// Says of a bite that its time ran out.
const UNFINISHED: &str = "unfinished";

/// The counts of a result that say that a task did something. Its server names them as this program does.
const fn progress(task: Task) -> &'static [&'static str] {
    match task {
        Task::Hydrate => &["hydrated", "failed"],
        Task::Expire => &["snapshots_expired", "data_files_queued", "delete_files_queued"],
        Task::Clean => &["removed", "missing"],
        Task::Compact => &["groups_compacted"],
        Task::Verify => &[],
    }
}

/// What is so at the end of a bite: said when it is, and not said when it is not.
const OF_THE_MOMENT: [&str; 3] = [UNFINISHED, "files_claimed_by_others", "files_put_off"];

/// What a cleanup could not remove: the last bite has tried all of it once more.
const STAYS: [&str; 2] = [FAILED, "still_referenced"];

/// Adds the counts of a bite to those before, and what failed; everything else is the last one's.
fn add(task: Task, total: &mut Value, bite: Value) {
    let (Value::Object(total), Value::Object(bite)) = (total, bite) else { return };
    for name in OF_THE_MOMENT {
        total.remove(name);
    }
    if task == Task::Clean {
        STAYS.iter().for_each(|name| drop(total.remove(*name)));
    }
    for (name, value) in bite {
        if [FAILURES, PUT_OFF].contains(&name.as_str())
            && let (Some(Value::Array(before)), Value::Array(now)) = (total.get_mut(&name), &value)
        {
            before.extend(now.iter().cloned());
            continue;
        }
        let is_count = !name.starts_with("new_");
        let sum = match (total.get(&name).and_then(Value::as_i64), value.as_i64()) {
            (Some(before), Some(now)) if is_count => json!(before + now),
            _ => value,
        };
        total.insert(name, sum);
    }
}

fn print_text(outcome: &Value) {
    let Value::Object(fields) = outcome else { return };
    for (name, value) in fields {
        match value {
            Value::Array(checks) if name == "checks" => {
                for check in checks {
                    let text = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
                    say!("{:<18} {} ({} violations)", text("check"), text("status"), check["violations"]);
                    for sample in check["samples"].as_array().into_iter().flatten() {
                        say!("    {}", sample.as_str().unwrap_or_default());
                    }
                }
            }
            Value::String(text) => say!("{name:<26} {text}"),
            value => say!("{name:<26} {value}"),
        }
    }
}

/// A refusal is said as it is, a fault with its causes.
pub(super) fn in_words(error: WorkError) -> Box<dyn std::error::Error + Send + Sync> {
    match &error {
        WorkError::Catalog(Error::Refused(refusal)) => refusal.detail.clone().into(),
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::{CleanupStatus, CompactionStatus, HydrationStatus};
    use hoglake_catalog::expiry::ExpiryResult;

    /// What a task answers that did nothing.
    fn idle(task: Task) -> Value {
        let result = match task {
            Task::Hydrate => serde_json::to_value(HydrationStatus::default()),
            Task::Expire => serde_json::to_value(ExpiryResult::default()),
            Task::Clean => serde_json::to_value(CleanupStatus::default()),
            Task::Compact => serde_json::to_value(CompactionStatus::default()),
            Task::Verify => Ok(json!({})),
        };
        result.unwrap()
    }

    #[test]
    fn every_count_that_stands_for_progress_is_one_of_its_result() {
        for task in [Task::Hydrate, Task::Expire, Task::Clean, Task::Compact, Task::Verify] {
            let result = idle(task);
            assert!(!is_worth_another(task, &result), "{task:?}");
            for name in progress(task) {
                assert_eq!(result[*name], 0, "{task:?} has no count called {name}");
                let mut result = result.clone();
                result[*name] = json!(1);
                assert!(is_worth_another(task, &result), "{task:?} {name}");
            }
        }
    }

    #[test]
    fn an_expiry_whose_time_ran_out_is_gone_on_with() {
        let cut_short = serde_json::to_value(ExpiryResult { unfinished: true, ..ExpiryResult::default() }).unwrap();
        assert!(is_worth_another(Task::Expire, &cut_short));
        let mut total = json!({});
        add(Task::Expire, &mut total, cut_short);
        assert_eq!(total[UNFINISHED], true);
        add(Task::Expire, &mut total, idle(Task::Expire));
        assert!(total.get(UNFINISHED).is_none(), "{total}");
    }

    #[test]
    fn counts_add_up_and_the_rest_is_the_last() {
        let mut total = json!({});
        add(Task::Expire, &mut total, json!({"snapshots_expired": 3, "new_earliest_snapshot_id": 3}));
        add(
            Task::Expire,
            &mut total,
            json!({"snapshots_expired": 4, "new_earliest_snapshot_id": 7, "floored_by_consumer": "c"}),
        );
        add(Task::Compact, &mut total, json!({"failures": ["one"], "files_put_off": 2, "files_claimed_by_others": 4}));
        add(Task::Compact, &mut total, json!({"failures": ["two"], "files_put_off": 3}));
        assert_eq!(total.as_object_mut().unwrap().remove("files_put_off"), Some(json!(3)));
        assert!(total.get("files_claimed_by_others").is_none(), "{total}");
        assert_eq!(total.as_object_mut().unwrap().remove("failures"), Some(json!(["one", "two"])));
        let sum = json!({"snapshots_expired": 7, "new_earliest_snapshot_id": 7, "floored_by_consumer": "c"});
        assert_eq!(total, sum);
    }
}
