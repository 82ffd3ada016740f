//! The commit request, as it comes over the wire, and what can be checked without a database.

use crate::Refusal;
use crate::name::quoted;
use serde::{Deserialize, Deserializer};
use std::collections::HashSet;
use uuid::Uuid;

/// Most rows that one file may have: 2^48.
pub const MAX_RECORD_COUNT: i64 = 1 << 48;

/// Most bytes that one file may have: 2^48. Without a bound, one file could fill a table's count of bytes.
pub const MAX_FILE_SIZE_BYTES: i64 = 1 << 48;

/// Longest path, in bytes: object stores have keys of at most 1,024.
pub const MAX_PATH_BYTES: usize = 2_048;

/// How many offenders an error lists.
const LISTED_OFFENDERS: usize = 5;

/// `CommitRequest` of the contract.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitRequest {
    /// The snapshot that the writer planned against; changes in `(read_snapshot, head]` may conflict.
    pub read_snapshot: Option<i64>,
    /// Files to register.
    #[serde(default, deserialize_with = "null_as_default")]
    pub appends: Vec<TableAppend>,
    /// Deletion vectors to register.
    #[serde(default, deserialize_with = "null_as_default")]
    pub deletes: Vec<TableDeletes>,
    /// Who, for the snapshot log.
    pub author: Option<String>,
    /// Why, for the snapshot log.
    pub message: Option<String>,
}

/// Files for one table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableAppend {
    /// Namespace name.
    pub namespace: String,
    /// Table name.
    pub table: String,
    /// The incarnation that the writer means.
    pub expected_table_uuid: Option<Uuid>,
    /// At least one.
    pub files: Vec<FileRegistration>,
}

/// One Parquet file that the writer has put into the object store.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRegistration {
    /// Absolute URI below the catalog's data path, of at most [`MAX_PATH_BYTES`].
    pub path: String,
    /// Rows, `[0, 2^48]`.
    pub record_count: i64,
    /// Bytes, `[0, 2^48]`.
    pub file_size_bytes: i64,
    /// Bytes of the Thrift footer, without its 8-byte trailer.
    pub footer_size: Option<i64>,
    /// Absent: the server reads the footer later.
    pub column_stats: Option<Vec<ColumnStats>>,
    /// One value a field of the live partition spec.
    pub partition_values: Option<Vec<Option<String>>>,
}

/// Statistics of one column of one file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnStats {
    /// The column.
    pub field_id: i64,
    /// Values, nulls included.
    pub value_count: i64,
    /// Nulls.
    pub null_count: i64,
    /// NaNs, if counted.
    pub nan_count: Option<i64>,
    /// Bytes in the file.
    pub size_bytes: Option<i64>,
    /// Iceberg single-value bytes.
    #[serde(default, deserialize_with = "base64_bytes")]
    pub lower_bound: Option<Vec<u8>>,
    /// Iceberg single-value bytes.
    #[serde(default, deserialize_with = "base64_bytes")]
    pub upper_bound: Option<Vec<u8>>,
}

/// Deletion vectors for files of one table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableDeletes {
    /// Namespace name.
    pub namespace: String,
    /// Table name.
    pub table: String,
    /// The incarnation that the writer means.
    pub expected_table_uuid: Option<Uuid>,
    /// At least one.
    pub files: Vec<DeleteFileRegistration>,
}

/// One Puffin file with the deletion vector of one data file. It replaces the vector that the file has.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteFileRegistration {
    /// The data file.
    pub data_file_id: i64,
    /// Absolute URI below the catalog's data path.
    pub path: String,
    /// Deleted positions in the vector, all of them; vectors only grow.
    pub delete_count: i64,
    /// Bytes.
    pub file_size_bytes: i64,
}

impl CommitRequest {
    /// Checks what needs no database: shapes, counts, duplicates, and that every path lies below `data_path`.
    ///
    /// # Errors
    /// [`ErrorCode::Validation`](crate::ErrorCode::Validation) for the first rule that is broken.
    ///
    /// # Source
    /// OpenAPI `commit`, `CommitRequest`.
    pub fn check(&self, data_path: &str) -> Result<(), Refusal> {
        if self.appends.is_empty() && self.deletes.is_empty() {
            return Err(Refusal::validation("a commit needs at least one entry in `appends` or `deletes`"));
        }
        for (namespace, table, empty) in self
            .appends
            .iter()
            .map(|a| (&a.namespace, &a.table, a.files.is_empty()))
            .chain(self.deletes.iter().map(|d| (&d.namespace, &d.table, d.files.is_empty())))
        {
            if empty {
                return Err(Refusal::validation(format!(
                    "the entry for table {} lists no files; leave the entry out or give it at least one file",
                    quoted(&format!("{namespace}.{table}"))
                )));
            }
        }
        match self.read_snapshot {
            None if !self.deletes.is_empty() => {
                return Err(Refusal::validation(
                    "a commit with `deletes` needs `read_snapshot`: the snapshot at which the rows to delete were found",
                ));
            }
            Some(s) if s < 0 => {
                return Err(Refusal::validation(format!("read_snapshot {s} is negative; snapshots start at 0")));
            }
            _ => {}
        }
        self.check_paths(data_path)?;
        for file in self.appends.iter().flat_map(|a| &a.files) {
            file.check()?;
        }
        self.check_vectors()
    }

    /// Files and vectors that the request registers.
    pub fn file_count(&self) -> usize {
        self.appends.iter().map(|a| a.files.len()).sum::<usize>()
            + self.deletes.iter().map(|d| d.files.len()).sum::<usize>()
    }

    /// Every path that the request registers.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.appends
            .iter()
            .flat_map(|a| a.files.iter().map(|f| f.path.as_str()))
            .chain(self.deletes.iter().flat_map(|d| d.files.iter().map(|f| f.path.as_str())))
    }

    fn check_paths(&self, data_path: &str) -> Result<(), Refusal> {
        if let Some(path) = self.paths().find(|path| path.len() > MAX_PATH_BYTES) {
            return Err(Refusal::validation(format!(
                "a path of {} bytes is too long: {MAX_PATH_BYTES} are allowed; it begins with {}",
                path.len(),
                quoted(path.get(..path.floor_char_boundary(60)).unwrap_or_default())
            )));
        }
        let root = data_path.trim_end_matches('/');
        let outside: Vec<&str> = self.paths().filter(|p| !lies_below(root, p)).collect();
        if outside.is_empty() {
            return Ok(());
        }
        let listed: Vec<String> = outside.iter().take(LISTED_OFFENDERS).map(|p| quoted(p)).collect();
        Err(Refusal::validation(format!(
            "{} of the registered paths are not plain object paths below the catalog's data_path {} (no empty, \
             `.` or `..` segments, no control characters, no blanks at the ends): {}{}",
            outside.len(),
            quoted(&format!("{root}/")),
            listed.join(", "),
            if outside.len() > LISTED_OFFENDERS { ", ..." } else { "" }
        )))
    }

    fn check_vectors(&self) -> Result<(), Refusal> {
        let mut seen = HashSet::new();
        for vector in self.deletes.iter().flat_map(|d| &d.files) {
            let id = vector.data_file_id;
            if vector.delete_count <= 0 {
                return Err(Refusal::validation(format!(
                    "delete_count {} for data file {id} must be at least 1",
                    vector.delete_count
                )));
            }
            if !(0..=MAX_FILE_SIZE_BYTES).contains(&vector.file_size_bytes) {
                return Err(Refusal::validation(format!(
                    "file_size_bytes {} of the deletion vector for data file {id} is not in 0..={MAX_FILE_SIZE_BYTES}",
                    vector.file_size_bytes
                )));
            }
            if !seen.insert(id) {
                return Err(Refusal::validation(format!(
                    "data file {id} appears twice in `deletes`; merge its vectors into one"
                )));
            }
        }
        Ok(())
    }
}

impl FileRegistration {
    fn check(&self) -> Result<(), Refusal> {
        let path = quoted(&self.path);
        if !(0..=MAX_RECORD_COUNT).contains(&self.record_count) {
            return Err(Refusal::validation(format!(
                "record_count {} of {path} is not in 0..={MAX_RECORD_COUNT}",
                self.record_count
            )));
        }
        if !(0..=MAX_FILE_SIZE_BYTES).contains(&self.file_size_bytes) {
            return Err(Refusal::validation(format!(
                "file_size_bytes {} of {path} is not in 0..={MAX_FILE_SIZE_BYTES}",
                self.file_size_bytes
            )));
        }
        if let Some(footer) = self.footer_size
            && !(0..=self.file_size_bytes).contains(&footer)
        {
            return Err(Refusal::validation(format!(
                "footer_size {footer} of {path} does not fit in a file of {} bytes",
                self.file_size_bytes
            )));
        }
        let mut seen = HashSet::new();
        for stats in self.column_stats.iter().flatten() {
            let field = stats.field_id;
            if !seen.insert(field) {
                return Err(Refusal::validation(format!("column_stats of {path} list field_id {field} twice")));
            }
            let counts = [Some(stats.value_count), Some(stats.null_count), stats.nan_count, stats.size_bytes];
            if counts.into_iter().flatten().any(|count| count < 0) {
                return Err(Refusal::validation(format!(
                    "column_stats of {path} have a negative count for field_id {field}"
                )));
            }
        }
        Ok(())
    }
}

/// Whether `path` is `root` + `/` + a plain key. An empty segment or a slash at the end is none: stores and file systems
/// disagree on whether `a//f` and `f/` are other objects than `a/f` and `f`, and two registered spellings of one object
/// would let the removal of one delete the other.
fn lies_below(root: &str, path: &str) -> bool {
    let Some(key) = path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/')) else {
        return false;
    };
    !key.trim().is_empty()
        && path.trim() == path
        && !path.chars().any(char::is_control)
        && key.split('/').all(|segment| !matches!(segment, "" | "." | ".."))
}

fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

fn base64_bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
    use base64::Engine as _;
    Option::<std::borrow::Cow<'de, str>>::deserialize(from)?
        .map(|text| base64::engine::general_purpose::STANDARD.decode(text.as_bytes()))
        .transpose()
        .map_err(|e| serde::de::Error::custom(format!("bounds are base64: {e}")))
}
