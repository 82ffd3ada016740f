//! Lists of files over HTTP: encodings, tags, headers, clients that leave or dawdle.

use crate::stage::{server, server_with};
use hoglake_testkit::postgres::TestDatabase;
use hoglake_testkit::server::ServerProcess;
use serde_json::{Value, json};
use std::io::Read;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const SCAN: &str = "/v1/catalogs/lake/namespaces/ns/tables/t/scan";

/// Table `lake.ns.t` with this many files at snapshot 3, written by SQL. File n holds `id` from 1000 n to 1000 n + 999.
async fn crowd(server: &ServerProcess, database: &TestDatabase, files: i64) {
    for (target, body) in [
        ("/v1/catalogs", json!({"name": "lake", "data_path": "s3://b/lake"})),
        ("/v1/catalogs/lake/namespaces", json!({"name": "ns"})),
        ("/v1/catalogs/lake/namespaces/ns/tables", json!({"name": "t", "columns": [{"name": "id", "type": "int"}]})),
    ] {
        assert_eq!(server.request("POST", target).json(&body).send().await.status, 201, "{target}");
    }
    let pool = database.pool().await;
    sqlx::query(
        "with head as (update hoglake.catalog set head_snapshot = 3 returning catalog_id),
              snapshot as (insert into hoglake.snapshot (catalog_id, snapshot_id, snapshot_time, schema_version)
                           select catalog_id, 3, clock_timestamp(), 2 from head)
         insert into hoglake.data_file (catalog_id, data_file_id, table_id, begin_snapshot, path, record_count,
           file_size_bytes, row_id_start, stats_state)
         select catalog_id, i, 1, 3, rpad('s3://b/lake/' || i, 200, 'x'), 1000, 1, i * 1000, 'provided'
         from head, generate_series(1, $1::bigint) i",
    )
    .bind(files)
    .execute(&pool)
    .await
    .unwrap();
    sqlx::query(
        "insert into hoglake.file_statistics (catalog_id, data_file_id, field_ids, value_counts, null_counts, nan_counts,
           sizes_bytes, lower_bounds, upper_bounds)
         select 1, i, '{1}', '{1000}', '{0}', '{null}', '{1}',
           array[decode(reverse_hex(i * 1000), 'hex')], array[decode(reverse_hex(i * 1000 + 999), 'hex')]
         from generate_series(1, $1::bigint) i",
    )
    .bind(files)
    .execute(&{
        sqlx::query(
            "create function reverse_hex(n bigint) returns text immutable language sql as
             $$ select string_agg(substr(lpad(to_hex(n), 8, '0'), p, 2), '' order by p desc) from generate_series(1, 7, 2) p $$",
        )
        .execute(&pool)
        .await
        .unwrap();
        pool
    })
    .await
    .unwrap();
}

fn ids(scan: &Value) -> Vec<i64> {
    scan.as_array().unwrap().iter().map(|file| file["data_file"]["data_file_id"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn a_long_scan_is_the_same_in_every_encoding() {
    let (server, database) = server().await;
    crowd(&server, &database, 20_000).await;
    let plain = server.request("GET", SCAN).send().await;
    assert_eq!(plain.header("cache-control"), Some("no-store"));
    assert_eq!(ids(&plain.json()), (1..=20_000).collect::<Vec<i64>>());
    let gzip = server.request("GET", SCAN).header("Accept-Encoding", "gzip").send().await;
    assert_eq!(gzip.header("content-encoding"), Some("gzip"));
    let mut text = Vec::new();
    flate2::read::MultiGzDecoder::new(&gzip.body[..]).read_to_end(&mut text).unwrap();
    assert!(text == plain.body && gzip.body.len() < text.len() / 4);
    let zstd = server.request("GET", SCAN).header("Accept-Encoding", "zstd").send().await;
    assert_eq!(zstd.header("content-encoding"), Some("zstd"));
    assert!(zstd::decode_all(&zstd.body[..]).unwrap() == plain.body);
}

#[tokio::test]
async fn a_filter_says_how_many_files_it_kept() {
    let (server, database) = server().await;
    crowd(&server, &database, 5_000).await;
    let target = format!("{SCAN}?filter=id%20%3E%3D%201000000%20AND%20id%20%3C%201010000&snapshot=3");
    for _ in 0..2 {
        let kept = server.request("GET", &target).send().await;
        assert_eq!(ids(&kept.json()), (1000..1010).collect::<Vec<i64>>());
        assert_eq!(kept.header("hoglake-files-considered"), Some("5000"));
        assert_eq!(kept.header("hoglake-files-kept"), Some("10"));
    }
    let whole = server.request("GET", SCAN).send().await;
    assert_eq!(whole.header("hoglake-files-kept"), None);
    let bad = server.request("GET", &format!("{SCAN}?filter=id%20%3E%20%27x%27")).send().await;
    assert_eq!(bad.failure(), (422, "validation".to_owned()));
    assert!(bad.json()["detail"].as_str().unwrap().starts_with("filter, character 6: "), "{}", bad.text());
}

#[tokio::test]
async fn a_pinned_read_is_answered_304() {
    let (server, database) = server().await;
    crowd(&server, &database, 20_000).await;
    for target in [
        format!("{SCAN}?snapshot=3"),
        "/v1/catalogs/lake/namespaces/ns/tables/t/files?snapshot=3".to_owned(),
        "/v1/catalogs/lake/namespaces/ns/tables/t/changes?from_snapshot=0&to_snapshot=3".to_owned(),
    ] {
        let first = server.request("GET", &target).send().await;
        let etag = first.header("etag").unwrap().to_owned();
        assert_eq!((first.status, first.header("cache-control")), (200, Some("private, no-cache")));
        let again = server.request("GET", &target).header("If-None-Match", &etag).send().await;
        assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, Some(etag.as_str())));
    }
}

#[tokio::test]
async fn neither_a_client_that_leaves_nor_one_that_dawdles_holds_a_connection() {
    let (server, database) =
        server_with(|command| command.env("HOGLAKE_DB_POOL_SIZE", "2").env("HOGLAKE_READ_CHUNK_TIMEOUT_MS", "1000"))
            .await;
    crowd(&server, &database, 100_000).await;
    let mut dawdlers = Vec::new();
    for leaves in [true, true, false, false] {
        let mut client = TcpStream::connect(server.address()).await.unwrap();
        client.write_all(format!("GET {SCAN} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut head = [0; 1024];
        assert!(client.read(&mut head).await.unwrap() > 0);
        if !leaves {
            dawdlers.push(client);
        }
        let begin = Instant::now();
        let other = server.request("GET", "/v1/catalogs/lake/namespaces/ns/tables/t").send().await;
        assert_eq!(other.status, 200);
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    }
    // What the dawdlers get in the end is no complete answer.
    tokio::time::sleep(Duration::from_secs(3)).await;
    for mut client in dawdlers {
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest).await;
        assert!(!rest.ends_with(b"0\r\n\r\n"), "the answer was ended properly after {} bytes", rest.len());
    }
}

#[tokio::test]
async fn an_answer_breaks_off_with_its_source() {
    let (server, database) = server().await;
    crowd(&server, &database, 100_000).await;
    let mut client = TcpStream::connect(server.address()).await.unwrap();
    client.write_all(format!("GET {SCAN} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut text = vec![0; 1024];
    assert!(client.read(&mut text).await.unwrap() > 0);
    let ended: i64 = sqlx::query_scalar(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity
         where datname = current_database() and query like 'copy (%' and state = 'active'",
    )
    .fetch_one(&database.pool().await)
    .await
    .unwrap();
    assert_eq!(ended, 1);
    text.clear();
    let _ = client.read_to_end(&mut text).await;
    assert!(!text.ends_with(b"0\r\n\r\n"));
}
