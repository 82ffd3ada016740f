//! `/v1/catalogs/{catalog}/consumers`

use super::{get, lake, send};
use serde_json::json;

#[tokio::test]
async fn consumer_ids_are_free_text_decoded_once() {
    let (server, _database) = lake().await;
    let table = json!({"name": "t", "columns": [{"name": "id", "type": "long"}]});
    let table = send(&server, "POST", "/v1/catalogs/lake/namespaces/ns/tables", &table).await.json();
    let uuid = table["table_uuid"].as_str().unwrap();
    let offset = |consumer: &str, uuid: &str| format!("/v1/catalogs/lake/consumers/{consumer}/offsets/{uuid}");
    for (encoded, decoded) in [("a%2Fb", "a/b"), ("%F0%9F%A6%94%27%3B", "🦔';"), ("100%2525", "100%25")] {
        let put = send(&server, "PUT", &offset(encoded, uuid), &json!({"snapshot_id": 2})).await;
        assert_eq!((put.status, &put.json()["consumer_id"]), (200, &decoded.into()));
        assert_eq!(get(&server, &offset(encoded, uuid)).await.json(), put.json());
    }
    assert_eq!(get(&server, "/v1/catalogs/lake/consumers").await.json()["consumers"].as_array().map(Vec::len), Some(3));
    assert_eq!(get(&server, "/v1/catalogs/lake/consumers/nobody/offsets").await.json(), json!([]));
    let back = send(&server, "PUT", &offset("a%2Fb", uuid), &json!({"snapshot_id": 1})).await;
    assert_eq!(back.failure(), (409, "offset_regression".to_owned()));
    assert_eq!(get(&server, &offset("c", "not-a-uuid")).await.status, 400);
    let nobody = "00000000-0000-4000-8000-000000000000";
    assert_eq!(get(&server, &offset("c", nobody)).await.status, 404);
    assert_eq!(send(&server, "PUT", &offset("c", nobody), &json!({"snapshot_id": 2})).await.status, 422);
    let reserved = send(&server, "PUT", &offset("publication:p", uuid), &json!({"snapshot_id": 2})).await;
    assert_eq!(reserved.failure(), (422, "validation".to_owned()));
}
