//! Parquet files as the catalog sees them: flat columns of the thirteen types, bound by field id.
//!
//! [`footer`] reads footers and turns them into statistics; [`rewrite`] merges files into one.

pub mod binding;
pub mod footer;
pub mod rewrite;
mod statistics;

use hoglake_model::{ColumnType, FieldId};

/// A live column of a table, as a file should carry it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its id, which is the Parquet field id.
    pub field_id: FieldId,
    /// Its name; what files without field ids are bound by.
    pub name: String,
    /// Its type.
    pub ty: ColumnType,
    /// Whether it may be null.
    pub nullable: bool,
}
