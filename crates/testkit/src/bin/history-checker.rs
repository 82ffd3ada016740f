//! Points the history checker at a deployment.
//!
//!     cargo run -p hoglake-testkit --bin history-checker -- --url http://127.0.0.1:8080
//!
//! Exit code 0: the history holds. 1: it does not; the breaches are printed. 2: the deployment could not be judged.

use clap::Parser;
use hoglake_testkit::history::{Plan, check};
use std::process::ExitCode;
use std::time::Duration;

/// Drives a hoglake deployment and proves that its history is the one it told.
#[derive(Parser)]
struct Arguments {
    /// Base URL of a server; give it once for each server of the deployment
    #[arg(long = "url", required = true)]
    urls: Vec<String>,
    /// Bearer token
    #[arg(long, env = "HOGLAKE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Root below which the checker's own catalog gets its data path; no object is written
    #[arg(long, default_value = "s3://history-checker")]
    data_root: String,
    /// Clients that append and delete
    #[arg(long, default_value_t = 8)]
    writers: usize,
    /// Clients that change schemas
    #[arg(long, default_value_t = 2)]
    ddl_clients: usize,
    /// Clients that read
    #[arg(long, default_value_t = 3)]
    readers: usize,
    /// Length of the load
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How long one request is tried again while servers are away
    #[arg(long, default_value_t = 60)]
    patience_seconds: u64,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let plan = Plan {
        urls: arguments.urls,
        token: arguments.token,
        data_root: arguments.data_root,
        writers: arguments.writers,
        ddl_clients: arguments.ddl_clients,
        readers: arguments.readers,
        duration: Duration::from_secs(arguments.seconds),
        patience: Duration::from_secs(arguments.patience_seconds),
    };
    let report = match check(&plan).await {
        Ok(report) => report,
        Err(failure) => {
            eprintln!("{failure}");
            return ExitCode::from(2);
        }
    };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report).unwrap_or_default());
    } else {
        println!(
            "{} snapshots: {} commits, {} schema changes, {} reads, {} mutations retried; catalog {}",
            report.head_snapshot_id, report.commits, report.ddl, report.reads, report.retried, report.catalog
        );
        for (outcome, count) in &report.outcomes {
            println!("  {count:>7}  {outcome}");
        }
        for breach in &report.breaches {
            println!("BREACH {breach}");
        }
        println!("{}", if report.passed() { "the history holds" } else { "the history does NOT hold" });
    }
    if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
