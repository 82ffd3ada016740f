//! Idempotency keys of requests that are not data commits, and their purge.

use crate::answer::{body, refusal};
use crate::lake::{Lake, append, file};
use hoglake_catalog::Result;
use hoglake_catalog::catalogs::{CreateCatalog, PatchCatalogOptions};
use hoglake_catalog::idempotency::{Answer, IdempotencyKey};
use hoglake_catalog::namespaces::CreateNamespace;
use hoglake_model::ErrorCode;

fn key(name: &str, body: &str) -> Option<IdempotencyKey> {
    Some(IdempotencyKey::new(name, "POST", "/", body.as_bytes()).unwrap())
}

async fn make_namespace(lake: &Lake, name: &str, key: Option<IdempotencyKey>) -> Result<Answer> {
    lake.catalog.namespace_create("demo", CreateNamespace { name: name.to_owned() }, key, None).await
}

#[tokio::test]
async fn a_repeated_ddl_request_gets_the_first_answer() {
    let lake = Lake::new().await;
    let first = make_namespace(&lake, "n", key("k", "n")).await.unwrap();
    let again = make_namespace(&lake, "n", key("k", "n")).await.unwrap();
    assert_eq!(again, Answer { replayed: true, ..first });
    assert_eq!(lake.head().await, (4, 1, 4));
    assert_eq!(refusal(make_namespace(&lake, "m", key("k", "m")).await).code, ErrorCode::Validation);
    // a refusal stores nothing
    assert_eq!(refusal(make_namespace(&lake, "n", key("l", "n")).await).code, ErrorCode::AlreadyExists);
    make_namespace(&lake, "m", key("l", "m")).await.unwrap();
}

#[tokio::test]
async fn one_of_many_equal_requests_creates_the_catalog() {
    let lake = Lake::new().await;
    let create = || {
        let request = CreateCatalog { name: "x".to_owned(), data_path: "s3://x".to_owned() };
        lake.catalog.catalog_create(request, key("k", "x"))
    };
    let answers = futures::future::join_all((0..8).map(|_| create())).await;
    let answers: Vec<Answer> = answers.into_iter().map(|a| a.unwrap()).collect();
    assert_eq!(answers.iter().filter(|a| !a.replayed).count(), 1);
    assert!(answers.iter().all(|a| a.status == 201 && body(a) == body(&answers[0])));
    assert_eq!(lake.number("select count(*) from catalog where name = 'x'").await, 1);
}

#[tokio::test]
async fn a_repeated_patch_does_not_patch_again() {
    let lake = Lake::new().await;
    let patch = |seconds, key| {
        let patch = PatchCatalogOptions { snapshot_retention_seconds: Some(Some(seconds)), consumer_floor: None };
        lake.catalog.catalog_patch_options("demo", patch, key)
    };
    let first = patch(60, key("k", "60")).await.unwrap();
    patch(70, None).await.unwrap();
    let again = patch(60, key("k", "60")).await.unwrap();
    assert_eq!((body(&again), again.replayed), (body(&first), true));
    assert_eq!(lake.number("select snapshot_retention_seconds from catalog").await, 70);
}

/// An answer that is stored between the look for the key and the work, as by a request of another kind that brings the
/// same key at the same time.
async fn answer_meanwhile(lake: &Lake, key: &'static str) -> sqlx::Transaction<'static, sqlx::Postgres> {
    let mut transaction = lake.pool.begin().await.unwrap();
    sqlx::query(
        "insert into idempotency_key (catalog_id, key, request_hash, status, response)
         select catalog_id, $1, decode(repeat('00', 32), 'hex'), 200, '{}' from catalog",
    )
    .bind(key)
    .execute(&mut *transaction)
    .await
    .unwrap();
    transaction
}

#[tokio::test]
async fn one_key_on_requests_of_different_kinds_at_the_same_time_is_refused_not_a_fault() {
    let lake = Lake::new().await;
    for kind in ["commit", "ddl", "options"] {
        let first = answer_meanwhile(&lake, kind).await;
        let second = async {
            match kind {
                "commit" => lake.catalog.commit("demo", append("t", vec![file("a", 1)]), key(kind, "")).await,
                "ddl" => make_namespace(&lake, "n", key(kind, "")).await,
                _ => lake.catalog.catalog_patch_options("demo", PatchCatalogOptions::default(), key(kind, "")).await,
            }
        };
        // the second looks for its key before the first is committed, and waits for it when it stores its own
        let store = async {
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            first.commit().await.unwrap();
        };
        let (outcome, ()) = tokio::join!(second, store);
        assert_eq!(refusal(outcome).code, ErrorCode::Validation, "{kind}");
    }
    assert_eq!(lake.head().await, (3, 1, 3));
}

#[tokio::test]
async fn keys_of_new_catalogs_live_a_day() {
    let lake = Lake::new().await;
    for name in ["young", "old", "older"] {
        let request = CreateCatalog { name: name.to_owned(), data_path: format!("s3://{name}") };
        lake.catalog.catalog_create(request, key(name, "")).await.unwrap();
    }
    make_namespace(&lake, "n", key("old-in-a-catalog", "")).await.unwrap();
    assert_eq!(lake.catalog.idempotency_purge(10).await.unwrap(), 0);
    sqlx::raw_sql("update idempotency_key set created_at = now() - interval '25 hours' where key like 'old%'")
        .execute(&lake.pool)
        .await
        .unwrap();
    assert_eq!(lake.catalog.idempotency_purge(1).await.unwrap(), 1, "bounded");
    assert_eq!(lake.catalog.idempotency_purge(10).await.unwrap(), 1);
    let left: Vec<String> =
        sqlx::query_scalar("select key from idempotency_key order by key").fetch_all(&lake.pool).await.unwrap();
    assert_eq!(left, ["old-in-a-catalog", "young"]);
}

/// Work that is no single transaction: begun once for a key, whatever happens to whoever does it.
#[tokio::test]
async fn a_claimed_key_is_worked_on_once() {
    let lake = Lake::new().await;
    let demo = lake.catalog.catalog_find("demo").await.unwrap().id;
    let other = lake.second();
    let (this, foreign) = (key("k", "expire").unwrap(), key("k", "compact").unwrap());
    let claims = futures::future::join_all((0..8).map(|_| lake.catalog.answer_claim(demo, &this))).await;
    let free = claims.iter().filter(|claim| matches!(claim, Ok(None))).count();
    assert_eq!(free, 1);
    for claim in claims.into_iter().filter(|claim| !matches!(claim, Ok(None))) {
        let refused = claim.unwrap_err().refusal().unwrap();
        assert_eq!(refused.code, ErrorCode::Unavailable);
        assert!(refused.detail.contains("still being worked on"), "{}", refused.detail);
    }
    assert_eq!(other.answer_claim(demo, &foreign).await.unwrap_err().refusal().unwrap().code, ErrorCode::Validation);
    // A commit cannot take it either.
    let commit = lake.catalog.commit("demo", append("t", vec![file("a", 1)]), Some(foreign.clone())).await;
    assert_eq!(refusal(commit).code, ErrorCode::Validation);

    // Its holder dies: what was done is unknown, so that it is not done again.
    let expire =
        "update idempotency_key set claimed_until = now() - interval '1 second' where claimed_until is not null";
    sqlx::query(expire).execute(&lake.pool).await.unwrap();
    let died = other.answer_claim(demo, &this).await.unwrap_err().refusal().unwrap();
    assert_eq!(died.code, ErrorCode::CommitConflict);
    for part in ["ended before it had an answer", "cannot succeed", "fresh key"] {
        assert!(died.detail.contains(part), "{}", died.detail);
    }
    // It was only slow: it holds on, and answers.
    lake.catalog.answer_renew(demo, &this).await.unwrap();
    assert_eq!(other.answer_claim(demo, &this).await.unwrap_err().refusal().unwrap().code, ErrorCode::Unavailable);
    let answer = Answer { status: 200, body: Some("{\"done\": 1}".to_owned()), snapshot: None, replayed: false };
    lake.catalog.answer_settle(demo, &this, &answer).await.unwrap();
    assert_eq!(other.answer_claim(demo, &this).await.unwrap(), Some(Answer { replayed: true, ..answer.clone() }));
    // An answer stays what it is.
    lake.catalog.answer_release(demo, &this).await.unwrap();
    lake.catalog.answer_settle(demo, &this, &Answer { body: None, ..answer.clone() }).await.unwrap();
    assert_eq!(other.answer_claim(demo, &this).await.unwrap().unwrap().body, answer.body);

    // Refused work gives its key back.
    let second = key("l", "expire").unwrap();
    assert_eq!(lake.catalog.answer_claim(demo, &second).await.unwrap(), None);
    lake.catalog.answer_release(demo, &second).await.unwrap();
    assert_eq!(other.answer_claim(demo, &second).await.unwrap(), None);
}
