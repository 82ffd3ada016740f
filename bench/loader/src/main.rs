//! Closed-loop writers against one catalog: each sends its next commit when the last one was answered.
//!
//! The client is a hundred lines over a socket on purpose: it shares two cores with the server and Postgres, and what it
//! spends is taken from them. Every answer is read and its status checked. Prints one JSON object.

mod commit;
mod connection;

use clap::Parser;
use connection::Connection;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[derive(Parser)]
struct Arguments {
    /// `host:port` of the server
    #[arg(long)]
    address: String,
    /// Catalog to write to
    #[arg(long)]
    catalog: String,
    /// Its data path
    #[arg(long)]
    data_path: String,
    /// Namespace of the tables `t0`, `t1`, ...
    #[arg(long, default_value = "bench")]
    namespace: String,
    /// Tables to spread the writers over
    #[arg(long, default_value_t = 1)]
    tables: usize,
    /// Concurrent writers, one connection each
    #[arg(long, default_value_t = 1)]
    writers: usize,
    /// How long to go on
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Stop after this many commits in all
    #[arg(long)]
    commits: Option<usize>,
    /// Files a commit
    #[arg(long, default_value_t = 1)]
    files: usize,
    /// Size that a file is registered with
    #[arg(long, default_value_t = 4_194_304)]
    file_bytes: u64,
    /// Columns with statistics a file
    #[arg(long, default_value_t = 10)]
    columns: usize,
}

#[derive(Default)]
struct Tally {
    latencies_us: Vec<u64>,
    refused: Vec<String>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arc::new(Arguments::parse());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (tallies, elapsed) = runtime.block_on(run(&arguments))?;
    let mut latencies: Vec<u64> = tallies.iter().flat_map(|t| t.latencies_us.iter().copied()).collect();
    latencies.sort_unstable();
    let refused: Vec<&String> = tallies.iter().flat_map(|t| &t.refused).collect();
    let quantile =
        |q: f64| latencies.get(((latencies.len() as f64 * q) as usize).min(latencies.len().saturating_sub(1)));
    let milliseconds = |q: f64| quantile(q).map(|us| *us as f64 / 1000.0);
    println!(
        "{}",
        serde_json::json!({
            "writers": arguments.writers,
            "commits": latencies.len(),
            "seconds": elapsed.as_secs_f64(),
            "commits_per_second": latencies.len() as f64 / elapsed.as_secs_f64(),
            "p50_ms": milliseconds(0.5),
            "p95_ms": milliseconds(0.95),
            "p99_ms": milliseconds(0.99),
            "refused": refused.len(),
            "first_refusal": refused.first(),
        })
    );
    Ok(())
}

async fn run(arguments: &Arc<Arguments>) -> Result<(Vec<Tally>, Duration), Box<dyn std::error::Error>> {
    let done = Arc::new(AtomicBool::new(false));
    let mut connections = Vec::new();
    for _ in 0..arguments.writers {
        connections.push(Connection::open(&arguments.address).await?);
    }
    let started = Instant::now();
    let local = tokio::task::LocalSet::new();
    let tallies = local
        .run_until(async {
            let writers: Vec<_> = connections
                .into_iter()
                .enumerate()
                .map(|(index, connection)| {
                    tokio::task::spawn_local(write(index, connection, Arc::clone(arguments), Arc::clone(&done)))
                })
                .collect();
            let stop = tokio::task::spawn_local({
                let done = Arc::clone(&done);
                let length = Duration::from_secs_f64(arguments.seconds);
                async move {
                    tokio::time::sleep(length).await;
                    done.store(true, Ordering::Relaxed);
                }
            });
            let mut tallies = Vec::new();
            for writer in writers {
                tallies.push(writer.await??);
            }
            stop.abort();
            Ok::<_, Box<dyn std::error::Error>>(tallies)
        })
        .await?;
    Ok((tallies, started.elapsed()))
}

async fn write(
    index: usize,
    mut connection: Connection,
    arguments: Arc<Arguments>,
    done: Arc<AtomicBool>,
) -> std::io::Result<Tally> {
    let mut tally = Tally::default();
    let share = arguments.commits.map(|commits| commits.div_ceil(arguments.writers));
    let mut body = commit::Body::new(&arguments, index);
    let path = format!("/v1/catalogs/{}/commit", arguments.catalog);
    let mut sequence = 0;
    while !done.load(Ordering::Relaxed) && share.is_none_or(|share| sequence < share) {
        let request = body.fill(sequence);
        let started = Instant::now();
        let (status, answer) = connection.post(&path, request).await?;
        if status == 200 {
            tally.latencies_us.push(u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX));
        } else {
            tally.refused.push(format!("{status} {answer}"));
        }
        sequence += 1;
    }
    Ok(tally)
}
