//! What a target cannot express, found before anything is written.

use super::{Field, RowDeletes, Schema, TableFormat, Type};
use std::fmt;

/// One thing of the source that a target cannot express.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// The target.
    pub target: TableFormat,
    /// What kind of thing.
    pub kind: UnsupportedKind,
    /// The column, partition field, file or commit.
    pub place: String,
    /// What is there and what to do about it.
    pub detail: String,
}

impl Unsupported {
    /// Deletes that name no positions, for a target that holds positions alone; `None` for those that do.
    pub fn unresolved_deletes(target: TableFormat, deletes: &RowDeletes) -> Option<Self> {
        let (what, path) = match deletes {
            RowDeletes::Vector(_) | RowDeletes::Positions(_) => return None,
            RowDeletes::Equality(file) => ("equality deletes compare values", file.path.as_str()),
            RowDeletes::Log(path) => ("log files hold rows that compaction has not merged", path.as_str()),
        };
        let detail = format!("{what}; compact the source first");
        Some(Self { target, kind: UnsupportedKind::Deletes, place: path.to_owned(), detail })
    }
}

/// The kinds of [`Unsupported`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnsupportedKind {
    /// A column's type.
    Type,
    /// A partition transform.
    Transform,
    /// Row-level deletes of a kind.
    Deletes,
    /// The encoding of a data file.
    FileFormat,
    /// A default value that old rows read as.
    Default,
    /// Two columns that the target cannot tell apart, or a name that it does not allow.
    Name,
    /// A file that lies where the target cannot point to.
    Location,
    /// Anything else of the format's own.
    Feature,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot express {}: {}", self.target, crate::name::quoted(&self.place), self.detail)
    }
}

/// Checks every leaf type of `schema`; `refuse` says why a type cannot be expressed, or `None` when it can.
pub fn unsupported_types(
    target: TableFormat,
    schema: &Schema,
    refuse: impl Fn(super::Primitive) -> Option<&'static str>,
) -> Vec<Unsupported> {
    let mut found = Vec::new();
    schema.walk(&mut |path, node| {
        if let Type::Primitive(primitive) = node.ty
            && let Some(why) = refuse(*primitive)
        {
            found.push(Unsupported {
                target,
                kind: UnsupportedKind::Type,
                place: path.join("."),
                detail: format!("a column of type {primitive} {why}"),
            });
        }
    });
    found
}

/// Names the columns with an initial default, which formats without that notion would read as null.
pub fn initial_defaults(target: TableFormat, schema: &Schema) -> Vec<Unsupported> {
    let mut found = Vec::new();
    schema.walk(&mut |path, node| {
        if node.field.is_some_and(|f: &Field| f.initial_default.is_some()) {
            found.push(Unsupported {
                target,
                kind: UnsupportedKind::Default,
                place: path.join("."),
                detail: "rows written before the column was added read as its initial default, here they would be \
                         null; rewrite the files first"
                    .to_owned(),
            });
        }
    });
    found
}
