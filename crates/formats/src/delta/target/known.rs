//! The live files of the table, by the names that its log gives them.

use super::super::replay::decode;
use super::super::source::{Name, names};
use super::DeltaTarget;
use crate::sync::{Error, Result};
use futures::TryStreamExt;
use hoglake_model::Location;
use hoglake_model::table::{FilePath, TableFormat, Unsupported, UnsupportedKind};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash, RandomState};

/// Live files, those of hoglake's own names in 32 bytes each.
#[derive(Default)]
pub(super) struct Known {
    hashers: (RandomState, RandomState),
    files: HashMap<u128, Mark>,
    /// Whether the log calls some file otherwise than hoglake would.
    pub is_odd: bool,
    /// Whether some readers take a file for live that others do not.
    pub is_disputed: bool,
    /// How the paths of files elsewhere begin when hoglake writes them.
    elsewhere: Option<String>,
}

#[derive(Default)]
struct Mark {
    seen: bool,
    /// Absent when it is just the name that hoglake gives.
    names: Option<Box<Names>>,
}

/// Boxed to keep a [`Mark`] small.
struct Names(Vec<Name>);

/// What the table has of a file.
pub(super) enum Found {
    /// Nothing.
    Nothing,
    /// It was asked for before.
    Seen,
    /// Its names, one unless readers see it twice.
    Live(Vec<Name>),
}

impl Known {
    /// The live files of the table; if only some are wanted, those. `elsewhere` is the root of a source whose files lie
    /// elsewhere, as they are written.
    pub async fn read(target: &DeltaTarget, elsewhere: Option<String>, wanted: Option<&[FilePath]>) -> Result<Self> {
        let mut known = Self { elsewhere, ..Self::default() };
        let wanted = wanted.map(|paths| paths.iter().map(|path| known.key(path)).collect::<HashSet<_>>());
        let Some(base) = &target.base else { return Ok(known) };
        let mut names = std::pin::pin!(names(&target.root, &base.segment));
        while let Some(batch) = names.try_next().await? {
            for (path, name) in batch {
                let key = known.key(&path);
                known.note(&path, key, name, wanted.as_ref().is_none_or(|wanted| wanted.contains(&key)));
            }
        }
        Ok(known)
    }

    fn note(&mut self, path: &FilePath, key: u128, name: Name, is_wanted: bool) {
        let is_near = matches!(path, FilePath::Under(_));
        let begins = || self.elsewhere.as_ref().is_some_and(|root| name.uri.starts_with(root.as_str()));
        let is_own = !name.hidden && name.uri == Name::own(path).uri && (is_near || begins());
        self.is_odd |= !is_own;
        self.is_disputed |= name.hidden && !is_wanted;
        if !is_wanted {
            return;
        }
        match self.files.get_mut(&key) {
            None if is_own && name.vector.is_none() => drop(self.files.insert(key, Mark::default())),
            None => drop(self.files.insert(key, Mark { seen: false, names: Some(Box::new(Names(vec![name]))) })),
            Some(mark) => mark.names.get_or_insert_with(|| Box::new(Names(vec![Name::own(path)]))).0.push(name),
        }
    }

    /// The key of a file, however its place is spelled.
    fn key(&self, path: &FilePath) -> u128 {
        let location = match path {
            FilePath::Under(_) => None,
            FilePath::Outside(absolute) => Location::parse(absolute).ok(),
        };
        match location {
            Some(location) => self.hash(&(location.root(), location.key())),
            None => self.hash(path),
        }
    }

    fn hash(&self, value: &impl Hash) -> u128 {
        (u128::from(self.hashers.0.hash_one(value)) << 64) | u128::from(self.hashers.1.hash_one(value))
    }

    /// The names of a file, which counts as seen from then on.
    pub fn take(&mut self, path: &FilePath) -> Found {
        let key = self.key(path);
        let Some(mark) = self.files.get_mut(&key) else { return Found::Nothing };
        if std::mem::replace(&mut mark.seen, true) {
            return Found::Seen;
        }
        Found::Live(mark.names.take().map_or_else(|| vec![Name::own(path)], |names| names.0))
    }

    /// Whether a file of the table was never asked for.
    pub fn is_unseen(&self, path: &FilePath) -> bool {
        self.files.get(&self.key(path)).is_some_and(|mark| !mark.seen)
    }

    /// Whether every file of the table was asked for.
    pub fn are_all_seen(&self) -> bool {
        self.files.values().all(|mark| mark.seen)
    }
}

/// The name under which a file that has several stays, and the others, which go.
///
/// # Errors
/// [`Error::Unsupported`] for two that some readers take for one: no commit could remove one of them for all readers.
pub(super) fn one_of(path: &FilePath, names: Vec<Name>) -> Result<(Name, Vec<Name>)> {
    let mut rest = names.into_iter();
    let first = rest.next().unwrap_or_else(|| Name::own(path));
    let rest: Vec<_> = rest.collect();
    let same = |other: &&Name| other.vector == first.vector && decode(&other.uri) == decode(&first.uri);
    if let Some(twin) = rest.iter().find(same) {
        return Err(Error::Unsupported(vec![Unsupported {
            target: TableFormat::Delta,
            kind: UnsupportedKind::Feature,
            place: path.as_str().to_owned(),
            detail: format!(
                "the log calls it {} and {}, which some readers take for one file and some for two; remove it with the \
                 writer that added it",
                first.uri, twin.uri
            ),
        }]));
    }
    Ok((first, rest))
}
