//! `hoglake serve`

use super::database::Database;
use super::failure::Failure;
use crate::app::{App, Parts};
use crate::audit::Audit;
use crate::auth::Authenticator;
use crate::config::log::AuditPlace;
use crate::config::{self, Config};
use crate::health::Health;
use crate::{http, logging, metrics, router};
use hoglake_catalog::Catalog;
use hoglake_catalog::probe::Probe;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Runs the server until it is told to stop.
pub(super) fn run(config: Config) -> Result<(), Failure> {
    config::refuse_replaced_variables()?;
    config.check()?;
    logging::init(&config.log)?;
    runtime(config.http.worker_threads)?.block_on(serve(config))
}

pub(super) fn runtime(threads: usize) -> Result<tokio::runtime::Runtime, Failure> {
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2)),
        threads => threads,
    };
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .max_blocking_threads(64)
        .thread_name("hoglake")
        .enable_all()
        .build()
        .map_err(|error| Failure::at("cannot start threads", error))
}

async fn serve(config: Config) -> Result<(), Failure> {
    let stop = stop_signal()?;
    let auth = Authenticator::load(config.auth.tokens_file.clone())?;
    let audit = Audit::open(config.log.audit_log.as_ref().unwrap_or(&AuditPlace::Stdout))?;
    // Bound first: a taken port should not cost a start of Postgres.
    let address = config.http.address();
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| Failure::at(format!("cannot listen on {address} (HOGLAKE_LISTEN, --listen)"), error))?;
    let database = Database::start(&config.database, Some(&config.commit)).await?;
    let served = serve_on(listener, config, &database, auth, audit.clone(), stop).await;
    database.stop().await;
    audit.flush();
    tracing::info!("stopped");
    served
}

async fn serve_on(
    listener: TcpListener,
    config: Config,
    database: &Database,
    auth: Authenticator,
    audit: Audit,
    stop: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let mut stop = std::pin::pin!(stop);
    tokio::select! {
        migrated = database.migrate() => drop(migrated?),
        () = stop.as_mut() => return Ok(()),
    }
    let open = |error| Failure::at("cannot open the database (HOGLAKE_DATABASE_URL, --database-url)", error);
    let catalog = Catalog::open(database.options.clone()).map_err(open)?;
    let probe = Probe::open(&database.options).map_err(open)?;
    let metrics = metrics::install().map_err(|error| Failure::at("cannot record metrics", error))?;
    tokio::spawn(metrics::upkeep(metrics.clone()));
    tokio::spawn(auth.clone().keep_fresh());

    let address = listener.local_addr().map_err(|error| Failure::at("cannot listen", error))?;
    let health = Health::new(probe, config.database.health_timeout_ms);
    let app = App::new(Parts { config, catalog: catalog.clone(), auth, audit, health, metrics });
    tracing::info!(%address, "listening");
    http::serve(listener, router::router(&app), &app.config.http, stop).await;
    catalog.close().await;
    Ok(())
}

/// Resolves at the first SIGTERM or SIGINT. The second one ends the process at once.
fn stop_signal() -> Result<impl Future<Output = ()>, Failure> {
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
