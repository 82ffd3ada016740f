//! What only looks: previews and verify change nothing, and need no right to.

use super::{DEMO, delete};
use crate::lake::{Lake, append, file};
use hoglake_catalog::expiry::{ExpiryLimits, ExpiryResult};
use hoglake_catalog::removals::{ClaimRequest, QueuePosition};
use hoglake_catalog::verify::Status;
use hoglake_catalog::{Catalog, Options};
use sqlx::AssertSqlSafe;
use std::time::Duration;
use uuid::Uuid;

/// Every table of the schema, with a digest of its rows.
async fn everything(lake: &Lake) -> Vec<(String, Option<String>)> {
    let tables = "select table_name::text from information_schema.tables where table_schema = 'hoglake' order by 1";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&lake.pool).await.unwrap();
    let mut digests = Vec::new();
    for table in tables {
        let digest = format!("select md5(string_agg(t::text, ';' order by t::text)) from \"{table}\" t");
        digests.push((table, sqlx::query_scalar(AssertSqlSafe(digest)).fetch_one(&lake.pool).await.unwrap()));
    }
    digests
}

/// The inputs of the groups that a compaction would take; files that others rewrite, and those put off.
async fn groups(catalog: &Catalog) -> (Vec<Vec<i64>>, i64, i64) {
    let (groups, held) = catalog.compaction_preview(DEMO, 4, 9).await.unwrap();
    (groups.iter().map(|group| group.input_ids()).collect(), held.claimed, held.put_off)
}

/// What a cleanup would delete, in pages of `limit`.
pub async fn queued(catalog: &Catalog, limit: i64) -> Vec<Vec<String>> {
    let (claimant, sweep_began) = (Uuid::nil(), catalog.database_time().await.unwrap());
    let request = ClaimRequest { claimant, min_age: Duration::ZERO, limit, sweep_began };
    let mut position = QueuePosition::default();
    let mut pages = Vec::new();
    loop {
        let claims = catalog.removals_preview(DEMO, request, &mut position).await.unwrap();
        assert!(claims.referenced.is_empty());
        if claims.unreferenced.is_empty() {
            return pages;
        }
        pages.push(claims.unreferenced.into_iter().map(|claimed| claimed.path).collect());
    }
}

#[tokio::test]
async fn a_preview_of_cleanup_goes_through_the_queue_in_pages() {
    let lake = Lake::new().await;
    // the third of each four was tried once, all at one time or another
    lake.execute(
        "insert into file_removal (catalog_id, path, kind, reason, last_attempt_at, attempts)
         select 1, 's3://lake/demo/' || n, 'data', 'snapshot_expiry',
                case when n % 4 = 3 then now() - interval '1 hour' - make_interval(mins => n / 16) end, (n % 4 = 3)::int
         from generate_series(0, 99) n",
    )
    .await;
    let whole = queued(&lake.catalog, 1_000).await;
    assert_eq!((whole.len(), whole[0].len()), (1, 100));
    assert!(whole[0].iter().take(75).all(|path| path.rsplit('/').next().unwrap().parse::<i32>().unwrap() % 4 != 3));
    for limit in [1, 7, 25, 75, 99] {
        let pages = queued(&lake.catalog, limit).await;
        let (last, full) = pages.split_last().unwrap();
        assert!(full.iter().all(|page| page.len() as i64 == limit) && last.len() as i64 <= limit);
        assert_eq!(pages.concat(), whole[0], "{limit}");
    }
}

type Seen = ((Vec<Vec<i64>>, i64, i64), ExpiryResult, Vec<String>);

/// What all previews say. Verify finds nothing wrong.
async fn look(catalog: &Catalog) -> Seen {
    assert_eq!(catalog.verify("demo").await.unwrap().status, Status::Pass);
    let expired = catalog.expire_preview(DEMO, ExpiryLimits::default()).await.unwrap();
    (groups(catalog).await, expired, queued(catalog, 99).await.concat())
}

/// Work for every task, and what a plan of compaction would tidy up.
async fn worn() -> Lake {
    let lake = Lake::new().await;
    let begin = lake.commit(append("t", (0..4).map(|i| file(&format!("t{i}"), 10)).collect())).await.unwrap();
    let read = lake.commit(delete("t", begin, 1, 3)).await.unwrap();
    while lake.catalog.partition_totals_fold(DEMO, None).await.unwrap() {}
    lake.commit(delete("t", read, 1, 4)).await.unwrap();
    lake.commit(append("t", (4..7).map(|i| file(&format!("t{i}"), 10)).collect())).await.unwrap();
    lake.commit(append("u", (0..5).map(|i| file(&format!("u{i}"), 10)).collect())).await.unwrap();
    lake.execute(
        "insert into compaction_claim (catalog_id, data_file_id, claimed_by, claimed_until)
           values (1, 2, gen_random_uuid(), now() - interval '2 hours'),
                  (1, 3, gen_random_uuid(), now() + interval '1 hour');
         insert into compaction_failure (catalog_id, data_file_id, attempts, next_attempt_at, reason)
           values (1, 4, 1, now() + interval '1 hour', 'why'), (1, 999, 1, now(), 'it is long gone');
         insert into file_removal (catalog_id, path, kind, reason)
           values (1, 's3://lake/demo/gone', 'data', 'snapshot_expiry')",
    )
    .await;
    lake.age().await;
    lake
}

/// Whether connections of the database write from now on.
async fn read_only(lake: &Lake, state: &str) {
    let name = lake.database.name();
    // also where the connection is one that does not write by itself
    let sql =
        format!("begin read write; alter database \"{name}\" set default_transaction_read_only = {state}; commit");
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&lake.pool).await.unwrap();
}

#[tokio::test]
async fn what_only_looks_changes_nothing_and_needs_no_right_to() {
    let lake = worn().await;
    let before = everything(&lake).await;
    let seen = look(&lake.catalog).await;
    // vectors are numbered with the files
    assert_eq!(seen.0, (vec![vec![1, 2, 7, 8, 9], vec![10, 11, 12, 13, 14]], 1, 1));
    assert_eq!((seen.1.snapshots_expired, seen.1.delete_files_queued), (8, 1));
    assert_eq!(seen.2.len(), 1);
    assert_eq!(everything(&lake).await, before);

    let reader = Catalog::open(Options::new(lake.database.reader("hoglake").await)).unwrap();
    assert!(reader.compaction_plan(DEMO, 4, 9).await.is_err(), "it may not");
    assert_eq!(look(&reader).await, seen);

    read_only(&lake, "on").await;
    let standby = lake.second();
    assert!(standby.compaction_plan(DEMO, 4, 9).await.is_err(), "nobody may");
    assert_eq!(look(&standby).await, seen);
    assert_eq!(everything(&lake).await, before);

    // and what was said is what comes of it
    read_only(&lake, "off").await;
    let promoted = lake.second();
    let planned = promoted.compaction_plan(DEMO, 4, 9).await.unwrap();
    assert_eq!(planned.iter().map(|group| group.input_ids()).collect::<Vec<_>>(), seen.0.0);
    assert_eq!(promoted.expire(DEMO, ExpiryLimits::default()).await.unwrap(), seen.1);
}

#[tokio::test]
async fn a_preview_plans_as_a_plan_does_whatever_was_folded() {
    let lake = Lake::new().await;
    let another = |target| {
        let mut options = lake.catalog.options().clone();
        options.compaction_target_bytes = target;
        Catalog::open(options).unwrap()
    };
    let equal = async |catalog: &Catalog, wanted: &[Vec<i64>]| {
        assert_eq!(groups(catalog).await.0, wanted);
        let planned = catalog.compaction_plan(DEMO, 4, 9).await.unwrap();
        assert_eq!(planned.iter().map(|group| group.input_ids()).collect::<Vec<_>>(), wanted);
    };
    equal(&lake.catalog, &[]).await;
    lake.commit(append("t", (0..5).map(|i| file(&format!("t{i}"), 10)).collect())).await.unwrap();
    lake.execute("delete from partition_total; delete from partition_fold").await;
    equal(&lake.catalog, &[vec![1, 2, 3, 4, 5]]).await;
    lake.commit(append("u", (0..6).map(|i| file(&format!("u{i}"), 10)).collect())).await.unwrap();
    let both = [vec![6, 7, 8, 9, 10, 11], vec![1, 2, 3, 4, 5]];
    equal(&lake.catalog, &both).await;
    // files are of 100 bytes: under this target none is small, and what is folded for the other does not count
    equal(&another(100), &[]).await;
    equal(&lake.catalog, &both).await;
    lake.drop_table(2).await;
    equal(&lake.catalog, &both[1..]).await;
}
