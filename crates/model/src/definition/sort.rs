//! Sort orders of the catalog.

use super::TableDefinition;
use crate::name::quoted;
use crate::{FieldId, Refusal, SpecId};
use serde::{Deserialize, Serialize};

/// A sort order: advice for writers, binding for compaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SortSpec {
    /// Unique in the table, never reused.
    pub sort_id: SpecId,
    /// Most significant first. Empty: unsorted.
    pub fields: Vec<SortField>,
}

/// One field of a sort order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SortField {
    /// The column.
    pub source_field_id: FieldId,
    /// Which way.
    pub direction: Direction,
    /// Where nulls go.
    pub null_order: NullOrder,
}

/// Which way values go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Small to large.
    Asc,
    /// Large to small.
    Desc,
}

/// Where nulls go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NullOrder {
    /// Before every value.
    NullsFirst,
    /// After every value.
    NullsLast,
}

/// `SortField` of the contract, as a client sends it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SortFieldDef {
    /// The column.
    pub source_field_id: FieldId,
    /// `asc` or `desc`.
    pub direction: String,
    /// `nulls_first` or `nulls_last`.
    pub null_order: String,
}

impl SortFieldDef {
    /// Checks the field against the live columns of `table`.
    ///
    /// # Errors
    /// 422 for an unknown column, direction or null order.
    pub fn check(&self, table: &TableDefinition) -> Result<SortField, Refusal> {
        if table.column_by_id(self.source_field_id).is_none() {
            return Err(Refusal::validation(format!(
                "no live column has field id {}; sort by live columns",
                self.source_field_id
            )));
        }
        let direction = match self.direction.as_str() {
            "asc" => Direction::Asc,
            "desc" => Direction::Desc,
            other => {
                return Err(Refusal::validation(format!(
                    "direction {} does not exist; use asc or desc",
                    quoted(other)
                )));
            }
        };
        let null_order = match self.null_order.as_str() {
            "nulls_first" => NullOrder::NullsFirst,
            "nulls_last" => NullOrder::NullsLast,
            other => {
                return Err(Refusal::validation(format!(
                    "null order {} does not exist; use nulls_first or nulls_last",
                    quoted(other)
                )));
            }
        };
        Ok(SortField { source_field_id: self.source_field_id, direction, null_order })
    }
}
