//! `hoglake openapi`

use super::failure::Failure;
use super::stdout::say;
use clap::ValueEnum;

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
        say!("{}", text.trim_end());
        Ok(())
    }
}
