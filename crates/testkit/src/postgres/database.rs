//! A database for one test, cloned from a migrated template.

use super::shared::{PREFIX, server_url};
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool};
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A database of its own, dropped with the value.
///
/// ```no_run
/// # async fn migrate(_url: &str) -> Result<(), String> { Ok(()) }
/// # async fn test() {
/// use hoglake_testkit::postgres::TestDatabase;
/// let database = TestDatabase::create("catalog", async |url| migrate(&url).await).await;
/// let pool = database.pool().await;
/// # }
/// ```
pub struct TestDatabase {
    name: String,
    url: String,
}

impl TestDatabase {
    /// Clones the template `template`. If it does not exist, `migrate` is called once with the URL of an empty
    /// database to fill. It must close its connections before it returns.
    ///
    /// A template belongs to one build of one test binary, so a changed migration never meets an old template.
    ///
    /// # Panics
    /// When the server or `migrate` fails.
    pub async fn create<E: Debug>(template: &str, migrate: impl AsyncFnOnce(String) -> Result<(), E>) -> Self {
        let template = format!("{PREFIX}{template}_{:016x}", binary_fingerprint());
        let mut admin = admin().await;
        if !exists(&mut admin, &template).await {
            make_template(&mut admin, &template, migrate).await;
        }
        let name = format!("{PREFIX}{}", uuid::Uuid::new_v4().simple());
        let strategy = strategy(&mut admin).await;
        execute(&mut admin, format!("create database \"{name}\" template \"{template}\" {strategy}")).await;
        let _ = admin.close().await;
        Self { url: url_of(&name), name }
    }

    /// An empty database, without any migration.
    ///
    /// # Panics
    /// When the server fails.
    pub async fn empty() -> Self {
        let name = format!("{PREFIX}{}", uuid::Uuid::new_v4().simple());
        let mut admin = admin().await;
        let strategy = strategy(&mut admin).await;
        execute(&mut admin, format!("create database \"{name}\" {strategy}")).await;
        let _ = admin.close().await;
        Self { url: url_of(&name), name }
    }

    /// URL of this database, as superuser; sqlx and libpq understand it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Name of this database.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// URL of this database for a role that may look at what is in `schema` by now, and change nothing.
    ///
    /// # Panics
    /// When the server fails.
    pub async fn reader(&self, schema: &str) -> String {
        let role = reader(&self.name);
        let mut connection = PgConnection::connect(&self.url).await.expect("the test database takes connections");
        for sql in [
            format!("create role \"{role}\" login password 'reader'"),
            format!("grant usage on schema \"{schema}\" to \"{role}\""),
            format!("grant select on all tables in schema \"{schema}\" to \"{role}\""),
        ] {
            execute(&mut connection, sql).await;
        }
        let _ = connection.close().await;
        let mut url = url::Url::parse(&self.url).expect("it is a URL");
        url.set_username(&role).and_then(|()| url.set_password(Some("reader"))).expect("it has a place for a login");
        url.to_string()
    }

    /// A pool of up to 10 connections, for tests that look behind the code they test.
    ///
    /// # Panics
    /// When the server cannot be reached.
    pub async fn pool(&self) -> PgPool {
        PgPool::connect(&self.url).await.expect("the test database takes connections")
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let drops = [
            format!("drop database if exists \"{}\" with (force)", self.name),
            // its rights went with the database
            format!("drop role if exists \"{}\"", reader(&self.name)),
        ];
        // Drop is not async and may run inside a runtime; a thread with a runtime of its own is allowed to wait.
        let dropped = std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread().enable_all().build().map(|runtime| {
                runtime.block_on(async {
                    if let Ok(mut admin) = PgConnection::connect(server_url()).await {
                        for drop in drops {
                            let _ = sqlx::query(AssertSqlSafe(drop)).execute(&mut admin).await;
                        }
                        let _ = admin.close().await;
                    }
                });
            })
        });
        let _ = dropped.join();
    }
}

/// Name of the role that may only look at `database`.
fn reader(database: &str) -> String {
    format!("{database}_reader")
}

async fn admin() -> PgConnection {
    let url = tokio::task::spawn_blocking(server_url).await.expect("the test server starts");
    PgConnection::connect(url).await.expect("the test server takes connections")
}

async fn execute(connection: &mut PgConnection, sql: String) {
    if let Err(error) = sqlx::query(AssertSqlSafe(sql.clone())).execute(connection).await {
        panic!("{sql}: {error}");
    }
}

async fn exists(admin: &mut PgConnection, database: &str) -> bool {
    sqlx::query_scalar("select exists (select 1 from pg_database where datname = $1)")
        .bind(database)
        .fetch_one(admin)
        .await
        .expect("pg_database can be read")
}

/// Makes the template under a session lock; it gets its name only when it is complete.
async fn make_template<E: Debug>(
    admin: &mut PgConnection,
    template: &str,
    migrate: impl AsyncFnOnce(String) -> Result<(), E>,
) {
    let lock = "select pg_advisory_lock(hashtextextended($1, 0))";
    sqlx::query(lock).bind(template).execute(&mut *admin).await.expect("the template lock can be taken");
    if !exists(admin, template).await {
        let unfinished = format!("{PREFIX}{}", uuid::Uuid::new_v4().simple());
        execute(admin, format!("create database \"{unfinished}\"")).await;
        migrate(url_of(&unfinished)).await.expect("the migration of the template succeeds");
        let idle = "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1";
        sqlx::query(idle).bind(&unfinished).execute(&mut *admin).await.expect("sessions can be ended");
        wait_until_alone(admin, &unfinished).await;
        execute(admin, format!("alter database \"{unfinished}\" rename to \"{template}\"")).await;
    }
    let unlock = "select pg_advisory_unlock(hashtextextended($1, 0))";
    sqlx::query(unlock).bind(template).execute(&mut *admin).await.expect("the template lock can be released");
}

async fn wait_until_alone(admin: &mut PgConnection, database: &str) {
    for _ in 0..500 {
        let sessions: i64 = sqlx::query_scalar("select count(*) from pg_stat_activity where datname = $1")
            .bind(database)
            .fetch_one(&mut *admin)
            .await
            .expect("pg_stat_activity can be read");
        if sessions == 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the migration left sessions open on its database");
}

/// How to copy a template: through the log where Postgres can, which spares the two checkpoints of a file copy.
async fn strategy(admin: &mut PgConnection) -> &'static str {
    let version: i32 = sqlx::query_scalar("select current_setting('server_version_num')::int")
        .fetch_one(admin)
        .await
        .expect("the version can be read");
    if version >= 150_000 { "strategy wal_log" } else { "" }
}

fn url_of(database: &str) -> String {
    let mut url = url::Url::parse(server_url()).expect("HOGLAKE_TEST_PG is a URL");
    url.set_path(database);
    url.to_string()
}

/// Changes whenever the running test binary is built again.
fn binary_fingerprint() -> u64 {
    let mut hasher = DefaultHasher::new();
    if let Ok(path) = std::env::current_exe() {
        path.hash(&mut hasher);
        if let Ok(modified) = std::fs::metadata(&path).and_then(|meta| meta.modified()) {
            modified.hash(&mut hasher);
        }
    }
    hasher.finish()
}
