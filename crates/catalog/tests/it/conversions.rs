//! Conversions: claims, turns, fences, and what is left of servers that are gone.

use crate::lake::Lake;
use hoglake_catalog::conversions::{Begun, Bounds, NewConversion, State};
use hoglake_catalog::idempotency::{Answer, IdempotencyKey};
use std::time::Duration;
use uuid::Uuid;

const LEASE: Duration = Duration::from_secs(600);
const BOUNDS: Bounds = Bounds { limit: 3, lease: LEASE };
/// A lease that has run out when the next statement looks.
const NO_LEASE: Bounds = Bounds { limit: 3, lease: Duration::ZERO };

fn job(places: &[&str]) -> NewConversion {
    NewConversion {
        id: Uuid::new_v4(),
        actor: "ann".to_owned(),
        request_id: "r".to_owned(),
        source: places[0].to_owned(),
        places: places.iter().map(|place| (*place).to_owned()).collect(),
        request: Some("{}".to_owned()),
        is_private: false,
    }
}

async fn begin(lake: &Lake, new: &NewConversion, server: Uuid, bounds: Bounds) -> Begun {
    lake.catalog.conversion_begin(new, server, bounds, None).await.unwrap()
}

#[tokio::test]
async fn each_place_is_claimed_by_one_and_freed_with_its_answer() {
    let lake = Lake::new().await;
    let server = Uuid::new_v4();
    let first = job(&["s3://b/t", "s3://b/t/data"]);
    assert!(matches!(begin(&lake, &first, server, BOUNDS).await, Begun::Begun));
    for places in [&["s3://b/t"][..], &["s3://b/u", "s3://b/t/data"]] {
        let Begun::Busy(holder) = begin(&lake, &job(places), server, BOUNDS).await else { panic!("{places:?}") };
        assert_eq!((holder.conversion_id, holder.actor.as_str()), (first.id, "ann"));
    }
    assert!(matches!(begin(&lake, &job(&["s3://b/u"]), server, BOUNDS).await, Begun::Begun));
    assert!(matches!(begin(&lake, &job(&["s3://b/v"]), server, BOUNDS).await, Begun::Begun));
    assert!(matches!(begin(&lake, &job(&["s3://b/w"]), server, BOUNDS).await, Begun::Full));

    let turn = lake.catalog.conversion_take(server, LEASE).await.unwrap().unwrap();
    assert_eq!((turn.conversion_id, turn.fence, turn.attempts), (first.id, 1, 1), "the oldest first");
    assert!(matches!(lake.catalog.conversion_find(first.id).await.unwrap(), Some(State::Pending)));
    assert!(lake.catalog.conversion_finish(&turn, server, 422, "{\"code\":422}").await.unwrap());
    let Some(State::Finished { status, answer }) = lake.catalog.conversion_find(first.id).await.unwrap() else {
        panic!("it has no answer");
    };
    assert_eq!((status, answer.as_str()), (422, "{\"code\":422}"));
    assert!(matches!(begin(&lake, &job(&["s3://b/t"]), server, BOUNDS).await, Begun::Begun));
    assert_eq!(lake.catalog.conversion_purge(Duration::from_secs(600), 10).await.unwrap(), 0);
    assert_eq!(lake.catalog.conversion_purge(Duration::ZERO, 10).await.unwrap(), 1);
    assert!(lake.catalog.conversion_find(first.id).await.unwrap().is_none());
}

#[tokio::test]
async fn only_the_last_turn_answers() {
    let lake = Lake::new().await;
    let (one, two) = (Uuid::new_v4(), Uuid::new_v4());
    begin(&lake, &job(&["s3://b/t"]), one, BOUNDS).await;
    let early = lake.catalog.conversion_take(one, Duration::ZERO).await.unwrap().unwrap();
    let late = lake.catalog.conversion_take(two, LEASE).await.unwrap().unwrap();
    assert_eq!((late.conversion_id, late.fence, late.attempts), (early.conversion_id, 2, 2));
    assert!(lake.catalog.conversion_take(one, LEASE).await.unwrap().is_none(), "it is held");
    lake.catalog.conversion_renew(one, LEASE).await.unwrap();
    assert!(!lake.catalog.conversion_finish(&early, one, 200, "{}").await.unwrap());
    assert!(lake.catalog.conversion_finish(&late, two, 200, "{}").await.unwrap());
    assert!(!lake.catalog.conversion_finish(&late, two, 500, "{}").await.unwrap());
}

#[tokio::test]
async fn private_jobs_belong_to_their_server_and_end_with_it() {
    let lake = Lake::new().await;
    let (one, two) = (Uuid::new_v4(), Uuid::new_v4());
    let private = NewConversion { is_private: true, ..job(&["s3://b/t"]) };
    begin(&lake, &private, one, BOUNDS).await;
    assert!(lake.catalog.conversion_take(two, LEASE).await.unwrap().is_none());
    assert!(lake.catalog.conversion_fail_lost(500, "{}", None).await.unwrap().is_empty(), "its server lives");
    let turn = lake.catalog.conversion_take(one, Duration::ZERO).await.unwrap().unwrap();
    assert!(turn.is_private && lake.catalog.conversion_take(two, LEASE).await.unwrap().is_none());
    let lost = lake.catalog.conversion_fail_lost(500, "{}", None).await.unwrap();
    assert_eq!(lost.iter().map(|l| l.conversion_id).collect::<Vec<_>>(), [private.id]);
    assert!(!lake.catalog.conversion_finish(&turn, one, 200, "{}").await.unwrap());
    let waiting = NewConversion { is_private: true, ..job(&["s3://b/t"]) };
    begin(&lake, &waiting, one, NO_LEASE).await;
    assert!(lake.catalog.conversion_take(one, LEASE).await.unwrap().is_none(), "its lease is over");
    assert_eq!(lake.catalog.conversion_fail_lost(500, "{}", None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_that_ends_leaves_nothing_behind() {
    let lake = Lake::new().await;
    let (one, two) = (Uuid::new_v4(), Uuid::new_v4());
    let public = job(&["s3://b/t"]);
    let private = NewConversion { is_private: true, ..job(&["s3://b/u"]) };
    let foreground = NewConversion { request: None, ..job(&["s3://b/v"]) };
    for new in [&public, &private, &foreground] {
        begin(&lake, new, one, BOUNDS).await;
    }
    lake.catalog.conversion_take(one, LEASE).await.unwrap().unwrap();
    assert_eq!(lake.catalog.conversion_gauges().await.unwrap().running, 2);
    assert_eq!(lake.catalog.conversion_fail_lost(500, "{}", Some(one)).await.unwrap().len(), 1);
    lake.catalog.conversion_release(one).await.unwrap();
    let turn = lake.catalog.conversion_take(two, LEASE).await.unwrap().unwrap();
    assert_eq!((turn.conversion_id, turn.attempts), (public.id, 1), "an orderly end is no attempt");
    assert!(matches!(begin(&lake, &foreground, two, BOUNDS).await, Begun::Begun));
    assert!(lake.catalog.conversion_find(foreground.id).await.unwrap().is_none(), "it is nobody's to ask for");
    // One that died is forgotten by whoever wants its table next.
    let dead = NewConversion { request: None, ..job(&["s3://b/w"]) };
    assert!(matches!(begin(&lake, &dead, two, NO_LEASE).await, Begun::Begun));
    assert!(matches!(begin(&lake, &job(&["s3://b/w"]), two, BOUNDS).await, Begun::Begun));
}

#[tokio::test]
async fn a_key_begins_one_job() {
    let lake = Lake::new().await;
    let server = Uuid::new_v4();
    let key = IdempotencyKey::new("k", "POST", "/v1/conversion/table", b"body").unwrap();
    let new = job(&["s3://b/t"]);
    let answer = Answer { status: 202, body: Some(format!("\"{}\"", new.id)), snapshot: None, replayed: false };
    let begun = lake.catalog.conversion_begin(&new, server, BOUNDS, Some((&key, &answer))).await.unwrap();
    assert!(matches!(begun, Begun::Begun));
    let again = job(&["s3://b/t"]);
    let Begun::Replayed(stored) =
        lake.catalog.conversion_begin(&again, server, BOUNDS, Some((&key, &answer))).await.unwrap()
    else {
        panic!("a second job");
    };
    assert!(stored.replayed && stored.body == answer.body);
    let other = IdempotencyKey::new("k", "POST", "/v1/conversion/table", b"other").unwrap();
    assert!(lake.catalog.conversion_begin(&again, server, BOUNDS, Some((&other, &answer))).await.is_err());
}
