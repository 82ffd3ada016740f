//! Reads flags and `HOGLAKE_*` variables.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory, FromArgMatches};
use std::process::ExitCode;

/// Parses the command line of this process, or prints why not (or the help) and says how to exit.
pub(super) fn parse<C: CommandFactory + FromArgMatches>() -> Result<C, ExitCode> {
    let mut command = blank_is_unset(C::command());
    let parsed = command
        .try_get_matches_from_mut(std::env::args_os())
        .and_then(|matches| C::from_arg_matches(&matches).map_err(|error| error.format(&mut command)));
    parsed.map_err(|error| {
        let _ = error.print();
        if let Some(variable) = variable_of(&command, &error) {
            eprintln!("\nThe environment sets it: {variable}");
        }
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
    })
}

/// Makes a variable that is set to nothing, or to blanks, count as unset, in all subcommands.
fn blank_is_unset(command: Command) -> Command {
    let command = command.mut_args(|argument| if is_blank(&argument) { argument.env(None::<&str>) } else { argument });
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, blank_is_unset))
}

fn is_blank(argument: &Arg) -> bool {
    argument.get_env().and_then(std::env::var_os).is_some_and(|value| value.to_string_lossy().trim().is_empty())
}

/// The variable behind the setting that `error` complains about, when the value came from there.
fn variable_of(command: &Command, error: &clap::Error) -> Option<String> {
    if !matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) {
        return None;
    }
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else { return None };
    let flag = shown.split_whitespace().next()?.split('=').next()?.strip_prefix("--")?.trim_end_matches('[');
    if std::env::args().any(|given| given.strip_prefix("--").is_some_and(|given| given.split('=').next() == Some(flag)))
    {
        return None;
    }
    find_env(command, flag)
}

fn find_env(command: &Command, flag: &str) -> Option<String> {
    let here = command.get_arguments().find(|argument| argument.get_long() == Some(flag));
    here.and_then(|argument| argument.get_env())
        .map(|variable| variable.to_string_lossy().into_owned())
        .or_else(|| command.get_subcommands().find_map(|sub| find_env(sub, flag)))
}
