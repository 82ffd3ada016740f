//! Deletes what lies below the floor, page by page.

use super::ExpiryLimits;
use crate::fault;
use crate::pace::Pace;
use crate::{Catalog, Result};
use hoglake_model::{CatalogId, SnapshotId};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::time::Instant;

/// What a purge did.
#[derive(Debug, Default)]
pub(super) struct Purged {
    pub(super) data_files: i64,
    pub(super) delete_files: i64,
    /// Whether the budget ran out.
    pub(super) unfinished: bool,
}

/// What one page did.
#[derive(Debug, Default, sqlx::FromRow)]
struct Page {
    rows: i64,
    queued: i64,
    vectors_queued: i64,
}

/// First half of the key of the advisory lock that lets one page of a catalog be purged at a time: two pages that each
/// hold one of two references to a path must see each other, or neither would queue it.
const LOCK_NAMESPACE: i64 = 0x0048_6f70;

/// Pages are found by keys: the planner would rather read a large table whole for each of them.
pub const PAGE_SETTINGS: &str =
    "set local enable_seqscan = off; set local enable_hashjoin = off; set local enable_mergejoin = off";

/// The purges in their order, each a statement and the point at which tests kill the process before it commits. Files
/// go before the snapshots, so that whatever is interrupted is found again by the floor.
const VECTORS: &str = include_str!("../../sql/expiry/purge_vectors.sql");
const FILES: &str = include_str!("../../sql/expiry/purge_files.sql");
const SNAPSHOTS: &str = include_str!("../../sql/expiry/purge_snapshots.sql");
const KEYS: &str = include_str!("../../sql/expiry/purge_keys.sql");

impl Catalog {
    pub(super) async fn purge(&self, catalog: CatalogId, floor: SnapshotId, limits: ExpiryLimits) -> Result<Purged> {
        let end = Instant::now() + limits.budget;
        let mut purged = Purged::default();
        let mut pace = Pace::new(catalog, limits.rests);
        // the totals are folded from rows that are about to go
        let mut folding = Instant::now();
        while self.partition_totals_fold(catalog, Some(floor)).await? {
            self.rest(&mut pace, folding.elapsed()).await?;
            folding = Instant::now();
            if folding >= end {
                purged.unfinished = true;
                return Ok(purged);
            }
        }
        let mut connection = self.background_pool().acquire().await?;
        let mut purge =
            Purge { connection: &mut connection, catalog, floor, limits, end, pace, purged, planner_knows: false };
        match purge.all().await {
            Ok(finished) => {
                purge.purged.unfinished = !finished;
                Ok(purge.purged)
            }
            Err(error) => {
                connection.close_on_drop();
                Err(error)
            }
        }
    }
}

/// Removals queued from which on the planner is told of them, unless it knows of as many. Every commit probes the queue,
/// and cleanup claims from it, by plans that are kept until the statistics change; those made while the queue was empty
/// read all of it.
const ANALYZE_AFTER: i64 = 5_000;

/// Rows of a page of a sweep that makes way for commits.
const GENTLE_PAGE: i64 = 1_000;
/// The same while somebody commits: a few milliseconds.
const BUSY_PAGE: i64 = 100;

/// A purge under way.
struct Purge<'a> {
    connection: &'a mut PgConnection,
    catalog: CatalogId,
    floor: SnapshotId,
    limits: ExpiryLimits,
    end: Instant,
    pace: Pace,
    purged: Purged,
    planner_knows: bool,
}

impl Purge<'_> {
    /// Purges until nothing is left (true) or the budget has run out.
    async fn all(&mut self) -> Result<bool> {
        for statement in [VECTORS, FILES] {
            if !self.pages(statement, None, "expiry.files_purged").await? {
                return Ok(false);
            }
        }
        if !self.dropped_tables().await? {
            return Ok(false);
        }
        for statement in [SNAPSHOTS, KEYS] {
            if !self.pages(statement, None, "expiry.snapshots_purged").await? {
                return Ok(false);
            }
        }
        let versions = include_str!("../../sql/expiry/purge_versions.sql");
        let versions = sqlx::query_as(versions).bind(self.catalog.0).bind(self.floor.0);
        let _: Page = versions.fetch_one(&mut *self.connection).await?;
        fault::point("expiry.versions_purged");
        Ok(true)
    }

    async fn dropped_tables(&mut self) -> Result<bool> {
        loop {
            let tables: Vec<i64> = sqlx::query_scalar(include_str!("../../sql/expiry/dropped_tables.sql"))
                .bind(self.catalog.0)
                .bind(self.floor.0)
                .bind(100_i64)
                .fetch_all(&mut *self.connection)
                .await?;
            if tables.is_empty() {
                return Ok(true);
            }
            for table in tables {
                if !self.pages(FILES, Some(table), "expiry.dropped_table_purged").await? {
                    return Ok(false);
                }
                sqlx::query(include_str!("../../sql/expiry/forget_dropped_table.sql"))
                    .bind(self.catalog.0)
                    .bind(table)
                    .execute(&mut *self.connection)
                    .await?;
                fault::point("expiry.dropped_table_forgotten");
                if Instant::now() >= self.end {
                    return Ok(false);
                }
            }
        }
    }

    /// Runs a statement page by page, with a fault point after each, until a page is not full.
    async fn pages(&mut self, statement: &'static str, table: Option<i64>, point: &'static str) -> Result<bool> {
        loop {
            let rows = self.pace.step(self.limits.page, GENTLE_PAGE, BUSY_PAGE);
            let page = self.page(statement, table, rows).await?;
            fault::point(point);
            if statement == VECTORS {
                self.purged.delete_files += page.queued;
            } else {
                self.purged.data_files += page.queued;
                self.purged.delete_files += page.vectors_queued;
            }
            self.tell_planner().await?;
            if page.rows < rows {
                return Ok(true);
            }
            if Instant::now() >= self.end {
                return Ok(false);
            }
        }
    }

    async fn page(
        &mut self,
        statement: &'static str,
        dropped_table: Option<i64>,
        rows: i64,
    ) -> Result<Page, sqlx::Error> {
        let begun = Instant::now();
        let key = (LOCK_NAMESPACE << 32) | (self.catalog.0 & 0xffff_ffff);
        // a number only; the lock is a statement of its own, so that the page sees what the page before it did
        let begin = format!("begin; {PAGE_SETTINGS}; select pg_advisory_xact_lock({key})");
        let mut transaction = self.connection.begin_with(AssertSqlSafe(begin)).await?;
        let mut query = sqlx::query_as(statement).bind(self.catalog.0).bind(self.floor.0).bind(rows);
        if statement == FILES {
            query = query.bind(dropped_table);
        }
        let page = query.fetch_one(&mut *transaction).await?;
        let files = matches!(statement, VECTORS | FILES);
        fault::point(if files { "expiry.before_files_commit" } else { "expiry.before_snapshots_commit" });
        transaction.commit().await?;
        self.pace.rest(&mut *self.connection, begun.elapsed()).await?;
        Ok(page)
    }

    async fn tell_planner(&mut self) -> Result<()> {
        if self.planner_knows || self.purged.data_files + self.purged.delete_files < ANALYZE_AFTER {
            return Ok(());
        }
        let analyzed = sqlx::query_scalar(include_str!("../../sql/removal/analyzed.sql"));
        let believed: i64 = analyzed.fetch_one(&mut *self.connection).await?;
        if believed < ANALYZE_AFTER {
            sqlx::raw_sql("analyze file_removal").execute(&mut *self.connection).await?;
        }
        self.planner_knows = true;
        Ok(())
    }
}
