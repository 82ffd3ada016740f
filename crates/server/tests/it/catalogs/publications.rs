//! `/v1/catalogs/{catalog}/publications`

use super::{get, lake, send};
use serde_json::{Value, json};

const PUBLICATIONS: &str = "/v1/catalogs/lake/publications";

fn publication(name: &str) -> Value {
    // no broker answers there
    let sink = json!({"type": "kafka", "bootstrap_servers": "127.0.0.1:1", "topic": "t", "format": "json"});
    json!({"name": name, "namespace": "ns", "table": "t", "sink": sink})
}

fn with(path: &str, value: Value) -> Value {
    let mut body = publication("p");
    *body.pointer_mut(path).unwrap() = value;
    body
}

#[tokio::test]
async fn a_publication_is_made_shown_resumed_and_dropped() {
    let (server, _database) = lake().await;
    let table = json!({"name": "t", "columns": [{"name": "id", "type": "long"}]});
    let table = send(&server, "POST", "/v1/catalogs/lake/namespaces/ns/tables", &table).await.json();
    let made = send(&server, "POST", PUBLICATIONS, &publication("p")).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let shown = made.json();
    assert_eq!((&shown["name"], &shown["table_uuid"]), (&json!("p"), &table["table_uuid"]));
    assert_eq!((&shown["committed_snapshot"], &shown["lag_snapshots"]), (&json!(2), &json!(0)));
    assert_eq!(shown["state"], "pending");
    assert_eq!(
        shown["sink"],
        json!({"type": "kafka", "bootstrap_servers": "127.0.0.1:1", "topic": "t", "format": "json", "tombstones": false})
    );
    assert_eq!(send(&server, "POST", PUBLICATIONS, &publication("p")).await.failure().0, 409);
    assert_eq!(send(&server, "POST", PUBLICATIONS, &publication("a")).await.status, 201);
    let list = get(&server, PUBLICATIONS).await.json();
    assert_eq!(list.as_array().unwrap().iter().map(|p| &p["name"]).collect::<Vec<_>>(), ["a", "p"]);
    assert_eq!(get(&server, &format!("{PUBLICATIONS}/p")).await.json()["name"], "p");
    let consumers = get(&server, "/v1/catalogs/lake/consumers").await.json();
    assert_eq!(consumers["consumers"][1]["consumer_id"], "publication:p");
    let resumed = server.request("POST", &format!("{PUBLICATIONS}/p/resume")).send().await;
    assert_eq!((resumed.status, &resumed.json()["name"]), (200, &json!("p")));
    let dropped = server.request("DELETE", &format!("{PUBLICATIONS}/p")).send().await;
    assert_eq!((dropped.status, dropped.body.len()), (204, 0));
    assert_eq!(server.request("DELETE", &format!("{PUBLICATIONS}/p")).send().await.status, 404);
    assert_eq!(server.request("POST", &format!("{PUBLICATIONS}/p/resume")).send().await.status, 404);
    let consumers = get(&server, "/v1/catalogs/lake/consumers").await.json();
    assert_eq!(consumers["consumers"].as_array().unwrap().len(), 1, "its offset went with it");
    assert_eq!(get(&server, "/v1/catalogs/lake").await.json()["head_snapshot_id"], 2, "no snapshot was made");
}

#[tokio::test]
async fn what_cannot_be_published_is_refused() {
    let (server, database) = lake().await;
    for (name, column) in [("t", "id"), ("u", "op")] {
        let table = json!({"name": name, "columns": [{"name": column, "type": "long"}]});
        assert_eq!(send(&server, "POST", "/v1/catalogs/lake/namespaces/ns/tables", &table).await.status, 201);
    }
    let longest = "p".repeat(116);
    for (body, status) in [
        (with("/name", json!("p".repeat(117))), 422),
        (with("/name", json!("9")), 422),
        (with("/namespace", json!("nope")), 404),
        (with("/table", json!("nope")), 404),
        (with("/table", json!("u")), 422),
        (with("/sink/type", json!("pulsar")), 422),
        (with("/sink/format", json!("avro")), 422),
        (with("/sink/bootstrap_servers", json!(" ")), 422),
        (with("/sink/topic", json!("a/b")), 422),
        (with("/sink", json!({"type": "kafka", "bootstrap_servers": "a:1", "topic": "t", "tombstones": true})), 422),
        (with("/sink", json!({"type": "kafka", "bootstrap_servers": "a:1"})), 400),
        (with("/sink", json!({"type": "kafka", "bootstrap_servers": "a:1", "topic": "t", "acks": 1})), 400),
        (with("/name", json!(1)), 400),
    ] {
        let refused = send(&server, "POST", PUBLICATIONS, &body).await;
        assert_eq!(refused.status, status, "{body} {}", refused.text());
    }
    let pool = database.pool().await;
    sqlx::raw_sql("update hoglake.catalog set earliest_snapshot = 2").execute(&pool).await.unwrap();
    for (from, status) in [(-1, 422), (1, 410), (4, 422), (2, 201)] {
        let mut body = publication(&longest);
        body["from_snapshot"] = json!(from);
        assert_eq!(send(&server, "POST", PUBLICATIONS, &body).await.status, status, "{from}");
    }
    assert_eq!(get(&server, "/v1/catalogs/nope/publications").await.status, 404);
    assert_eq!(get(&server, &format!("{PUBLICATIONS}/p%00")).await.status, 404);
    assert_eq!(send(&server, "POST", "/v1/catalogs/nope/publications", &publication("p")).await.status, 404);
}
