//! Plans of the statements of reads, on a table of 100,000 files among as many others.
//!
//! The plan of each is checked in under `tests/plans`; what is asserted is what must not change from one version of
//! Postgres to another: which indexes are used, and that nothing is scanned or sorted that need not be.

use crate::lake::Lake;
use std::collections::BTreeSet;

/// To write the plans anew, set HOGLAKE_WRITE_PLANS to the folder.
///
/// Statement, numbers for `$1`, `$2`, ..., and whether its rows are sorted on the way.
const STATEMENTS: [(&str, &str, &[&str], bool); 12] = [
    ("data_file/at_head", include_str!("../../../sql/data_file/at_head.sql"), &["1", "1"], false),
    ("data_file/at_snapshot", include_str!("../../../sql/data_file/at_snapshot.sql"), &["1", "1", "90"], true),
    ("data_file/by_id", include_str!("../../../sql/data_file/by_id.sql"), &["1", "1", "'{5,6,700}'::bigint[]"], true),
    ("data_file/list_at_head", include_str!("../../../sql/data_file/list_at_head.sql"), &["1", "1"], false),
    (
        "data_file/list_at_snapshot",
        include_str!("../../../sql/data_file/list_at_snapshot.sql"),
        &["1", "1", "90"],
        false,
    ),
    (
        "data_file/begun_between",
        include_str!("../../../sql/data_file/begun_between.sql"),
        &["1", "1", "50", "60", "'{55}'::bigint[]"],
        false,
    ),
    (
        "data_file/index_after",
        include_str!("../../../sql/data_file/index_after.sql"),
        &["1", "1", "90", "5", "5", "80"],
        false,
    ),
    ("data_file/ended_after", include_str!("../../../sql/data_file/ended_after.sql"), &["1", "1", "95"], false),
    (
        "data_file/visible_and_ended_by",
        include_str!("../../../sql/data_file/visible_and_ended_by.sql"),
        &["1", "1", "90", "95"],
        false,
    ),
    (
        "delete_file/at_snapshot",
        include_str!("../../../sql/delete_file/at_snapshot.sql"),
        &["1", "1", "90", "100"],
        false,
    ),
    (
        "delete_file/begun_between",
        include_str!("../../../sql/delete_file/begun_between.sql"),
        &["1", "1", "50", "60"],
        false,
    ),
    (
        "file_statistics/of_column",
        include_str!("../../../sql/file_statistics/of_column.sql"),
        &["1", "'{5,6,700}'::bigint[]", "1"],
        false,
    ),
];

fn checked_in(name: &str) -> &'static str {
    match name {
        "data_file/at_head" => include_str!("../../plans/data_file_at_head.txt"),
        "data_file/at_snapshot" => include_str!("../../plans/data_file_at_snapshot.txt"),
        "data_file/by_id" => include_str!("../../plans/data_file_by_id.txt"),
        "data_file/list_at_head" => include_str!("../../plans/data_file_list_at_head.txt"),
        "data_file/list_at_snapshot" => include_str!("../../plans/data_file_list_at_snapshot.txt"),
        "data_file/begun_between" => include_str!("../../plans/data_file_begun_between.txt"),
        "data_file/index_after" => include_str!("../../plans/data_file_index_after.txt"),
        "data_file/ended_after" => include_str!("../../plans/data_file_ended_after.txt"),
        "data_file/visible_and_ended_by" => include_str!("../../plans/data_file_visible_and_ended_by.txt"),
        "delete_file/at_snapshot" => include_str!("../../plans/delete_file_at_snapshot.txt"),
        "delete_file/begun_between" => include_str!("../../plans/delete_file_begun_between.txt"),
        "file_statistics/of_column" => include_str!("../../plans/file_statistics_of_column.txt"),
        other => panic!("{other} has no plan"),
    }
}

/// Names of the indexes in a plan.
fn indexes(plan: &str) -> BTreeSet<&str> {
    let words: Vec<&str> = plan.split_whitespace().collect();
    words
        .windows(2)
        .filter(|pair| {
            pair[0] == "using"
                || (pair[0] == "on"
                    && (pair[1].contains("_pkey")
                        || pair[1].starts_with("data_file_")
                        || pair[1].starts_with("delete_file_")))
        })
        .map(|pair| pair[1])
        .collect()
}

#[tokio::test]
async fn reads_use_their_indexes() {
    let lake = Lake::new().await;
    sqlx::raw_sql(include_str!("plans.sql")).execute(&lake.pool).await.unwrap();
    let mut problems = Vec::new();
    for (name, statement, numbers, sorted) in STATEMENTS {
        let mut query = statement.to_owned();
        for (index, number) in numbers.iter().enumerate() {
            query = query.replace(&format!("${}", index + 1), number);
        }
        let explain = format!("explain (costs off) {query}");
        let lines: Vec<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(explain)).fetch_all(&lake.pool).await.unwrap();
        let plan = lines.join("\n");
        if let Some(folder) = std::env::var_os("HOGLAKE_WRITE_PLANS") {
            let file = std::path::Path::new(&folder).join(format!("{}.txt", name.replace('/', "_")));
            std::fs::write(file, format!("{plan}\n")).unwrap();
        }
        if indexes(&plan) != indexes(checked_in(name))
            || plan.contains("Seq Scan")
            || (plan.contains("Sort") && !sorted)
        {
            problems.push(format!("{name}:\n{plan}\nchecked in:\n{}", checked_in(name)));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}
