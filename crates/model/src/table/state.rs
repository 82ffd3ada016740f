//! A version of a table, and the watermark that a target keeps of it.

use super::{FieldIds, PartitionSpec, Primitive, Schema};
use crate::FieldId;
use std::fmt;

/// A table format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TableFormat {
    /// Apache Iceberg.
    Iceberg,
    /// Delta Lake.
    Delta,
    /// Apache Hudi.
    Hudi,
    /// A directory of Parquet files.
    Parquet,
    /// A table of a hoglake catalog.
    Hoglake,
}

/// The name of a version in its own format: a Delta version, an Iceberg snapshot id, a Hudi instant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VersionId(pub String);

/// A version of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Its name. Only the source can say which of two came first.
    pub id: VersionId,
    /// What tells it from another version of the same id: in Iceberg the schema and the spec, which change without a new
    /// snapshot; in Delta and Hudi a digest of the commit, since a table put back from a backup gives its ids anew.
    pub revision: Option<String>,
    /// When it was committed, in milliseconds since the epoch. Never used to order versions.
    pub timestamp_ms: i64,
}

/// Everything about one version of a table except its files, which are streamed.
#[derive(Debug, Clone, PartialEq)]
pub struct TableState {
    /// The format it was read from.
    pub format: TableFormat,
    /// The identity that survives renames and moves (Iceberg `table-uuid`, Delta `metaData.id`), where there is one.
    pub table_id: Option<String>,
    /// The table's own name, where it has one.
    pub name: Option<String>,
    /// The table's root as its user spells it, without a trailing slash.
    pub root: String,
    /// The version.
    pub version: Version,
    /// Its schema.
    pub schema: Schema,
    /// What the ids in `schema` mean.
    pub field_ids: FieldIds,
    /// Every spec that a live file may refer to.
    pub specs: Vec<PartitionSpec>,
    /// The spec of new files.
    pub default_spec: i32,
    /// How the columns of files written under earlier schemas differ from `schema`.
    pub binding: Binding,
    /// What the source found that a reader should know (read-optimised view, ignored branches, ...).
    pub warnings: Vec<String>,
    /// Row-level deletes are left out of the target, as asked for: it may show rows that the source has deleted.
    pub deletes_left_out: bool,
}

/// What files written under earlier schemas may hold instead of what the schema says today.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Binding {
    /// Columns that only field ids find in all files: they were renamed, or have a name that was another column's.
    pub by_id: Vec<FieldId>,
    /// Some files may carry no field ids (Iceberg: the table has a name mapping for them).
    pub ids_may_be_absent: bool,
    /// List elements, map keys and map values to which files give no field id, although they give one to columns.
    pub without_ids: Vec<FieldId>,
    /// Columns that files may hold beside those of the schema.
    pub unlisted: Vec<String>,
    /// Types that columns had before they were widened.
    pub older_types: Vec<(FieldId, Primitive)>,
    /// Identity partition columns are not stored in the files; their values come from the partition tuples alone.
    pub partition_columns_absent: bool,
}

/// How far a target has followed its source; stored in the target with every commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watermark {
    /// The source's format.
    pub format: TableFormat,
    /// The source's identity, where it has one: another id under the same path is another table.
    pub table_id: Option<String>,
    /// The last version that was applied; `None` in metadata of tools that only record times.
    pub version: Option<VersionId>,
    /// See [`Version::revision`].
    pub revision: Option<String>,
    /// The time of that version, in milliseconds since the epoch.
    pub timestamp_ms: i64,
    /// See [`TableState::deletes_left_out`].
    pub deletes_left_out: bool,
}

impl TableState {
    /// The spec with this id.
    pub fn spec(&self, id: i32) -> Option<&PartitionSpec> {
        self.specs.iter().find(|s| s.id == id)
    }

    /// The watermark of a target that has applied this version.
    pub fn watermark(&self) -> Watermark {
        Watermark {
            format: self.format,
            table_id: self.table_id.clone(),
            version: Some(self.version.id.clone()),
            revision: self.version.revision.clone(),
            timestamp_ms: self.version.timestamp_ms,
            deletes_left_out: self.deletes_left_out,
        }
    }
}

impl Watermark {
    /// Whether a target with this watermark already shows `version`.
    pub fn covers(&self, version: &Version) -> bool {
        self.version.as_ref() == Some(&version.id) && self.revision == version.revision
    }
}

impl TableFormat {
    /// The name in upper case, as XTable writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Iceberg => "ICEBERG",
            Self::Delta => "DELTA",
            Self::Hudi => "HUDI",
            Self::Parquet => "PARQUET",
            Self::Hoglake => "HOGLAKE",
        }
    }

    /// Reads a name in any case.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Iceberg, Self::Delta, Self::Hudi, Self::Parquet, Self::Hoglake]
            .into_iter()
            .find(|format| format.as_str().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for TableFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for VersionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
