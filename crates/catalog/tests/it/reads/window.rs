//! The changefeed, and the order of refusals.

use super::{at, json, lives, numbers, table_t, window};
use crate::lake::Lake;
use hoglake_catalog::changes::ChangesRequest;
use hoglake_catalog::listing::Listing;
use hoglake_catalog::scan::ScanRequest;
use hoglake_catalog::{Error, Result};
use serde_json::json;

fn status(result: Result<Listing>) -> (u16, String) {
    match result {
        Err(Error::Refused(refusal)) => (refusal.code.status(), refusal.detail),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("not refused"),
    }
}

#[tokio::test]
async fn changes_leave_out_what_compaction_wrote() {
    let lake = Lake::new().await;
    lives(&lake).await;
    for (from, to, files, vectors) in [
        (0, None, vec![1, 2, 6, 3, 5], vec![22, 20, 21]),
        (4, Some(8), vec![3, 5], vec![22, 20, 21]),
        (5, Some(7), vec![], vec![20]),
        (6, Some(7), vec![], vec![]),
        (8, Some(9), vec![], vec![]),
        (4, Some(4), vec![], vec![]),
        (9, None, vec![], vec![]),
    ] {
        let plan = json(lake.catalog.changes(window(from, to)).await).await;
        assert_eq!(numbers(&plan["files"], "data_file_id"), files, "files of ({from}, {to:?}]");
        assert_eq!(numbers(&plan["delete_files"], "delete_file_id"), vectors, "vectors of ({from}, {to:?}]");
        assert_eq!(plan["from_snapshot"], json!(from));
        assert_eq!(plan["to_snapshot"], json!(to.unwrap_or(9)));
        assert_eq!(plan["table_uuid"], "00000000-0000-4000-8000-000000000001");
    }
}

#[tokio::test]
async fn a_window_is_checked_before_its_table() {
    let lake = Lake::new().await;
    lives(&lake).await;
    sqlx::query(
        "update catalog set earliest_snapshot = 5, earliest_snapshot_time = '2026-01-01Z' where catalog_id = 1",
    )
    .execute(&lake.pool)
    .await
    .unwrap();
    let nowhere = |from, to| ChangesRequest { namespace: "nowhere".to_owned(), ..window(from, to) };
    for (from, to, expected, words) in [
        (-1, Some(10), 422, "10"),
        (-1, Some(-1), 422, "-1"),
        (-1, Some(9), 422, "negative"),
        (9, Some(8), 422, "after"),
        (3, Some(9), 410, "2026-01-01"),
        (0, None, 410, "is 5"),
        (4, Some(9), 404, "nowhere"),
    ] {
        let (code, detail) = status(lake.catalog.changes(nowhere(from, to)).await);
        assert_eq!(code, expected, "({from}, {to:?}]: {detail}");
        assert!(detail.contains(words), "{detail}");
    }
    assert!(lake.catalog.changes(window(4, None)).await.is_ok(), "nothing after 4 is lost");
    let nobody = ChangesRequest { catalog: "nobody".to_owned(), ..window(-1, Some(99)) };
    assert_eq!(status(lake.catalog.changes(nobody).await).0, 404);
}

#[tokio::test]
async fn reads_are_refused_in_order() {
    let lake = Lake::new().await;
    lives(&lake).await;
    sqlx::query("update catalog set earliest_snapshot = 5 where catalog_id = 1").execute(&lake.pool).await.unwrap();
    let missing = |request: ScanRequest| ScanRequest { namespace: "nowhere".to_owned(), ..request };
    let bad_filter = Some("id = ".to_owned());
    let both = ScanRequest { at_timestamp: Some("2026-01-01T00:00:00Z".to_owned()), ..at(5) };
    let cases = [
        (ScanRequest { catalog: "nobody".to_owned(), ..both.clone() }, 404),
        (missing(both), 422),
        (missing(ScanRequest { snapshot: Some("five".to_owned()), ..table_t() }), 400),
        (missing(ScanRequest { at_timestamp: Some("2026-01-01T00:00:00".to_owned()), ..table_t() }), 400),
        (missing(at(10)), 422),
        (missing(at(-1)), 422),
        (missing(at(4)), 410),
        (ScanRequest { filter: bad_filter.clone(), ..missing(table_t()) }, 404),
        (ScanRequest { table: "nothing".to_owned(), filter: bad_filter.clone(), ..table_t() }, 404),
        (ScanRequest { filter: bad_filter, ..table_t() }, 422),
        (ScanRequest { filter: Some("nope = 1".to_owned()), ..table_t() }, 422),
    ];
    for (request, expected) in cases {
        let shown = format!("{request:?}");
        assert_eq!(status(lake.catalog.scan(request.clone()).await).0, expected, "{shown}");
        if request.filter.is_none() {
            assert_eq!(status(lake.catalog.files(request).await).0, expected, "{shown}");
        }
    }
}
