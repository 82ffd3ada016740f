//! Which server publishes: a lease in the publication's own row, with a fence.
//!
//! A server renews everything that it holds in one statement. What it does not get back from that (dropped, halted,
//! passed to somebody else) it stops; what a dead server held is due when its lease has run out.

use super::KafkaSink;
use crate::{Catalog, Result};
use hoglake_model::{CatalogId, SnapshotId, TableId};
use std::time::Duration;
use uuid::Uuid;

/// A publication that this server publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Its catalog,
    pub catalog: CatalogId,
    /// and what that is called.
    pub catalog_name: String,
    /// The publication.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// The table,
    pub table: TableId,
    /// as clients know it.
    pub table_uuid: Uuid,
    /// Where the records go.
    pub sink: KafkaSink,
    /// The server.
    pub holder: Uuid,
    /// Larger than that of every holder before.
    pub fence: i64,
    /// Everything up to here is acknowledged.
    pub committed: SnapshotId,
}

/// Whether a publication has something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct Due {
    /// The publication.
    pub publication_id: i64,
    /// The snapshot that was asked about.
    pub after: i64,
    /// The newest snapshot of its catalog.
    pub head_snapshot: i64,
    /// Whether the table may have changed in `(after, head_snapshot]`; if not, there is nothing to publish.
    pub changed: bool,
}

impl Due {
    /// Whether there is news for somebody who has read up to `read`. An answer about what comes after a later snapshot
    /// says nothing about what lies between, so it is none.
    pub const fn is_news(&self, read: i64) -> bool {
        self.after <= read && read < self.head_snapshot
    }
}

#[derive(sqlx::FromRow)]
struct ClaimRow {
    catalog_id: i64,
    catalog: String,
    publication_id: i64,
    name: String,
    table_id: i64,
    table_uuid: Uuid,
    bootstrap_servers: String,
    topic: String,
    format: String,
    tombstones: bool,
    holder: Uuid,
    fence: i64,
    committed_snapshot: Option<i64>,
}

impl ClaimRow {
    fn into_claim(self) -> Result<Claim> {
        Ok(Claim {
            catalog: CatalogId(self.catalog_id),
            catalog_name: self.catalog,
            id: self.publication_id,
            table: TableId(self.table_id),
            table_uuid: self.table_uuid,
            sink: KafkaSink::stored(self.bootstrap_servers, self.topic, &self.format, self.tombstones)?,
            holder: self.holder,
            fence: self.fence,
            committed: SnapshotId(self.committed_snapshot.ok_or_else(|| {
                crate::Error::Corrupt(format!("publication {} has no offset; drop it and create it again", self.name))
            })?),
            name: self.name,
        })
    }
}

impl Catalog {
    /// Takes at most `limit` publications that nobody holds, for `duration`.
    ///
    /// # Errors
    /// Any database error.
    pub async fn publication_claim(&self, holder: Uuid, duration: Duration, limit: i64) -> Result<Vec<Claim>> {
        let rows: Vec<ClaimRow> = sqlx::query_as(include_str!("../../sql/publication/claim.sql"))
            .bind(holder)
            .bind(duration.as_secs_f64())
            .bind(limit)
            .fetch_all(self.background_pool())
            .await?;
        rows.into_iter().map(ClaimRow::into_claim).collect()
    }

    /// Prolongs those of `publications` that `holder` still holds; gives them with their fences.
    ///
    /// # Errors
    /// Any database error.
    pub async fn publication_renew(
        &self,
        holder: Uuid,
        duration: Duration,
        publications: &[i64],
    ) -> Result<Vec<(i64, i64)>> {
        Ok(sqlx::query_as(include_str!("../../sql/publication/renew.sql"))
            .bind(holder)
            .bind(duration.as_secs_f64())
            .bind(publications)
            .fetch_all(self.background_pool())
            .await?)
    }

    /// Gives back one publication of `holder`, or all.
    ///
    /// # Errors
    /// Any database error.
    pub async fn publication_release(&self, holder: Uuid, publication: Option<i64>) -> Result<()> {
        sqlx::query(include_str!("../../sql/publication/release.sql"))
            .bind(holder)
            .bind(publication)
            .execute(self.background_pool())
            .await?;
        Ok(())
    }

    /// Records that everything up to `snapshot` is acknowledged. False when the lease is no longer ours: then nothing was
    /// recorded, and nothing more may be produced.
    ///
    /// # Errors
    /// Any database error.
    pub async fn publication_advance(&self, claim: &Claim, snapshot: SnapshotId) -> Result<bool> {
        let moved: Option<i64> = sqlx::query_scalar(include_str!("../../sql/publication/advance.sql"))
            .bind(claim.catalog.0)
            .bind(claim.id)
            .bind(claim.holder)
            .bind(claim.fence)
            .bind(snapshot.0)
            .fetch_optional(self.background_pool())
            .await?;
        Ok(moved.is_some())
    }

    /// Says in a publication's `last_error` what keeps it waiting; it stays ours. False when it is not ours any more.
    ///
    /// # Errors
    /// Any database error.
    pub async fn publication_wait(&self, claim: &Claim, error: &str) -> Result<bool> {
        self.trouble(claim, "pending", error).await
    }

    /// Halts a publication until somebody resumes it. Its lease ends, its offset stays.
    /// False when it was not ours any more: then nothing was changed.
    ///
    /// # Errors
    /// Any database error.
    pub async fn publication_halt(&self, claim: &Claim, error: &str) -> Result<bool> {
        self.trouble(claim, "halted", error).await
    }

    async fn trouble(&self, claim: &Claim, state: &str, error: &str) -> Result<bool> {
        let said = sqlx::query(include_str!("../../sql/publication/trouble.sql"))
            .bind(claim.catalog.0)
            .bind(claim.id)
            .bind(claim.holder)
            .bind(claim.fence)
            .bind(state)
            // Postgres stores no NUL
            .bind(error.replace('\0', ""))
            .execute(self.background_pool())
            .await?;
        Ok(said.rows_affected() > 0)
    }

    /// What there is to do for publications that are read up to the snapshot beside them, in one moment of the database.
    ///
    /// # Errors
    /// Any database error.
    pub async fn publication_due(&self, read: &[(&Claim, SnapshotId)]) -> Result<Vec<Due>> {
        let (mut ids, mut catalogs, mut tables, mut after) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (claim, snapshot) in read {
            ids.push(claim.id);
            catalogs.push(claim.catalog.0);
            tables.push(claim.table.0);
            after.push(snapshot.0);
        }
        Ok(sqlx::query_as(include_str!("../../sql/publication/due.sql"))
            .bind(ids)
            .bind(catalogs)
            .bind(tables)
            .bind(after)
            .fetch_all(self.background_pool())
            .await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_about_later_snapshots_is_no_news() {
        let due = |after| Due { publication_id: 1, after, head_snapshot: 9, changed: false };
        assert!(due(3).is_news(3) && due(3).is_news(8));
        // read again from an earlier snapshot: what lies before `after` was not looked at
        assert!(!due(3).is_news(2));
        assert!(!due(3).is_news(9));
    }
}
