//! The retention options of a catalog.

use crate::idempotency::{self, Answer, IdempotencyKey};
use crate::{Catalog, Result};
use hoglake_model::Refusal;
use serde::{Deserialize, Deserializer, Serialize};

/// `CatalogOptions` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, sqlx::FromRow)]
pub struct CatalogOptions {
    /// How long snapshots live; absent: for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_retention_seconds: Option<i64>,
    /// Whether expiry stops at the slowest consumer.
    pub consumer_floor: bool,
    /// The floor.
    pub earliest_snapshot_id: i64,
}

/// `PatchCatalogOptionsRequest` of the contract. An absent field stays as it is; null is a value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatchCatalogOptions {
    /// `Some(None)` turns expiry off.
    #[serde(default, deserialize_with = "present")]
    pub snapshot_retention_seconds: Option<Option<i64>>,
    /// Whether expiry stops at the slowest consumer.
    #[serde(default, deserialize_with = "not_null")]
    pub consumer_floor: Option<bool>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<i64>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

fn not_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    bool::deserialize(deserializer).map(Some)
}

impl Catalog {
    /// The options of a catalog.
    ///
    /// # Errors
    /// 404 for an unknown catalog.
    ///
    /// # Source
    /// OpenAPI `getCatalogOptions`.
    pub async fn catalog_options(&self, name: &str) -> Result<CatalogOptions> {
        let catalog = self.catalog_find(name).await?;
        let options = sqlx::query_as(include_str!("../../sql/catalog/options.sql"));
        Ok(options.bind(catalog.id.0).fetch_one(self.pool()).await?)
    }

    /// Changes the options of a catalog. Makes no snapshot.
    ///
    /// # Errors
    /// 404 for an unknown catalog; 422 for a retention below 1.
    ///
    /// # Source
    /// OpenAPI `patchCatalogOptions`.
    pub async fn catalog_patch_options(
        &self,
        name: &str,
        patch: PatchCatalogOptions,
        key: Option<IdempotencyKey>,
    ) -> Result<Answer> {
        let catalog = self.catalog_find(name).await?;
        if let Some(Some(seconds)) = patch.snapshot_retention_seconds
            && seconds < 1
        {
            return Err(Refusal::validation(format!(
                "snapshot_retention_seconds {seconds} must be at least 1; null turns expiry off"
            ))
            .into());
        }
        let id = catalog.id;
        self.change(id, key, move |connection| {
            Box::pin(async move {
                let options: CatalogOptions = sqlx::query_as(include_str!("../../sql/catalog/set_options.sql"))
                    .bind(id.0)
                    .bind(patch.snapshot_retention_seconds.is_some())
                    .bind(patch.snapshot_retention_seconds.flatten())
                    .bind(patch.consumer_floor)
                    .fetch_one(connection)
                    .await?;
                idempotency::answer(200, &options)
            })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_and_null_differ() {
        let parse = serde_json::from_str::<PatchCatalogOptions>;
        assert_eq!(parse("{}").unwrap(), PatchCatalogOptions::default());
        let off = parse(r#"{"snapshot_retention_seconds": null}"#).unwrap();
        assert_eq!(off.snapshot_retention_seconds, Some(None));
        let on = parse(r#"{"snapshot_retention_seconds": 60, "consumer_floor": false}"#).unwrap();
        assert_eq!((on.snapshot_retention_seconds, on.consumer_floor), (Some(Some(60)), Some(false)));
        for bad in [
            r#"{"consumer_floor": null}"#,
            r#"{"snapshot_retention_seconds": "60"}"#,
            r#"{"snapshot_retention_seconds": 1.5}"#,
            r#"{"earliest_snapshot_id": 1}"#,
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
