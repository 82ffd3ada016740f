//! Puffin files that hold one deletion vector: `PFA1`, the blob, `PFA1`, a JSON footer, its length, flags, `PFA1`.
//!
//! # Source
//! Iceberg specification, "Puffin file format" and its `deletion-vector-v1` blob type.

use crate::deletion_vector::{DeletionVector, DeletionVectorError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const MAGIC: &[u8; 4] = b"PFA1";
const BLOB_TYPE: &str = "deletion-vector-v1";
/// Opening magic, footer magic, footer length, flags, closing magic.
const SMALLEST_FILE: usize = 20;
/// Row positions, which the blob is about, have this reserved field id.
const ROW_POSITION_FIELD: i32 = 2_147_483_645;
const CARDINALITY: &str = "cardinality";
const REFERENCED_DATA_FILE: &str = "referenced-data-file";

/// A file that is no Puffin file with exactly one deletion vector.
#[derive(Debug, thiserror::Error)]
pub enum PuffinError {
    /// Magic numbers, lengths or flags that do not fit.
    #[error("the Puffin file is malformed: {0}")]
    Malformed(&'static str),
    /// The footer is not the JSON that it should be.
    #[error("the Puffin footer is not readable JSON")]
    Footer(#[source] serde_json::Error),
    /// It does not hold exactly one deletion vector of the supported kind.
    #[error("the Puffin file {0}")]
    Content(String),
    /// The vector in it is malformed.
    #[error(transparent)]
    Vector(#[from] DeletionVectorError),
}

/// A deletion vector and what its file says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct DeletionVectorFile {
    /// The deleted positions.
    pub vector: DeletionVector,
    /// Path of the data file, as its writer spelled it; absent in files of writers that leave it out.
    pub referenced_data_file: Option<String>,
    /// Where the framed vector starts in the file, for Iceberg's `content_offset`.
    pub offset: u64,
    /// How long the framed vector is, for Iceberg's `content_size_in_bytes`.
    pub length: u64,
}

#[derive(Serialize, Deserialize)]
struct Footer {
    blobs: Vec<BlobMetadata>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    properties: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct BlobMetadata {
    r#type: String,
    fields: Vec<i32>,
    snapshot_id: i64,
    sequence_number: i64,
    offset: i64,
    length: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    compression_codec: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    properties: BTreeMap<String, String>,
}

/// Reads a whole Puffin file that holds one deletion vector.
///
/// # Errors
/// [`PuffinError`] for a compressed footer or blob, unknown flags, another number of blobs, blobs outside the blob area,
/// a cardinality other than declared, and everything that [`DeletionVector::decode`] refuses. Memory is taken only in
/// proportion to `bytes`.
pub fn read(bytes: &[u8]) -> Result<DeletionVectorFile, PuffinError> {
    let (payload, blob_end) = footer_payload(bytes)?;
    let footer: Footer = serde_json::from_slice(payload).map_err(PuffinError::Footer)?;
    let content = |what: String| PuffinError::Content(what);
    let [blob] = footer.blobs.as_slice() else {
        return Err(content(format!("holds {} blobs, a deletion vector's file holds one", footer.blobs.len())));
    };
    if blob.r#type != BLOB_TYPE {
        let found: String = blob.r#type.chars().take(64).flat_map(char::escape_default).collect();
        return Err(content(format!("holds a blob of type `{found}` instead of `{BLOB_TYPE}`")));
    }
    if blob.compression_codec.is_some() {
        return Err(content("compresses its deletion vector, which the format forbids".to_owned()));
    }
    let (Ok(offset), Ok(length)) = (usize::try_from(blob.offset), usize::try_from(blob.length)) else {
        return Err(PuffinError::Malformed("a blob has a negative offset or length"));
    };
    let end = offset.checked_add(length).filter(|end| offset >= MAGIC.len() && *end <= blob_end);
    let Some(framed) = end.and_then(|end| bytes.get(offset..end)) else {
        return Err(PuffinError::Malformed("a blob lies outside the blob area"));
    };
    let vector = DeletionVector::decode(framed)?;
    if let Some(declared) = blob.properties.get(CARDINALITY)
        && declared.parse() != Ok(vector.cardinality())
    {
        return Err(content(format!("declares another cardinality than its {} positions", vector.cardinality())));
    }
    Ok(DeletionVectorFile {
        vector,
        referenced_data_file: blob.properties.get(REFERENCED_DATA_FILE).cloned(),
        offset: offset as u64,
        length: length as u64,
    })
}

/// The footer's JSON and where the blob area ends.
fn footer_payload(bytes: &[u8]) -> Result<(&[u8], usize), PuffinError> {
    use PuffinError::Malformed;
    if bytes.len() < SMALLEST_FILE {
        return Err(Malformed("it is shorter than an empty one"));
    }
    let rest = bytes.strip_suffix(MAGIC).ok_or(Malformed("its closing magic is missing"))?;
    if !bytes.starts_with(MAGIC) {
        return Err(Malformed("its opening magic is missing"));
    }
    let (rest, flags) = rest.split_last_chunk::<4>().ok_or(Malformed("it is too short"))?;
    match u32::from_le_bytes(*flags) {
        0 => {}
        1 => return Err(Malformed("its footer is compressed, which is not supported; write it plain")),
        _ => return Err(Malformed("it sets flags that nobody has defined")),
    }
    let (rest, length) = rest.split_last_chunk::<4>().ok_or(Malformed("it is too short"))?;
    let start = usize::try_from(i32::from_le_bytes(*length))
        .ok()
        .and_then(|length| rest.len().checked_sub(length))
        .filter(|start| *start >= 2 * MAGIC.len())
        .ok_or(Malformed("its footer is longer than the file"))?;
    let (blobs, payload) = rest.split_at(start);
    let blobs = blobs.strip_suffix(MAGIC).ok_or(Malformed("its footer does not start with the magic"))?;
    Ok((payload, blobs.len()))
}

/// Writes a Puffin file with one deletion vector for `referenced_data_file`.
///
/// Snapshot id and sequence number are unknown until the commit: they are written as -1, which the format prescribes for
/// that case.
pub fn write(vector: &DeletionVector, referenced_data_file: &str) -> Result<Vec<u8>, PuffinError> {
    let framed = vector.encode();
    let properties = BTreeMap::from([
        (CARDINALITY.to_owned(), vector.cardinality().to_string()),
        (REFERENCED_DATA_FILE.to_owned(), referenced_data_file.to_owned()),
    ]);
    let footer = Footer {
        blobs: vec![BlobMetadata {
            r#type: BLOB_TYPE.to_owned(),
            fields: vec![ROW_POSITION_FIELD],
            snapshot_id: -1,
            sequence_number: -1,
            offset: MAGIC.len() as i64,
            length: framed.len() as i64,
            compression_codec: None,
            properties,
        }],
        properties: BTreeMap::from([(
            "created-by".to_owned(),
            concat!("hoglake ", env!("CARGO_PKG_VERSION")).to_owned(),
        )]),
    };
    let payload = serde_json::to_vec(&footer).map_err(PuffinError::Footer)?;
    let payload_length = i32::try_from(payload.len()).map_err(|_| PuffinError::Malformed("the path is too long"))?;
    let mut file = Vec::with_capacity(SMALLEST_FILE + framed.len() + payload.len());
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&framed);
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&payload);
    file.extend_from_slice(&payload_length.to_le_bytes());
    file.extend_from_slice(&0_u32.to_le_bytes());
    file.extend_from_slice(MAGIC);
    Ok(file)
}
