//! `hoglake openapi`

use super::failure::Failure;
use clap::ValueEnum;
use std::io::{ErrorKind, Write};

/// Which contract to print.
#[derive(Debug, clap::Args)]
pub(super) struct Openapi {
    /// The API to describe
    #[arg(value_enum, default_value_t = Which::Catalog)]
    which: Which,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Which {
    /// Tables, snapshots, commits
    Catalog,
    /// Converting between table formats
    Conversion,
}

impl Openapi {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let text = match self.which {
            Which::Catalog => crate::contract::CATALOG,
            Which::Conversion => crate::contract::CONVERSION,
        };
        match std::io::stdout().write_all(text.as_bytes()) {
            // whoever reads has seen enough, as `head` does
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            printed => printed.map_err(|error| Failure::at("cannot print the contract", error)),
        }
    }
}
