//! `hoglake serve`

use super::database::Database;
use super::failure::Failure;
use super::parse;
use crate::api::extract::BodyBudget;
use crate::app::{App, Parts};
use crate::audit::Audit;
use crate::auth::Authenticator;
use crate::config::log::AuditPlace;
use crate::config::{self, Config};
use crate::conversion::service::{self, Converter};
use crate::health::Health;
use crate::worker::driver::Driver;
use crate::worker::{self, Worker};
use crate::{http, logging, metrics, publisher, router};
use clap::CommandFactory;
use futures::FutureExt;
use hoglake_catalog::Catalog;
use hoglake_catalog::probe::Probe;
use hoglake_formats::store::Stores;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// How long a read or write of a file that hangs, on a network drive for example, may hold up the end of the process.
pub(super) const GOODBYE: std::time::Duration = std::time::Duration::from_secs(2);

/// Runs the server until it is told to stop.
pub(super) fn run(config: Config) -> Result<(), Failure> {
    config::refuse_replaced_variables()?;
    config.check()?;
    logging::init(&config.log)?;
    parse::warn_of_unknown_variables(&super::Cli::command());
    let runtime = runtime(config.http.worker_threads)?;
    let served = runtime.block_on(serve(config));
    runtime.shutdown_timeout(GOODBYE);
    served
}

pub(super) fn runtime(threads: usize) -> Result<tokio::runtime::Runtime, Failure> {
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2)),
        threads => threads,
    };
    raise_open_files();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .max_blocking_threads(64)
        .thread_name("hoglake")
        .enable_all()
        .build()
        .map_err(|error| Failure::at("cannot start threads", error))
}

/// Allows as many open files as the system lets this process have: each connection is one, and the usual soft limit of
/// 1024 is for programs that still use `select`. Idle connections up to it would keep probes out.
fn raise_open_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(soft, hard)| if soft < hard { setrlimit(Resource::RLIMIT_NOFILE, hard, hard) } else { Ok(()) });
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
}

async fn serve(config: Config) -> Result<(), Failure> {
    let stop = stop_signal()?.shared();
    // Bound first: a taken port should not cost a start of Postgres.
    let listener = bind(config.http.address(), "HOGLAKE_LISTEN, --listen").await?;
    let database = Database::start(&config.database, Some(&config.commit)).await?;
    let server = Server::prepare(config, &database, stop.clone()).await;
    let served = match server {
        Ok(Some(server)) => {
            server.run(listener, stop).await;
            Ok(())
        }
        Ok(None) => Ok(()),
        Err(failure) => Err(failure),
    };
    database.stop().await;
    tracing::info!("stopped");
    served
}

/// Takes the address; `setting` is where it comes from.
pub(super) async fn bind(address: SocketAddr, setting: &str) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| Failure::at(format!("cannot listen on {address} ({setting})"), error))
}

/// A server that lacks only its listener.
pub(super) struct Server(App);

impl Server {
    /// Brings the schema up to date and opens everything that a request needs; `None` when `stop` comes first.
    pub(super) async fn prepare(
        config: Config,
        database: &Database,
        stop: impl Future<Output = ()>,
    ) -> Result<Option<Self>, Failure> {
        let auth = Authenticator::load(config.auth.tokens_file.clone())?;
        let audit = Audit::open(config.log.audit_log.as_ref().unwrap_or(&AuditPlace::Stdout))?;
        tokio::select! {
            migrated = database.migrate_patiently() => drop(migrated?),
            () = stop => return Ok(None),
        }
        let open = |error| Failure::at("cannot open the database (HOGLAKE_DATABASE_URL, --database-url)", error);
        let mut options = database.options.clone();
        options.compaction_target_bytes = config.maintenance.compaction_target_bytes;
        options.compaction_lease = config.maintenance.compaction_lease();
        let catalog = Catalog::open(options).map_err(open)?;
        let probe = Probe::open(&database.options).map_err(open)?;
        let health = Health::new(probe, config.database.health_timeout_ms);
        let metrics = metrics::install().map_err(|error| Failure::at("cannot record metrics", error))?;
        tokio::spawn(metrics::upkeep(metrics.clone()));
        tokio::spawn(auth.clone().keep_fresh());
        if let Some(interval) = config.metrics.interval() {
            tokio::spawn(metrics::sample(catalog.clone(), interval));
        }
        let worker = Worker::new(worker::Parts {
            catalog: catalog.clone(),
            stores: Arc::new(Stores::new(config.store_config())),
            audit: audit.clone(),
            settings: config.maintenance.clone(),
            serves: true,
        });
        let conversion = config.conversion.clone();
        let converter = Converter::new(catalog.clone(), audit.clone(), conversion, config.store_config())?;
        let bodies = BodyBudget::new(config.http.body_budget_bytes);
        Ok(Some(Self(App::new(Parts { config, bodies, catalog, auth, audit, worker, converter, health, metrics }))))
    }

    /// Serves until `stop`, then answers what was accepted and closes the database.
    pub(super) async fn run(self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let Self(app) = self;
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, "listening");
        }
        let driver = Driver::start(&app.worker);
        let conversions = service::Driver::start(&app.converter);
        let publisher = publisher::Driver::start(&app.worker, &app.config.kafka);
        let stop = {
            let (stop_timers, worker) = (driver.stopper(), app.worker.clone());
            let patience = app.config.http.shutdown_timeout_ms / 2;
            async move {
                stop.await;
                stop_timers();
                // what was asked for has a while to end by itself, and then one to give back what it has claimed
                tokio::spawn(async move {
                    tokio::time::sleep(patience).await;
                    worker.stop();
                });
            }
        };
        http::serve(listener, router::router(&app), &app.config.http, stop).await;
        tokio::join!(driver.stop(), publisher.stop());
        conversions.stop(app.config.http.shutdown_timeout_ms).await;
        // Accepted commits finish here; a database that hangs must not keep the process for ever.
        if tokio::time::timeout(app.config.http.shutdown_timeout_ms, app.catalog.close()).await.is_err() {
            tracing::warn!("the database did not let go of its connections in time");
        }
        app.audit.flush();
    }
}

/// Resolves at the first SIGTERM or SIGINT. The second one ends the process at once.
pub(super) fn stop_signal() -> Result<impl Future<Output = ()>, Failure> {
    let watch = |kind| signal(kind).map_err(|error| Failure::at("cannot watch signals", error));
    let (mut terminate, mut interrupt) = (watch(SignalKind::terminate())?, watch(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            std::process::exit(130);
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::resource::{Resource, getrlimit, setrlimit};

    #[test]
    fn the_soft_limit_of_open_files_is_no_limit() {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, soft - 1, hard).unwrap();
        raise_open_files();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (hard, hard));
    }
}
