//! A source under another name.

use super::{BoxFuture, Changes, Result, Snapshot, Source};
use crate::deletion_vector::DeletionVector;
use hoglake_model::table::{DataFile, TableFormat, TableState, Watermark};
use std::sync::Arc;
use tokio::sync::OnceCell;

/// A source whose table is called as somebody asked, whatever its own metadata calls it. Targets take the name when they
/// are made.
pub struct Named {
    name: String,
    heads: OnceCell<(Arc<TableState>, Arc<TableState>)>,
    inner: Box<dyn Source>,
}

impl Named {
    /// `inner` under the name `name`.
    pub fn new(inner: Box<dyn Source>, name: impl Into<String>) -> Self {
        Self { name: name.into(), heads: OnceCell::new(), inner }
    }

    /// The head as the source has it, and under the name.
    async fn heads(&self) -> Result<&(Arc<TableState>, Arc<TableState>)> {
        let read = async {
            let head = self.inner.head().await?;
            let named = TableState { name: Some(self.name.clone()), ..TableState::clone(&head) };
            Ok((head, Arc::new(named)))
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
        Box::pin(async { self.inner.snapshot(&self.heads().await?.0).await })
    }

    fn changes(&self, since: &Watermark, _: &Arc<TableState>) -> BoxFuture<'_, Result<Changes<'_>>> {
        let since = since.clone();
        Box::pin(async move { self.inner.changes(&since, &self.heads().await?.0).await })
    }

    fn deleted_rows<'a>(&'a self, file: &'a DataFile) -> BoxFuture<'a, Result<DeletionVector>> {
        self.inner.deleted_rows(file)
    }

    fn record_count<'a>(&'a self, file: &'a DataFile) -> BoxFuture<'a, Result<u64>> {
        self.inner.record_count(file)
    }
}
