//! Deletes what lies below the floor, page by page.

use super::ExpiryLimits;
use crate::fault;
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
        // the totals are folded from rows that are about to go
        while self.partition_totals_fold(catalog, Some(floor)).await? {
            if Instant::now() >= end {
                purged.unfinished = true;
                return Ok(purged);
            }
        }
        let mut connection = self.background_pool().acquire().await?;
        let outcome = purge_all(&mut connection, catalog, floor, limits, end, &mut purged).await;
        if outcome.is_err() {
            connection.close_on_drop();
        }
        outcome?;
        if purged.data_files + purged.delete_files >= ANALYZE_AFTER {
            let analyzed = sqlx::query_scalar(include_str!("../../sql/removal/analyzed.sql"));
            let believed: i64 = analyzed.fetch_one(self.background_pool()).await?;
            if believed < ANALYZE_AFTER {
                sqlx::raw_sql("analyze file_removal").execute(self.background_pool()).await?;
            }
        }
        Ok(purged)
    }
}

/// Removals queued in one go from which on the planner is told at once, unless it knows of as many. Every commit probes
/// the queue by a plan that is kept until the statistics change; one made while the queue was empty may read all of it.
const ANALYZE_AFTER: i64 = 5_000;

async fn purge_all(
    connection: &mut PgConnection,
    catalog: CatalogId,
    floor: SnapshotId,
    limits: ExpiryLimits,
    end: Instant,
    purged: &mut Purged,
) -> Result<()> {
    for statement in [VECTORS, FILES] {
        loop {
            let page = run_page(connection, catalog, statement, floor, None, limits).await?;
            fault::point("expiry.files_purged");
            if statement == VECTORS {
                purged.delete_files += page.queued;
            } else {
                purged.data_files += page.queued;
                purged.delete_files += page.vectors_queued;
            }
            if page.rows < limits.page {
                break;
            }
            if Instant::now() >= end {
                purged.unfinished = true;
                return Ok(());
            }
        }
    }
    if !purge_dropped_tables(connection, catalog, floor, limits, end, purged).await? {
        purged.unfinished = true;
        return Ok(());
    }
    for statement in [SNAPSHOTS, KEYS] {
        loop {
            let page = run_page(connection, catalog, statement, floor, None, limits).await?;
            fault::point("expiry.snapshots_purged");
            if page.rows < limits.page {
                break;
            }
            if Instant::now() >= end {
                purged.unfinished = true;
                return Ok(());
            }
        }
    }
    let versions = include_str!("../../sql/expiry/purge_versions.sql");
    let _: Page = sqlx::query_as(versions).bind(catalog.0).bind(floor.0).fetch_one(connection).await?;
    fault::point("expiry.versions_purged");
    Ok(())
}

/// False when the budget ran out.
async fn purge_dropped_tables(
    connection: &mut PgConnection,
    catalog: CatalogId,
    floor: SnapshotId,
    limits: ExpiryLimits,
    end: Instant,
    purged: &mut Purged,
) -> Result<bool> {
    loop {
        let tables: Vec<i64> = sqlx::query_scalar(include_str!("../../sql/expiry/dropped_tables.sql"))
            .bind(catalog.0)
            .bind(floor.0)
            .bind(100_i64)
            .fetch_all(&mut *connection)
            .await?;
        if tables.is_empty() {
            return Ok(true);
        }
        for table in tables {
            loop {
                let page = run_page(connection, catalog, FILES, floor, Some(table), limits).await?;
                fault::point("expiry.dropped_table_purged");
                purged.data_files += page.queued;
                purged.delete_files += page.vectors_queued;
                if page.rows < limits.page {
                    break;
                }
                if Instant::now() >= end {
                    return Ok(false);
                }
            }
            sqlx::query(include_str!("../../sql/expiry/forget_dropped_table.sql"))
                .bind(catalog.0)
                .bind(table)
                .execute(&mut *connection)
                .await?;
            fault::point("expiry.dropped_table_forgotten");
            if Instant::now() >= end {
                return Ok(false);
            }
        }
    }
}

async fn run_page(
    connection: &mut PgConnection,
    catalog: CatalogId,
    statement: &'static str,
    floor: SnapshotId,
    dropped_table: Option<i64>,
    limits: ExpiryLimits,
) -> Result<Page, sqlx::Error> {
    let begun = Instant::now();
    let key = (LOCK_NAMESPACE << 32) | (catalog.0 & 0xffff_ffff);
    // a number only; the lock is a statement of its own, so that the page sees what the page before it did
    let begin = format!("begin; {PAGE_SETTINGS}; select pg_advisory_xact_lock({key})");
    let mut transaction = connection.begin_with(AssertSqlSafe(begin)).await?;
    let mut query = sqlx::query_as(statement).bind(catalog.0).bind(floor.0).bind(limits.page);
    if statement == FILES {
        query = query.bind(dropped_table);
    }
    let page = query.fetch_one(&mut *transaction).await?;
    let files = matches!(statement, VECTORS | FILES);
    fault::point(if files { "expiry.before_files_commit" } else { "expiry.before_snapshots_commit" });
    transaction.commit().await?;
    if limits.rests {
        tokio::time::sleep(begun.elapsed()).await;
    }
    Ok(page)
}
