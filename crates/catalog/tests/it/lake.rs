//! A catalog with a namespace and tables to commit to.

use hoglake_catalog::{Catalog, Error, Options, Result, migrations};
use hoglake_model::commit::{CommitRequest, FileRegistration, TableAppend};
use hoglake_testkit::postgres::TestDatabase;
use sqlx::PgPool;

pub struct Lake {
    pub catalog: Catalog,
    pub pool: PgPool,
    /// Dropped last: the database goes with it.
    pub database: TestDatabase,
}

pub const ROOT: &str = "s3://lake/demo";

impl Lake {
    /// Catalog `demo` with `ns.t` and `ns.u`: columns 1 `id` long, 2 `name` string. Head is 3.
    pub async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(set: impl FnOnce(&mut Options)) -> Self {
        let database = TestDatabase::create("catalog", async |url: String| {
            migrations::migrate(&Options::new(url)).await.map(drop)
        })
        .await;
        let mut options = Options::new(database.url());
        set(&mut options);
        let pool = options.connect_options().map(PgPool::connect_lazy_with).unwrap();
        sqlx::raw_sql(include_str!("lake.sql")).execute(&pool).await.unwrap();
        Self { catalog: Catalog::open(options).unwrap(), pool, database }
    }

    /// Another server process on the same database.
    pub fn second(&self) -> Catalog {
        Catalog::open(self.catalog.options().clone()).unwrap()
    }

    pub async fn commit(&self, request: CommitRequest) -> Result<i64> {
        let answer = self.catalog.commit("demo", request, None).await?;
        answer.snapshot.map(|s| s.0).ok_or_else(|| Error::Corrupt("no snapshot".to_owned()))
    }

    /// One number from SQL.
    pub async fn number(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.pool).await.unwrap()
    }

    /// `(head, next_file_id, schema_version)`.
    pub async fn head(&self) -> (i64, i64, i64) {
        sqlx::query_as("select head_snapshot, next_file_id, schema_version from catalog where name = 'demo'")
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }
}

pub fn file(path: &str, record_count: i64) -> FileRegistration {
    FileRegistration {
        path: format!("{ROOT}/{path}"),
        record_count,
        file_size_bytes: 100,
        footer_size: Some(10),
        column_stats: None,
        partition_values: None,
    }
}

pub fn append(table: &str, files: Vec<FileRegistration>) -> CommitRequest {
    let append = TableAppend { namespace: "ns".to_owned(), table: table.to_owned(), expected_table_uuid: None, files };
    CommitRequest { appends: vec![append], ..CommitRequest::default() }
}
