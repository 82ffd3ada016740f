//! Long answers: complete or broken off, never cut short in silence, and no connection is held for nobody.

use super::{json, table_t};
use crate::lake::Lake;
use futures::StreamExt;
use hoglake_catalog::listing::Body;
use hoglake_catalog::listing::JsonStream;
use std::time::{Duration, Instant};

/// `demo.ns.t` with this many files of 200 bytes of path.
async fn crowd(lake: &Lake, files: i64) {
    sqlx::query(
        "insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, path, record_count, file_size_bytes,
           row_id_start, stats_state)
         select 1, i, 1, 3, rpad('s3://lake/demo/' || i, 200, 'x'), 1, 1, i, 'pending' from generate_series(1, $1::bigint) i",
    )
    .bind(files)
    .execute(&lake.pool)
    .await
    .unwrap();
}

async fn stream(lake: &Lake) -> JsonStream {
    match lake.catalog.scan(table_t()).await.unwrap().body.unwrap() {
        Body::Stream(chunks) => chunks,
        Body::Whole(text) => panic!("{} bytes came as a whole", text.len()),
    }
}

#[tokio::test]
async fn a_long_answer_is_complete() {
    let lake = Lake::new().await;
    crowd(&lake, 30_000).await;
    let scan = json(lake.catalog.scan(table_t()).await).await;
    assert_eq!(super::ids(&scan), (1..=30_000).collect::<Vec<i64>>());
    let mut chunks = stream(&lake).await;
    let mut sizes = Vec::new();
    while let Some(chunk) = chunks.next().await {
        sizes.push(chunk.unwrap().len());
    }
    let (last, others) = sizes.split_last().unwrap();
    assert!(others.len() > 50 && others.iter().all(|size| (128 << 10..256 << 10).contains(size)), "{sizes:?}");
    assert!(*last < 256 << 10);
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_connection() {
    let lake = Lake::with(|options| options.pool_size = 1).await;
    crowd(&lake, 100_000).await;
    let mut chunks = stream(&lake).await;
    assert!(chunks.next().await.unwrap().is_ok());
    drop(chunks);
    let started = Instant::now();
    assert_eq!(lake.catalog.files(super::at(2)).await.map(|_| ()).map_err(|e| e.to_string()), Ok(()));
    assert!(started.elapsed() < Duration::from_secs(5), "waited {:?} for the connection", started.elapsed());
}

#[tokio::test]
async fn a_client_that_takes_nothing_loses_its_answer() {
    let lake = Lake::with(|options| {
        options.pool_size = 1;
        options.read_chunk_timeout = Duration::from_millis(200);
    })
    .await;
    crowd(&lake, 100_000).await;
    let mut chunks = stream(&lake).await;
    // Somebody else gets the only connection although the stream is still held.
    assert!(lake.catalog.files(super::at(2)).await.is_ok());
    let mut text = Vec::new();
    let mut broken = false;
    while let Some(chunk) = chunks.next().await {
        match chunk {
            Ok(chunk) => text.extend_from_slice(&chunk),
            Err(_) => broken = true,
        }
    }
    assert!(broken, "the answer ended without an error after {} bytes", text.len());
    assert!(serde_json::from_slice::<serde_json::Value>(&text).is_err());
}

#[tokio::test]
async fn an_answer_breaks_off_when_postgres_does() {
    let lake = Lake::new().await;
    crowd(&lake, 100_000).await;
    let mut chunks = stream(&lake).await;
    assert!(chunks.next().await.unwrap().is_ok());
    let ended: i64 = lake
        .number(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity
             where datname = current_database() and query like 'copy (%' and state = 'active'",
        )
        .await;
    assert_eq!(ended, 1);
    let mut broken = false;
    while let Some(chunk) = chunks.next().await {
        broken |= chunk.is_err();
    }
    assert!(broken);
    assert!(lake.catalog.scan(table_t()).await.is_ok(), "the next read gets a sound connection");
}
