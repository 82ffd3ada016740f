//! Catalogs: names, data paths, options.

use crate::answer::{body, refusal};
use crate::lake::Lake;
use hoglake_catalog::catalogs::{CreateCatalog, PatchCatalogOptions};
use hoglake_model::ErrorCode;

fn create(name: &str, data_path: &str) -> CreateCatalog {
    CreateCatalog { name: name.to_owned(), data_path: data_path.to_owned() }
}

#[tokio::test]
async fn a_new_catalog_is_empty_at_genesis_and_keeps_its_data_path_letter_by_letter() {
    let lake = Lake::new().await;
    let answer = lake.catalog.catalog_create(create("b-1", "s3a://other/x//"), None).await.unwrap();
    assert_eq!((answer.status, answer.snapshot), (201, None));
    let shown = lake.catalog.catalog_get("b-1").await.unwrap();
    assert_eq!(body(&answer), serde_json::to_value(&shown).unwrap());
    assert_eq!((shown.data_path.as_str(), shown.head_snapshot_id, shown.schema_version), ("s3a://other/x//", 0, 0));
    assert!(body(&answer).get("earliest_snapshot_time").is_none());
    let snapshots = "select count(*) from snapshot s join catalog c using (catalog_id) where c.name = 'b-1'";
    assert_eq!(lake.number(snapshots).await, 1);
    let names: Vec<String> = lake.catalog.catalog_list().await.unwrap().into_iter().map(|c| c.name).collect();
    assert_eq!(names, ["b-1", "demo"]);
}

#[tokio::test]
async fn bad_names_and_paths_are_refused() {
    let lake = Lake::new().await;
    let longest = "s".repeat(63);
    lake.catalog.catalog_create(create(&longest, "s3://free/0"), None).await.unwrap();
    let too_long = "s".repeat(64);
    for name in ["", "Upper", "9a", "_a", "a.b", too_long.as_str()] {
        let answer = lake.catalog.catalog_create(create(name, "s3://free/1"), None).await;
        assert_eq!(refusal(answer).code, ErrorCode::Validation, "{name}");
    }
    let endless = format!("s3://free/{}", "x".repeat(2000));
    for path in ["", "  ", "s3://", "s3://b/../c", "s3://b/\0", endless.as_str()] {
        let answer = lake.catalog.catalog_create(create("x", path), None).await;
        assert_eq!(refusal(answer).code, ErrorCode::Validation, "{path}");
    }
    let taken = refusal(lake.catalog.catalog_create(create("demo", "s3://free/2"), None).await);
    assert_eq!(taken.code, ErrorCode::AlreadyExists);
}

#[tokio::test]
async fn data_paths_of_two_catalogs_never_meet() {
    let lake = Lake::new().await;
    for path in ["s3://lake/demo", "s3a://lake/demo/", "s3n://lake/demo/deep/er", "s3://lake", "S3://lake/demo"] {
        let overlap = refusal(lake.catalog.catalog_create(create("x", path), None).await);
        assert_eq!(overlap.code, ErrorCode::AlreadyExists, "{path}");
        assert!(overlap.detail.contains("catalog `demo` at `s3://lake/demo/`"), "{}", overlap.detail);
    }
    for (name, path) in
        [("a", "s3://lake/demo-other"), ("b", "s3://lake/demo2"), ("c", "gs://lake/demo"), ("d", "s3://lake/Demo")]
    {
        lake.catalog.catalog_create(create(name, path), None).await.unwrap();
    }
}

#[tokio::test]
async fn options_distinguish_absent_from_null() {
    let lake = Lake::new().await;
    let patch = |seconds, consumer_floor| {
        let patch = PatchCatalogOptions { snapshot_retention_seconds: seconds, consumer_floor };
        lake.catalog.catalog_patch_options("demo", patch, None)
    };
    let fresh = serde_json::json!({"consumer_floor": true, "earliest_snapshot_id": 0});
    assert_eq!(body(&patch(None, None).await.unwrap()), fresh);
    patch(Some(Some(60)), None).await.unwrap();
    let both = patch(None, Some(false)).await.unwrap();
    let set = serde_json::json!({
        "snapshot_retention_seconds": 60, "consumer_floor": false, "earliest_snapshot_id": 0
    });
    assert_eq!(body(&both), set);
    assert_eq!(serde_json::to_value(lake.catalog.catalog_options("demo").await.unwrap()).unwrap(), set);
    assert_eq!(body(&patch(Some(None), Some(true)).await.unwrap()), fresh);
    for seconds in [0, -1, i64::MIN] {
        assert_eq!(refusal(patch(Some(Some(seconds)), None).await).code, ErrorCode::Validation);
    }
    assert_eq!(lake.head().await, (3, 1, 3), "options make no snapshot");
    let unknown = lake.catalog.catalog_patch_options("nope", PatchCatalogOptions::default(), None).await;
    assert_eq!(refusal(unknown).code, ErrorCode::NotFound);
}
