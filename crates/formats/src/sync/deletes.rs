//! What becomes of row-level deletes that a target cannot hold as they are.

use super::{Error, Result};
use hoglake_model::table::{DataFile, FileDelta, RowDeletes, TableFormat, Unsupported, VersionId};
use std::sync::{Arc, Mutex, PoisonError};

/// What is said of a target that an earlier run left deletes out of.
pub(super) const STILL_LEFT_OUT: &str = "DELETED ROWS MAY BE SHOWN: row-level deletes were left out of the target before, \
                                         as asked for; sync without on-unsupported-deletes=ignore to apply them";

/// Delete files named in a warning.
const NAMED: usize = 3;

/// What to do with row-level deletes that a target cannot hold: equality deletes and Hudi log files, for Hudi targets all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnsupportedDeletes {
    /// Refuse the commit that has them.
    #[default]
    Fail,
    /// Resolve equality deletes to positions by reading the data files; refuse the others.
    Materialize,
    /// Leave them out, so that the target shows rows that the source has deleted, and say so.
    Ignore,
}

impl UnsupportedDeletes {
    /// The names that users write.
    pub const NAMES: [&str; 3] = ["fail", "materialize", "ignore"];

    /// Reads a name.
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Self::Fail, Self::Materialize, Self::Ignore];
        Self::NAMES.iter().position(|n| *n == name).and_then(|at| all.get(at)).copied()
    }
}

/// Checks the files on their way to a target.
#[derive(Debug, Clone)]
pub(super) struct Gate {
    target: TableFormat,
    policy: UnsupportedDeletes,
    /// Where the files come from, for messages.
    context: String,
    ignored: Arc<Mutex<Ignored>>,
}

#[derive(Debug, Default)]
struct Ignored {
    files: u64,
    deletes: u64,
    named: Vec<String>,
    /// Whether there are others than those named.
    more: bool,
}

impl Gate {
    /// A gate for the files of the commit `version`.
    pub fn of_commit(target: TableFormat, policy: UnsupportedDeletes, version: &VersionId) -> Self {
        Self { target, policy, context: format!("in commit {version}"), ignored: Arc::default() }
    }

    /// A gate for all files that are live at `version`, whichever commit they are of.
    pub fn of_version(target: TableFormat, policy: UnsupportedDeletes, version: &VersionId) -> Self {
        Self { target, policy, context: format!("at version {version}"), ignored: Arc::default() }
    }

    /// Why deletes of this kind do not pass.
    fn refuses(&self, deletes: &RowDeletes) -> Option<Unsupported> {
        let resolved = self.target != TableFormat::Hudi && matches!(deletes, RowDeletes::Equality(_));
        if self.policy == UnsupportedDeletes::Materialize && resolved {
            return None;
        }
        let mut found = Unsupported::deletes(self.target, deletes)?;
        found.detail = format!("{}: {}", self.context, found.detail);
        Some(found)
    }

    /// Refuses kinds that are known before any file is.
    ///
    /// # Errors
    /// [`Error::Unsupported`] naming the commit or version and the delete files.
    pub fn kinds(&self, kinds: &[RowDeletes]) -> Result<()> {
        if self.policy == UnsupportedDeletes::Ignore {
            return Ok(());
        }
        let found: Vec<_> = kinds.iter().filter_map(|d| self.refuses(d)).collect();
        if found.is_empty() { Ok(()) } else { Err(Error::Unsupported(found)) }
    }

    /// Whether deletes may be left out of all files of a version, for all that is known before they are read: only a Delta
    /// source does not know its kinds.
    pub fn may_leave_out(&self, source: TableFormat, kinds: &[RowDeletes]) -> bool {
        let unknown = source == TableFormat::Delta && self.target == TableFormat::Hudi;
        self.policy == UnsupportedDeletes::Ignore && (unknown || kinds.iter().any(|kind| self.refuses(kind).is_some()))
    }

    /// Lets files through, without the deletes that are to be ignored.
    ///
    /// # Errors
    /// As [`kinds`](Self::kinds).
    pub fn pass(&self, files: &mut [DataFile]) -> Result<()> {
        for file in files.iter_mut().filter(|f| !f.deletes.is_empty()) {
            self.kinds(&file.deletes)?;
            if self.policy == UnsupportedDeletes::Ignore {
                let all = std::mem::take(&mut file.deletes).into_iter();
                let (gone, kept) = all.partition(|d| self.refuses(d).is_some());
                file.deletes = kept;
                self.note(gone);
            }
        }
        Ok(())
    }

    /// As [`pass`](Self::pass), for the files of a change.
    pub fn pass_change(&self, files: &mut FileDelta) -> Result<()> {
        self.pass(&mut files.added)?;
        self.pass(&mut files.redeleted)
    }

    fn note(&self, gone: Vec<RowDeletes>) {
        if gone.is_empty() {
            return;
        }
        let mut ignored = self.ignored.lock().unwrap_or_else(PoisonError::into_inner);
        ignored.files += 1;
        for deletes in gone {
            ignored.deletes += 1;
            let Some(refused) = Unsupported::deletes(self.target, &deletes) else { continue };
            if ignored.named.contains(&refused.place) {
                continue;
            }
            if ignored.named.len() < NAMED {
                ignored.named.push(refused.place);
            } else {
                ignored.more = true;
            }
        }
    }

    /// What was left out, for the report.
    pub fn warning(&self) -> Option<String> {
        let ignored = self.ignored.lock().unwrap_or_else(PoisonError::into_inner);
        (ignored.files > 0).then(|| {
            format!(
                "DELETED ROWS ARE SHOWN: {}, {} row-level deletes against {} files were ignored as asked for ({}{}); \
                 sync without on-unsupported-deletes=ignore to apply them",
                self.context,
                ignored.deletes,
                ignored.files,
                ignored.named.join(", "),
                if ignored.more { ", ..." } else { "" }
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoglake_model::table::FilePath;

    #[test]
    fn what_is_ignored_is_said() {
        let log = || RowDeletes::Log(FilePath::Under(".a.log.1".into()));
        let mut files = [DataFile::new(FilePath::Under("a".into())), DataFile::new(FilePath::Under("b".into()))];
        files[0].deletes = vec![log(), log()];
        let seven = VersionId("7".to_owned());
        let gate = |policy| Gate::of_commit(TableFormat::Delta, policy, &seven);
        for policy in [UnsupportedDeletes::Fail, UnsupportedDeletes::Materialize] {
            let refused = gate(policy).pass(&mut files).unwrap_err().to_string();
            assert!(refused.contains("in commit 7") && refused.contains(".a.log.1"), "{refused}");
        }
        let ignore = gate(UnsupportedDeletes::Ignore);
        assert_eq!(ignore.warning(), None);
        ignore.pass(&mut files).unwrap();
        assert!(files.iter().all(|f| f.deletes.is_empty()));
        let warning = ignore.warning().unwrap();
        assert!(warning.contains("commit 7, 2 row-level deletes against 1 files"), "{warning}");
        assert!(warning.contains("(.a.log.1);"), "{warning}");
        let all = Gate::of_version(TableFormat::Delta, UnsupportedDeletes::Ignore, &seven);
        files[0].deletes = (0..4).map(|n| RowDeletes::Log(FilePath::Under(format!("{n}").into()))).collect();
        all.pass(&mut files).unwrap();
        let warning = all.warning().unwrap();
        assert!(warning.contains("at version 7, 4 row-level") && warning.contains("(0, 1, 2, ...)"), "{warning}");
        assert_eq!(UnsupportedDeletes::parse("materialize"), Some(UnsupportedDeletes::Materialize));
        assert_eq!(UnsupportedDeletes::parse("warn"), None);
    }
}
