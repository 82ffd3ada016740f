//! Parquet footers: schema, counts, sizes and bounds of a data file, read without touching its rows.
//!
//! Two readers need them: a directory of Parquet files has no other metadata, and Hudi commits carry no statistics.
//!
//! **Architecture invariant:** this module knows Parquet and the table model, no table format.
//!
//! # Source
//! Apache Parquet format: "File format", "Logical types", "Statistics" and `ColumnOrder` of `parquet.thrift`.

mod binding;
mod nesting;
mod schema;
mod statistics;

pub use binding::{Bound, bind};
pub use schema::{FileSchema, file_schema};
pub use statistics::{column_statistics, split_offsets};

use crate::sync::{Error, Result, TableRoot};
use hoglake_model::table::FilePath;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

/// The largest footer that is read, in bytes. Writers stay below 1 MiB even with thousands of columns.
pub const MAX_FOOTER_BYTES: u64 = 32 << 20;

/// What one request fetches in the hope that the whole footer is in it.
const GUESS_BYTES: u64 = 32 << 10;

/// Reads the footer of `file`, whose size is `size`: one request for most files, two for wide ones.
///
/// # Errors
/// [`Error::Malformed`] naming the file when it is no Parquet file or its footer breaks the format or our bounds;
/// [`Error::UnsupportedSource`] for encrypted footers.
pub async fn read(root: &TableRoot, file: &FilePath, size: u64) -> Result<ParquetMetaData> {
    let malformed = |detail: String| Error::malformed(file.as_str(), detail);
    if size < 12 {
        return Err(malformed(format!("{size} bytes are too few for a Parquet file")));
    }
    let start = size.saturating_sub(GUESS_BYTES);
    let tail = root.read(file, Some(start..size)).await?;
    let Some((rest, magic)) = tail.split_last_chunk::<4>() else {
        return Err(malformed("the store returned fewer bytes than the listing promised".to_owned()));
    };
    match magic {
        b"PAR1" => {}
        b"PARE" => {
            return Err(Error::UnsupportedSource {
                feature: "Parquet footer encryption".to_owned(),
                place: file.as_str().to_owned(),
                detail: "the keys are not known here; rewrite the file without encryption".to_owned(),
            });
        }
        _ => return Err(malformed("it does not end like a Parquet file".to_owned())),
    }
    let Some((body, length)) = rest.split_last_chunk::<4>() else {
        return Err(malformed("the footer's length is missing".to_owned()));
    };
    let length = u64::from(u32::from_le_bytes(*length));
    if length > MAX_FOOTER_BYTES || length + 12 > size {
        return Err(malformed(format!("a footer of {length} bytes in a file of {size} bytes is not read")));
    }
    let footer = match usize::try_from(length).ok().and_then(|l| body.len().checked_sub(l)) {
        Some(at) => tail.slice(at..body.len()),
        None => root.read(file, Some(size - 8 - length..size - 8)).await?,
    };
    decode(&footer).map_err(malformed)
}

/// Decodes a footer, without its length and magic.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn decode(footer: &[u8]) -> std::result::Result<ParquetMetaData, String> {
    nesting::check(footer)?;
    let metadata = ParquetMetaDataReader::decode_metadata(footer).map_err(|e| e.to_string())?;
    if metadata.row_groups().iter().any(|group| group.num_rows() < 0) {
        return Err("it counts a negative number of rows".to_owned());
    }
    Ok(metadata)
}

/// The rows of a file: those of its row groups, which is what readers read. Old writers left the file's own count at 0.
pub fn record_count(metadata: &ParquetMetaData) -> u64 {
    metadata.row_groups().iter().fold(0, |sum, group| sum.saturating_add(group.num_rows().unsigned_abs()))
}
