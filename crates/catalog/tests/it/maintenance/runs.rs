//! Leases and the ledger of runs.

use super::DEMO;
use crate::lake::Lake;
use std::time::Duration;

#[tokio::test]
async fn a_lease_has_one_holder_and_a_growing_fence() {
    let lake = Lake::new().await;
    let minute = Duration::from_secs(60);
    let second = lake.second();
    let attempts = futures::future::join_all((0..8).map(|i| {
        let catalog = if i % 2 == 0 { &lake.catalog } else { &second };
        catalog.lease_acquire(DEMO, "expire", minute)
    }))
    .await;
    let held: Vec<_> = attempts.into_iter().filter_map(|a| a.unwrap()).collect();
    assert_eq!(held.len(), 1);
    assert!(lake.catalog.lease_renew(&held[0], minute).await.unwrap());
    assert!(lake.catalog.lease_acquire(DEMO, "cleanup", minute).await.unwrap().is_some());
    // the holder dies: its lease runs out and passes on
    lake.execute("update lease set expires_at = now() - interval '1 second' where task = 'expire'").await;
    let next = second.lease_acquire(DEMO, "expire", minute).await.unwrap().unwrap();
    assert!(next.fence > held[0].fence);
    assert!(!lake.catalog.lease_renew(&held[0], minute).await.unwrap());
    lake.catalog.lease_release(&held[0]).await.unwrap();
    assert!(lake.catalog.lease_acquire(DEMO, "expire", minute).await.unwrap().is_none());
    second.lease_release(&next).await.unwrap();
    assert!(lake.catalog.lease_acquire(DEMO, "expire", minute).await.unwrap().is_some());
}

#[tokio::test]
async fn runs_are_listed_newest_first_and_forgotten() {
    let lake = Lake::new().await;
    let done = lake.catalog.run_begin(DEMO, "expire").await.unwrap();
    lake.catalog.run_finish(done, Ok(r#"{"snapshots_expired":3}"#)).await.unwrap();
    let failed = lake.catalog.run_begin(DEMO, "cleanup").await.unwrap();
    lake.catalog.run_finish(failed, Err("the store is away")).await.unwrap();
    let idle = lake.catalog.run_begin(DEMO, "hydrate").await.unwrap();
    lake.catalog.run_discard(idle).await.unwrap();
    lake.catalog.run_begin(DEMO, "compact").await.unwrap();
    let page = lake.catalog.runs_list("demo", None, 2).await.unwrap();
    assert!(page.has_more);
    let outcomes: Vec<_> = page.runs.iter().map(|r| (r.task.as_str(), r.outcome)).collect();
    assert_eq!(outcomes, [("compact", "running"), ("cleanup", "failed")]);
    let rest = lake.catalog.runs_list("demo", Some(page.runs[1].run_id), 2).await.unwrap();
    assert_eq!(rest.runs[0].result.as_ref().unwrap().get(), r#"{"snapshots_expired":3}"#);
    assert!(!rest.has_more);
    lake.execute("update maintenance_run set started_at = now() - interval '1 hour' where task = 'expire'").await;
    assert_eq!(lake.catalog.runs_purge(DEMO, Duration::from_secs(60)).await.unwrap(), 1);
}

#[tokio::test]
async fn a_run_that_is_silent_is_abandoned_whoever_looks() {
    let lake = Lake::new().await;
    let silent =
        "update maintenance_run set last_seen_at = now() - interval '2 minutes', started_at = now() - interval '1 hour'
                  where finished_at is null";
    let died = lake.catalog.run_begin(DEMO, "compact").await.unwrap();
    lake.execute(silent).await;
    let goes_on = lake.catalog.run_begin(DEMO, "verify").await.unwrap();
    let outcomes = async || {
        let page = lake.catalog.runs_list("demo", None, 9).await.unwrap();
        page.runs.iter().map(|r| (r.task.clone(), r.outcome, r.finished_at, r.error.clone())).collect::<Vec<_>>()
    };
    // nobody has closed it, and the ledger says so all the same; closing it changes nothing in what is said
    let seen = outcomes().await;
    assert_eq!((seen[0].0.as_str(), seen[0].1, seen[0].2), ("verify", "running", None));
    assert_eq!((seen[1].0.as_str(), seen[1].1), ("compact", "abandoned"));
    let ended = seen[1].2.expect("it ended when it was last heard of");
    assert!((115..180).contains(&(chrono::Utc::now() - ended).num_seconds()), "{ended}");
    assert!(seen[1].3.as_ref().unwrap().contains("not heard of"), "{seen:?}");
    let second = lake.second();
    assert_eq!(second.runs_close_abandoned(DEMO).await.unwrap(), ["compact"]);
    assert!(second.runs_close_abandoned(DEMO).await.unwrap().is_empty());
    assert_eq!(outcomes().await, seen);
    assert_eq!(lake.number("select count(*) from maintenance_run where finished_at is null").await, 1);
    // it was only cut off: it goes on, and ends
    lake.catalog.run_seen(died).await.unwrap();
    assert_eq!(outcomes().await[1].1, "running");
    lake.execute(silent).await;
    second.runs_close_abandoned(DEMO).await.unwrap();
    lake.catalog.run_finish(died, Ok("{}")).await.unwrap();
    lake.catalog.run_finish(goes_on, Err("no")).await.unwrap();
    let ended = outcomes().await;
    assert_eq!((ended[0].1, ended[1].1, &ended[1].3), ("failed", "done", &None));
    // a late sign of life does not open it again
    lake.catalog.run_seen(died).await.unwrap();
    assert_eq!(outcomes().await[1].1, "done");
    // a server that stops says so itself
    let left = lake.catalog.run_begin(DEMO, "expire").await.unwrap();
    lake.catalog.run_leave(left).await.unwrap();
    let left = outcomes().await.remove(0);
    assert_eq!(left.1, "abandoned");
    assert!(left.3.unwrap().contains("stopped"));
}
