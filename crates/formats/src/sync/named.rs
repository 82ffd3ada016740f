//! A source under another name, and how far a run has come with it.

use super::{BoxFuture, Changes, Result, Snapshot, Source, Versions};
use crate::deletion_vector::DeletionVector;
use futures::StreamExt;
use hoglake_model::table::{DataFile, Primitive, TableFormat, TableState, Watermark};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::OnceCell;

/// What has been read from a source so far.
#[derive(Debug, Default)]
pub struct Progress {
    files: AtomicU64,
    commits: AtomicU64,
}

impl Progress {
    /// Files, of whole versions and of commits.
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// Commits that were replayed.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    fn add(&self, files: usize, commits: u64) {
        self.files.fetch_add(files as u64, Ordering::Relaxed);
        self.commits.fetch_add(commits, Ordering::Relaxed);
    }
}

/// A source whose table is called as somebody asked, whatever its own metadata calls it. Targets take the name when they
/// are made.
pub struct Named {
    name: Option<String>,
    progress: Arc<Progress>,
    heads: OnceCell<(Arc<TableState>, Arc<TableState>)>,
    inner: Box<dyn Source>,
}

impl Named {
    /// `inner` under the name `name`; without one, under its own.
    pub fn new(inner: Box<dyn Source>, name: Option<String>) -> Self {
        Self { name, progress: Arc::default(), heads: OnceCell::new(), inner }
    }

    /// What has been read so far; counts on while a run reads.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// The head as the source has it, and under the name.
    async fn heads(&self) -> Result<&(Arc<TableState>, Arc<TableState>)> {
        let read = async {
            let head = self.inner.head().await?;
            let named = match &self.name {
                Some(name) => Arc::new(TableState { name: Some(name.clone()), ..TableState::clone(&head) }),
                None => Arc::clone(&head),
            };
            Ok((head, named))
        };
        self.heads.get_or_try_init(|| read).await
    }
}

impl Source for Named {
    fn format(&self) -> TableFormat {
        self.inner.format()
    }

    fn head(&self) -> BoxFuture<'_, Result<Arc<TableState>>> {
        Box::pin(async { Ok(Arc::clone(&self.heads().await?.1)) })
    }

    fn snapshot(&self, _: &Arc<TableState>) -> BoxFuture<'_, Result<Snapshot<'_>>> {
        Box::pin(async {
            let snapshot = self.inner.snapshot(&self.heads().await?.0).await?;
            let files = snapshot.files.inspect(|batch| {
                if let Ok(batch) = batch {
                    self.progress.add(batch.len(), 0);
                }
            });
            Ok(Snapshot { files: files.boxed(), ..snapshot })
        })
    }

    fn changes(&self, since: &Watermark, _: &Arc<TableState>) -> BoxFuture<'_, Result<Changes<'_>>> {
        let since = since.clone();
        Box::pin(async move {
            let changes = match self.inner.changes(&since, &self.heads().await?.0).await? {
                Changes::Replay(changes) => changes,
                gone => return Ok(gone),
            };
            let changes = changes.inspect(|change| {
                if let Ok(change) = change {
                    self.progress.add(change.files.added.len() + change.files.removed.len(), 1);
                }
            });
            Ok(Changes::Replay(changes.boxed()))
        })
    }

    fn versions(&self) -> BoxFuture<'_, Result<Versions>> {
        self.inner.versions()
    }

    fn older_types(&self) -> Vec<(Vec<String>, Primitive)> {
        self.inner.older_types()
    }

    fn deleted_rows<'a>(&'a self, file: &'a DataFile) -> BoxFuture<'a, Result<DeletionVector>> {
        self.inner.deleted_rows(file)
    }

    fn record_count<'a>(&'a self, file: &'a DataFile) -> BoxFuture<'a, Result<u64>> {
        self.inner.record_count(file)
    }
}
