//! Partition statistics: the folded totals always equal a count of the live files.

use super::{DEMO, delete};
use crate::lake::{Lake, append, file};
use hoglake_catalog::partition_totals::PartitionReport;
use hoglake_model::ErrorCode;

async fn partitioned(lake: &Lake) {
    lake.execute(
        "insert into partition_spec (catalog_id, table_id, spec_id, begin_snapshot) values (1, 1, 1, 2);
         insert into partition_spec_field values (1, 1, 1, 0, 2, 'identity', null), (1, 1, 1, 1, 1, 'bucket', 4)",
    )
    .await;
}

fn in_partition(path: &str, name: Option<&str>, bucket: &str) -> hoglake_model::commit::FileRegistration {
    let values = vec![name.map(str::to_owned), Some(bucket.to_owned())];
    hoglake_model::commit::FileRegistration { partition_values: Some(values), ..file(path, 10) }
}

async fn report(lake: &Lake) -> PartitionReport {
    lake.catalog.partition_report("demo", None, None, 500).await.unwrap()
}

#[tokio::test]
async fn groups_are_ranked_labelled_and_cut() {
    let lake = Lake::with(|options| options.compaction_target_bytes = 150).await;
    lake.commit(append("u", vec![file("u1", 1)])).await.unwrap();
    partitioned(&lake).await;
    let begin = lake
        .commit(append(
            "t",
            vec![in_partition("a", Some("x"), "1"), in_partition("b", Some("x"), "1"), in_partition("c", None, "2")],
        ))
        .await
        .unwrap();
    lake.execute("update data_file set file_size_bytes = 150 where path like '%/c'").await;
    lake.commit(delete("t", begin, 2, 1)).await.unwrap();
    let all = report(&lake).await;
    assert!(!all.truncated);
    let shown: Vec<_> =
        all.partitions.iter().map(|p| (p.table.as_str(), p.spec_id, p.small_file_count, p.dv_count)).collect();
    assert_eq!(shown, [("t", Some(1), 2, 1), ("u", None, 1, 0), ("t", Some(1), 0, 0)]);
    let first = &all.partitions[0];
    assert_eq!((first.file_count, first.total_bytes, first.avg_file_bytes, first.debt_score), (2, 200, 100, 2));
    let fields: Vec<_> = first.partition_values.iter().map(|v| v.field.as_str()).collect();
    assert_eq!(fields, ["name", "id_bucket"]);
    assert_eq!(all.partitions[2].partition_values[0].value, None);
    assert!(serde_json::to_string(&all.partitions[2]).unwrap().contains(r#"{"field":"name","value":null}"#));
    let cut = lake.catalog.partition_report("demo", Some("ns"), Some("t"), 1).await.unwrap();
    assert_eq!((cut.partitions.len(), cut.truncated, cut.stale_spec_groups), (1, true, 0));

    // another spec leaves the old one's groups behind
    lake.execute(
        "update partition_spec set end_snapshot = 6;
         insert into partition_spec (catalog_id, table_id, spec_id, begin_snapshot) values (1, 1, 2, 6)",
    )
    .await;
    assert_eq!(report(&lake).await.stale_spec_groups, 2);
}

#[tokio::test]
async fn parameters_are_checked() {
    let lake = Lake::new().await;
    let code = |result: hoglake_catalog::Result<PartitionReport>| result.unwrap_err().refusal().unwrap().code;
    assert_eq!(code(lake.catalog.partition_report("demo", None, Some("t"), 5).await), ErrorCode::Validation);
    assert_eq!(code(lake.catalog.partition_report("demo", None, None, 0).await), ErrorCode::Validation);
    assert_eq!(code(lake.catalog.partition_report("nope", None, None, 5).await), ErrorCode::NotFound);
    assert_eq!(code(lake.catalog.partition_report("demo", Some("no"), None, 5).await), ErrorCode::NotFound);
    assert_eq!(code(lake.catalog.partition_report("demo", Some("ns"), Some("x"), 5).await), ErrorCode::NotFound);
}

#[tokio::test]
async fn folding_at_any_moment_gives_the_same_report() {
    let lake = Lake::new().await;
    partitioned(&lake).await;
    let control = Lake::new().await;
    partitioned(&control).await;
    for lake in [&lake, &control] {
        for i in 0..12 {
            let name = (i % 3 > 0).then_some(if i % 2 == 0 { "x" } else { "null" });
            let begin = lake.commit(append("t", vec![in_partition(&format!("f{i}"), name, "3")])).await.unwrap();
            if i % 4 == 0 {
                lake.commit(delete("t", begin, 1 + i / 4, 1 + i)).await.ok();
            }
        }
    }
    // one folds after each of many changes, the other counts once at the end
    let mut folded = Vec::new();
    for ended in ["1", "4", "7"] {
        while lake.catalog.partition_totals_fold(DEMO, None).await.unwrap() {}
        for lake in [&lake, &control] {
            let head = lake.commit(append("u", vec![file(&format!("u{ended}"), 1)])).await.unwrap();
            for sql in [
                "update data_file set end_snapshot = $1 where data_file_id = $2::bigint and end_snapshot is null",
                "update delete_file set end_snapshot = $1 where data_file_id = $2::bigint and end_snapshot is null",
            ] {
                sqlx::query(sql).bind(head).bind(ended.parse::<i64>().unwrap()).execute(&lake.pool).await.unwrap();
            }
        }
        folded.push(report(&lake).await);
    }
    let counted = report(&control).await;
    assert_eq!(folded.last(), Some(&counted));
    assert_eq!(counted.partitions.iter().map(|p| p.file_count).sum::<i64>(), 12);
    lake.drop_table(1).await;
    assert!(report(&lake).await.partitions.iter().all(|p| p.table == "u"));
}
