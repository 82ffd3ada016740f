//! The history checker: drives many writers, deleters, schema changers and readers against a deployment, keeps what it
//! was told, and proves afterwards, through the API alone, that the catalog's history is the one it was told.
//!
//! It needs no access to Postgres or the object store, and may be pointed at several servers of one deployment, which may
//! be killed and restarted while it runs. It works in a catalog of its own.
//!
//! What it proves is listed in [`verdict`].

mod client;
mod readers;
mod record;
pub mod verdict;
mod writers;

use client::{Client, Failure};
use record::Record;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use verdict::Report;

/// What to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Base URLs of the servers, without `/v1`; requests go round.
    pub urls: Vec<String>,
    /// Bearer token, where the deployment asks for one.
    pub token: Option<String>,
    /// Root below which the checker's catalog gets its data path.
    pub data_root: String,
    /// Writers that append and delete.
    pub writers: usize,
    /// Clients that create, alter, rename and drop tables.
    pub ddl_clients: usize,
    /// Readers.
    pub readers: usize,
    /// How long to drive the load.
    pub duration: Duration,
    /// How long one request is tried again while servers are away.
    pub patience: Duration,
}

impl Plan {
    /// A short run with eight writers against `urls`.
    pub fn new(urls: Vec<String>) -> Self {
        Self {
            urls,
            token: None,
            data_root: "s3://history-checker".to_owned(),
            writers: 8,
            ddl_clients: 2,
            readers: 3,
            duration: Duration::from_secs(10),
            patience: Duration::from_secs(60),
        }
    }
}

/// What every client of a run shares.
pub(crate) struct Run {
    client: Client,
    catalog: String,
    data_path: String,
    record: Record,
    over: AtomicBool,
}

impl Run {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// Runs `plan` and judges the history.
///
/// # Errors
/// When the deployment cannot be reached for longer than the plan's patience, or answers outside its contract.
pub async fn check(plan: &Plan) -> Result<Report, Failure> {
    let catalog = format!("history-{}", uuid::Uuid::new_v4().simple());
    let run = Arc::new(Run {
        client: Client::new(&plan.urls, plan.token.as_deref(), plan.patience)?,
        data_path: format!("{}/{catalog}", plan.data_root.trim_end_matches('/')),
        catalog,
        record: Record::default(),
        over: AtomicBool::new(false),
    });
    run.client.write("/catalogs", "POST", &json!({"name": run.catalog, "data_path": run.data_path})).await?;
    run.client.write(&format!("/catalogs/{}/namespaces", run.catalog), "POST", &json!({"name": "ns"})).await?;
    for table in 0..TABLES {
        writers::create_table(&run, table).await?;
    }
    let mut clients = tokio::task::JoinSet::new();
    for id in 0..plan.writers {
        clients.spawn(writers::write(Arc::clone(&run), id));
    }
    for id in 0..plan.ddl_clients {
        clients.spawn(writers::change_schemas(Arc::clone(&run), id));
    }
    for id in 0..plan.readers {
        clients.spawn(readers::read(Arc::clone(&run), id));
    }
    tokio::time::sleep(plan.duration).await;
    run.over.store(true, Ordering::Relaxed);
    while let Some(ended) = clients.join_next().await {
        ended.map_err(|e| Failure::Contract(format!("a client of the checker panicked: {e}")))??;
    }
    verdict::judge(&run).await
}

/// Tables that the load works on: `t0`, `t1`, ...
pub(crate) const TABLES: usize = 4;
