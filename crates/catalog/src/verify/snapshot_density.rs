//! Snapshot ids are dense from the floor to head.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "snapshot_density",
    sql: include_str!("../../sql/verify/snapshot_density.sql"),
    remedy: "History has a hole: restore the catalog database from its backup to the last moment at which this check passed",
};
