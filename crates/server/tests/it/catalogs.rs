//! `/v1/catalogs` and what lies below it, over HTTP: statuses, headers, decoding. The rules themselves are tested where
//! they live, in `hoglake-catalog` and `hoglake-model`.

mod consumers;
mod namespaces;
mod options;
mod publications;
mod snapshots;

use crate::stage::server;
use hoglake_testkit::http::Response;
use hoglake_testkit::postgres::TestDatabase;
use hoglake_testkit::server::ServerProcess;
use serde_json::{Value, json};

/// A server with the catalog `lake` and its namespace `ns`; head is 1.
pub async fn lake() -> (ServerProcess, TestDatabase) {
    let (server, database) = server().await;
    let body = json!({"name": "lake", "data_path": "s3://b/lake"});
    assert_eq!(send(&server, "POST", "/v1/catalogs", &body).await.status, 201);
    let made = send(&server, "POST", "/v1/catalogs/lake/namespaces", &json!({"name": "ns"})).await;
    assert_eq!((made.status, made.json()), (201, json!({"name": "ns", "snapshot_id": 1})));
    (server, database)
}

pub async fn send(server: &ServerProcess, method: &str, target: &str, body: &Value) -> Response {
    server.request(method, target).json(body).send().await
}

pub async fn get(server: &ServerProcess, target: &str) -> Response {
    server.request("GET", target).send().await
}

#[tokio::test]
async fn a_catalog_is_created_once_under_a_key() {
    let (server, _database) = lake().await;
    let body = json!({"name": "second", "data_path": "s3://b/second/"});
    let create = |body: Value| server.request("POST", "/v1/catalogs").header("Idempotency-Key", "k").json(&body).send();
    let first = create(body.clone()).await;
    assert_eq!((first.status, first.header("idempotent-replayed")), (201, None));
    let again = create(body).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (201, Some("true")));
    assert_eq!(again.body, first.body);
    let other = create(json!({"name": "third", "data_path": "s3://b/third/"})).await;
    assert_eq!(other.failure(), (422, "validation".to_owned()));
    let names: Vec<Value> =
        get(&server, "/v1/catalogs").await.json().as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
    assert_eq!(names, ["lake", "second"]);
    let overlap = send(&server, "POST", "/v1/catalogs", &json!({"name": "x", "data_path": "s3a://b/lake/x"})).await;
    assert_eq!(overlap.failure(), (409, "already_exists".to_owned()));
    for bad in [json!({"name": "x"}), json!({"name": "x", "data_path": "s3://x", "owner": 1}), json!(["x", "s3://x"])] {
        assert_eq!(send(&server, "POST", "/v1/catalogs", &bad).await.failure(), (400, "bad_request".to_owned()));
    }
}
