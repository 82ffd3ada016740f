//! `hoglake dev`

use super::database::Database;
use super::failure::Failure;
use super::parse;
use super::serve::{GOODBYE, Server, bind, runtime, stop_signal};
use crate::config::log::AuditPlace;
use crate::config::{self, Config};
use crate::dev::object_store::{self, ACCESS_KEY, BUCKET, REGION, SECRET_KEY};
use crate::dev::welcome::Welcome;
use crate::{http, logging};
use clap::CommandFactory;
use futures::FutureExt;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Settings of `dev`: those of `serve`, and the object store's.
#[derive(Debug, clap::Args)]
pub(super) struct Dev {
    #[command(flatten)]
    config: Config,
    /// Address of the local object store, on the loopback interface; port 0 picks a free one
    #[arg(long, env = "HOGLAKE_S3_LISTEN", value_name = "HOST:PORT", default_value = "127.0.0.1:9000", value_parser = config::http::listen_address, help_heading = "Object store")]
    s3_listen: SocketAddr,
    /// Say where everything is as one JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl Dev {
    pub(super) fn run(mut self) -> Result<(), Failure> {
        config::refuse_replaced_variables()?;
        self.config.check()?;
        object_store::check_address(self.s3_listen)?;
        logging::init(&self.config.log)?;
        parse::warn_of_unknown_variables(&super::Cli::command());
        let state_dir = self.config.database.state_dir()?;
        std::fs::create_dir_all(&state_dir)
            .map_err(|error| Failure::at(format!("cannot make {} (HOGLAKE_STATE_DIR)", state_dir.display()), error))?;
        let audit_file = AuditPlace::File(state_dir.join("audit.jsonl"));
        self.config.log.audit_log.get_or_insert(audit_file);
        let runtime = runtime(self.config.http.worker_threads)?;
        let served = runtime.block_on(self.serve(&state_dir));
        runtime.shutdown_timeout(GOODBYE);
        served
    }

    async fn serve(mut self, state_dir: &Path) -> Result<(), Failure> {
        let stop = stop_signal()?.shared();
        let api_listener = bind(self.config.http.address(), "HOGLAKE_LISTEN, --listen").await?;
        let s3_listener = bind(self.s3_listen, "HOGLAKE_S3_LISTEN, --s3-listen").await?;
        let address =
            |listener: &TcpListener| listener.local_addr().map_err(|error| Failure::at("cannot listen", error));
        let (api, s3) = (address(&api_listener)?, address(&s3_listener)?);
        self.use_object_store(s3)?;

        let database = Database::start(&self.config.database, Some(&self.config.commit)).await?;
        let served = async {
            let server = Server::prepare(self.config.clone(), &database, stop.clone()).await?;
            let Some(server) = server else { return Ok(()) };
            let store = ObjectStore::start(s3_listener, &self.config, &state_dir.join("objects"))?;
            let welcome = Welcome::new(api, s3, state_dir.to_owned());
            let shown = if self.json { serde_json::json!(welcome).to_string() } else { welcome.to_string() };
            // nobody need read it
            let _ = writeln!(std::io::stdout(), "{shown}");
            server.run(api_listener, stop).await;
            store.stop().await;
            Ok(())
        };
        let served = served.await;
        database.stop().await;
        tracing::info!("stopped");
        served
    }

    /// Points the server itself at the local object store.
    fn use_object_store(&mut self, address: SocketAddr) -> Result<(), Failure> {
        let s3 = &mut self.config.stores;
        s3.s3_endpoint = Some(format!("http://{address}"));
        REGION.clone_into(&mut s3.s3_region);
        s3.s3_access_key = ACCESS_KEY.parse().ok();
        s3.s3_secret_key = SECRET_KEY.parse().ok();
        s3.s3_path_style = true;
        let roots = &mut self.config.conversion.conversion_roots;
        if roots.is_empty() {
            roots.push(format!("s3://{BUCKET}/"));
        }
        Ok(self.config.check()?)
    }
}

/// The local object store, running.
struct ObjectStore {
    stop: oneshot::Sender<()>,
    task: JoinHandle<http::Shutdown>,
}

impl ObjectStore {
    fn start(listener: TcpListener, config: &Config, folder: &Path) -> Result<Self, Failure> {
        let router = object_store::router(folder)
            .map_err(|error| Failure::at(format!("cannot keep objects in {}", folder.display()), error))?;
        let (stop, stopped) = oneshot::channel::<()>();
        let config = config.http.clone();
        let task = tokio::spawn(async move { http::serve(listener, router, &config, stopped.map(drop)).await });
        Ok(Self { stop, task })
    }

    async fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}
