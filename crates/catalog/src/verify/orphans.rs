//! Nothing outlives what it belongs to.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "orphans",
    sql: include_str!("../../sql/verify/orphans.sql"),
    remedy: "The row is unreachable or visible by mistake: report it with the snapshots around it, and remove it once its files are known to be unused",
};
