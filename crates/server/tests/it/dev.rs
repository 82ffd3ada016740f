//! `hoglake dev`: the local object store, with a real client.

use crate::stage::folder;
use futures::TryStreamExt;
use hoglake_testkit::server::ServerCommand;
use object_store::aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutPayload, WriteMultipart};
use serde_json::Value;
use std::time::Duration;

fn client(endpoint: &str, secret: &str) -> AmazonS3 {
    AmazonS3Builder::new()
        .with_endpoint(endpoint)
        .with_allow_http(true)
        .with_bucket_name("lake")
        .with_region("us-east-1")
        .with_access_key_id("hoglake")
        .with_secret_access_key(secret)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_retry(object_store::RetryConfig { max_retries: 0, ..Default::default() })
        .build()
        .unwrap()
}

#[tokio::test]
async fn the_object_store_serves_a_real_client() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = folder();
    let state = folder.path().join("state");
    let command = || ServerCommand::new("dev").arg("--json").arg("--s3-listen").arg("127.0.0.1:0").state_dir(&state);
    let begin = command();
    let server = tokio::task::spawn_blocking(move || begin.start()).await.unwrap();
    let mut printed = String::new();
    for _ in 0..100 {
        printed = server.printed();
        if printed.ends_with('\n') {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let welcome: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(welcome["url"], server.url());
    let store = client(welcome["s3_endpoint"].as_str().unwrap(), "hoglake123");

    let key = Path::from("yard/data/a b=ü.bin");
    store.put(&key, PutPayload::from_static(b"0123456789")).await.unwrap();
    assert_eq!(&store.get_range(&key, 2..5).await.unwrap()[..], b"234");
    for (length, expected) in [(4, &b"6789"[..]), (10, b"0123456789"), (65_536, b"0123456789")] {
        let options = GetOptions { range: Some(GetRange::Suffix(length)), ..GetOptions::default() };
        assert_eq!(&store.get_opts(&key, options).await.unwrap().bytes().await.unwrap()[..], expected);
    }
    let big = Path::from("yard/data/big.bin");
    let mut upload = WriteMultipart::new(store.put_multipart(&big).await.unwrap());
    upload.write(&vec![7u8; 12 << 20]);
    upload.finish().await.unwrap();
    assert_eq!(store.head(&big).await.unwrap().size, 12 << 20);
    let listed: Vec<_> = store.list(Some(&Path::from("yard"))).try_collect().await.unwrap();
    assert_eq!(listed.len(), 2);
    store.delete(&big).await.unwrap();
    assert!(store.head(&big).await.is_err());
    assert!(client(welcome["s3_endpoint"].as_str().unwrap(), "wrong").head(&key).await.is_err());

    // Of many that create the same object, one wins.
    let contested = Path::from("yard/_delta_log/00000000000000000000.json");
    let puts = (0..16u8).map(|n| {
        let (store, contested) = (store.clone(), contested.clone());
        async move { store.put_opts(&contested, vec![n; 50_000].into(), PutMode::Create.into()).await.is_ok() }
    });
    let won = futures::future::join_all(puts).await.into_iter().filter(|won| *won).count();
    assert_eq!(won, 1);

    assert!(server.stop().success());
    assert!(state.join("objects/lake/yard/data").is_dir());
}

#[test]
fn the_object_store_stays_on_loopback() {
    for address in ["0.0.0.0:9000", "[::]:9000", ":9000", "192.0.2.1:9000"] {
        let output = ServerCommand::new("dev").arg("--s3-listen").arg(address).output();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("HOGLAKE_S3_LISTEN"), "{message}");
    }
}
