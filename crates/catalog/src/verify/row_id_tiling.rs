//! Row ids of positional files never overlap: an id names one row of the table for ever.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "row_id_tiling",
    sql: include_str!("../../sql/verify/row_id_tiling.sql"),
    remedy: "Row ids name two rows at once: stop writers, restore the table_counter row, and register the later file's rows again",
};
