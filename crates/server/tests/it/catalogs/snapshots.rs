//! `/v1/catalogs/{catalog}/snapshots`

use super::{get, lake};

#[tokio::test]
async fn moments_are_read_in_every_spelling_and_decoding() {
    let (server, _database) = lake().await;
    let resolve =
        async |moment: &str| get(&server, &format!("/v1/catalogs/lake/snapshots/resolve?at_timestamp={moment}")).await;
    for after_head in ["2999-01-01T00:00:00Z", "2999-01-01T00:00:00%2B02:00", "2999-01-01T00:00:00+02:00"] {
        let resolved = resolve(after_head).await;
        assert_eq!((resolved.status, resolved.json()["snapshot_id"].as_i64()), (200, Some(1)), "{after_head}");
    }
    assert_eq!(resolve("1999-01-01T00:00:00Z").await.failure(), (410, "expired".to_owned()));
    for bad in ["2999-01-01T00:00:00", "", "now"] {
        assert_eq!(resolve(bad).await.failure(), (400, "bad_request".to_owned()), "{bad}");
    }
    assert_eq!(get(&server, "/v1/catalogs/lake/snapshots/resolve").await.status, 400);
    assert_eq!(get(&server, "/v1/catalogs/nope/snapshots/resolve").await.status, 404);
}

#[tokio::test]
async fn cursors_are_numbers() {
    let (server, _database) = lake().await;
    let list = async |query: &str| get(&server, &format!("/v1/catalogs/lake/snapshots?{query}")).await;
    assert_eq!(list("before=1").await.json()["snapshots"][0]["snapshot_id"], 0);
    assert_eq!(list("after=0&before=5").await.status, 200);
    assert_eq!(list("after=2&before=5").await.status, 422);
    assert_eq!(list("limit=0").await.status, 422);
    assert_eq!(list("limit=99999&unknown=1").await.json()["has_more"], false);
    for bad in ["limit=x", "after=9223372036854775808", "before="] {
        assert_eq!(list(bad).await.status, 400, "{bad}");
    }
}
