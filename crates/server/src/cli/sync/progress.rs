//! How far a run is, on standard error.

use hoglake_formats::sync::Progress;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

/// How often it is told on a terminal, where a line replaces the one before.
const ON_TERMINAL: Duration = Duration::from_millis(200);
/// How often it is told elsewhere, a line each time.
const ELSEWHERE: Duration = Duration::from_secs(2);

/// Tells about one run.
pub(super) struct Display {
    title: String,
    progress: Arc<Progress>,
    /// Nothing is told without.
    every: Option<Duration>,
    terminal: bool,
}

impl Display {
    /// On a terminal, or anywhere when `wanted`.
    pub(super) fn new(title: String, progress: Arc<Progress>, wanted: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let every = if terminal { Some(ON_TERMINAL) } else { wanted.then_some(ELSEWHERE) };
        Self { title, progress, every, terminal }
    }

    /// Waits for `run` and tells meanwhile; where it was asked for, at the end too.
    pub(super) async fn during<T>(&self, run: impl Future<Output = T>) -> T {
        let Some(every) = self.every else { return run.await };
        let (files, commits) = (self.progress.files(), self.progress.commits());
        let words = || {
            let (files, commits) = (self.progress.files() - files, self.progress.commits() - commits);
            format!("{}: {files} files, {commits} commits", self.title)
        };
        let mut run = std::pin::pin!(run);
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
        let done = loop {
            tokio::select! {
                done = &mut run => break done,
                _ = ticks.tick() => self.tell(&words()),
            }
        };
        if self.terminal {
            // The report follows in the place of the last words.
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        } else {
            self.tell(&words());
        }
        done
    }

    /// A closed standard error is no reason to stop.
    fn tell(&self, words: &str) {
        let mut stderr = std::io::stderr();
        let _ = if self.terminal { write!(stderr, "\r\x1b[2K{words}") } else { writeln!(stderr, "{words}") };
        let _ = stderr.flush();
    }
}
