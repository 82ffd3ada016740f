//! What a command answers on standard output.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

/// Prints a line on standard output, as `println!` does, which panics when nobody takes it.
macro_rules! say {
    ($($text:tt)*) => { $crate::cli::stdout::line(format_args!($($text)*)) };
}
pub(super) use say;

/// Prints `text` and a line break. A reader that has seen enough, as `head` does, is no failure; when standard output
/// takes nothing for another reason, the command ends with 1: an answer that was not given must not look like one.
pub(super) fn line(text: Arguments<'_>) {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            let _ = writeln!(std::io::stderr(), "hoglake: cannot write to standard output: {error}");
            std::process::exit(1)
        }
        _ => {}
    }
}
