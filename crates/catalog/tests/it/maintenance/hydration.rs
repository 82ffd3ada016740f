//! Claims on pending files, back-off, and what footers said.

use super::DEMO;
use crate::lake::{Lake, append, file};
use hoglake_catalog::hydration::{Hydrated, PendingFile};
use hoglake_model::{Bounds, ColumnStats, ErrorCode, FieldId};
use std::collections::HashSet;
use std::time::Duration;
use uuid::Uuid;

const LEASE: Duration = Duration::from_secs(60);

async fn claim(lake: &Lake, claimant: Uuid) -> Vec<PendingFile> {
    lake.catalog.hydration_claim(DEMO, claimant, LEASE, 100).await.unwrap()
}

fn provided() -> Hydrated {
    let statistics = vec![ColumnStats {
        value_count: Some(1),
        null_count: Some(0),
        bounds: Bounds::sanitised(hoglake_model::ColumnType::Long, Some(&7_i64.to_le_bytes()), None),
        ..ColumnStats::unknown(FieldId(1))
    }];
    Hydrated::Provided { statistics, missing_field_ids: true, footer_size: Some(99) }
}

#[tokio::test]
async fn two_hydrators_never_read_the_same_file() {
    let lake = Lake::new().await;
    lake.commit(append("t", (0..50).map(|i| file(&format!("f{i}"), 1)).collect())).await.unwrap();
    let second = lake.second();
    let claims = futures::future::join_all((0..10).map(|i| {
        let catalog = if i % 2 == 0 { &lake.catalog } else { &second };
        catalog.hydration_claim(DEMO, Uuid::new_v4(), LEASE, 20)
    }))
    .await;
    let ids: Vec<i64> = claims.into_iter().flat_map(|c| c.unwrap()).map(|f| f.id.0).collect();
    let distinct: HashSet<i64> = ids.iter().copied().collect();
    assert_eq!(ids.len(), distinct.len());
    assert!(claim(&lake, Uuid::new_v4()).await.len() + ids.len() == 50);
}

#[tokio::test]
async fn outcomes_are_stored_once_and_only_by_the_claimant() {
    let lake = Lake::new().await;
    lake.commit(append("t", vec![file("a", 1), file("b", 1), file("c", 1)])).await.unwrap();
    let me = Uuid::new_v4();
    let files = claim(&lake, me).await;
    assert_eq!(files.len(), 3);
    assert_eq!(files[0].columns.iter().map(|c| c.name.as_deref()).collect::<Vec<_>>(), [Some("id"), Some("name")]);
    let outcomes = vec![
        (files[0].id, provided()),
        (files[1].id, Hydrated::Failed("its magic is not Parquet's".to_owned())),
        (files[2].id, Hydrated::Retry("503".to_owned(), Duration::from_secs(30))),
    ];
    assert_eq!(lake.catalog.hydration_settle(DEMO, Uuid::new_v4(), &outcomes).await.unwrap(), (0, 0));
    assert_eq!(lake.catalog.hydration_settle(DEMO, me, &outcomes).await.unwrap(), (1, 1));
    assert_eq!(
        lake.number(
            "select count(*) from data_file where stats_state = 'provided' and missing_field_ids and footer_size = 99"
        )
        .await,
        1
    );
    assert_eq!(lake.number("select count(*) from file_statistics").await, 1);
    let failures = lake.catalog.hydration_failures(DEMO, 10).await.unwrap();
    assert_eq!(failures[0].2.as_deref(), Some("its magic is not Parquet's"));
    // the third waits for its time
    assert!(claim(&lake, Uuid::new_v4()).await.is_empty());
    lake.execute("update hydration set next_attempt_at = now()").await;
    let again = claim(&lake, Uuid::new_v4()).await;
    assert_eq!((again.len(), again[0].attempts), (1, 2));
}

#[tokio::test]
async fn rehydrate_requeues_failed_files_of_a_table_or_of_all() {
    let lake = Lake::new().await;
    lake.commit(append("t", vec![file("a", 1), file("b", 1)])).await.unwrap();
    lake.commit(append("u", vec![file("c", 1)])).await.unwrap();
    let me = Uuid::new_v4();
    let outcomes: Vec<_> = claim(&lake, me).await.iter().map(|f| (f.id, Hydrated::Failed("x".to_owned()))).collect();
    assert_eq!(lake.catalog.hydration_settle(DEMO, me, &outcomes).await.unwrap(), (0, 3));
    let half = lake.catalog.rehydrate("demo", Some("ns"), None).await.unwrap_err().refusal().unwrap();
    assert_eq!(half.code, ErrorCode::Validation);
    let unknown = lake.catalog.rehydrate("demo", Some("ns"), Some("v")).await.unwrap_err().refusal().unwrap();
    assert_eq!(unknown.code, ErrorCode::NotFound);
    assert_eq!(lake.catalog.rehydrate("demo", Some("ns"), Some("u")).await.unwrap(), 1);
    assert_eq!(lake.catalog.rehydrate("demo", None, None).await.unwrap(), 2);
    assert_eq!(lake.catalog.rehydrate("demo", None, None).await.unwrap(), 0);
    assert_eq!(claim(&lake, Uuid::new_v4()).await.len(), 3);
}

#[tokio::test]
async fn ended_files_and_dropped_tables_are_not_read() {
    let lake = Lake::new().await;
    lake.commit(append("t", vec![file("a", 1)])).await.unwrap();
    lake.commit(append("u", vec![file("b", 1), file("c", 1)])).await.unwrap();
    lake.execute("update data_file set end_snapshot = 6 where path like '%/c'").await;
    lake.drop_table(1).await;
    let files = claim(&lake, Uuid::new_v4()).await;
    assert_eq!(files.iter().map(|f| f.path.as_str()).collect::<Vec<_>>(), ["s3://lake/demo/b"]);
}
