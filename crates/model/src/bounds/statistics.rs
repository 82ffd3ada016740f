//! Counts and bounds of one column in one file: what is claimed, what is kept, and what it proves.

use super::{Bounds, Datum};
use crate::{ColumnType, FieldId};
use std::cmp::Ordering;

/// What a client or a foreign table format says about a column of a file. Nothing in it has been checked.
#[derive(Debug, Clone, Copy, Default)]
#[expect(missing_docs, reason = "the fields are those of the contract's ColumnStats")]
pub struct ClaimedStats<'a> {
    pub value_count: Option<i64>,
    pub null_count: Option<i64>,
    pub nan_count: Option<i64>,
    pub size_bytes: Option<i64>,
    pub lower_bound: Option<&'a [u8]>,
    pub upper_bound: Option<&'a [u8]>,
}

/// Statistics that may be relied on. Absent means unknown, which is not zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnStats {
    /// The column.
    pub field_id: FieldId,
    /// Values, nulls included.
    pub value_count: Option<i64>,
    /// Nulls.
    pub null_count: Option<i64>,
    /// NaNs; known only of `float` and `double` columns.
    pub nan_count: Option<i64>,
    /// Compressed bytes of the column in the file.
    pub size_bytes: Option<i64>,
    /// Bounds of the values that are neither null nor NaN.
    pub bounds: Bounds,
}

/// How a predicate compares a column with a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the six comparisons")]
pub enum Comparison {
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
}

impl ColumnStats {
    /// Nothing is known of the column.
    pub const fn unknown(field_id: FieldId) -> Self {
        Self {
            field_id,
            value_count: None,
            null_count: None,
            nan_count: None,
            size_bytes: None,
            bounds: Bounds::UNKNOWN,
        }
    }

    /// Keeps of `claimed` what is beyond doubt, for a file of `record_count` rows.
    ///
    /// Values are as many as rows, since the thirteen types are flat. A null count outside `0..=value_count` is unknown
    /// rather than clamped, because a clamped one would claim that all values are null. NaN counts belong to floats and
    /// must leave room for the nulls. Bounds go when no value can be within them, and as [`Bounds::sanitised`] says.
    pub fn sanitised(field_id: FieldId, ty: ColumnType, record_count: i64, claimed: ClaimedStats<'_>) -> Self {
        let within = |count: Option<i64>, limit: i64| count.filter(|c| (0..=limit).contains(c));
        let value_count = claimed.value_count.map(|_| record_count);
        let null_count = within(claimed.null_count, record_count);
        let is_float = matches!(ty, ColumnType::Float | ColumnType::Double);
        let nan_count = match null_count {
            Some(nulls) if is_float => within(claimed.nan_count, record_count - nulls),
            _ => None,
        };
        let bounded = record_count - null_count.unwrap_or(0) - nan_count.unwrap_or(0);
        let bounds =
            if bounded > 0 { Bounds::sanitised(ty, claimed.lower_bound, claimed.upper_bound) } else { Bounds::UNKNOWN };
        Self {
            field_id,
            value_count,
            null_count,
            nan_count,
            size_bytes: claimed.size_bytes.filter(|size| *size >= 0),
            bounds,
        }
    }

    /// Whether the file may hold a null in this column.
    pub fn may_be_null(&self) -> bool {
        self.null_count != Some(0)
    }

    /// Whether the file may hold a value in this column.
    pub fn may_be_present(&self) -> bool {
        match (self.value_count, self.null_count) {
            (Some(values), Some(nulls)) => values > nulls,
            (Some(values), None) => values > 0,
            (None, _) => true,
        }
    }

    /// Whether some non-null value of the column may satisfy `column <comparison> constant`. False is a proof.
    ///
    /// # Ordering
    /// Engines disagree whether NaN is above everything or beside it. NaNs that are not ruled out by the NaN count keep
    /// a file for `>`, `>=`, `!=` and for equality with NaN.
    pub fn may_match(&self, ty: ColumnType, comparison: Comparison, constant: Datum<'_>) -> bool {
        if !self.may_be_present() {
            return false;
        }
        if !constant.is_of(ty) {
            return true;
        }
        let may_hold_nan = matches!(ty, ColumnType::Float | ColumnType::Double) && self.nan_count != Some(0);
        if constant.is_nan() {
            return may_hold_nan || comparison != Comparison::Eq;
        }
        // How the lowest and the highest value may lie to the constant, unknown bounds leaving everything open. Zeros
        // are widened to the sign that keeps the file.
        let bound = |bytes: Option<&[u8]>, constant: Datum<'_>| {
            bytes.and_then(|b| Datum::decode_promoted(ty, b).ok()?.compare(constant))
        };
        let lower = bound(self.bounds.lower(), constant.as_upper());
        let upper = bound(self.bounds.upper(), constant.as_lower());
        match comparison {
            Comparison::Eq => lower != Some(Ordering::Greater) && upper != Some(Ordering::Less),
            Comparison::NotEq => {
                let lower = bound(self.bounds.lower(), constant.as_lower());
                let upper = bound(self.bounds.upper(), constant.as_upper());
                may_hold_nan || lower != Some(Ordering::Equal) || upper != Some(Ordering::Equal)
            }
            // `-0.0 < +0.0` is false in IEEE and true in total order: both zeros count as below each other's upper side.
            Comparison::Lt => !matches!(lower, Some(Ordering::Greater | Ordering::Equal)),
            Comparison::LtEq => lower != Some(Ordering::Greater),
            Comparison::Gt => may_hold_nan || !matches!(upper, Some(Ordering::Less | Ordering::Equal)),
            Comparison::GtEq => may_hold_nan || upper != Some(Ordering::Less),
        }
    }
}
