//! Databases are private, templates are made once, a killed cluster comes back.

use hoglake_testkit::postgres::{Cluster, TestDatabase};
use sqlx::{Connection, PgConnection};
use std::sync::atomic::{AtomicUsize, Ordering};

static MIGRATIONS: AtomicUsize = AtomicUsize::new(0);

async fn migrate(url: String) -> Result<(), sqlx::Error> {
    MIGRATIONS.fetch_add(1, Ordering::SeqCst);
    let mut connection = PgConnection::connect(&url).await?;
    sqlx::query("create table made_by_template (x int)").execute(&mut connection).await?;
    connection.close().await
}

async fn rows(url: &str) -> i64 {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::query_scalar("select count(*) from made_by_template").fetch_one(&mut connection).await.unwrap()
}

#[tokio::test]
async fn clones_are_private_and_the_template_is_made_at_most_once() {
    let (one, two, three) = tokio::join!(
        TestDatabase::create("testkit", migrate),
        TestDatabase::create("testkit", migrate),
        TestDatabase::create("testkit", migrate)
    );
    sqlx::query("insert into made_by_template values (1), (2)").execute(&one.pool().await).await.unwrap();
    assert_eq!((rows(one.url()).await, rows(two.url()).await, rows(three.url()).await), (2, 0, 0));
    assert!(MIGRATIONS.load(Ordering::SeqCst) <= 1);
}

#[tokio::test]
async fn a_dropped_value_drops_its_database() {
    let database = TestDatabase::empty().await;
    let url = database.url().to_owned();
    assert!(PgConnection::connect(&url).await.is_ok());
    drop(database);
    assert!(PgConnection::connect(&url).await.is_err());
}

#[tokio::test]
async fn a_killed_cluster_keeps_what_was_committed() {
    let mut cluster = Cluster::start();
    let mut connection = PgConnection::connect(&cluster.url()).await.unwrap();
    sqlx::query("create table made_by_template (x int)").execute(&mut connection).await.unwrap();
    sqlx::query("insert into made_by_template values (1)").execute(&mut connection).await.unwrap();
    cluster.kill();
    assert!(PgConnection::connect(&cluster.url()).await.is_err());
    cluster.restart();
    assert_eq!(rows(&cluster.url()).await, 1);
}
