//! Scans, files and changes.

mod etag;
mod fields;
mod filter;
mod plans;
mod stream;
mod window;

use crate::lake::Lake;
use futures::StreamExt;
use hoglake_catalog::Result;
use hoglake_catalog::changes::ChangesRequest;
use hoglake_catalog::listing::{Body, Listing};
use hoglake_catalog::scan::ScanRequest;
use serde_json::Value;

/// A request for `demo.ns.t` at head.
pub fn table_t() -> ScanRequest {
    ScanRequest {
        catalog: "demo".to_owned(),
        namespace: "ns".to_owned(),
        table: "t".to_owned(),
        ..ScanRequest::default()
    }
}

pub fn at(snapshot: i64) -> ScanRequest {
    ScanRequest { snapshot: Some(snapshot.to_string()), ..table_t() }
}

pub fn filtered(filter: &str) -> ScanRequest {
    ScanRequest { filter: Some(filter.to_owned()), ..table_t() }
}

pub fn window(from: i64, to: Option<i64>) -> ChangesRequest {
    ChangesRequest {
        catalog: "demo".to_owned(),
        namespace: "ns".to_owned(),
        table: "t".to_owned(),
        from_snapshot: from,
        to_snapshot: to,
        if_none_match: None,
    }
}

/// The JSON of a listing, which must be complete.
pub async fn json(listing: Result<Listing>) -> Value {
    let text = match listing.unwrap().body.expect("a body") {
        Body::Whole(text) => text.to_vec(),
        Body::Stream(mut chunks) => {
            let mut text = Vec::new();
            while let Some(chunk) = chunks.next().await {
                text.extend_from_slice(&chunk.unwrap());
            }
            text
        }
    };
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&text)))
}

/// Ids of the data files of a scan, in order.
pub fn ids(scan: &Value) -> Vec<i64> {
    scan.as_array().unwrap().iter().map(|file| file["data_file"]["data_file_id"].as_i64().unwrap()).collect()
}

/// Ids in `key` of each element.
pub fn numbers(list: &Value, key: &str) -> Vec<i64> {
    list.as_array().unwrap().iter().map(|element| element[key].as_i64().unwrap()).collect()
}

/// Makes `demo.ns.t` hold files and vectors in all stages of life, as other code paths will leave them. Head is 9.
///
/// File: snapshots, first row id. 1: [4, …) 0. 2: [4, 7) 10. 3: [5, …) 20. 4: [7, …) 10, compacted from 2, explicit ids.
/// 5: [8, 9) 30. 6: [4, …) 10 with no rows. Vectors: 20 of 1 [6, 8), 21 of 1 [8, …), 22 of 2 [5, 7).
pub async fn lives(lake: &Lake) {
    sqlx::raw_sql(include_str!("reads/lives.sql")).execute(&lake.pool).await.unwrap();
}
