//! `hoglake serve`

use super::failure::Failure;
use crate::app::{App, Parts};
use crate::auth::Authenticator;
use crate::config::{self, Config};
use crate::{http, logging, router};
use hoglake_catalog::{Catalog, Options, migrations};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Runs the server until it is told to stop.
pub(super) fn run(config: Config) -> Result<(), Failure> {
    config::refuse_replaced_variables()?;
    config.check()?;
    logging::init(&config.log)?;
    runtime(config.http.worker_threads)?.block_on(serve(config))
}

fn runtime(threads: usize) -> Result<tokio::runtime::Runtime, Failure> {
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
    let address = config.http.address();
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| Failure::at(format!("cannot listen on {address} (--listen, HOGLAKE_LISTEN)"), error))?;
    let address = listener.local_addr().map_err(|error| Failure::at("cannot listen", error))?;
    tokio::spawn(auth.clone().keep_fresh());
    let catalog = open_catalog(&config).await?;
    let app = App::new(Parts { config, auth, catalog });
    tracing::info!(%address, "listening");
    http::serve(listener, router::router(&app), &app.config.http, stop).await;
    app.catalog.close().await;
    tracing::info!("stopped");
    Ok(())
}

/// Migrates the database and opens the store.
async fn open_catalog(config: &Config) -> Result<Catalog, Failure> {
    let url = config
        .database
        .url()?
        .ok_or_else(|| Failure::at("cannot start", "HOGLAKE_DATABASE_URL (--database-url) must be set"))?;
    let mut options = Options::new(url.expose());
    options.pool_size = config.database.db_pool_size;
    options.commit_lock_timeout = config.commit.lock_timeout();
    let report =
        migrations::migrate(&options).await.map_err(|error| Failure::at("cannot migrate the database", error))?;
    tracing::info!(version = report.version, applied = report.applied.len(), "schema is current");
    Catalog::open(options).map_err(|error| Failure::at("cannot open the catalog database", error))
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
