//! Which data files the manifests of a table list, remembered for as long as a run lasts.
//!
//! A commit that removes files, or rows of them, has to find the manifests that list them. Manifests never change, so that
//! one that has been read need not be read for the next commit unless it lists a file in question: replayed commits cost
//! requests proportional to the commits, not to commits times manifests.

use super::manifest_list::ManifestFile;
use hoglake_model::table::FilePath;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

/// Eight bytes a file: a digest of its path. Two paths of one digest cost a request and nothing else.
#[derive(Debug, Default)]
pub(super) struct Contents {
    hasher: RandomState,
    by_manifest: HashMap<String, Box<[u64]>>,
}

impl Contents {
    /// What makes digests of paths.
    pub fn hasher(&self) -> RandomState {
        self.hasher.clone()
    }

    /// Which of the manifests may list one of the files: those that do, and those that nobody has read yet.
    pub fn candidates(&self, manifests: &[ManifestFile], wanted: &HashSet<FilePath>) -> Vec<usize> {
        let wanted: Vec<u64> = wanted.iter().map(|path| self.hasher.hash_one(path)).collect();
        let may_list = |manifest: &ManifestFile| {
            let listed = self.by_manifest.get(&manifest.path);
            listed.is_none_or(|listed| wanted.iter().any(|digest| listed.binary_search(digest).is_ok()))
        };
        let all = manifests.iter().enumerate();
        all.filter(|(_, m)| !m.deletes && m.may_be_live() && may_list(m)).map(|(index, _)| index).collect()
    }

    /// Notes what a manifest lists, by its digests.
    pub fn note(&mut self, manifest: &str, mut digests: Vec<u64>) {
        digests.sort_unstable();
        self.by_manifest.insert(manifest.to_owned(), digests.into());
    }

    /// Forgets the manifests that the table has no more.
    pub fn keep(&mut self, manifests: &[ManifestFile]) {
        let current: HashSet<&str> = manifests.iter().map(|m| m.path.as_str()).collect();
        self.by_manifest.retain(|manifest, _| current.contains(manifest.as_str()));
    }
}
