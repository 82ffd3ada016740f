//! The checked-in schema is the fold of the migrations.
//!
//! `schema.sql` is what the database says about itself after all migrations, in one canonical order. After a new
//! migration: `HOGLAKE_BLESS=1 cargo test -p hoglake-catalog schema`.

use hoglake_catalog::{Options, migrations};
use hoglake_testkit::postgres::TestDatabase;

const CHECKED_IN: &str = include_str!("../../schema.sql");

#[tokio::test]
async fn the_checked_in_schema_is_the_fold_of_the_migrations() {
    let database = TestDatabase::empty().await;
    migrations::migrate(&Options::new(database.url())).await.unwrap();
    let lines: Vec<String> =
        sqlx::query_scalar(include_str!("schema/describe.sql")).fetch_all(&database.pool().await).await.unwrap();
    let schema = format!("-- Made by tests/it/schema.rs from the migrations; do not edit.\n\n{}\n", lines.join("\n"));
    if std::env::var_os("HOGLAKE_BLESS").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/schema.sql"), &schema).unwrap();
        return;
    }
    assert!(schema == CHECKED_IN, "schema.sql is not the fold of the migrations, which is:\n{schema}");
}
