//! A file has one live deletion vector, which only ever grows, and never beyond the file.

use super::Check;

pub(super) const CHECK: Check = Check {
    name: "delete_vectors",
    sql: include_str!("../../sql/verify/delete_vectors.sql"),
    remedy: "Rows may have come back or be counted twice: compare the vectors with the data file, then commit a vector with all deleted positions",
};
