//! Migrations: plain SQL, append-only once released, applied under an advisory lock by whoever starts first.

use crate::{Error, Options, Result};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::io;
use std::time::Duration;

/// Every migration in order; the number is the position from 1.
pub const MIGRATIONS: &[(&str, &str)] = &[
    ("0001_catalog", include_str!("../migrations/0001_catalog.sql")),
    ("0002_maintenance", include_str!("../migrations/0002_maintenance.sql")),
    ("0003_statistics_version", include_str!("../migrations/0003_statistics_version.sql")),
    ("0004_conversion", include_str!("../migrations/0004_conversion.sql")),
    ("0005_publications", include_str!("../migrations/0005_publications.sql")),
    ("0006_snapshot_of_catalog", include_str!("../migrations/0006_snapshot_of_catalog.sql")),
    ("0007_removal_queue", include_str!("../migrations/0007_removal_queue.sql")),
    ("0008_idempotency_claims", include_str!("../migrations/0008_idempotency_claims.sql")),
    ("0009_liveness", include_str!("../migrations/0009_liveness.sql")),
    ("0010_removal_claims", include_str!("../migrations/0010_removal_claims.sql")),
    ("0011_queued_path", include_str!("../migrations/0011_queued_path.sql")),
];

/// Advisory lock that serialises migrations, outside the range of commit lock keys.
const LOCK: i64 = 0x686f_676c_616b_6521;

/// What [`migrate`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Report {
    /// Names of the migrations applied now, in order.
    pub applied: Vec<&'static str>,
    /// Number of the newest migration in the database.
    pub version: usize,
}

/// Brings the database to the newest schema. Applying twice is a no-op.
///
/// # Locks
/// A session advisory lock, polled: a waiting replica holds no snapshot and blocks nobody.
///
/// # Errors
/// [`Error::Schema`] when the database was migrated by a newer hoglake, or a recorded migration differs from ours.
pub async fn migrate(options: &Options) -> Result<Report> {
    let mut connection = connect(options).await?;
    loop {
        let locked: bool =
            sqlx::query_scalar("select pg_try_advisory_lock($1)").bind(LOCK).fetch_one(&mut connection).await?;
        if locked {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let report = apply(&mut connection).await;
    // the lock goes with the session
    connection.close().await?;
    report
}

/// Makes sure that the database has the schema of this build, and changes nothing.
///
/// # Errors
/// [`Error::Schema`] when it has none, an older or a newer one, with what to do; any database error.
pub async fn check(options: &Options) -> Result<()> {
    let mut connection = connect(options).await?;
    let there = "select to_regclass('hoglake.migration') is not null";
    let recorded: Vec<(i32, String, Vec<u8>)> = if sqlx::query_scalar(there).fetch_one(&mut connection).await? {
        read_recorded(&mut connection).await?
    } else {
        Vec::new()
    };
    connection.close().await?;
    check_recorded(&recorded)?;
    let (has, needs) = (recorded.len(), MIGRATIONS.len());
    match has {
        0 => Err(Error::Schema(
            "the database has no hoglake schema yet: `hoglake migrate` makes it, and so does `hoglake serve`"
                .to_owned(),
        )),
        has if has < needs => Err(Error::Schema(format!(
            "the database has version {has} of the schema, and this hoglake works on version {needs}: bring it up to \
             date with `hoglake migrate`, or use the hoglake that it was made by"
        ))),
        _ => Ok(()),
    }
}

/// Makes sure that the database can be reached at all: a pool would try again and again, and not say why.
///
/// # Errors
/// Any database error.
pub async fn reach(options: &Options) -> Result<()> {
    Ok(connect(options).await?.close().await?)
}

/// A connection of its own, for which no pool sets a limit to how long it may take.
async fn connect(options: &Options) -> Result<PgConnection> {
    let settings = options.connect_options()?;
    let connected = tokio::time::timeout(options.connect_timeout, PgConnection::connect_with(&settings)).await;
    Ok(connected.unwrap_or_else(|_| {
        let silence = format!("no answer within {} s", options.connect_timeout.as_secs_f64());
        Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, silence)))
    })?)
}

async fn read_recorded(connection: &mut PgConnection) -> Result<Vec<(i32, String, Vec<u8>)>> {
    let recorded = sqlx::query_as("select version, name, checksum from migration order by version");
    Ok(recorded.fetch_all(connection).await?)
}

async fn apply(connection: &mut PgConnection) -> Result<Report> {
    sqlx::raw_sql(
        "set statement_timeout = 0; create schema if not exists hoglake;
         create table if not exists hoglake.migration (
           version int primary key, name text not null, checksum bytea not null,
           applied_at timestamptz not null default clock_timestamp())",
    )
    .execute(&mut *connection)
    .await?;
    let recorded = read_recorded(connection).await?;
    check_recorded(&recorded)?;
    let mut report = Report { applied: Vec::new(), version: MIGRATIONS.len() };
    for (index, (name, sql)) in MIGRATIONS.iter().enumerate().skip(recorded.len()) {
        let mut transaction = connection.begin().await?;
        sqlx::raw_sql(AssertSqlSafe(*sql)).execute(&mut *transaction).await?;
        sqlx::query("insert into migration (version, name, checksum) values ($1, $2, $3)")
            .bind(i32::try_from(index + 1).unwrap_or(i32::MAX))
            .bind(name)
            .bind(checksum(sql))
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        report.applied.push(name);
    }
    Ok(report)
}

fn check_recorded(recorded: &[(i32, String, Vec<u8>)]) -> Result<()> {
    for (index, (version, name, sum)) in recorded.iter().enumerate() {
        let Some((our_name, sql)) = MIGRATIONS.get(index) else {
            return Err(Error::Schema(format!(
                "the database has migration {version} (`{name}`), which this hoglake does not know; run a newer hoglake"
            )));
        };
        if our_name != name || checksum(sql) != *sum {
            return Err(Error::Schema(format!(
                "migration {version} in the database is `{name}`, which differs from this hoglake's `{our_name}`; \
                 the database was migrated by another build"
            )));
        }
    }
    Ok(())
}

fn checksum(sql: &str) -> Vec<u8> {
    use sha2::{Digest, Sha256};
    Sha256::digest(sql.as_bytes()).to_vec()
}
