//! Opens what a window needs, a few files ahead of the one whose rows are being encoded.

use super::Publisher;
use super::trouble::Trouble;
use crate::worker::VectorError;
use hoglake_catalog::publications::window::{AppendedFile, DeletedRows, SnapshotChanges};
use hoglake_formats::change_record::deleted::{RowIdSet, row_ids};
use hoglake_formats::deletion_vector::DeletionVector;
use hoglake_formats::parquet::Column;
use hoglake_formats::parquet::footer::RegisteredFile;
use hoglake_formats::parquet::rewrite::RewriteInput;
use hoglake_formats::parquet::rewrite::rows::Rows;
use hoglake_model::SnapshotId;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Files that are opened at a time.
pub(super) const FILES_AHEAD: usize = 4;
/// Bytes of files that are opened ahead, in units of 64 KiB: temporary files of remote ones take as much disk.
const UNIT: i64 = 64 << 10;
/// See [`UNIT`].
pub(super) const UNITS_AHEAD: u32 = 1_024;

/// One piece of a snapshot.
#[derive(Debug, Clone, Copy)]
pub(super) enum Piece {
    /// The rows of its file with this index.
    Appended(usize),
    /// Everything that was deleted.
    Deleted,
}

/// A piece whose rows are at hand.
pub(super) enum Opened {
    /// A file; its share of the files ahead; its object.
    Appended(Rows, OwnedSemaphorePermit, String),
    /// Row ids.
    Deleted(RowIdSet),
}

/// The pieces of a snapshot in their order.
pub(super) fn pieces(changes: &SnapshotChanges) -> Vec<Piece> {
    let appended = (0..changes.appended.len()).map(Piece::Appended);
    appended.chain((!changes.deleted.is_empty()).then_some(Piece::Deleted)).collect()
}

impl Publisher {
    /// Opens one piece.
    pub(super) async fn open(
        &self,
        changes: &SnapshotChanges,
        piece: Piece,
        ahead: Arc<Semaphore>,
    ) -> Result<Opened, Trouble> {
        match piece {
            Piece::Appended(index) => {
                let file = changes.appended.get(index).ok_or_else(|| Trouble::fault("a file is not in its window"))?;
                let units = u32::try_from(file.file_size_bytes / UNIT).unwrap_or(UNITS_AHEAD).clamp(1, UNITS_AHEAD);
                let permit = ahead.acquire_many_owned(units).await;
                let permit = permit.map_err(|_| Trouble::fault("the bound on open files is gone"))?;
                let rows = self.open_appended(changes, file).await?;
                Ok(Opened::Appended(rows, permit, file.path.clone()))
            }
            Piece::Deleted => {
                let mut ids = RowIdSet::default();
                for rows in &changes.deleted {
                    ids = self.add_deleted(changes.snapshot, rows, ids).await?;
                }
                Ok(Opened::Deleted(ids))
            }
        }
    }

    async fn open_appended(&self, changes: &SnapshotChanges, file: &AppendedFile) -> Result<Rows, Trouble> {
        let snapshot = changes.snapshot;
        let deletions = match (&file.vector_path, file.delete_count) {
            (Some(path), Some(count)) => Some(self.vector(snapshot, path, count, file.record_count).await?),
            _ => None,
        };
        let source = self.source(
            snapshot,
            &file.path,
            registered(file.file_size_bytes, file.footer_size, file.record_count, self.largest_footer()),
            (file.explicit_row_ids, file.row_id_start),
            deletions,
        )?;
        let columns = crate::worker::columns(&changes.columns);
        self.rows(snapshot, &file.path, source, &columns).await
    }

    /// Adds the ids of the rows that a vector deletes and its predecessor did not.
    async fn add_deleted(
        &self,
        snapshot: SnapshotId,
        deleted: &DeletedRows,
        mut ids: RowIdSet,
    ) -> Result<RowIdSet, Trouble> {
        let after = self.vector(snapshot, &deleted.vector_path, deleted.delete_count, deleted.record_count).await?;
        let new = match (&deleted.before_path, deleted.before_count) {
            (Some(path), Some(count)) => {
                let before = self.vector(snapshot, path, count, deleted.record_count).await?;
                if !after.covers(&before) {
                    let reason = format!("it brings back rows that `{path}`, the vector before it, had deleted");
                    return Err(Trouble::vector(snapshot, &deleted.vector_path, &reason));
                }
                after.difference(&before)
            }
            _ => after,
        };
        if !deleted.explicit_row_ids {
            ids.add_positional(deleted.row_id_start, &new);
            return Ok(ids);
        }
        let source = self.source(
            snapshot,
            &deleted.path,
            registered(deleted.file_size_bytes, deleted.footer_size, deleted.record_count, self.largest_footer()),
            (true, deleted.row_id_start),
            None,
        )?;
        let rows = self.rows(snapshot, &deleted.path, source, &[]).await?;
        let path = deleted.path.clone();
        let added = tokio::task::spawn_blocking(move || {
            ids.add_explicit(&rows, &new).map(|()| ids).map_err(|error| Trouble::unreadable(snapshot, &path, &error))
        });
        added.await.unwrap_or_else(|_| Err(Trouble::fault("reading row ids")))
    }

    async fn rows(
        &self,
        snapshot: SnapshotId,
        path: &str,
        source: RewriteInput,
        columns: &[Column],
    ) -> Result<Rows, Trouble> {
        let opened = Rows::open(source, columns, self.worker.settings.temp_dir()).await;
        opened.map_err(|error| Trouble::unreadable(snapshot, path, &error))
    }

    fn source(
        &self,
        snapshot: SnapshotId,
        path: &str,
        file: RegisteredFile,
        (explicit, first): (bool, i64),
        deletions: Option<DeletionVector>,
    ) -> Result<RewriteInput, Trouble> {
        let object = self.worker.object(path).map_err(|error| Trouble::unreachable(snapshot, &error))?;
        Ok(RewriteInput { object, file, row_ids: row_ids(explicit, first), deletions, names: Vec::new() })
    }

    async fn vector(&self, snapshot: SnapshotId, path: &str, count: i64, rows: i64) -> Result<DeletionVector, Trouble> {
        self.worker.read_vector(path, count, rows).await.map_err(|error| match error {
            VectorError::Store(error) => Trouble::unreachable(snapshot, &error),
            VectorError::Wrong { path, reason } => Trouble::vector(snapshot, &path, &reason),
        })
    }

    fn largest_footer(&self) -> u64 {
        self.worker.settings.hydrator_max_whole_object_bytes
    }
}

fn registered(bytes: i64, footer: Option<i64>, rows: i64, largest: u64) -> RegisteredFile {
    RegisteredFile {
        file_size_bytes: u64::try_from(bytes).unwrap_or(0),
        footer_size: footer.and_then(|footer| u64::try_from(footer).ok()),
        record_count: Some(rows),
        max_whole_object_bytes: largest,
    }
}
