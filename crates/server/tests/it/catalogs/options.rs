//! `/v1/catalogs/{catalog}/options`

use super::{get, lake, send};
use serde_json::json;

#[tokio::test]
async fn null_is_a_value_and_absence_is_none() {
    let (server, _database) = lake().await;
    let target = "/v1/catalogs/lake/options";
    let set = send(&server, "PATCH", target, &json!({"snapshot_retention_seconds": 60})).await;
    let expected = json!({"snapshot_retention_seconds": 60, "consumer_floor": true, "earliest_snapshot_id": 0});
    assert_eq!((set.status, set.json()), (200, expected.clone()));
    assert_eq!(send(&server, "PATCH", target, &json!({})).await.json(), expected);
    for (bad, status) in [
        (json!({"consumer_floor": null}), 400),
        (json!({"earliest_snapshot_id": 5}), 400),
        (json!({"snapshot_retention_seconds": "60"}), 400),
        (json!([]), 400),
        (json!({"snapshot_retention_seconds": 0}), 422),
    ] {
        assert_eq!(send(&server, "PATCH", target, &bad).await.status, status, "{bad}");
    }
    assert_eq!(get(&server, target).await.json(), expected);
    let off = send(&server, "PATCH", target, &json!({"snapshot_retention_seconds": null})).await.json();
    assert_eq!(off, json!({"consumer_floor": true, "earliest_snapshot_id": 0}));
}
