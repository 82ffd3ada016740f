//! Plans, claims and commits of compaction; the files themselves are rewritten elsewhere.

use super::{DEMO, delete};
use crate::lake::{Lake, ROOT, append, file};
use chrono::Utc;
use hoglake_catalog::Catalog;
use hoglake_catalog::compaction::{Cause, ClaimedGroup, CompactionOutput, Verdict};
use hoglake_catalog::removals::ClaimRequest;
use hoglake_model::{ColumnStats, FieldId, FileId};
use std::time::Duration;
use uuid::Uuid;

pub fn output(claimed: &ClaimedGroup) -> CompactionOutput {
    CompactionOutput {
        record_count: claimed.group.live_rows(),
        file_size_bytes: claimed.group.bytes_in() / 2,
        footer_size: 20,
        row_id_start: claimed.group.inputs.iter().map(|i| i.row_id_start).min().unwrap(),
        statistics: vec![ColumnStats { null_count: Some(0), ..ColumnStats::unknown(FieldId(1)) }],
    }
}

async fn staged(lake: &Lake) -> ClaimedGroup {
    staged_by(&lake.catalog).await
}

async fn staged_by(catalog: &Catalog) -> ClaimedGroup {
    let group = catalog.compaction_plan(DEMO, 4, 1).await.unwrap().pop().expect("there is a group");
    let mut claimed = catalog.compaction_claim(DEMO, group).await.unwrap().expect("nobody else claims");
    let path = format!("{ROOT}/compacted-{}", claimed.claimant);
    catalog.compaction_stage(&mut claimed, &path).await.unwrap();
    claimed
}

async fn four_files(lake: &Lake) -> i64 {
    lake.commit(append("t", (0..4).map(|i| file(&format!("f{i}"), 10)).collect())).await.unwrap()
}

#[tokio::test]
async fn a_commit_replaces_inputs_and_settles_the_ticket() {
    let lake = Lake::new().await;
    let begin = four_files(&lake).await;
    lake.commit(delete("t", begin, 2, 3)).await.unwrap();
    let claimed = staged(&lake).await;
    assert_eq!(claimed.group.inputs.len(), 4);
    assert_eq!(claimed.group.live_rows(), 37);
    assert_eq!(claimed.group.inputs[1].vector.as_ref().unwrap().delete_count, 3);
    // while it is claimed nobody plans it again
    assert!(lake.second().compaction_plan(DEMO, 4, 9).await.unwrap().is_empty());
    lake.catalog.compaction_renew(&claimed).await.unwrap();
    let verdict = lake.catalog.compaction_commit(&claimed, Some(&output(&claimed))).await.unwrap();
    assert_eq!(verdict, Verdict::Committed(hoglake_model::SnapshotId(6)));
    assert_eq!(lake.number("select count(*) from data_file where end_snapshot = 6").await, 4);
    assert_eq!(lake.number("select count(*) from delete_file where end_snapshot = 6").await, 1);
    assert_eq!(
        lake.number(
            "select count(*) from data_file where explicit_row_ids and stats_state = 'provided' and row_id_start = 0"
        )
        .await,
        1
    );
    assert_eq!(lake.number("select count(*) from file_statistics").await, 1);
    assert_eq!(lake.number("select live_file_count from catalog").await, 1);
    assert_eq!(lake.number("select record_count from table_counter where table_id = 1").await, 37);
    assert_eq!(lake.number("select next_row_id from table_counter where table_id = 1").await, 40);
    assert_eq!(lake.number("select count(*) from file_removal where outcome = 'registered'").await, 1);
    assert_eq!(lake.number("select count(*) from compaction_claim").await, 0);
    assert_eq!(
        lake.number(
            "select count(*) from snapshot where snapshot_id = 6 and author = 'compaction' and schema_version = 3"
        )
        .await,
        1
    );
    assert_eq!(
        lake.number(
            "select count(*) from snapshot_change where snapshot_id = 6 and kind = 'table_compacted' and object_id = 1"
        )
        .await,
        1
    );
    lake.verified().await;
    // a writer that planned before goes on without a conflict
    let mut request = append("t", vec![file("later", 1)]);
    request.read_snapshot = Some(begin);
    assert_eq!(lake.commit(request).await.unwrap(), 7);
    assert_eq!(lake.number("select row_id_start from data_file order by data_file_id desc limit 1").await, 40);
    // expiry reclaims the inputs
    lake.age().await;
    let expired = lake.expire().await;
    assert_eq!((expired.data_files_queued, expired.delete_files_queued), (4, 1));
    lake.verified().await;
}

#[tokio::test]
async fn a_group_without_rows_becomes_no_file() {
    let lake = Lake::new().await;
    let mut read = four_files(&lake).await;
    for id in 1..=4 {
        read = lake.commit(delete("t", read, id, 10)).await.unwrap();
    }
    let group = lake.catalog.compaction_plan(DEMO, 4, 1).await.unwrap().remove(0);
    assert_eq!(group.live_rows(), 0);
    let claimed = lake.catalog.compaction_claim(DEMO, group).await.unwrap().unwrap();
    let verdict = lake.catalog.compaction_commit(&claimed, None).await.unwrap();
    assert!(matches!(verdict, Verdict::Committed(_)));
    assert_eq!(lake.number("select count(*) from data_file where end_snapshot is null").await, 0);
    assert_eq!(
        lake.number(
            "select live_file_count + (select record_count from table_counter where table_id = 1) from catalog"
        )
        .await,
        0
    );
    lake.verified().await;
}

#[tokio::test]
async fn whatever_changed_since_the_plan_stops_the_commit() {
    let lake = Lake::new().await;
    let begin = four_files(&lake).await;
    // rows deleted meanwhile: by a first vector, then by a grown one
    let claimed = staged(&lake).await;
    let read = lake.commit(delete("t", begin, 3, 1)).await.unwrap();
    assert_eq!(
        lake.catalog.compaction_commit(&claimed, Some(&output(&claimed))).await.unwrap(),
        Verdict::VectorsSuperseded
    );
    lake.catalog.compaction_release(&claimed).await.unwrap();
    let claimed = staged(&lake).await;
    lake.commit(delete("t", read, 3, 2)).await.unwrap();
    assert_eq!(
        lake.catalog.compaction_commit(&claimed, Some(&output(&claimed))).await.unwrap(),
        Verdict::VectorsSuperseded
    );
    lake.catalog.compaction_release(&claimed).await.unwrap();
    // the schema altered
    let claimed = staged(&lake).await;
    lake.execute("update table_identity set ddl_snapshot = 7 where table_id = 1").await;
    assert_eq!(lake.catalog.compaction_commit(&claimed, Some(&output(&claimed))).await.unwrap(), Verdict::Conflict);
    lake.catalog.compaction_release(&claimed).await.unwrap();
    // the staged output reclaimed
    let claimed = staged(&lake).await;
    lake.execute("update file_removal set claimed_until = now() - interval '1 second' where settled_at is null").await;
    let claim = ClaimRequest { claimant: Uuid::new_v4(), min_age: Duration::ZERO, limit: 99, sweep_began: Utc::now() };
    assert_eq!(lake.catalog.removals_claim(DEMO, claim).await.unwrap().unreferenced.len(), 4);
    assert_eq!(lake.catalog.compaction_commit(&claimed, Some(&output(&claimed))).await.unwrap(), Verdict::Conflict);
    lake.catalog.compaction_release(&claimed).await.unwrap();
    // an input gone
    let claimed = staged(&lake).await;
    lake.execute("update data_file set end_snapshot = 8 where data_file_id = 1; update delete_file set end_snapshot = 8 where data_file_id = 1").await;
    assert_eq!(lake.catalog.compaction_commit(&claimed, Some(&output(&claimed))).await.unwrap(), Verdict::Conflict);
    // the table dropped
    lake.catalog.compaction_release(&claimed).await.unwrap();
    lake.drop_table(1).await;
    assert_eq!(lake.catalog.compaction_commit(&claimed, Some(&output(&claimed))).await.unwrap(), Verdict::Conflict);
    assert_eq!(lake.number("select count(*) from data_file").await, 4);
    assert!(lake.catalog.compaction_plan(DEMO, 4, 9).await.unwrap().is_empty());
    lake.verified().await;
}

#[tokio::test]
async fn two_compactors_share_the_groups() {
    let lake = Lake::with(|options| options.compaction_target_bytes = 400).await;
    lake.commit(append("t", (0..40).map(|i| file(&format!("f{i}"), 10)).collect())).await.unwrap();
    let second = lake.second();
    let (one, two) = tokio::join!(lake.catalog.compaction_plan(DEMO, 4, 99), second.compaction_plan(DEMO, 4, 99));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!((one.len(), two.len()), (10, 10));
    let claims = one
        .into_iter()
        .map(|g| lake.catalog.compaction_claim(DEMO, g))
        .chain(two.into_iter().map(|g| second.compaction_claim(DEMO, g)));
    let claimed: Vec<_> = futures::future::join_all(claims).await.into_iter().filter_map(|c| c.unwrap()).collect();
    assert_eq!(claimed.len(), 10);
    assert_eq!(lake.number("select count(*) from compaction_claim").await, 40);
}

#[tokio::test]
async fn spellings_of_one_partition_are_merged() {
    let lake = Lake::new().await;
    lake.execute(
        "insert into partition_spec (catalog_id, table_id, spec_id, begin_snapshot) values (1, 1, 1, 2);
         insert into partition_spec_field values (1, 1, 1, 0, 1, 'identity', null)",
    )
    .await;
    for (i, value) in ["7", "07", "+7", "7", "8"].into_iter().enumerate() {
        let mut file = file(&format!("f{i}"), 10);
        file.partition_values = Some(vec![Some(value.to_owned())]);
        lake.commit(append("t", vec![file])).await.unwrap();
    }
    let groups = lake.catalog.compaction_plan(DEMO, 4, 9).await.unwrap();
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0].input_ids(), [1, 2, 3, 4]);
    assert_eq!(groups[0].partition_values, Some(vec![Some("7".to_owned())]));
}

#[tokio::test]
async fn a_group_that_was_taken_over_is_not_committed() {
    let lake = Lake::new().await;
    four_files(&lake).await;
    let claimed = staged(&lake).await;
    assert!(lake.catalog.compaction_renew(&claimed).await.unwrap());
    // a silence that was too long, and that nobody has noticed: still theirs
    let pass = "update compaction_claim set claimed_until = now() - interval '1 second'";
    lake.execute(pass).await;
    assert!(lake.catalog.compaction_renew(&claimed).await.unwrap());
    lake.execute(pass).await;
    let second = lake.second();
    let taken = staged_by(&second).await;
    assert!(!lake.catalog.compaction_renew(&claimed).await.unwrap());
    assert_eq!(lake.catalog.compaction_commit(&claimed, Some(&output(&claimed))).await.unwrap(), Verdict::Conflict);
    lake.catalog.compaction_release(&claimed).await.unwrap();
    assert!(second.compaction_renew(&taken).await.unwrap(), "giving back took nothing from the other");
    let verdict = second.compaction_commit(&taken, Some(&output(&taken))).await.unwrap();
    assert!(matches!(verdict, Verdict::Committed(_)));
    // the lost output is left to the cleanup
    assert_eq!(lake.number("select count(*) from file_removal where settled_at is null").await, 1);
    lake.verified().await;
}

#[tokio::test]
async fn claims_end_a_minute_after_the_last_sign_of_life() {
    let lake = Lake::new().await;
    four_files(&lake).await;
    let claimed = staged(&lake).await;
    let within = "select count(*) from (
                    select claimed_until from compaction_claim
                    union all select claimed_until from file_removal where claimed_by is not null) c
                  where claimed_until between now() + interval '50 seconds' and now() + interval '60 seconds'";
    assert_eq!(lake.number(within).await, 5);
    lake.catalog.compaction_renew(&claimed).await.unwrap();
    assert_eq!(lake.number(within).await, 5);
}

#[tokio::test]
async fn a_file_that_fails_waits_twice_as_long_each_time_and_the_others_go_on() {
    let lake = Lake::new().await;
    lake.commit(append("t", (0..5).map(|i| file(&format!("f{i}"), 10)).collect())).await.unwrap();
    let fail = async || {
        lake.catalog.compaction_fail(DEMO, &[FileId(2)], Cause::File, "its pages are garbage").await.unwrap().remove(0)
    };
    let mut waits = Vec::new();
    for attempt in 1..=12 {
        let put_off = fail().await;
        assert_eq!((put_off.data_file_id, put_off.attempts), (2, attempt));
        waits.push(put_off.wait_seconds as i64);
    }
    assert_eq!(waits[..4], [60, 120, 240, 480]);
    assert_eq!(waits[8..], [15_360, 21_600, 21_600, 21_600]);
    // what may be over soon is not waited for as long
    let passing = lake.catalog.compaction_fail(DEMO, &[FileId(2)], Cause::Passing, "the store is away").await.unwrap();
    assert_eq!((passing[0].attempts, passing[0].wait_seconds as i64), (13, 600));
    let group = lake.catalog.compaction_plan(DEMO, 4, 9).await.unwrap().remove(0);
    assert_eq!(group.input_ids(), [1, 3, 4, 5]);
    let claimed = lake.catalog.compaction_claim(DEMO, group).await.unwrap().unwrap();
    let held = lake.second().compaction_held(DEMO).await.unwrap();
    assert_eq!((held.claimed, held.put_off), (4, 1));
    lake.catalog.compaction_release(&claimed).await.unwrap();
    // when its time has come it is with the others again, and what is compacted is forgotten
    lake.execute("update compaction_failure set next_attempt_at = now()").await;
    let claimed = staged(&lake).await;
    assert_eq!(claimed.group.input_ids(), [1, 2, 3, 4, 5]);
    lake.catalog.compaction_commit(&claimed, Some(&output(&claimed))).await.unwrap();
    assert_eq!(lake.number("select count(*) from compaction_failure").await, 0);
    // that of a file which died otherwise goes with the next plan
    lake.catalog.compaction_fail(DEMO, &[FileId(1)], Cause::File, "gone").await.unwrap();
    lake.catalog.compaction_plan(DEMO, 4, 9).await.unwrap();
    assert_eq!(lake.number("select count(*) from compaction_failure").await, 0);
}
