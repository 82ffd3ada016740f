//! The row-id allocator is ahead of every row id that was given.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "next_row_id",
    sql: include_str!("../../sql/verify/next_row_id.sql"),
    remedy: "The next append would give row ids a second time: stop writers and raise table_counter.next_row_id above the sample's number",
};
