//! Writing a table, whatever its format.

use super::{BoxFuture, FileStream, Result, Source};
use hoglake_model::table::{FileDelta, Operation, TableFormat, TableState, Unsupported, Watermark};

/// A table that is written.
///
/// # Atomicity
/// [`commit`](Self::commit) first writes immutable files under names that nobody else uses, then makes them visible
/// with one conditional put of the format's pointer (the next Delta commit, Iceberg metadata file, Hudi instant), then
/// writes hints, whose failure is no failure: the next run [`mend`](Self::mend)s them. A crash at any point leaves the
/// table as it was or as it will be, plus files that nothing refers to. Losing the conditional put is [`Error::Lost`](super::Error::Lost): nothing changed,
/// and the caller plans again from [`load`](Self::load).
///
/// Reader-visible state never depends on the order in which files were streamed.
pub trait Target: Send {
    /// The format.
    fn format(&self) -> TableFormat;

    /// Reads the target's pointer and its watermark; must be called first, and again after a lost commit.
    ///
    /// A target that already matches costs at most 3 requests.
    fn load(&mut self) -> BoxFuture<'_, Result<Loaded>>;

    /// Rewrites the hints that a crash has left behind the version that was loaded, because some readers know no other
    /// way; best effort, and no request where they are true. Not called in dry runs, nor for tables without a watermark.
    fn mend(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Removes what runs that were killed have left and no store lists; best effort. Called after commits.
    fn tidy(&self) -> BoxFuture<'_, ()>;

    /// A source that reads this table as it is, so that a dry run can say what would change.
    fn reader(&self) -> Box<dyn Source>;

    /// What of `state` this target cannot express. Pure: called before anything is written.
    fn unsupported(&self, state: &TableState) -> Vec<Unsupported>;

    /// Writes one commit on top of what was loaded or committed last. Writes nothing, and returns `None`, when the table
    /// already has the same files, definition and watermark.
    ///
    /// # Errors
    /// [`Error::Lost`](super::Error::Lost) and [`Error::NeedsFull`](super::Error::NeedsFull) tell the caller what to
    /// do next; all others end the run of this target. In every case nothing became visible.
    fn commit<'a>(&'a mut self, commit: Commit<'a>) -> BoxFuture<'a, Result<Option<Committed>>>;
}

/// What a target knew when it was loaded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Loaded {
    /// Whether the table exists at all.
    pub exists: bool,
    /// How far it has followed its source, if it ever did.
    pub watermark: Option<Watermark>,
    /// What an engine registers: the newest `metadata.json`, the `_delta_log` folder, the `.hoodie` folder.
    pub metadata_path: Option<String>,
    /// Whether somebody else has committed since, so that the table need not show what its watermark says.
    pub is_foreign: bool,
    /// Whether the table was written at another place, whose files it names: it was copied or moved here, and is written
    /// anew.
    pub is_elsewhere: bool,
}

/// One commit.
pub struct Commit<'a> {
    /// Where `files` and deletes come from; asked for deleted rows and missing record counts.
    pub source: &'a dyn Source,
    /// The table after the commit. Its watermark is stored with the commit.
    pub state: &'a TableState,
    /// What kind of commit the source made.
    pub operation: Operation,
    /// The files.
    pub files: Files<'a>,
}

/// The files of a commit. Row-level deletes that the target cannot hold were refused or left out before
/// ([`Unsupported::deletes`]); the others [`Source::deleted_rows`] resolves.
pub enum Files<'a> {
    /// All live files: what the target has beside these is removed, what it lacks is added, what it shares is kept
    /// (with its deletes compared by what they delete).
    All(FileStream<'a>),
    /// The difference to the state that the target shows.
    Delta(&'a FileDelta),
}

/// A commit that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// What an engine registers from now on.
    pub metadata_path: String,
    /// The target's own name of the new version.
    pub version: String,
    /// Files that became live.
    pub added: u64,
    /// Files that are no longer live.
    pub removed: u64,
    /// Live files whose row-level deletes changed.
    pub redeleted: u64,
    /// Losses that the target declares (a transform that only survives as statistics, ...).
    pub warnings: Vec<String>,
}
