//! `hoglake restore-check CATALOG`: compares a catalog with its object store, and changes neither.
//!
//! The database is read as it is, without bringing its schema up to date, so that a standby which replays towards a moment
//! can be checked before it is promoted. Exit codes: 0 whole, 1 failed, 2 wrong setting, 3 something that the catalog
//! needs is missing or has another size, 4 nothing is missing but the store holds objects that the catalog does not know.

use super::database::Database;
use super::failure::Failure;
use super::maintain::{in_words, remote};
use super::serve::runtime;
use super::spinner::spinner;
use super::stdout::say;
use crate::config::log::LogConfig;
use crate::config::stores::StoresConfig;
use crate::config::{self, Secret, database::DatabaseConfig};
use crate::logging;
use crate::restore_check::{self, CheckError, Kind, Report, Status, Workplace};
use crate::worker::WorkError;
use hoglake_catalog::Catalog;
use hoglake_catalog::listing::Body;
use hoglake_formats::store::Stores;
use serde_json::Value;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Settings of `restore-check`.
#[derive(Debug, clap::Args)]
pub(super) struct RestoreCheck {
    /// The catalog to check
    catalog: String,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// How many findings of each kind the report names
    #[arg(long, value_name = "N", default_value_t = 10)]
    samples: usize,
    /// Write every finding to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    findings: Option<PathBuf>,
    /// Ask this server for the manifest, instead of the database
    #[arg(long, env = "HOGLAKE_SERVER", value_name = "URL")]
    server: Option<String>,
    /// Token for the server
    #[arg(long, env = "HOGLAKE_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    token: Option<Secret>,
    /// Where temporary files go [default: the system's]; some 200 bytes an object, for millions of them
    #[arg(long, env = "HOGLAKE_TEMP_DIR", value_name = "DIR")]
    temp_dir: Option<PathBuf>,
    #[command(flatten)]
    database: DatabaseConfig,
    #[command(flatten)]
    stores: StoresConfig,
    #[command(flatten)]
    log: LogConfig,
}

/// Where the manifest comes from.
enum Origin {
    Database(Catalog),
    Server(remote::Server),
}

impl RestoreCheck {
    pub(super) fn run(self) -> Result<(), Failure> {
        config::refuse_replaced_variables()?;
        self.database.check()?;
        self.stores.check()?;
        logging::init(&self.log)?;
        let bar = spinner(self.json, "manifest".to_owned());
        let workplace = Workplace::new(self.temp_dir.clone().unwrap_or_else(std::env::temp_dir), bar.clone());
        let report = runtime(0)?.block_on(self.check(workplace));
        bar.finish_and_clear();
        let report = report?;
        if self.json {
            let json = serde_json::to_string(&report).map_err(|error| Failure::at("cannot write the report", error))?;
            say!("{json}");
        } else {
            print_text(&report);
        }
        match report.status {
            Status::Whole => Ok(()),
            Status::Orphans => Err(Failure::Orphans),
            Status::Damaged => Err(Failure::Damaged),
        }
    }

    async fn check(&self, workplace: Workplace) -> Result<Report, Failure> {
        if let Some(server) = &self.server {
            let origin = Origin::Server(remote::Server::new(server, self.token.as_ref())?);
            return self.compare(&origin, workplace).await;
        }
        let database = Database::existing(&self.database).await?;
        let checked = async {
            database.reach().await?;
            let open = |error| Failure::at("cannot open the database", error);
            let origin = Origin::Database(Catalog::open(database.options.clone()).map_err(open)?);
            let checked = self.compare(&origin, workplace).await;
            if let Origin::Database(catalog) = origin {
                catalog.close().await;
            }
            checked
        }
        .await;
        database.stop().await;
        checked
    }

    async fn compare(&self, origin: &Origin, workplace: Workplace) -> Result<Report, Failure> {
        let of = || format!("restore-check of catalog {}", self.catalog);
        let failed = |error: CheckError| Failure::at(of(), error);
        // Opened first: a mistyped path should not cost a listing of millions of objects.
        let mut every = match &self.findings {
            Some(path) => {
                let create = |error| Failure::at(format!("cannot write {} (--findings)", path.display()), error);
                Some(BufWriter::new(File::create(path).map_err(create)?))
            }
            None => None,
        };
        let manifest = match origin {
            Origin::Server(server) => {
                let response = server.get(&["catalogs", &self.catalog, "export"], "?unlisted=true").await?;
                restore_check::read(response.bytes_stream(), workplace.clone()).await
            }
            Origin::Database(catalog) => {
                let export = catalog.export(&self.catalog, true).await;
                match export.map_err(|error| Failure::at(of(), in_words(WorkError::Catalog(error))))? {
                    Body::Whole(text) => {
                        let whole = futures::stream::iter([Ok::<_, hoglake_catalog::Error>(text)]);
                        restore_check::read(whole, workplace.clone()).await
                    }
                    Body::Stream(chunks) => restore_check::read(chunks, workplace.clone()).await,
                }
            }
        };
        let manifest = manifest.map_err(failed)?;
        let stores = Stores::new(self.stores.store_config(true));
        let listing = restore_check::list(&stores, &manifest.data_path, workplace.clone()).await.map_err(failed)?;
        workplace.progress.set_message("comparing");
        let samples = self.samples;
        let compared = tokio::task::spawn_blocking(move || {
            let sink = every.as_mut().map(|file| file as &mut (dyn Write + Send));
            let report = restore_check::compare(manifest, listing, samples, sink)?;
            every.map_or(Ok(()), |mut file| file.flush()).map_err(CheckError::Findings)?;
            Ok(report)
        });
        let mut report = compared.await.map_err(|_| failed(CheckError::CutOff))?.map_err(failed)?;
        report.head_moved_to = Some(self.head(origin).await?).filter(|head| *head != report.head_snapshot_id);
        Ok(report)
    }

    async fn head(&self, origin: &Origin) -> Result<i64, Failure> {
        match origin {
            Origin::Database(catalog) => {
                let summary = catalog.catalog_get(&self.catalog).await;
                Ok(summary.map_err(|error| Failure::at("cannot ask for the head again", error))?.head_snapshot_id)
            }
            Origin::Server(server) => {
                let response = server.get(&["catalogs", &self.catalog], "").await?;
                let catalog: Value =
                    response.json().await.map_err(|error| Failure::at("cannot ask for the head again", error))?;
                let head = catalog["head_snapshot_id"].as_i64();
                head.ok_or_else(|| Failure::at("cannot ask for the head again", "the server's answer has none"))
            }
        }
    }
}

/// What each kind of finding is called, and what to do about it.
const KINDS: [(Kind, &str, &str); 8] = [
    (
        Kind::Missing,
        "missing",
        "data loss: reads of these tables fail. Bring the objects back (versions or a replica of the bucket), or restore to another moment",
    ),
    (
        Kind::SizeMismatch,
        "size mismatch",
        "data loss: somebody wrote over these objects. Bring the registered version back",
    ),
    (
        Kind::HistoryMissing,
        "history missing",
        "reads of older snapshots fail. Bring the objects back, or let the snapshots expire",
    ),
    (
        Kind::HistorySizeMismatch,
        "history size mismatch",
        "reads of older snapshots fail. Bring the objects back, or let the snapshots expire",
    ),
    (Kind::Retained, "retained history", "keep: older snapshots refer to them until they expire"),
    (Kind::Queued, "queued for removal", "leave them to clean-up"),
    (Kind::Staged, "staged outputs", "leave them to compaction and clean-up"),
    (
        Kind::Orphan,
        "orphans",
        "unknown to the catalog: of lost or unfinished commits, or of other programs. Register again or remove by hand",
    ),
];

fn print_text(report: &Report) {
    let time = report.head_snapshot_time.map_or_else(|| "?".to_owned(), hoglake_model::timestamp::format);
    say!("catalog {} at snapshot {} of {time}", report.catalog, report.head_snapshot_id);
    say!("below {}", report.data_path);
    say!("{:<24}{:>12} objects {:>18} bytes, as registered", "listed", report.listed.objects, report.listed.bytes);
    for (kind, name, remedy) in KINDS {
        let found = report.found(kind);
        if found.count.objects == 0 {
            continue;
        }
        say!("{name:<24}{:>12} objects {:>18} bytes: {remedy}", found.count.objects, found.count.bytes);
        if kind == Kind::Orphan {
            let after = report.unlisted.orphans_after_head;
            say!("{:<24}{:>12} objects {:>18} bytes", "  written after head", after.objects, after.bytes);
        }
        // What is where it belongs needs no list; --findings and --json have it.
        if matches!(kind, Kind::Retained | Kind::Queued | Kind::Staged) {
            continue;
        }
        for sample in &found.samples {
            let of = sample.table.as_ref().map(|table| format!(" of {table}")).unwrap_or_default();
            let sizes = match (sample.registered_bytes, sample.stored_bytes) {
                (Some(registered), Some(stored)) => format!(" ({registered} bytes registered, {stored} stored)"),
                _ => String::new(),
            };
            say!("    {}{of}{sizes}", sample.path);
        }
        if found.count.objects > found.samples.len() as u64 {
            say!("    and {} more (--findings FILE lists all)", found.count.objects - found.samples.len() as u64);
        }
    }
    if report.already_removed > 0 {
        say!("{:<24}{:>12} objects, which clean-up will take note of", "removed already", report.already_removed);
    }
    if report.outside_data_path > 0 {
        say!("{:<24}{:>12} paths, not looked for", "outside the data path", report.outside_data_path);
    }
    if let Some(head) = report.head_moved_to {
        say!("head moved to snapshot {head} meanwhile: check again while nothing is written, or findings may be false");
    }
}
