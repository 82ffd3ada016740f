//! Groups that fail: because of which of their files, and for how long those are left alone.

use super::{CompactionStatus, FilePutOff, tell};
use crate::worker::{VectorError, WorkError, Worker, in_words};
use hoglake_catalog::catalogs::CatalogIdentity;
use hoglake_catalog::compaction::{Cause, ClaimedGroup, PlannedInput, PutOff};
use hoglake_formats::parquet::rewrite::RewriteError;
use hoglake_formats::store::StoreError;
use hoglake_model::FileId;

/// Why a group was not rewritten.
#[derive(Debug, thiserror::Error)]
pub(super) enum GroupError {
    #[error(transparent)]
    Rewrite(#[from] RewriteError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Vector(#[from] VectorError),
    #[error("{live} rows should survive, {written} were written; the output is left to cleanup")]
    Count { live: i64, written: i64 },
    #[error("somebody else has taken the group over")]
    Lost,
    #[error("the server stopped; the group was given back")]
    Stopped,
    #[error(transparent)]
    Catalog(#[from] hoglake_catalog::Error),
}

/// Why, and because of which file where one is known.
pub(super) struct Failed {
    pub error: GroupError,
    pub input: Option<FileId>,
}

impl<E: Into<GroupError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self { error: error.into(), input: None }
    }
}

impl GroupError {
    pub fn is_unconvertible(&self) -> bool {
        matches!(self, Self::Rewrite(error) if error.is_unconvertible())
    }

    /// Whether it may be over without anybody changing the files.
    fn is_transient(&self) -> bool {
        match self {
            Self::Rewrite(error) => error.is_transient(),
            Self::Store(error) | Self::Vector(VectorError::Store(error)) => error.is_transient(),
            Self::Vector(_) | Self::Count { .. } => false,
            Self::Lost | Self::Stopped | Self::Catalog(_) => true,
        }
    }
}

impl Worker {
    /// Puts off the files that a group failed for, so that the others are compacted without them; all of the group where it
    /// is not known which. Says why, each reason once.
    pub(super) async fn put_off(
        &self,
        catalog: &CatalogIdentity,
        claimed: &ClaimedGroup,
        failed: &Failed,
        table: &str,
        status: &mut CompactionStatus,
    ) -> Result<Vec<String>, WorkError> {
        let mut reasons = Vec::new();
        let mut files = Vec::new();
        for Blame { input, cause, words } in self.blamed(claimed, failed) {
            reasons.push(match input {
                Some(input) => format!("data file {input}: {words}"),
                None => words.clone(),
            });
            let inputs = match input {
                Some(input) => vec![input],
                None => claimed.group.inputs.iter().map(|input| input.id).collect(),
            };
            for PutOff { data_file_id, attempts, wait_seconds } in
                self.catalog.compaction_fail(catalog.id, &inputs, cause, &words).await?
            {
                let wait_seconds = wait_seconds as i64;
                files.push(FilePutOff {
                    table: table.to_owned(),
                    data_file_id,
                    attempts,
                    wait_seconds,
                    reason: words.clone(),
                });
            }
        }
        metrics::counter!("hoglake_compaction_files_put_off_total").increment(files.len() as u64);
        files.sort_by_key(|file| file.data_file_id);
        for file in files {
            tell(&mut status.put_off, || file);
        }
        Ok(reasons)
    }

    /// What a group failed for.
    fn blamed(&self, claimed: &ClaimedGroup, failed: &Failed) -> Vec<Blame> {
        let blame = |input: Option<FileId>, is_transient: bool, words: String| {
            let cause = if input.is_some() && !is_transient { Cause::File } else { Cause::Passing };
            Blame { input, cause, words }
        };
        let GroupError::Rewrite(error) = &failed.error else {
            return vec![blame(failed.input, failed.error.is_transient(), in_words(&failed.error))];
        };
        let at = |location: &str| {
            let is_it = |input: &&PlannedInput| {
                self.object(&input.path).is_ok_and(|object| object.location.to_string() == location)
            };
            claimed.group.inputs.iter().find(is_it).map(|input| input.id)
        };
        let blame = |cause: &RewriteError| blame(cause.location().and_then(at), cause.is_transient(), in_words(cause));
        error.causes().iter().map(blame).collect()
    }
}

/// Why a group failed.
struct Blame {
    /// Because of this input; none where that is not known.
    input: Option<FileId>,
    cause: Cause,
    words: String,
}
