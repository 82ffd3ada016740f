//! Verify: the invariants of a catalog, checked in one moment of the database.

mod delete_vectors;
mod next_row_id;
mod objects;
mod orphans;
mod removal_queue;
mod row_id_tiling;
mod snapshot_density;

pub use objects::RegisteredObject;

use crate::{Catalog, Result};
use hoglake_model::CatalogId;
use serde::Serialize;
use sqlx::{AssertSqlSafe, PgConnection};

/// Most samples a check reports.
pub const MAX_SAMPLES: usize = 20;

/// `VerifyReport` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The catalog's name.
    pub catalog: String,
    /// `pass` when every check passed.
    pub status: Status,
    /// In the order of the contract.
    pub checks: Vec<Outcome>,
    /// Why the ledger does not tell of it, where it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<String>,
}

/// `VerifyCheck` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Its name.
    pub check: &'static str,
    /// Whether it passed.
    pub status: Status,
    /// All violations.
    pub violations: i64,
    /// The first of them in words, each with what to do about it.
    pub samples: Vec<String>,
}

/// Whether an invariant holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It holds.
    Pass,
    /// It does not.
    Fail,
}

/// One invariant.
pub struct Check {
    /// Its name in the contract.
    pub name: &'static str,
    /// A statement with the catalog as its parameter, and one row: violations, samples.
    sql: &'static str,
    /// What an operator does about a violation.
    remedy: &'static str,
}

/// Every check, in the order of the contract.
pub const CHECKS: [&Check; 6] = [
    &row_id_tiling::CHECK,
    &delete_vectors::CHECK,
    &orphans::CHECK,
    &removal_queue::CHECK,
    &snapshot_density::CHECK,
    &next_row_id::CHECK,
];

impl Outcome {
    /// What `check` found: `violations` of them, `samples` in words, and the same remedy for each.
    pub fn new(check: &'static str, violations: i64, samples: Vec<String>, remedy: &str) -> Self {
        let samples = samples.into_iter().take(MAX_SAMPLES).map(|sample| format!("{sample}. {remedy}")).collect();
        let status = if violations == 0 { Status::Pass } else { Status::Fail };
        Self { check, status, violations, samples }
    }
}

impl Report {
    /// The report of these outcomes.
    pub fn new(catalog: String, checks: Vec<Outcome>) -> Self {
        let passed = checks.iter().all(|check| check.status == Status::Pass);
        Self { catalog, status: if passed { Status::Pass } else { Status::Fail }, checks, unrecorded: None }
    }
}

impl Check {
    async fn run(&self, connection: &mut PgConnection, catalog: CatalogId) -> Result<Outcome> {
        let (violations, samples): (i64, Vec<String>) =
            sqlx::query_as(self.sql).bind(catalog.0).fetch_one(connection).await?;
        Ok(Outcome::new(self.name, violations, samples, self.remedy))
    }
}

impl Catalog {
    /// Checks every invariant of the catalog called `name` in one REPEATABLE READ READ ONLY transaction.
    ///
    /// # Locks
    /// None: it blocks nobody, and nobody blocks it.
    ///
    /// # Errors
    /// 404 for an unknown catalog.
    ///
    /// # Source
    /// OpenAPI `runVerify`.
    pub async fn verify(&self, name: &str) -> Result<Report> {
        let catalog = self.catalog_find(name).await?;
        let begin = "begin isolation level repeatable read read only; set local statement_timeout = 0; \
                     set local work_mem = '64MB'; set local jit = off";
        let mut transaction = self.background_pool().begin_with(AssertSqlSafe(begin)).await?;
        let mut checks = Vec::with_capacity(CHECKS.len());
        for check in CHECKS {
            checks.push(check.run(&mut transaction, catalog.id).await?);
        }
        transaction.rollback().await?;
        Ok(Report::new(catalog.name.clone(), checks))
    }
}
