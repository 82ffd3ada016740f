//! Maintenance on a real Postgres: expiry, the removal queue, verify, partition statistics, hydration, compaction commits.

mod compaction;
mod expiry;
mod histories;
mod hydration;
mod partition_totals;
mod previews;
mod removals;
mod runs;
mod verify;

use crate::lake::{Lake, ROOT};
use hoglake_catalog::expiry::{ExpiryLimits, ExpiryResult};
use hoglake_catalog::idempotency::Answer;
use hoglake_catalog::verify::Status;
use hoglake_model::CatalogId;
use hoglake_model::commit::{CommitRequest, DeleteFileRegistration, TableDeletes};

pub const DEMO: CatalogId = CatalogId(1);

/// A commit of one deletion vector.
pub fn delete(table: &str, read_snapshot: i64, data_file_id: i64, delete_count: i64) -> CommitRequest {
    let vector = DeleteFileRegistration {
        data_file_id,
        path: format!("{ROOT}/dv-{data_file_id}-{delete_count}-{read_snapshot}.puffin"),
        delete_count,
        file_size_bytes: 64,
    };
    let deletes = TableDeletes {
        namespace: "ns".to_owned(),
        table: table.to_owned(),
        expected_table_uuid: None,
        files: vec![vector],
    };
    CommitRequest { read_snapshot: Some(read_snapshot), deletes: vec![deletes], ..CommitRequest::default() }
}

impl Lake {
    /// Makes every snapshot so far an hour old, and lets the catalog keep a minute.
    pub async fn age(&self) {
        for sql in [
            "update snapshot set snapshot_time = snapshot_time - interval '1 hour'",
            "update catalog set snapshot_retention_seconds = 60",
        ] {
            sqlx::query(sql).execute(&self.pool).await.unwrap();
        }
    }

    pub async fn expire(&self) -> ExpiryResult {
        self.catalog.expire(DEMO, ExpiryLimits::default()).await.unwrap()
    }

    pub async fn execute(&self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(&self.pool).await.unwrap();
    }

    /// Drops a table by its id, as DDL does: no file row is touched.
    pub async fn drop_table(&self, table: i64) -> i64 {
        let answer = self.catalog.ddl(DEMO, None, move |ddl| {
            Box::pin(async move {
                let snapshot = ddl.snapshot();
                for sql in [
                    "update table_version set end_snapshot = $1 where table_id = $2 and end_snapshot is null",
                    "update table_column set end_snapshot = $1 where table_id = $2 and end_snapshot is null",
                    "update table_identity set dropped_snapshot = $1, ddl_snapshot = $1 where table_id = $2",
                ] {
                    sqlx::query(sql).bind(snapshot.0).bind(table).execute(ddl.connection()).await?;
                }
                ddl.count_dropped_table(0);
                ddl.change("table_dropped", table);
                Ok(Answer { status: 200, body: None, snapshot: Some(snapshot), replayed: false })
            })
        });
        answer.await.unwrap().snapshot.unwrap().0
    }

    /// Fails with the report unless every check passes.
    pub async fn verified(&self) {
        let report = self.catalog.verify("demo").await.unwrap();
        assert_eq!(report.status, Status::Pass, "{report:#?}");
    }
}
