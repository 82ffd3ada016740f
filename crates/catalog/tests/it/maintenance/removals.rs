//! Claims, liveness and settlement of the removal queue.

use super::DEMO;
use super::previews::queued;
use crate::lake::{Lake, ROOT, append, file};
use chrono::Utc;
use hoglake_catalog::removals::{ClaimRequest, Claims, Outcome};
use hoglake_model::ErrorCode;
use sqlx::AssertSqlSafe;
use std::time::Duration;
use uuid::Uuid;

fn request(limit: i64) -> ClaimRequest {
    ClaimRequest { claimant: Uuid::new_v4(), min_age: Duration::ZERO, limit, sweep_began: Utc::now() }
}

async fn queue(lake: &Lake, paths: impl IntoIterator<Item = String>) {
    let paths: Vec<String> = paths.into_iter().collect();
    sqlx::query(
        "insert into file_removal (catalog_id, path, kind, reason)
         select 1, path, 'data', 'snapshot_expiry' from unnest($1::text[]) as w(path)",
    )
    .bind(paths)
    .execute(&lake.pool)
    .await
    .unwrap();
}

fn ids(claims: &Claims) -> Vec<i64> {
    claims.unreferenced.iter().map(|c| c.removal_id).collect()
}

fn paths(claims: &Claims) -> Vec<&str> {
    claims.unreferenced.iter().map(|c| c.path.as_str()).collect()
}

#[tokio::test]
async fn a_referenced_path_is_kept_counted_and_starves_nobody() {
    let lake = Lake::new().await;
    lake.commit(append("t", vec![file("live", 1)])).await.unwrap();
    queue(&lake, [format!("{ROOT}/live")]).await;
    queue(&lake, (0..5).map(|i| format!("{ROOT}/dead-{i}"))).await;
    let first = request(3);
    let claims = lake.catalog.removals_claim(DEMO, first).await.unwrap();
    assert_eq!(claims.referenced.len(), 1);
    assert_eq!(claims.referenced[0].1, "data file 1 of table 1 in catalog 1");
    assert_eq!(paths(&claims).len(), 2);
    assert_eq!(lake.catalog.removals_settle(first.claimant, &ids(&claims), Outcome::Deleted).await.unwrap().len(), 2);
    // the same sweep does not try it again, the next one tries it last
    let second = ClaimRequest { claimant: Uuid::new_v4(), ..first };
    let claims = lake.catalog.removals_claim(DEMO, second).await.unwrap();
    assert_eq!((claims.referenced.len(), claims.unreferenced.len()), (0, 3));
    let third = lake.catalog.removals_claim(DEMO, request(10)).await.unwrap();
    assert_eq!((third.referenced.len(), third.unreferenced.len()), (1, 0));
    let page = lake.catalog.removals_list("demo", Some("still_referenced"), None, 10).await.unwrap();
    assert_eq!(page.removals.len(), 1);
    assert_eq!(page.removals[0].attempts, 2);
    assert!(page.removals[0].last_error.as_deref().unwrap().starts_with("still referenced by data file 1"));
    assert_eq!(lake.catalog.removals_list("demo", Some("removed"), None, 1).await.unwrap().removals.len(), 1);
    assert!(lake.catalog.removals_list("demo", Some("removed"), None, 1).await.unwrap().has_more);
}

#[tokio::test]
async fn two_cleaners_share_the_queue_and_a_lost_claim_settles_nothing() {
    let lake = Lake::new().await;
    queue(&lake, (0..40).map(|i| format!("{ROOT}/dead-{i}"))).await;
    let second = lake.second();
    let (a, b) = (request(20), request(20));
    let (one, two) = tokio::join!(lake.catalog.removals_claim(DEMO, a), second.removals_claim(DEMO, b));
    let (one, two) = (one.unwrap(), two.unwrap());
    let mut all: Vec<i64> = one.unreferenced.iter().chain(&two.unreferenced).map(|c| c.removal_id).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), one.unreferenced.len() + two.unreferenced.len());
    // claims of a cleaner that died pass on when their lease ends
    lake.execute("update file_removal set claimed_until = now() - interval '1 second'").await;
    let again = lake.catalog.removals_claim(DEMO, request(100)).await.unwrap();
    assert_eq!(again.unreferenced.len(), 40);
    assert!(lake.catalog.removals_settle(a.claimant, &ids(&one), Outcome::Deleted).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_commit_is_refused_a_claimed_path_and_one_under_way_is_waited_for() {
    let lake = Lake::new().await;
    queue(&lake, [format!("{ROOT}/p")]).await;
    let claim = request(10);
    lake.catalog.removals_claim(DEMO, claim).await.unwrap();
    let refused = lake.commit(append("t", vec![file("p", 1)])).await.unwrap_err().refusal().unwrap();
    assert_eq!(refused.code, ErrorCode::CommitConflict);
    lake.catalog.removals_release(claim.claimant, &[]).await.unwrap();

    // a transaction that registered the path before it was queued, and has not committed yet
    let mut writer = lake.pool.begin().await.unwrap();
    let key = hoglake_catalog::lock::key(DEMO);
    sqlx::query("select pg_advisory_xact_lock($1)").bind(key).execute(&mut *writer).await.unwrap();
    sqlx::query(
        "insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, path, record_count, file_size_bytes,
                                row_id_start, stats_state)
         values (1, 1, 1, 4, $1, 1, 1, 0, 'pending')",
    )
    .bind(format!("{ROOT}/q"))
    .execute(&mut *writer)
    .await
    .unwrap();
    queue(&lake, [format!("{ROOT}/q")]).await;
    let catalog = lake.catalog.clone();
    let claiming = tokio::spawn(async move { catalog.removals_claim(DEMO, request(10)).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!claiming.is_finished());
    writer.commit().await.unwrap();
    let claims = claiming.await.unwrap().unwrap();
    assert_eq!((claims.referenced.len(), claims.unreferenced.len()), (1, 0));
}

#[tokio::test]
async fn references_count_across_catalogs_and_in_history() {
    let lake = Lake::new().await;
    lake.execute(
        "insert into catalog (name, data_path, data_range) values ('other', 's3://o/', text_range('s3://o/', 's3://o0'));
         insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, end_snapshot, path, record_count,
                                file_size_bytes, row_id_start, stats_state)
         values (2, 7, 3, 1, 2, 's3://lake/demo/shared', 1, 1, 0, 'pending')",
    )
    .await;
    queue(&lake, [format!("{ROOT}/shared")]).await;
    let claims = lake.catalog.removals_claim(DEMO, request(10)).await.unwrap();
    assert_eq!(claims.referenced[0].1, "data file 7 of table 3 in catalog 2");
    assert!(claims.unreferenced.is_empty());
}

#[tokio::test]
async fn young_paths_and_staged_outputs_are_left_alone() {
    let lake = Lake::new().await;
    queue(&lake, [format!("{ROOT}/young")]).await;
    let patient = ClaimRequest { min_age: Duration::from_secs(60), ..request(10) };
    assert!(lake.catalog.removals_claim(DEMO, patient).await.unwrap().unreferenced.is_empty());
    assert_eq!(queued(&lake.catalog, 10).await.concat().len(), 1);
    lake.execute("update file_removal set scheduled_at = now() - interval '2 minutes'").await;
    lake.execute(
        "insert into file_removal (catalog_id, path, kind, reason, claimed_by, claimed_until)
         values (1, 's3://lake/demo/staged', 'data', 'compaction_staging', gen_random_uuid(), now() + interval '5 minutes')",
    )
    .await;
    let claims = lake.catalog.removals_claim(DEMO, request(10)).await.unwrap();
    assert_eq!(paths(&claims), ["s3://lake/demo/young"]);
}

#[tokio::test]
async fn the_ledger_forgets_after_its_retention() {
    let lake = Lake::new().await;
    queue(&lake, (0..3).map(|i| format!("{ROOT}/x{i}"))).await;
    let claim = request(2);
    let claims = lake.catalog.removals_claim(DEMO, claim).await.unwrap();
    lake.catalog.removals_settle(claim.claimant, &ids(&claims), Outcome::Absent).await.unwrap();
    assert_eq!(lake.catalog.removals_purge(DEMO, Duration::from_secs(60)).await.unwrap(), 0);
    lake.execute("update file_removal set settled_at = now() - interval '1 hour' where settled_at is not null").await;
    assert_eq!(lake.catalog.removals_purge(DEMO, Duration::from_secs(60)).await.unwrap(), 2);
    assert_eq!(lake.catalog.removals_depth(DEMO).await.unwrap(), 1);
    let refused = lake.catalog.removals_list("demo", None, None, 0).await.unwrap_err().refusal().unwrap();
    assert_eq!(refused.code, ErrorCode::Validation);
}

/// A cleaner that was kept waiting must not delete what others have removed since: its path may be that of a live file.
#[tokio::test]
async fn only_claims_that_are_ours_still_are_held_and_renewed() {
    let lake = Lake::new().await;
    queue(&lake, (0..3).map(|i| format!("{ROOT}/dead-{i}"))).await;
    let first = request(3);
    let claims = ids(&lake.catalog.removals_claim(DEMO, first).await.unwrap());
    assert_eq!(lake.catalog.removals_hold(first.claimant, &claims).await.unwrap().len(), 3);
    // the lease is nearly over: nobody else has taken them, so they are renewed
    lake.execute("update file_removal set claimed_until = now() + interval '1 minute'").await;
    assert_eq!(lake.catalog.removals_hold(first.claimant, &claims).await.unwrap().len(), 3);
    assert_eq!(
        lake.number("select count(*) from file_removal where claimed_until > now() + interval '14 minutes'").await,
        3
    );
    // it is over, and another cleaner takes two, removes one, and loses the path to a live file
    lake.execute("update file_removal set claimed_until = now() - interval '1 second'").await;
    let second = request(2);
    let taken = ids(&lake.catalog.removals_claim(DEMO, second).await.unwrap());
    assert_eq!(taken, claims[..2]);
    lake.catalog.removals_settle(second.claimant, &taken[..1], Outcome::Deleted).await.unwrap();
    lake.commit(append("t", vec![file("dead-0", 1)])).await.unwrap();
    let held = lake.catalog.removals_hold(first.claimant, &claims).await.unwrap();
    assert_eq!(held.into_iter().collect::<Vec<_>>(), claims[2..]);
}

/// The planner may take the queue for empty when it was last told: settling must not go through all of it for each id.
#[tokio::test]
async fn claims_are_settled_by_their_keys_whatever_the_planner_believes() {
    let lake = Lake::new().await;
    queue(&lake, (0..2_000).map(|i| format!("{ROOT}/old-{i}"))).await;
    lake.execute("update file_removal set settled_at = now(), outcome = 'deleted'").await;
    lake.execute("analyze file_removal").await;
    queue(&lake, (0..2_000).map(|i| format!("{ROOT}/new-{i}"))).await;
    let claim = request(2_000);
    let claimed = ids(&lake.catalog.removals_claim(DEMO, claim).await.unwrap());
    for (statement, last) in [
        (include_str!("../../../sql/removal/settle.sql"), "'deleted'"),
        (include_str!("../../../sql/removal/release.sql"), "array_fill('an error'::text, array[2000])"),
    ] {
        let keys = claimed.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
        let statement = statement
            .replace("$1", &format!("'{}'", claim.claimant))
            .replace("$2", &format!("'{{{keys}}}'"))
            .replace("$3", last);
        let explain = format!("explain (costs off) {}", without_comments(&statement));
        let plan: Vec<String> = sqlx::query_scalar(AssertSqlSafe(explain)).fetch_all(&lake.pool).await.unwrap();
        let plan = plan.join("\n");
        assert!(!plan.contains("file_removal_queue") && !plan.contains("Nested Loop"), "{plan}");
    }
    assert_eq!(lake.catalog.removals_settle(claim.claimant, &claimed, Outcome::Deleted).await.unwrap().len(), 2_000);
}

fn without_comments(sql: &str) -> String {
    sql.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn an_attempt_whose_cleaner_was_killed_shows_when_it_was() {
    let lake = Lake::new().await;
    queue(&lake, [format!("{ROOT}/dead")]).await;
    let before = lake.catalog.database_time().await.unwrap();
    assert_eq!(lake.catalog.removals_claim(DEMO, request(10)).await.unwrap().unreferenced.len(), 1);
    let after = lake.catalog.database_time().await.unwrap();
    // nobody settles it, and the claim ends
    for ended in [false, true] {
        let page = lake.catalog.removals_list("demo", None, None, 10).await.unwrap();
        let (removal, back) = (&page.removals[0], chrono::TimeDelta::hours(i64::from(ended)));
        assert_eq!((removal.attempts, removal.state.as_str()), (1, "queued"));
        let tried = removal.last_attempt_at.unwrap() + back;
        assert!(before <= tried && tried <= after, "{before} {tried} {after}");
        lake.execute("update file_removal set claimed_until = claimed_until - interval '1 hour'").await;
    }
    // given back without a try it was none
    lake.execute("update file_removal set claimed_until = null, claimed_by = null, attempts = 0").await;
    let claims = ClaimRequest { sweep_began: Utc::now() + chrono::TimeDelta::hours(1), ..request(10) };
    let claimed = lake.catalog.removals_claim(DEMO, claims).await.unwrap();
    let ids: Vec<i64> = claimed.unreferenced.iter().map(|claimed| claimed.removal_id).collect();
    lake.catalog.removals_give_back(Uuid::new_v4(), &ids).await.unwrap();
    assert_eq!(lake.number("select count(*) from file_removal where claimed_by is not null and attempts = 1").await, 1);
    lake.catalog.removals_give_back(claims.claimant, &ids).await.unwrap();
    let page = lake.catalog.removals_list("demo", None, None, 10).await.unwrap();
    assert_eq!((page.removals[0].attempts, page.removals[0].last_attempt_at), (0, None));
    assert_eq!(lake.catalog.removals_claim(DEMO, claims).await.unwrap().unreferenced.len(), 1, "it is due at once");
}
