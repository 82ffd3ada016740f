//! Migrations are applied once, in order, and only by builds that know them.

use hoglake_catalog::{Error, Options, migrations};
use hoglake_testkit::postgres::TestDatabase;

#[tokio::test]
async fn applying_twice_is_a_no_op() {
    let database = TestDatabase::empty().await;
    let options = Options::new(database.url());
    let first = migrations::migrate(&options).await.unwrap();
    assert_eq!(first.applied.len(), migrations::MIGRATIONS.len());
    let second = migrations::migrate(&options).await.unwrap();
    assert_eq!(second, migrations::Report { applied: vec![], version: migrations::MIGRATIONS.len() });
}

#[tokio::test]
async fn replicas_that_start_together_migrate_once() {
    let database = TestDatabase::empty().await;
    let options = Options::new(database.url());
    let reports =
        futures::future::join_all((0..4).map(|_| async { migrations::migrate(&options).await.unwrap() })).await;
    let applied: usize = reports.iter().map(|r| r.applied.len()).sum();
    assert_eq!(applied, migrations::MIGRATIONS.len());
}

#[tokio::test]
async fn a_database_of_a_newer_build_is_refused() {
    let database = TestDatabase::empty().await;
    let options = Options::new(database.url());
    migrations::migrate(&options).await.unwrap();
    let pool = database.pool().await;
    sqlx::query("insert into hoglake.migration (version, name, checksum) values (9999, 'from_the_future', '')")
        .execute(&pool)
        .await
        .unwrap();
    let error = migrations::migrate(&options).await.unwrap_err();
    assert!(matches!(&error, Error::Schema(why) if why.contains("run a newer hoglake")), "{error}");
    let error = migrations::check(&options).await.unwrap_err();
    assert!(matches!(&error, Error::Schema(why) if why.contains("run a newer hoglake")), "{error}");
}

#[tokio::test]
async fn a_check_changes_nothing_and_names_the_remedy() {
    let database = TestDatabase::empty().await;
    let options = Options::new(database.url());
    let pool = database.pool().await;
    let said = async || match migrations::check(&options).await {
        Ok(()) => "fine".to_owned(),
        Err(Error::Schema(why)) => why,
        Err(error) => panic!("{error}"),
    };
    assert!(said().await.contains("no hoglake schema yet: `hoglake migrate` makes it"));
    let schemas = "select count(*) from pg_namespace where nspname = 'hoglake'";
    assert_eq!(sqlx::query_scalar::<_, i64>(schemas).fetch_one(&pool).await.unwrap(), 0);
    migrations::migrate(&options).await.unwrap();
    assert_eq!(said().await, "fine");
    let newest = i32::try_from(migrations::MIGRATIONS.len()).unwrap();
    sqlx::query("delete from hoglake.migration where version = $1").bind(newest).execute(&pool).await.unwrap();
    let older = said().await;
    assert!(older.contains(&format!("version {} of the schema", newest - 1)), "{older}");
    assert!(older.contains("`hoglake migrate`"), "{older}");
}
