//! Every operation that changes something: repeated under its key it is done once, and it leaves an audit line.

use crate::stage::server_with;
use hoglake_server::router;
use hoglake_testkit::server::ServerProcess;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// Operations without a key here: verification changes nothing, conversion is of no catalog (`e2e/test_conversion.py`).
const WITHOUT_KEY: [&str; 2] = ["runVerify", "convertTable"];

/// An operation, how to ask for it, and the action of its audit line.
type Step = (&'static str, &'static str, String, Value, &'static str);

/// A history that goes through every operation with a key. The offset of `{uuid}` is that of table `t`.
fn steps() -> Vec<Step> {
    let lake = "/v1/catalogs/lake";
    let ns = format!("{lake}/namespaces/ns");
    let columns = json!([{"name": "id", "type": "int"}]);
    let file = json!({"path": "s3://b/lake/f", "record_count": 1, "file_size_bytes": 9, "column_stats": []});
    let appends = json!([{"namespace": "ns", "table": "t", "files": [file]}]);
    let ops = json!([{"op": "add_column", "column": {"name": "x", "type": "int"}}]);
    let sink = json!({"type": "kafka", "bootstrap_servers": "127.0.0.1:1", "topic": "t", "format": "json"});
    let publication = json!({"name": "p", "namespace": "ns", "table": "t", "sink": sink});
    let path = |tail: &str| format!("{lake}{tail}");
    vec![
        (
            "createCatalog",
            "POST",
            "/v1/catalogs".to_owned(),
            json!({"name": "lake", "data_path": "s3://b/lake"}),
            "catalog_create",
        ),
        ("patchCatalogOptions", "PATCH", path("/options"), json!({"consumer_floor": false}), "options_patch"),
        ("createNamespace", "POST", path("/namespaces"), json!({"name": "ns"}), "namespace_create"),
        ("createTable", "POST", format!("{ns}/tables"), json!({"name": "t", "columns": columns}), "table_create"),
        ("alterTable", "POST", format!("{ns}/tables/t/alter"), json!({ "ops": ops }), "table_alter"),
        ("commit", "POST", path("/commit"), json!({ "appends": appends }), "commit"),
        (
            "commitConsumerOffset",
            "PUT",
            path("/consumers/c/offsets/{uuid}"),
            json!({"snapshot_id": 4}),
            "offset_commit",
        ),
        ("createView", "POST", format!("{ns}/views"), json!({"name": "v", "sql": "select 1"}), "view_create"),
        ("dropView", "DELETE", format!("{ns}/views/v"), Value::Null, "view_drop"),
        ("createPublication", "POST", path("/publications"), publication, "publication_create"),
        ("resumePublication", "POST", path("/publications/p/resume"), Value::Null, "publication_resume"),
        ("dropPublication", "DELETE", path("/publications/p"), Value::Null, "publication_drop"),
        ("dropTable", "DELETE", format!("{ns}/tables/t"), Value::Null, "table_drop"),
        ("runExpiry", "POST", path("/maintenance/expire"), Value::Null, "expiry"),
        ("runCompaction", "POST", path("/maintenance/compact"), Value::Null, "compaction"),
        ("runCleanup", "POST", path("/maintenance/cleanup"), Value::Null, "cleanup"),
        ("runHydration", "POST", path("/maintenance/hydrate"), Value::Null, "hydration"),
        ("runRehydrate", "POST", path("/maintenance/rehydrate"), Value::Null, "rehydrate"),
    ]
}

/// Audit lines, once there are at least `count`.
/// The audit line of a request, which may come a little after its answer.
async fn audit_line(server: &ServerProcess, request: &str) -> Value {
    for _ in 0..100 {
        let printed = server.printed();
        let mut lines = printed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        if let Some(line) = lines.find(|line| line["request_id"] == request) {
            return line;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{request}: {}", server.printed());
}

#[tokio::test]
async fn every_change_is_made_once_under_its_key_and_audited() {
    let keyed: BTreeSet<&str> = router::operations()
        .iter()
        .filter(|operation| operation.method != "GET" && !WITHOUT_KEY.contains(&operation.id))
        .map(|operation| operation.id)
        .collect();
    assert_eq!(steps().iter().map(|step| step.0).collect::<BTreeSet<_>>(), keyed);

    let (server, _database) = server_with(|command| {
        ["HYDRATOR", "EXPIRY", "CLEANUP"]
            .iter()
            .fold(command, |command, task| command.env(&format!("HOGLAKE_{task}_INTERVAL_MS"), "0"))
    })
    .await;
    let mut uuid = String::new();
    for (id, method, target, body, action) in steps() {
        let target = target.replace("{uuid}", &uuid);
        let ask = async |key: &str| {
            let request = server.request(method, &target).header("Idempotency-Key", key).header("X-Request-Id", id);
            if body.is_null() { request.send().await } else { request.json(&body).send().await }
        };
        let first = ask(id).await;
        assert!((200..300).contains(&first.status), "{id}: {} {}", first.status, first.text());
        assert_eq!(first.header("idempotent-replayed"), None, "{id}");
        let again = ask(id).await;
        assert_eq!((again.status, again.header("idempotent-replayed")), (first.status, Some("true")), "{id}");
        assert_eq!(again.body, first.body, "{id}");
        if id == "createTable" {
            first.json()["table_uuid"].as_str().unwrap().clone_into(&mut uuid);
        }
        // the key is taken: it stands for this request only
        let other = server.request("POST", "/v1/catalogs/lake/commit").header("Idempotency-Key", id);
        if id != "createCatalog" {
            assert_eq!(other.json(&json!({"appends": [], "message": id})).send().await.failure().0, 422, "{id}");
        }
        let line = audit_line(&server, id).await;
        assert_eq!((&line["action"], &line["actor"]), (&json!(action), &json!("anonymous")), "{id}");
        assert_eq!(line["catalog"], "lake", "{id}");
        assert!(line["outcome"] == "ok" || line["outcome"] == "committed", "{line}");
    }
    let head = server.request("GET", "/v1/catalogs/lake").send().await.json();
    assert_eq!(head["head_snapshot_id"], 7);
}

#[tokio::test]
async fn the_key_of_a_new_catalog_is_forgotten_after_a_day() {
    let (server, database) = server_with(|command| command.env("HOGLAKE_EXPIRY_INTERVAL_MS", "50")).await;
    let body = json!({"name": "lake", "data_path": "s3://b/lake"});
    let made = server.request("POST", "/v1/catalogs").header("Idempotency-Key", "k").json(&body).send().await;
    assert_eq!(made.status, 201);
    let pool = database.pool().await;
    let keys = async || {
        sqlx::query_scalar::<_, i64>("select count(*) from hoglake.idempotency_key").fetch_one(&pool).await.unwrap()
    };
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(keys().await, 1);
    let age = "update hoglake.idempotency_key set created_at = now() - interval '25 hours'";
    sqlx::raw_sql(age).execute(&pool).await.unwrap();
    for _ in 0..100 {
        if keys().await == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(keys().await, 0);
}
