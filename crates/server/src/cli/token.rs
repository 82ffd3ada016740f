//! `hoglake token`

use super::failure::Failure;
use super::stdout::say;
use crate::auth::token::{TokenHash, generate};
use crate::auth::{Grant, tokens_file};
use clap::Subcommand;

/// Managing bearer tokens.
#[derive(Debug, Subcommand)]
pub(super) enum Token {
    /// Make a token: prints it once, with the line to add to the tokens file
    New(NewToken),
}

/// Makes a token.
#[derive(Debug, clap::Args)]
pub(super) struct NewToken {
    /// Who will hold it: the actor of the audit trail
    #[arg(long, value_parser = name)]
    name: String,
    /// What it may do, as catalog:access with access read, write or admin and * for all catalogs; may be repeated
    #[arg(long, required = true, value_name = "CATALOG:ACCESS", value_delimiter = ',')]
    scope: Vec<Grant>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

fn name(text: &str) -> Result<String, String> {
    tokens_file::check_name(text).map(|()| text.to_owned())
}

impl Token {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let Self::New(new) = self;
        let token = generate().map_err(|error| Failure::at("cannot make a token", error))?;
        let line = tokens_file::line(&new.name, &TokenHash::of(&token), &new.scope);
        if new.json {
            say!("{}", serde_json::json!({"token": token, "line": line}));
        } else {
            say!("Token (shown this once; send it as `Authorization: Bearer ...`):\n\n  {token}\n");
            say!("Line for the file that HOGLAKE_TOKENS_FILE names:\n\n  {line}");
        }
        Ok(())
    }
}
