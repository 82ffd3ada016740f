//! The command line.

mod database;
mod dev;
mod failure;
mod inspect;
mod maintain;
mod migrate;
mod openapi;
mod parse;
mod restore_check;
mod serve;
mod spinner;
mod stdout;
mod storage;
mod sync;
mod token;

use crate::config::Config;
use clap::{Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;

/// A lakehouse catalog on Postgres, and a converter between table formats.
#[derive(Debug, Parser)]
#[command(name = "hoglake", version, about, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the catalog and conversion APIs
    ///
    /// Without --database-url, a private Postgres runs in --state-dir and stops with the server.
    Serve(Box<Config>),
    /// Serve everything on one machine: the APIs, their Postgres, and an S3 endpoint over a folder
    ///
    /// Prints the endpoints, the keys and a first session to paste.
    Dev(Box<dev::Dev>),
    /// Bring the database's schema up to date, and exit
    ///
    /// `serve` does the same when it starts.
    Migrate(Box<migrate::Migrate>),
    /// Convert tables between formats, in place and without Postgres
    Sync(Box<sync::Sync>),
    /// Say what a table is: format, schema, files, deletes, and what other formats could not express
    Inspect(Box<inspect::Inspect>),
    /// Read statistics of pending files from their footers
    Hydrate(Box<maintain::Maintain>),
    /// Expire snapshots that are older than the catalog's retention
    Expire(Box<maintain::Maintain>),
    /// Delete files that nothing refers to any more
    Clean(Box<maintain::Maintain>),
    /// Merge small files
    Compact(Box<maintain::Maintain>),
    /// Check a catalog's invariants; exits with 3 when one is violated
    Verify(Box<maintain::Maintain>),
    /// Compare a catalog with its object store, after a restore or before one is promoted; changes neither
    ///
    /// Exits with 3 when something that the catalog needs is missing or has another size, with 4 when nothing is missing
    /// but the store holds objects that the catalog does not know.
    RestoreCheck(Box<restore_check::RestoreCheck>),
    /// Print the contract
    Openapi(openapi::Openapi),
    /// Manage bearer tokens
    #[command(subcommand)]
    Token(token::Token),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    // Every TLS client of the process uses ring; it fails only when something has chosen before us.
    let _chosen = rustls::crypto::ring::default_provider().install_default();
    let cli: Cli = match parse::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let outcome = match cli.command {
        Command::Serve(config) => serve::run(*config),
        Command::Dev(dev) => dev.run(),
        Command::Migrate(migrate) => migrate.run(),
        Command::Sync(sync) => sync.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Hydrate(maintain) => maintain.run(maintain::Task::Hydrate),
        Command::Expire(maintain) => maintain.run(maintain::Task::Expire),
        Command::Clean(maintain) => maintain.run(maintain::Task::Clean),
        Command::Compact(maintain) => maintain.run(maintain::Task::Compact),
        Command::Verify(maintain) => maintain.run(maintain::Task::Verify),
        Command::RestoreCheck(check) => check.run(),
        Command::Openapi(openapi) => openapi.run(),
        Command::Token(token) => token.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // the exit code says it even where nobody reads
            let _ = writeln!(std::io::stderr(), "hoglake: {failure}");
            failure.exit_code()
        }
    }
}
