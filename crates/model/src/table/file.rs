//! Data files with what is known of them, and the row-level deletes that apply to them.

use super::{Value, VersionId};
use crate::FieldId;
use std::sync::Arc;

/// Where a file lies. Equality is identity of the file, whatever way the table spells its root.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FilePath {
    /// Under the table's root: the decoded key relative to [`TableState::root`](super::TableState::root), without a
    /// leading slash (`region=a b/f.parquet`).
    Under(Box<str>),
    /// Elsewhere: the absolute URI in decoded, canonical spelling (`s3://bucket/key with space`).
    Outside(Box<str>),
}

/// The encoding of a data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FileFormat {
    /// Apache Parquet.
    #[default]
    Parquet,
    /// Apache ORC.
    Orc,
    /// Apache Avro.
    Avro,
}

/// A live data file of one version of a table.
///
/// # Units
/// Sizes in bytes, times in milliseconds since the epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct DataFile {
    /// Where it lies.
    pub path: FilePath,
    /// Its encoding.
    pub format: FileFormat,
    /// Its size.
    pub size_bytes: Option<u64>,
    /// The rows stored in it, deleted ones included; `None` when only the footer knows.
    pub record_count: Option<u64>,
    /// Which of the table's specs [`partition`](Self::partition) follows.
    pub spec_id: i32,
    /// One value per field of the spec, `None` for null.
    pub partition: Vec<Option<Value>>,
    /// What is known per column, ascending by field id; columns of which nothing is known are absent.
    pub columns: Vec<ColumnStats>,
    /// The row-level deletes against this file, all of them.
    pub deletes: Vec<RowDeletes>,
    /// When it was written, where the format says so.
    pub modified_ms: Option<i64>,
    /// Offsets at which it can be split, ascending.
    pub split_offsets: Vec<i64>,
    /// The row id of its first row (Iceberg v3 `first_row_id`, Delta `baseRowId`).
    pub first_row_id: Option<i64>,
}

/// What is known of one leaf column in one file. The rules of the model apply: absent is unknown.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnStats {
    /// The column.
    pub field: FieldId,
    /// Bytes on disk.
    pub size_bytes: Option<u64>,
    /// Values, nulls and NaNs included; for the children of lists and maps the elements.
    pub value_count: Option<u64>,
    /// Nulls.
    pub null_count: Option<u64>,
    /// NaNs.
    pub nan_count: Option<u64>,
    /// At most every value.
    pub lower: Option<Value>,
    /// At least every value.
    pub upper: Option<Value>,
}

/// Row-level deletes against one data file.
#[derive(Debug, Clone, PartialEq)]
pub enum RowDeletes {
    /// A bitmap of row positions.
    Vector(VectorRef),
    /// An Iceberg position-delete file; it may speak of other data files too.
    Positions(Arc<DeleteFile>),
    /// An Iceberg equality-delete file; needs the data to be read before another format can express it.
    Equality(Arc<DeleteFile>),
    /// A Hudi log file that compaction has not merged yet.
    Log(FilePath),
}

/// Where a deletion vector lies.
///
/// # Source
/// Delta PROTOCOL "Deletion Vector Format" and the Puffin blob type `deletion-vector-v1` share one byte layout: a
/// big-endian length, the magic `D1 D3 39 64`, a 64-bit roaring bitmap in portable form, and a big-endian CRC-32 of
/// magic and bitmap. An inline Delta vector is magic and bitmap alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorRef {
    /// The bytes, or the file that holds them.
    pub container: VectorContainer,
    /// Deleted rows, where the metadata says so.
    pub cardinality: Option<u64>,
}

/// See [`VectorRef`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VectorContainer {
    /// Magic and bitmap.
    Inline(Box<[u8]>),
    /// At `offset` of a file: big-endian length, magic, bitmap, CRC.
    File {
        /// The file.
        path: FilePath,
        /// Where the length stands.
        offset: u64,
        /// Magic and bitmap in bytes, without length and CRC; `None` when only the stored length tells.
        length: Option<u64>,
    },
}

/// An Iceberg delete file. Equal are those that delete the same, whatever commit is said to have added them.
#[derive(Debug, Clone)]
pub struct DeleteFile {
    /// Where it lies.
    pub path: FilePath,
    /// Its encoding.
    pub format: FileFormat,
    /// Its size.
    pub size_bytes: u64,
    /// Deletes stored in it.
    pub record_count: u64,
    /// The columns compared, for equality deletes.
    pub equality_fields: Vec<FieldId>,
    /// The commit that added it, for messages.
    pub commit: Option<VersionId>,
}

impl PartialEq for DeleteFile {
    fn eq(&self, other: &Self) -> bool {
        (&self.path, self.record_count, &self.equality_fields)
            == (&other.path, other.record_count, &other.equality_fields)
    }
}

impl DataFile {
    /// A Parquet file of which nothing but its path is known.
    pub fn new(path: FilePath) -> Self {
        Self {
            path,
            format: FileFormat::Parquet,
            size_bytes: None,
            record_count: None,
            spec_id: 0,
            partition: Vec::new(),
            columns: Vec::new(),
            deletes: Vec::new(),
            modified_ms: None,
            split_offsets: Vec::new(),
            first_row_id: None,
        }
    }

    /// What is known of a column.
    pub fn column(&self, field: FieldId) -> Option<&ColumnStats> {
        self.columns.binary_search_by_key(&field, |c| c.field).ok().and_then(|i| self.columns.get(i))
    }
}

impl ColumnStats {
    /// A column of which nothing is known yet.
    pub const fn unknown(field: FieldId) -> Self {
        Self { field, size_bytes: None, value_count: None, null_count: None, nan_count: None, lower: None, upper: None }
    }
}

impl FilePath {
    /// The text of the path, for messages.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Under(path) | Self::Outside(path) => path,
        }
    }
}
