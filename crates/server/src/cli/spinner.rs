//! Progress of work whose end is not known.

use indicatif::ProgressBar;
use std::io::IsTerminal;
use std::time::Duration;

/// A spinner on standard error that says `message`; hidden where nobody looks, or where `json` is asked for.
pub(super) fn spinner(json: bool, message: String) -> ProgressBar {
    let bar = if json || !std::io::stderr().is_terminal() {
        ProgressBar::hidden()
    } else {
        ProgressBar::new_spinner().with_message(message)
    };
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}
