//! What counts, bounds and partition values prove about a leaf.

use super::predicate::{Leaf, Test};
use crate::literal::Constant;
use crate::partition::transform::bucket;
use crate::partition::value::{Evidence, evidence};
use crate::table::Transform;
use crate::{ColumnStats, ColumnType, Comparison};

impl Leaf {
    /// Whether some row of a file with these statistics may pass. False is a proof.
    pub fn may_match(&self, stats: &ColumnStats) -> bool {
        let present = stats.may_be_present();
        match &self.test {
            Test::IsNull => stats.may_be_null(),
            Test::NotNull => present,
            Test::Compare { comparison, constant, nan } => {
                stats.may_match(self.ty, *comparison, constant.datum())
                    || (*nan && present && may_be_nan(self.ty, stats))
            }
            Test::In(list) => list.iter().any(|c| stats.may_match(self.ty, Comparison::Eq, c.datum())),
            Test::NotIn(list) => list.iter().all(|c| stats.may_match(self.ty, Comparison::NotEq, c.datum())),
            Test::StartsWith(prefix) => present && may_start_with(stats, prefix),
            Test::NotStartsWith(prefix) => present && !all_start_with(stats, prefix),
        }
    }

    /// Whether some row of a file may pass that was written under `transform` of this leaf's column with this value.
    /// False is a proof; a value that cannot be read proves nothing.
    pub fn may_match_partition(&self, transform: Transform, value: Option<&str>) -> bool {
        match evidence(self.ty, transform, value) {
            Evidence::Nothing => true,
            Evidence::Statistics(stats) => self.may_match(&stats),
            Evidence::Bucket { buckets, bucket: held } => {
                let elsewhere = |c: &Constant| bucket(c.datum(), buckets).is_some_and(|b| b != held);
                match &self.test {
                    Test::Compare { comparison: Comparison::Eq, constant, .. } => !elsewhere(constant),
                    Test::In(list) => !list.iter().all(elsewhere),
                    Test::IsNull
                    | Test::NotNull
                    | Test::Compare { .. }
                    | Test::NotIn(_)
                    | Test::StartsWith(_)
                    | Test::NotStartsWith(_) => true,
                }
            }
        }
    }
}

fn may_be_nan(ty: ColumnType, stats: &ColumnStats) -> bool {
    matches!(ty, ColumnType::Float | ColumnType::Double) && stats.nan_count != Some(0)
}

/// Every value that starts with the prefix lies at or above it, and its first bytes are not above it.
fn may_start_with(stats: &ColumnStats, prefix: &Constant) -> bool {
    let Some(prefix) = prefix.bytes() else { return true };
    let lower_passes = stats.bounds.lower().is_none_or(|lower| &lower[..lower.len().min(prefix.len())] <= prefix);
    let upper_passes = stats.bounds.upper().is_none_or(|upper| upper >= prefix);
    lower_passes && upper_passes
}

/// When both ends start with the prefix, all between do, truncated or not.
fn all_start_with(stats: &ColumnStats, prefix: &Constant) -> bool {
    let Some(prefix) = prefix.bytes() else { return false };
    let starts = |bound: Option<&[u8]>| bound.is_some_and(|bound| bound.starts_with(prefix));
    starts(stats.bounds.lower()) && starts(stats.bounds.upper())
}
