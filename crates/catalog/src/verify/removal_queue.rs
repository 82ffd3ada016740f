//! Nothing that is referred to waits for deletion.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "removal_queue",
    sql: include_str!("../../sql/verify/removal_queue.sql"),
    remedy: "Cleanup keeps the object, since it checks again before it deletes; find the row's second registration and delete the queue entry",
};
