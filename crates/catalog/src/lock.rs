//! The per-catalog commit lock.

use hoglake_model::CatalogId;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Postgres, Transaction};
use std::time::{Duration, Instant};

/// First half of the lock key, so that other users of advisory locks in the same database do not collide with ours.
const LOCK_NAMESPACE: i64 = 0x0048_6f67;

/// Key of the lock of `catalog`.
pub fn key(catalog: CatalogId) -> i64 {
    (LOCK_NAMESPACE << 32) | (catalog.0 & 0xffff_ffff)
}

/// Begins a READ COMMITTED transaction on `connection` and takes the commit lock of `catalog`, in one round trip.
///
/// # Locks
/// The lock is a statement of its own: later statements of the transaction see everything that the previous holder
/// committed. It is released when the transaction ends.
///
/// # Errors
/// SQLSTATE 55P03 when the lock is not had within `timeout` (`None` waits for ever). The timeout holds for the other
/// lock waits of the transaction too. A failed `begin` leaves the session inside an aborted transaction: after an error
/// the caller closes the connection instead of giving it back to the pool.
pub async fn begin_locked(
    connection: &mut PgConnection,
    catalog: CatalogId,
    timeout: Option<Duration>,
) -> Result<Transaction<'_, Postgres>, sqlx::Error> {
    // 0 would mean "no limit" to Postgres
    let timeout_ms = timeout.map_or(0, |t| t.as_millis().clamp(1, i32::MAX as u128));
    let key = key(catalog);
    // numbers only: nothing in this text comes from outside
    let statements = format!("begin; set local lock_timeout = {timeout_ms}; select pg_advisory_xact_lock({key})");
    let started = Instant::now();
    let transaction = connection.begin_with(AssertSqlSafe(statements)).await?;
    metrics::histogram!("hoglake_commit_lock_wait_seconds").record(started.elapsed().as_secs_f64());
    Ok(transaction)
}

/// First half of the key of the floor lock; locks of two numbers do not meet those of one.
const FLOOR_NAMESPACE: i32 = 0x686f_676c;

/// Keeps the floor of `catalog` where it is until the caller's transaction ends. Holders do not hinder each other, nor
/// commits; [`move_floor`] waits for them all.
///
/// A consumer's offset is checked against the floor and stored under this lock, so that expiry, which reads the offsets
/// under [`move_floor`], misses none that was accepted.
///
/// # Locks
/// Shared. Take it in a statement of its own before reading the floor.
///
/// # Errors
/// SQLSTATE 55P03 when the transaction's `lock_timeout` runs out.
pub async fn hold_floor(connection: &mut PgConnection, catalog: CatalogId) -> Result<(), sqlx::Error> {
    floor_lock(connection, catalog, "select pg_advisory_xact_lock_shared($1, hashint8($2))").await
}

/// Takes the right to advance the floor of `catalog` until the caller's transaction ends.
///
/// # Locks
/// Exclusive; after the commit lock. Take it before reading the consumers' offsets.
///
/// # Errors
/// SQLSTATE 55P03 when the transaction's `lock_timeout` runs out.
pub async fn move_floor(connection: &mut PgConnection, catalog: CatalogId) -> Result<(), sqlx::Error> {
    floor_lock(connection, catalog, "select pg_advisory_xact_lock($1, hashint8($2))").await
}

async fn floor_lock(
    connection: &mut PgConnection,
    catalog: CatalogId,
    statement: &'static str,
) -> Result<(), sqlx::Error> {
    sqlx::query(statement).bind(FLOOR_NAMESPACE).bind(catalog.0).execute(connection).await?;
    Ok(())
}
