//! `hoglake migrate`

use super::database::Database;
use super::failure::Failure;
use super::serve::runtime;
use super::stdout::say;
use crate::config;
use crate::config::database::DatabaseConfig;
use crate::config::log::LogConfig;
use crate::logging;

/// Settings of `migrate`.
#[derive(Debug, clap::Args)]
pub(super) struct Migrate {
    #[command(flatten)]
    database: DatabaseConfig,
    #[command(flatten)]
    log: LogConfig,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl Migrate {
    pub(super) fn run(self) -> Result<(), Failure> {
        config::refuse_replaced_variables()?;
        self.database.check()?;
        logging::init(&self.log)?;
        runtime(2)?.block_on(async {
            let database = Database::start(&self.database, None).await?;
            let report = database.migrate_patiently().await;
            database.stop().await;
            let report = report?;
            if self.json {
                say!("{}", serde_json::json!(report));
            } else if report.applied.is_empty() {
                say!("The schema is up to date (version {}).", report.version);
            } else {
                say!("Applied {} (version {}).", report.applied.join(", "), report.version);
            }
            Ok(())
        })
    }
}
