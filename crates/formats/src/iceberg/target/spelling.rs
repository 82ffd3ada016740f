//! How the table spells paths: those of its source's files, and its own.
//!
//! Whoever goes on with the table removes a file by the text of its path. Java's engines spell files on disk with one slash,
//! as Hadoop does, whatever the table's location looks like; so does this.

use super::super::manifest::Entry;
use super::super::source::Paths;
use crate::sync::{Result, TableRoot};
use hoglake_model::Location;
use hoglake_model::table::{FilePath, TableState};
use std::borrow::Cow;

/// From the source's paths to the table's, and between the table's paths and their text.
#[derive(Debug)]
pub(super) struct Spelling {
    paths: Paths,
    location: String,
    /// The spelling of files below the source's root, and below the table's own, with a closing slash.
    source_prefix: String,
    own_prefix: String,
}

impl Spelling {
    /// As the table has it, whose location is `declared`, or as its user has it for one that is new.
    pub fn new(root: &TableRoot, state: &TableState, declared: Option<&str>) -> Result<Self> {
        let declared = declared.filter(|text| Location::parse(text).is_ok_and(|found| found == *root.location()));
        let location = declared.map_or_else(|| root.uri(""), str::to_owned).trim_end_matches('/').to_owned();
        let own_prefix = format!("{}/", as_hadoop(&location));
        let source_root = Location::parse(&state.root)?;
        let source_prefix = if let Some(below) = source_root.relative_to(root.location()) {
            if below.is_empty() { own_prefix.clone() } else { format!("{own_prefix}{below}/") }
        } else {
            format!("{}/", as_hadoop(&source_root.to_string()).trim_end_matches('/'))
        };
        let paths = Paths::new(root, &location, false);
        Ok(Self { paths, location, source_prefix, own_prefix })
    }

    /// The table's location.
    pub fn location(&self) -> &str {
        &self.location
    }

    /// The path that a text in the table's metadata means.
    pub fn parse(&self, text: &str) -> Result<FilePath> {
        self.paths.map(text).map(canonical)
    }

    /// A source path as the table writes it.
    pub fn of_source(&self, path: &FilePath) -> String {
        with_prefix(&self.source_prefix, path)
    }

    /// A path of the table's own as it writes it.
    pub fn of_own(&self, path: &FilePath) -> String {
        with_prefix(&self.own_prefix, path)
    }

    /// A path of an entry as its manifest has it.
    pub fn of_entry<'a>(&self, entry: &'a Entry) -> Cow<'a, str> {
        match &entry.spelled {
            Some(spelled) => (*spelled.path).into(),
            None => self.of_own(&entry.file.path).into(),
        }
    }

    /// Whether `text` is how [`of_own`](Self::of_own) writes `path`.
    pub fn is_ours(&self, path: &FilePath, text: &str) -> bool {
        match path {
            FilePath::Under(relative) => text.strip_prefix(&self.own_prefix).is_some_and(|rest| *rest == **relative),
            FilePath::Outside(_) => text == self.of_own(path),
        }
    }

    /// A source path as the table's own entries have it.
    pub fn own_path(&self, path: &FilePath) -> Result<FilePath> {
        if self.source_prefix == self.own_prefix {
            Ok(canonical(path.clone()))
        } else {
            self.parse(&self.of_source(path))
        }
    }
}

fn with_prefix(prefix: &str, path: &FilePath) -> String {
    match path {
        FilePath::Under(relative) => format!("{prefix}{relative}"),
        FilePath::Outside(absolute) => as_hadoop(absolute).into_owned(),
    }
}

/// Files elsewhere are the same in whatever spelling.
fn canonical(path: FilePath) -> FilePath {
    match path {
        FilePath::Outside(absolute) => FilePath::Outside(as_hadoop(&absolute).into()),
        under @ FilePath::Under(_) => under,
    }
}

/// A location as Hadoop spells it: on disk with a scheme and one slash, anywhere else as it is.
fn as_hadoop(text: &str) -> Cow<'_, str> {
    match text.strip_prefix("file://").unwrap_or(text) {
        path if path.starts_with('/') => format!("file:{path}").into(),
        _ => text.into(),
    }
}
