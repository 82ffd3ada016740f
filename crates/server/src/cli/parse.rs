//! Reads flags and `HOGLAKE_*` variables.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches};
use std::collections::BTreeSet;
use std::process::ExitCode;

/// Parses the command line of this process, or prints why not (or the help) and says how to exit.
pub(super) fn parse<C: CommandFactory + FromArgMatches>() -> Result<C, ExitCode> {
    let mut command = blank_is_unset(C::command());
    let parsed = matches(&mut command)
        .and_then(|matches| C::from_arg_matches(&matches).map_err(|error| error.format(&mut command)));
    parsed.map_err(|mut error| {
        hide_secret(&command, &mut error);
        let _ = error.print();
        if let Some(variable) = variable_of(&command, &error) {
            eprintln!("\nThe environment sets it: {variable}");
        }
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
    })
}

/// Where a command works that can work in several places: a flag for one of them beats a variable for another. A server and
/// a database contradict each other as flags.
const SERVER: &str = "server";
const DATABASE: [&str; 2] = ["database_url", "state_dir"];
/// Which database, where it is not the private one.
const NAMED: [&str; 3] = ["database_url", "db_user", "db_password"];

fn matches(command: &mut Command) -> clap::error::Result<ArgMatches> {
    let unparsed = command.clone();
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    let Some((name, given)) = matches.subcommand() else { return Ok(matches) };
    let source = |id: &str| given.ids().any(|given| given == id).then(|| given.value_source(id)).flatten();
    let told = |id: &str| source(id) == Some(ValueSource::CommandLine);
    let Some(database) = DATABASE.into_iter().find(|id| told(id)) else { return Ok(matches) };
    if told(SERVER) {
        let flag = database.replace('_', "-");
        let why = format!("--server and --{flag} cannot be used together: the command works on one or on the other");
        return Err(command.error(ErrorKind::ArgumentConflict, why));
    }
    let in_several_places = unparsed
        .find_subcommand(name)
        .is_some_and(|sub| sub.get_arguments().any(|argument| argument.get_id().as_str() == SERVER));
    let is_private = in_several_places && database == "state_dir";
    let others = NAMED.into_iter().filter(|_| is_private).chain([SERVER]);
    let beaten: Vec<_> = others.filter(|id| source(id) == Some(ValueSource::EnvVariable)).collect();
    if beaten.is_empty() {
        return Ok(matches);
    }
    let unset = |sub: Command, id: &&str| sub.mut_arg(*id, |argument| argument.env(None::<&str>));
    *command = unparsed.mut_subcommand(name, |sub| beaten.iter().fold(sub, unset));
    command.try_get_matches_from_mut(std::env::args_os())
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

/// Warns of `HOGLAKE_*` variables that no setting reads: most likely a slip of the pen.
pub(super) fn warn_of_unknown_variables(command: &Command) {
    let mut known = BTreeSet::new();
    collect_variables(command, &mut known);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("HOGLAKE_") && !known.contains(&name) {
            tracing::warn!(variable = name, "this variable is set, but no setting has that name");
        }
    }
}

fn collect_variables(command: &Command, known: &mut BTreeSet<String>) {
    known.extend(command.get_arguments().filter_map(Arg::get_env).map(|name| name.to_string_lossy().into_owned()));
    command.get_subcommands().for_each(|sub| collect_variables(sub, known));
}

/// Takes the value of a setting that may hold a secret out of the message about it.
fn hide_secret(command: &Command, error: &mut clap::Error) {
    let secret = flag_of(error).and_then(|flag| find(command, &flag)).is_some_and(Arg::is_hide_env_values_set);
    if secret && error.get(ContextKind::InvalidValue).is_some() {
        error.insert(ContextKind::InvalidValue, ContextValue::String("[not shown]".to_owned()));
    }
}

/// The flag that `error` complains about, without its dashes.
fn flag_of(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else { return None };
    let flag = shown.split(|c: char| c.is_whitespace() || c == '=' || c == '[').next()?;
    flag.strip_prefix("--").map(str::to_owned)
}

/// The variable behind the setting that `error` complains about, when the value came from there.
fn variable_of(command: &Command, error: &clap::Error) -> Option<String> {
    if !matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) {
        return None;
    }
    let flag = flag_of(error)?;
    if std::env::args()
        .any(|given| given.strip_prefix("--").is_some_and(|given| given.split('=').next() == Some(&flag)))
    {
        return None;
    }
    find(command, &flag)?.get_env().map(|variable| variable.to_string_lossy().into_owned())
}

fn find<'a>(command: &'a Command, flag: &str) -> Option<&'a Arg> {
    let here = command.get_arguments().find(|argument| argument.get_long() == Some(flag));
    here.or_else(|| command.get_subcommands().find_map(|sub| find(sub, flag)))
}
