//! Maintenance over S3: bulk deletes, and what happens between the upload of a compaction and its commit.

use super::lake::Lake;
use hoglake_model::Location;
use hoglake_server::worker::{CompactionStatus, Trigger};
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};
use serde_json::json;
use std::collections::BTreeSet;

async fn clean(lake: &Lake) -> (i64, i64, i64, i64) {
    let status = lake.worker.clean(&lake.catalog, 10_000, false, Trigger::Request).await.unwrap();
    (status.removed, status.missing, status.still_referenced, status.failed)
}

/// Objects that nothing refers to, in the queue: those with an even number exist.
async fn queue(lake: &Lake, count: usize) -> Vec<String> {
    let paths: Vec<String> = (0..count).map(|i| format!("s3://lake/demo/data/dead {i:04}&+é")).collect();
    for (number, path) in paths.iter().enumerate() {
        if number % 2 == 0 {
            let file = lake.file(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, b"x").unwrap();
        }
    }
    enqueue(lake, &paths).await;
    paths
}

async fn enqueue(lake: &Lake, paths: &[String]) {
    sqlx::query(
        "insert into file_removal (catalog_id, path, kind, reason)
         select 1, unnest($1::text[]), 'data', 'snapshot_expiry'",
    )
    .bind(paths)
    .execute(&lake.pool)
    .await
    .unwrap();
}

/// Objects in folders and under names that look encoded, as Hive partitions have them; all of them exist.
async fn clean_names_with_percents(lake: &Lake) {
    let folders = ["p=a%20b", "p=%23x", "p=100%25", "p=%", "p=%zz%2F"];
    let names = |folder: &str| {
        let folder = format!("{}/data/{folder}", lake.catalog.data_path);
        (0..40).map(move |i| format!("{folder}/{}{i:02}.parquet", ["%", "%2", "%20", ""][i % 4])).collect::<Vec<_>>()
    };
    let paths: Vec<String> = folders.iter().flat_map(|folder| names(folder)).collect();
    for path in &paths {
        let file = lake.file(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, b"x").unwrap();
    }
    enqueue(lake, &paths).await;
    let preview = lake.worker.clean(&lake.catalog, 10_000, true, Trigger::Request).await.unwrap();
    assert_eq!((preview.removed, preview.missing), (200, 0));
    assert_eq!(clean(lake).await, (200, 0, 0, 0));
    assert!(!paths.iter().any(|path| lake.file(path).exists()));
    assert!(lake.orphans().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_hold_percents_are_found_in_every_store() {
    clean_names_with_percents(&Lake::on_s3(false).await).await;
    clean_names_with_percents(&Lake::new(false).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_ends_behind_the_last_name_that_is_looked_for() {
    let lake = Lake::on_s3(false).await;
    queue(&lake, 200).await;
    // what somebody else has there, behind the names in question: five pages
    for other in 0..5_000 {
        std::fs::write(lake.file(&format!("s3://lake/demo/data/live {other:04}")), b"x").unwrap();
    }
    let preview = lake.worker.clean(&lake.catalog, i64::MAX, true, Trigger::Request).await.unwrap();
    assert_eq!((preview.removed, preview.missing), (100, 100));
    let store = lake.store.as_ref().unwrap();
    assert_eq!(store.requests("list-type=2"), 1);
    assert_eq!(clean(&lake).await, (100, 100, 0, 0));
    assert_eq!((store.requests("list-type=2"), store.requests("HEAD ")), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_deleted_in_bulk() {
    let lake = Lake::on_s3(false).await;
    queue(&lake, 2_400).await;
    assert_eq!(clean(&lake).await, (1_200, 1_200, 0, 0));
    let store = lake.store.as_ref().unwrap();
    // a page of the queue: a listing, and a deletion for each thousand objects
    assert_eq!(store.requests("POST /lake?delete"), 2);
    assert_eq!(store.requests("DELETE "), 0);
    assert_eq!(store.requests("HEAD "), 0);
    assert!(lake.orphans().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_a_bulk_delete_leaves_are_tried_again_and_the_others_settled() {
    let lake = Lake::on_s3(false).await;
    let paths = queue(&lake, 100).await;
    let store = lake.store.as_ref().unwrap();
    store.keep(&[&paths[0], &paths[42], &paths[98]]);
    assert_eq!(clean(&lake).await, (47, 50, 0, 3));
    assert!(lake.orphans().await.is_empty(), "what was not deleted is queued still");
    let failed = "select count(*) from file_removal
                  where settled_at is null and attempts = 1 and claimed_by is null and last_error like '%AccessDenied%'";
    assert_eq!(lake.number(failed).await, 3);
    assert_eq!(lake.number("select count(*) from file_removal where outcome = 'deleted'").await, 47);
    assert!(lake.file(&paths[42]).exists());
    store.keep(&[]);
    assert_eq!(clean(&lake).await, (3, 0, 0, 0));
    assert!(!lake.file(&paths[42]).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_path_that_is_live_is_kept_and_said_so_in_the_audit_trail() {
    let mut lake = Lake::on_s3(false).await;
    let live = lake.write(&[(1, None)]);
    let path = live.path.clone();
    lake.register(vec![live]).await;
    sqlx::query("insert into file_removal (catalog_id, path, kind, reason) values (1, $1, 'data', 'snapshot_expiry')")
        .bind(&path)
        .execute(&lake.pool)
        .await
        .unwrap();
    queue(&lake, 2).await;
    assert_eq!(clean(&lake).await, (1, 1, 1, 0));
    assert!(lake.file(&path).exists());
    let audit = lake.audit();
    let of = |action: &str| audit.iter().filter(|line| line["action"] == action).collect::<Vec<_>>();
    let [violation] = of("cleanup_violation")[..] else { panic!("{audit:?}") };
    assert_eq!((&violation["outcome"], &violation["object"]), (&json!("invariant_violation"), &json!(path)));
    assert_eq!(violation["detail"], "kept: data file 1 of table 1 in catalog 1 refers to it");
    assert_eq!(of("file_deleted").len(), 2);
}

/// Four files, one of them with a deleted row, on S3.
async fn four_files() -> Lake {
    let mut lake = Lake::on_s3(true).await;
    lake.alter(json!({"op": "add_column", "column": {"name": "small", "type": "int"}})).await;
    for i in 0..4 {
        lake.append(&[(i * 10 + 1, Some("b")), (i * 10 + 2, None), (i * 10 + 4, Some("a"))]).await;
    }
    lake.delete(1, &BTreeSet::from([1])).await;
    lake
}

/// Compacts, and lets `meanwhile` happen while the output is being uploaded.
async fn compact_and(lake: &mut Lake, meanwhile: impl AsyncFnOnce(&mut Lake)) -> CompactionStatus {
    let (coming, leave) = lake.store.as_ref().unwrap().hold_upload();
    let (worker, catalog) = (lake.worker.clone(), lake.catalog.clone());
    let compaction = tokio::spawn(async move { worker.compact(&catalog, 1, false, Trigger::Request).await.unwrap() });
    coming.await.unwrap();
    meanwhile(lake).await;
    leave.send(()).unwrap();
    compaction.await.unwrap()
}

/// After a group was given up: nothing is different, its output goes, and the next compaction succeeds.
async fn try_again(lake: &Lake) {
    let before = lake.rows_at(lake.head().await).await;
    lake.verified().await;
    assert!(lake.orphans().await.is_empty());
    assert_eq!(lake.number("select count(*) from data_file where explicit_row_ids").await, 0);
    assert_eq!(clean(lake).await, (1, 0, 0, 0), "the output that nobody committed");
    assert_eq!(lake.compact().await, 1);
    assert_eq!(lake.rows_at(lake.head().await).await, before);
    lake.verified().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_altered_during_a_rewrite_is_compacted_by_its_new_schema() {
    for op in [
        json!({"op": "promote_column", "name": "small", "to": "long"}),
        json!({"op": "drop_column", "name": "small"}),
        json!({"op": "add_column", "column": {"name": "late", "type": "string"}}),
        json!({"op": "set_sort_order", "sort_fields": []}),
    ] {
        let mut lake = four_files().await;
        let status = compact_and(&mut lake, async |lake| lake.alter(op.clone()).await).await;
        assert_eq!((status.groups_compacted, status.skipped_conflicts), (0, 1), "{op}: {status:?}");
        try_again(&lake).await;
        let promoted = "select count(*) from data_file f join file_statistics s using (catalog_id, data_file_id)
                        where f.end_snapshot is null and exists (
                          select from unnest(s.field_ids, s.lower_bounds) as b(field_id, lower)
                          where b.field_id = 3 and length(b.lower) = 8)";
        assert_eq!(lake.number(promoted).await, i64::from(op["op"] == "promote_column"), "{op}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_deleted_during_a_rewrite_stay_deleted() {
    let mut lake = four_files().await;
    let status = compact_and(&mut lake, async |lake| {
        lake.delete(1, &BTreeSet::from([0, 1])).await;
    });
    let status = status.await;
    assert_eq!((status.groups_compacted, status.dv_superseded), (0, 1), "{status:?}");
    try_again(&lake).await;
    assert_eq!(lake.rows_at(lake.head().await).await.len(), 10);
}

/// Begins an upload of an object, sends a part, and leaves it at that.
async fn begin_upload(lake: &Lake, path: &str) {
    let object = lake.worker.stores.open(&Location::parse(path).unwrap()).unwrap();
    let mut upload = object.store.put_multipart(&object.path).await.unwrap();
    upload.put_part(PutPayload::from(vec![7; 5 << 20])).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn cleanup_aborts_the_uploads_that_a_killed_server_left() {
    let lake = Lake::on_s3(false).await;
    let store = lake.store.as_ref().unwrap();
    let staged = "s3://lake/demo/data/ns/t/compacted-1 &+é.parquet";
    let others =
        ["s3://lake/demo/data/ns/t/compacted-1 &+é.parquet.more", "s3://lake/demo/data/ns/t/compacted-2.parquet"];
    for path in [staged, staged, others[0], others[1]] {
        begin_upload(&lake, path).await;
    }
    assert_eq!(store.open_uploads().len(), 4);
    let queue = "insert into file_removal (catalog_id, path, kind, reason)
                 values (1, $1, 'data', 'compaction_staging'), (1, $2, 'data', 'snapshot_expiry')";
    sqlx::query(queue).bind(staged).bind(others[0]).execute(&lake.pool).await.unwrap();
    assert_eq!(clean(&lake).await, (1, 1, 0, 0));
    assert_eq!(store.open_uploads().len(), 2, "those of other objects are somebody's");
    let parts = std::fs::read_dir(store.root()).unwrap();
    let parts = parts.filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with(".upload_id-"));
    assert_eq!(parts.count(), 2);
    // nothing is left: the next of the same name finds nothing
    sqlx::query(queue).bind(staged).bind(others[0]).execute(&lake.pool).await.unwrap();
    assert_eq!(clean(&lake).await, (0, 2, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_lost_ends_the_rewrite_and_leaves_nothing() {
    let mut lake = four_files().await;
    let status = compact_and(&mut lake, async |lake| {
        // another server has taken the inputs over, and a cleanup the output
        lake.execute("update compaction_claim set claimed_by = gen_random_uuid()").await;
        lake.execute("update file_removal set claimed_by = gen_random_uuid(), attempts = 1 where settled_at is null")
            .await;
    });
    let status = status.await;
    assert_eq!((status.groups_compacted, status.skipped_conflicts), (0, 1), "{status:?}");
    assert!(status.put_off.is_empty(), "{status:?}");
    assert_eq!(lake.number("select count(*) from compaction_claim").await, 4, "those of the other");
    lake.execute("delete from compaction_claim; delete from file_removal where claimed_by is not null").await;
    // the output was queued once more, since nobody knows whether it was there when the cleanup looked
    try_again(&lake).await;
}
