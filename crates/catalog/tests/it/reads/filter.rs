//! Filtered scans: nothing that could match is left out, whatever is cached, and what is left out is what bounds and
//! partition values rule out.

use super::{filtered, ids, json};
use crate::lake::Lake;
use hoglake_catalog::Catalog;
use hoglake_catalog::scan::ScanRequest;

/// `demo.ns.t` with 20,000 files over snapshots 4 to 203. File i holds `id` in [10 i, 10 i + 9] and `name` from
/// `user-<i>-a` to `user-<i>-z`, i with 8 digits. Every 100th file is pending, every 50th has ended 20 snapshots after
/// its begin. Files of odd snapshots are partitioned by bucket and day.
async fn crowd(lake: &Lake) {
    sqlx::raw_sql(include_str!("crowd.sql")).execute(&lake.pool).await.unwrap();
}

async fn kept(catalog: &Catalog, request: ScanRequest) -> (Vec<i64>, i64) {
    let listing = catalog.scan(request).await;
    let (considered, kept) = listing.as_ref().unwrap().files.unwrap();
    let ids = ids(&json(listing).await);
    assert_eq!(ids.len() as i64, kept, "the header agrees with the answer");
    (ids, considered)
}

/// The answer by SQL: files visible at `snapshot` that are pending or satisfy `condition` on i, their number.
async fn expected(lake: &Lake, snapshot: i64, condition: &str) -> (Vec<i64>, i64) {
    let visible =
        format!("table_id = 1 and begin_snapshot <= {snapshot} and coalesce(end_snapshot > {snapshot}, true)");
    let ids = format!(
        "select data_file_id from (select *, data_file_id - 1000 as i from data_file) f
         where {visible} and (stats_state <> 'provided' or {condition}) order by row_id_start, data_file_id"
    );
    let ids = sqlx::query_scalar(sqlx::AssertSqlSafe(ids)).fetch_all(&lake.pool).await.unwrap();
    let count = format!("select count(*) from data_file where {visible}");
    (ids, sqlx::query_scalar(sqlx::AssertSqlSafe(count)).fetch_one(&lake.pool).await.unwrap())
}

const CASES: [(&str, &str); 12] = [
    ("id = 5005", "i = 500"),
    ("id >= 199000", "i >= 19900"),
    ("id < 100 OR id BETWEEN 5000 AND 5009", "i < 10 or i = 500"),
    ("id IN (15, 99995, -3)", "i in (1, 9999)"),
    ("NOT (id >= 50)", "i < 5"),
    ("name = 'user-00000123-m'", "i = 123"),
    ("name STARTS WITH 'user-000199'", "i between 19900 and 19999"),
    ("name > 'user-00019990-zz' AND id < 199950", "i in (19991, 19992, 19993, 19994)"),
    ("name < 'a'", "false"),
    ("id IS NULL", "i % 7 = 0"),
    ("id > 1000000000", "false"),
    ("id >= 0", "true"),
];

#[tokio::test]
async fn a_filter_keeps_what_could_match() {
    let lake = Lake::new().await;
    crowd(&lake).await;
    let small = Catalog::open({
        let mut options = lake.catalog.options().clone();
        options.scan_cache_bytes = 0;
        options
    })
    .unwrap();
    for snapshot in [203, 120, 203, 30] {
        for (filter, condition) in CASES {
            let request = ScanRequest { snapshot: Some(snapshot.to_string()), ..filtered(filter) };
            let expected = expected(&lake, snapshot, condition).await;
            assert_eq!(kept(&lake.catalog, request.clone()).await, expected, "{filter} at {snapshot}");
            if snapshot == 120 {
                assert_eq!(kept(&small, request).await, expected, "{filter} at {snapshot}, nothing cached");
            }
        }
    }
}

#[tokio::test]
async fn the_index_follows_commits_endings_and_statistics() {
    let lake = Lake::new().await;
    crowd(&lake).await;
    let request = || filtered("id BETWEEN 10000 AND 10099");
    // Files 1000 to 1009, and the pending ones.
    let (before, considered) = kept(&lake.catalog, request()).await;
    assert_eq!((before.clone(), considered), expected(&lake, 203, "i between 1000 and 1009").await);
    sqlx::raw_sql(
        "update catalog set head_snapshot = 205 where catalog_id = 1;
         insert into snapshot select 1, s, clock_timestamp(), 3 from generate_series(204, 205) s;
         update data_file set end_snapshot = 204 where data_file_id = 2001;
         insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, path, record_count, file_size_bytes,
           row_id_start, stats_state)
         values (1, 90001, 1, 204, 'new', 10, 1, 900001, 'provided'), (1, 90002, 1, 205, 'new', 10, 1, 900002, 'provided'),
                (1, 90003, 1, 205, 'new', 10, 1, 900003, 'pending');
         insert into file_statistics values
           (1, 90001, '{1}', '{10}', '{0}', '{null}', '{1}', array['\\x6427000000000000'::bytea], array['\\x6427000000000000'::bytea]),
           (1, 90002, '{1}', '{10}', '{0}', '{null}', '{1}', array['\\x00'::bytea], array['\\x6427000000000000'::bytea])",
    )
    .execute(&lake.pool)
    .await
    .unwrap();
    let (after, considered_after) = kept(&lake.catalog, request()).await;
    let mut wanted: Vec<i64> = before.iter().copied().filter(|id| *id != 2001).collect();
    wanted.extend([90001, 90002, 90003]);
    assert_eq!(after, wanted, "an undecodable bound is no bound");
    assert_eq!(considered_after, considered + 2);
    // Statistics of a pending file arrive, and rule it out.
    sqlx::raw_sql(
        "insert into file_statistics values
           (1, 90003, '{1}', '{10}', '{0}', '{null}', '{1}', array['\\x0000000000000000'::bytea], array['\\x0100000000000000'::bytea]);
         update data_file set stats_state = 'provided' where data_file_id = 90003",
    )
    .execute(&lake.pool)
    .await
    .unwrap();
    wanted.pop();
    assert_eq!(kept(&lake.catalog, request()).await.0, wanted);
    // The past is as it was.
    let past = ScanRequest { snapshot: Some("203".to_owned()), ..request() };
    assert_eq!(kept(&lake.catalog, past).await, (before, considered));
}

#[tokio::test]
async fn the_index_does_not_keep_what_expired_unseen() {
    let lake = Lake::new().await;
    crowd(&lake).await;
    let (_, considered) = kept(&lake.catalog, filtered("id >= 0")).await;
    // Ten files end, and are purged before the index hears of it.
    sqlx::raw_sql(
        "update catalog set head_snapshot = 205, earliest_snapshot = 205 where catalog_id = 1;
         insert into snapshot select 1, s, clock_timestamp(), 3 from generate_series(204, 205) s;
         delete from data_file where data_file_id between 1010 and 1019;
         delete from data_file where end_snapshot <= 205;",
    )
    .execute(&lake.pool)
    .await
    .unwrap();
    assert_eq!(kept(&lake.catalog, filtered("id >= 0")).await.1, considered - 10);
}

#[tokio::test]
async fn partition_values_rule_files_out() {
    let lake = Lake::new().await;
    sqlx::raw_sql(include_str!("partitioned.sql")).execute(&lake.pool).await.unwrap();
    for (filter, files) in [
        ("day = '2026-01-02'", vec![2, 3, 6, 7]),
        ("day < '2026-01-02'", vec![1, 5, 6, 7]),
        ("day IS NULL", vec![4, 6, 7]),
        ("day IS NOT NULL", vec![1, 2, 3, 5, 6, 7]),
        // 34 hashes to 2017239379, which is bucket 3 of 16.
        ("id = 34", vec![1, 2, 3, 4, 7]),
        ("id = 34 AND day = '2026-01-01'", vec![1, 7]),
        ("id > 34", vec![1, 2, 3, 4, 5, 6, 7]),
    ] {
        assert_eq!(kept(&lake.catalog, filtered(filter)).await.0, files, "{filter}");
    }
}

#[tokio::test]
async fn two_filters_at_once_agree() {
    let lake = Lake::new().await;
    crowd(&lake).await;
    let answers = futures::future::join_all((0..6).map(|i| {
        let catalog = lake.catalog.clone();
        let filter = if i % 2 == 0 { "id < 100" } else { "name < 'user-00000010'" };
        async move { kept(&catalog, filtered(filter)).await }
    }))
    .await;
    let wanted = expected(&lake, 203, "i < 10").await;
    assert!(answers.iter().all(|answer| *answer == wanted));
}
