//! Footers: read by ranges, refused when malformed, turned into statistics that are never guessed.

use super::Column;
use super::binding::{Binding, BindingError, Form};
use super::statistics::column_stats;
use crate::store::{Object, StoreError};
use bytes::Bytes;
use hoglake_model::{ColumnStats, FieldId};
use object_store::{GetOptions, GetRange, ObjectStoreExt};
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::ColumnDescriptor;
use std::ops::Range;

/// Footer length and closing magic.
const TRAILER_BYTES: u64 = 8;
const MAGIC: &[u8; 4] = b"PAR1";
const ENCRYPTED_MAGIC: &[u8; 4] = b"PARE";
/// The smallest file: opening magic, empty footer, trailer.
const SMALLEST_FILE: u64 = 12;
/// Read at first when nobody says how long the footer is.
const TAIL_BYTES: u64 = 64 << 10;

/// A registered file whose footer is wanted.
#[derive(Debug, Clone, Copy)]
pub struct RegisteredFile {
    /// Bytes, as registered.
    pub file_size_bytes: u64,
    /// Length of the Thrift footer without the 8 bytes of its trailer, as registered.
    pub footer_size: Option<u64>,
    /// Rows, as registered; none to take the footer's word.
    pub record_count: Option<i64>,
    /// Largest file, and largest footer, to read when the registered footer size is of no use.
    pub max_whole_object_bytes: u64,
}

/// What a footer says of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct FooterStatistics {
    /// Rows in the file.
    pub record_count: i64,
    /// Length of the Thrift footer.
    pub footer_size: u64,
    /// Statistics of the columns that the file carries with a known null count, in the order asked for.
    pub columns: Vec<ColumnStats>,
    /// Whether some leaf carries no field id.
    pub missing_field_ids: bool,
    /// The ids of its top-level fields.
    pub field_ids: Vec<FieldId>,
    /// Columns whose field stores something else than their type, or a narrower one, with what it stores.
    pub mismatched: Vec<(FieldId, String)>,
    /// Whether columns were bound by name, since no field carries an id. Renaming a column would lose its data here.
    pub bound_by_name: bool,
}

/// Why a footer gives no statistics.
#[derive(Debug, thiserror::Error)]
pub enum FooterError {
    /// The store failed, perhaps only this time.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file is not what it was registered as; only another registration can help.
    #[error("{0}")]
    Structural(String),
}

impl FooterError {
    /// Whether the same file may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_transient())
    }
}

impl From<BindingError> for FooterError {
    fn from(error: BindingError) -> Self {
        Self::Structural(error.to_string())
    }
}

/// Reads the footer of a registered file and gives the statistics of `columns`, which carry the names that they had when
/// the file was registered.
///
/// One ranged request when the registered footer size is right; a second one when it is wrong. Without a usable one, the
/// file must not be larger than the cap.
///
/// # Errors
/// [`FooterError`], structural for everything that reading again cannot mend.
pub async fn footer_statistics(
    object: &Object,
    file: RegisteredFile,
    columns: &[Column],
) -> Result<FooterStatistics, FooterError> {
    let (metadata, footer_size) = read_metadata(object, file).await?;
    let statistics = statistics_of(&metadata, columns)?;
    if let Some(registered) = file.record_count
        && registered != statistics.record_count
    {
        return Err(FooterError::Structural(format!(
            "the footer counts {} rows, {registered} were registered",
            statistics.record_count
        )));
    }
    Ok(FooterStatistics { footer_size, ..statistics })
}

/// The statistics of `columns` in a decoded footer; `footer_size` is left at zero.
///
/// # Errors
/// [`FooterError::Structural`] for a footer that contradicts itself.
pub fn statistics_of(metadata: &ParquetMetaData, columns: &[Column]) -> Result<FooterStatistics, FooterError> {
    let record_count = metadata.file_metadata().num_rows();
    let mut sum: i64 = 0;
    for group in metadata.row_groups() {
        sum = match sum.checked_add(group.num_rows()) {
            Some(next) if group.num_rows() >= 0 => next,
            _ => return Err(FooterError::Structural("a row group's row count is out of range".to_owned())),
        };
    }
    if sum != record_count {
        return Err(FooterError::Structural(format!("the footer counts {record_count} rows, its row groups {sum}")));
    }
    let binding = Binding::new(metadata.file_metadata().schema_descr(), columns)?;
    let schema = metadata.file_metadata().schema_descr();
    let mismatched = columns.iter().zip(&binding.leaves).filter_map(|(column, leaf)| {
        let stored = match leaf {
            Some(leaf) if Form::of(&schema.column(*leaf), column.ty).is_some() => return None,
            Some(leaf) => described(&schema.column(*leaf)),
            // bound by its id, and found to be no leaf
            None if !binding.by_name && binding.field_ids.contains(&column.field_id) => "nested values".to_owned(),
            None => return None,
        };
        Some((column.field_id, stored))
    });
    let mismatched = mismatched.collect();
    let columns = columns
        .iter()
        .zip(&binding.leaves)
        .filter_map(|(column, leaf)| column_stats(metadata, (*leaf)?, column))
        .collect();
    Ok(FooterStatistics {
        record_count,
        footer_size: 0,
        columns,
        missing_field_ids: binding.missing_field_ids,
        field_ids: binding.field_ids,
        mismatched,
        bound_by_name: binding.by_name,
    })
}

/// What a leaf stores, in Parquet's own words.
fn described(leaf: &ColumnDescriptor) -> String {
    match leaf.logical_type_ref() {
        Some(logical) => format!("{} ({logical:?})", leaf.physical_type()),
        None => leaf.physical_type().to_string(),
    }
}

/// Reads and decodes the footer of a registered file; also gives its length without the trailer.
///
/// # Errors
/// As [`footer_statistics`].
pub async fn read_metadata(object: &Object, file: RegisteredFile) -> Result<(ParquetMetaData, u64), FooterError> {
    let size = file.file_size_bytes;
    if size < SMALLEST_FILE {
        return Err(FooterError::Structural(format!("{size} bytes are too few for a Parquet file")));
    }
    let registered =
        file.footer_size.and_then(|f| f.checked_add(TRAILER_BYTES)).filter(|t| *t > TRAILER_BYTES && *t < size);
    let first = match registered {
        Some(tail) if tail <= file.max_whole_object_bytes => tail,
        Some(_) => return Err(too_large("footer", file.max_whole_object_bytes)),
        None if size > file.max_whole_object_bytes => {
            return Err(FooterError::Structural(format!(
                "the file has {size} bytes and no usable footer_size is registered; files above {} bytes need one",
                file.max_whole_object_bytes
            )));
        }
        None => TAIL_BYTES.min(size),
    };
    let tail = get(object, size - first..size, size).await?;
    let length = footer_length(&tail, size)?;
    let wanted = length + TRAILER_BYTES;
    let tail = if wanted <= first {
        tail.slice(usize::try_from(first - wanted).unwrap_or(0)..)
    } else if wanted <= file.max_whole_object_bytes {
        get(object, size - wanted..size, size).await?
    } else {
        return Err(too_large("footer", file.max_whole_object_bytes));
    };
    Ok((decode(&tail)?, length))
}

fn too_large(what: &str, cap: u64) -> FooterError {
    FooterError::Structural(format!("the {what} is larger than the {cap} bytes that may be read"))
}

/// The footer length in the trailer that `tail` ends with.
fn footer_length(tail: &[u8], file_size: u64) -> Result<u64, FooterError> {
    let structural = |what: &str| FooterError::Structural(what.to_owned());
    let Some((rest, magic)) = tail.split_last_chunk::<4>() else {
        return Err(structural("the file ends before its Parquet trailer"));
    };
    if magic == ENCRYPTED_MAGIC {
        return Err(structural("the file's footer is encrypted, which is not supported"));
    }
    if magic != MAGIC {
        return Err(structural("the file does not end with Parquet's magic; it is another format or was cut short"));
    }
    let Some((_, length)) = rest.split_last_chunk::<4>() else {
        return Err(structural("the file ends before its Parquet trailer"));
    };
    let length = u64::from(u32::from_le_bytes(*length));
    if length == 0 || length + SMALLEST_FILE > file_size {
        return Err(FooterError::Structural(format!("the trailer announces a footer of {length} bytes")));
    }
    Ok(length)
}

/// Decodes a footer from the bytes that end a file: the Thrift structure and its trailer.
///
/// # Errors
/// [`FooterError::Structural`].
pub fn decode(tail: &[u8]) -> Result<ParquetMetaData, FooterError> {
    let length = footer_length(tail, u64::MAX)?;
    let start = usize::try_from(length + TRAILER_BYTES).ok().and_then(|wanted| tail.len().checked_sub(wanted));
    let Some(footer) = start.and_then(|start| tail.get(start..tail.len() - TRAILER_BYTES as usize)) else {
        return Err(FooterError::Structural("the footer is incomplete".to_owned()));
    };
    crate::footer::decode(footer)
        .map_err(|error| FooterError::Structural(format!("the footer cannot be decoded: {error}")))
}

/// Reads a range of an object whose size must be the registered one.
async fn get(object: &Object, range: Range<u64>, registered: u64) -> Result<Bytes, FooterError> {
    let wanted = range.end - range.start;
    let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
    let resized =
        |actual: u64| FooterError::Structural(format!("the object has {actual} bytes, {registered} were registered"));
    let error = match object.store.get_opts(&object.path, options).await {
        Ok(result) if result.meta.size != registered => return Err(resized(result.meta.size)),
        Ok(result) => match result.bytes().await {
            Ok(bytes) if bytes.len() as u64 == wanted => return Ok(bytes),
            Ok(_) => return Err(FooterError::Structural("the store returned fewer bytes than asked for".to_owned())),
            Err(error) => error,
        },
        Err(error) => error,
    };
    // A range beyond the end is an error of its own in every store; whether that was it, only the size tells.
    match object.store.head(&object.path).await {
        Ok(meta) if meta.size != registered => Err(resized(meta.size)),
        Ok(_) => Err(object.error(error).into()),
        Err(error) => Err(object.error(error).into()),
    }
}
