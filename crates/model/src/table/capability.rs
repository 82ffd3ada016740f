//! What a target cannot express, found before anything is written.

use super::{DeleteFile, Field, RowDeletes, Schema, TableFormat, Type, VectorContainer};
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
    /// Row-level deletes that a target cannot hold as they are; `None` for those that it can. Hudi targets hold none at
    /// all, the others positions.
    pub fn deletes(target: TableFormat, deletes: &RowDeletes) -> Option<Self> {
        let copy_on_write = target == TableFormat::Hudi;
        let added =
            |file: &DeleteFile| file.commit.as_ref().map(|c| format!(" (added by commit {c})")).unwrap_or_default();
        let (what, path, remedy) = match deletes {
            RowDeletes::Vector(_) | RowDeletes::Positions(_) if !copy_on_write => return None,
            RowDeletes::Vector(vector) => {
                let path = match &vector.container {
                    VectorContainer::File { path, .. } => path.as_str(),
                    VectorContainer::Inline(_) => "an inline deletion vector",
                };
                ("the copy-on-write tables that are written have no deletion vectors".to_owned(), path, "")
            }
            RowDeletes::Positions(file) => {
                let what = "the copy-on-write tables that are written have no position deletes";
                (format!("{what}{}", added(file)), file.path.as_str(), "")
            }
            RowDeletes::Equality(file) if copy_on_write => {
                let what = "the copy-on-write tables that are written have no equality deletes";
                (format!("{what}{}", added(file)), file.path.as_str(), "")
            }
            RowDeletes::Equality(file) => (
                format!("equality deletes compare values{}", added(file)),
                file.path.as_str(),
                ", or let them be resolved to positions with on-unsupported-deletes=materialize",
            ),
            RowDeletes::Log(path) => {
                ("log files hold rows that compaction has not merged".to_owned(), path.as_str(), "")
            }
        };
        let detail = format!("{what}; compact the source first{remedy}");
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

/// Names the columns that cannot be told from another one: by their dotted path, which is how Iceberg's readers index them,
/// or, for `any_case`, by their names whatever the case.
pub fn twins(target: TableFormat, schema: &Schema, any_case: bool) -> Vec<Unsupported> {
    let (mut seen, mut found) = (std::collections::HashSet::new(), Vec::new());
    schema.walk(&mut |path, node| {
        let place = path.join(".");
        let key = if any_case { path.join("\0").to_lowercase() } else { place.clone() };
        if !seen.insert(key) && node.field.is_some() {
            let detail = match any_case {
                true => "another column has the name, or differs from it in case only; rename one",
                false => "another column has the name; rename one",
            };
            found.push(Unsupported { target, kind: UnsupportedKind::Name, place, detail: detail.to_owned() });
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
