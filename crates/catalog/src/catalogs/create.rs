//! Creates a catalog.

use super::CatalogSummary;
use crate::error::sqlstate;
use crate::idempotency::{self, Answer, IdempotencyKey, NO_CATALOG};
use crate::{Catalog, Error, Result};
use hoglake_model::name::quoted;
use hoglake_model::{CatalogName, ErrorCode, Refusal, location};
use serde::Deserialize;
use sqlx::PgConnection;

/// Longest data path: what an index of the database takes, and longer than any object key.
const MAX_DATA_PATH_LEN: usize = 1024;

/// `CreateCatalogRequest` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateCatalog {
    /// The name.
    pub name: String,
    /// Prefix under which every file of the catalog lies; kept letter by letter.
    pub data_path: String,
}

impl Catalog {
    /// Creates a catalog, empty, at snapshot 0.
    ///
    /// # Errors
    /// 422 for a blank or malformed data path and for a bad name; 409 `already_exists` for a taken name, and for a data
    /// path that equals, contains or lies within another catalog's.
    ///
    /// # Source
    /// OpenAPI `createCatalog`.
    pub async fn catalog_create(&self, request: CreateCatalog, key: Option<IdempotencyKey>) -> Result<Answer> {
        let canonical = location::canonical_prefix(&request.data_path)?;
        if canonical.len() > MAX_DATA_PATH_LEN {
            return Err(Refusal::validation(format!(
                "data_path has {} bytes; at most {MAX_DATA_PATH_LEN} are allowed",
                canonical.len()
            ))
            .into());
        }
        CatalogName::parse(&request.name)?;
        let probe = canonical.clone();
        let made = self
            .change(NO_CATALOG, key, |connection| {
                Box::pin(async move { insert(connection, request, &canonical).await })
            })
            .await;
        match made {
            // the constraint tells only the range; the other catalog is committed and easily found
            Err(error) if error.is_sqlstate(sqlstate::EXCLUSION_VIOLATION) => Err(self.overlap(&probe).await?.into()),
            made => made,
        }
    }

    async fn overlap(&self, canonical: &str) -> Result<Refusal> {
        let other: Option<(String, String)> = sqlx::query_as(include_str!("../../sql/catalog/overlapping.sql"))
            .bind(canonical)
            .fetch_optional(self.pool())
            .await?;
        let other = other.map_or_else(
            || "another catalog".to_owned(),
            |(name, path)| format!("catalog {} at {}", quoted(&name), quoted(&path)),
        );
        Ok(Refusal::new(
            ErrorCode::AlreadyExists,
            format!(
                "data_path {} overlaps {other}; no catalog's files may lie within another's: choose a path beside it",
                quoted(canonical)
            ),
        ))
    }
}

async fn insert(connection: &mut PgConnection, request: CreateCatalog, canonical: &str) -> Result<Answer> {
    let made = sqlx::query(include_str!("../../sql/catalog/insert.sql"))
        .bind(&request.name)
        .bind(&request.data_path)
        .bind(canonical)
        .execute(connection)
        .await;
    match made.map_err(Error::from) {
        Err(error) if error.is_sqlstate(sqlstate::UNIQUE_VIOLATION) => {
            Err(Refusal::already_exists("catalog", request.name).into())
        }
        Err(error) => Err(error),
        Ok(_) => idempotency::answer(
            201,
            &CatalogSummary {
                name: request.name,
                data_path: request.data_path,
                head_snapshot_id: 0,
                schema_version: 0,
                earliest_snapshot_time: None,
            },
        ),
    }
}
