//! Plans of the statements of reads, on a table of 100,000 files among as many others: through the right index, and without
//! a sort where the index has the order.
//!
//! The plans are checked in under `plans/`; other versions of Postgres may word them differently, but use the same
//! indexes. After a change: `HOGLAKE_BLESS=1 cargo test -p hoglake-catalog reads::plans`, and read the difference.

use crate::lake::Lake;
use std::collections::BTreeSet;

/// A statement, the numbers for `$1`, `$2`, ..., and whether it may sort.
struct Statement {
    name: &'static str,
    sql: &'static str,
    numbers: &'static [&'static str],
    sorts: bool,
    plan: &'static str,
}

macro_rules! statement {
    ($folder:literal, $name:literal, $numbers:expr, $sorts:expr) => {
        Statement {
            name: concat!($folder, "_", $name),
            sql: include_str!(concat!("../../../sql/", $folder, "/", $name, ".sql")),
            numbers: &$numbers,
            sorts: $sorts,
            plan: include_str!(concat!("plans/", $folder, "_", $name, ".txt")),
        }
    };
}

const STATEMENTS: [Statement; 15] = [
    statement!("data_file", "at_head", ["1", "1"], false),
    statement!("data_file", "at_snapshot", ["1", "1", "90"], true),
    statement!("data_file", "by_id", ["1", "1", "'{5,6,700}'::bigint[]"], true),
    statement!("data_file", "list_at_head", ["1", "1"], false),
    statement!("data_file", "list_at_snapshot", ["1", "1", "90"], false),
    statement!("data_file", "begun_between", ["1", "1", "50", "60", "'{55}'::bigint[]"], false),
    statement!("data_file", "index_after", ["1", "1", "90", "5", "5", "80"], false),
    statement!("data_file", "ended_after", ["1", "3", "50"], false),
    statement!("data_file", "visible_and_ended_by", ["1", "3", "50", "95"], false),
    statement!("delete_file", "at_snapshot", ["1", "1", "90", "100"], false),
    statement!("delete_file", "begun_between", ["1", "1", "50", "60"], false),
    statement!("delete_file", "live", ["1", "3"], false),
    statement!("export", "files_of_tables", ["1", "'{1,2,3}'::bigint[]"], true),
    statement!("export", "unlisted", ["1"], false),
    statement!("file_statistics", "of_column", ["1", "'{5,6,700}'::bigint[]", "1"], false),
];

/// Names of the indexes in a plan.
fn indexes(plan: &str) -> BTreeSet<&str> {
    let words: Vec<&str> = plan.split_whitespace().collect();
    let is_index = |pair: &&[&str]| {
        pair[0] == "using" || (pair[0] == "on" && words.contains(&"Bitmap") && pair[1].matches('_').count() > 1)
    };
    words.windows(2).filter(is_index).map(|pair| pair[1]).collect()
}

#[tokio::test]
async fn reads_use_their_indexes() {
    let lake = Lake::new().await;
    sqlx::raw_sql(include_str!("plans/seed.sql")).execute(&lake.pool).await.unwrap();
    let mut problems = Vec::new();
    for statement in STATEMENTS {
        let mut query = statement.sql.to_owned();
        for (index, number) in statement.numbers.iter().enumerate() {
            query = query.replace(&format!("${}", index + 1), number);
        }
        let explain = format!("explain (costs off) {query}");
        let lines: Vec<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(explain)).fetch_all(&lake.pool).await.unwrap();
        let plan = lines.join("\n");
        if std::env::var_os("HOGLAKE_BLESS").is_some() {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/reads/plans");
            std::fs::write(format!("{folder}/{}.txt", statement.name), format!("{plan}\n")).unwrap();
            continue;
        }
        let scans = plan.contains("Seq Scan") || (plan.contains("Sort") && !statement.sorts);
        if scans || indexes(&plan) != indexes(statement.plan) || indexes(&plan).is_empty() {
            problems.push(format!("{}:\n{plan}\nchecked in:\n{}", statement.name, statement.plan));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}
