//! The 64-bit portable Roaring format: a count, then for each high half of the positions its key and a 32-bit bitmap.
//!
//! The structure is walked and measured here before the `roaring` crate builds containers from it, because a reader that
//! believes the counts can be made to allocate, to lose positions (duplicate keys), or to disagree with readers that
//! follow the offset table.

use roaring::{RoaringBitmap, RoaringTreemap};

const COOKIE_PLAIN: u32 = 12346;
const COOKIE_RUNS: u16 = 12347;
/// Containers below which a bitmap with runs has no offset table.
const OFFSET_THRESHOLD: usize = 4;
const ARRAY_LIMIT: usize = 4096;
const BITMAP_BYTES: usize = 8192;
/// Key and the smallest bitmap: cookie and count of no containers.
const SMALLEST_BUCKET: usize = 12;

/// A rule of the format that the bytes break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BitmapFault {
    #[error("it ends before its counts say")]
    Truncated,
    #[error("it announces more buckets than fit into it")]
    BucketCount,
    #[error("its bucket keys do not ascend")]
    BucketOrder,
    #[error("a bucket key makes positions negative")]
    NegativeKey,
    #[error("a bucket starts with an unknown cookie")]
    Cookie,
    #[error("a bucket announces more than 65536 containers")]
    ContainerCount,
    #[error("its container keys do not ascend")]
    ContainerOrder,
    #[error("its offset table does not point to its containers")]
    Offsets,
    #[error("a run container is empty, overlaps itself, leaves its 65536 positions or has another cardinality")]
    Runs,
    #[error("a container's positions do not ascend or have another cardinality")]
    Container,
    #[error("bytes follow its last bucket")]
    Trailing,
}

/// Decodes a bitmap that fills `bytes` exactly.
pub(super) fn decode(bytes: &[u8]) -> Result<RoaringTreemap, BitmapFault> {
    let mut cursor = Cursor { bytes };
    let count = u64::from_le_bytes(cursor.array()?);
    if count > (cursor.bytes.len() / SMALLEST_BUCKET) as u64 {
        return Err(BitmapFault::BucketCount);
    }
    let mut buckets: Vec<(u32, RoaringBitmap)> = Vec::new();
    for _ in 0..count {
        let key = u32::from_le_bytes(cursor.array()?);
        if key > i32::MAX as u32 {
            return Err(BitmapFault::NegativeKey);
        }
        if buckets.last().is_some_and(|(last, _)| *last >= key) {
            return Err(BitmapFault::BucketOrder);
        }
        let length = measure(cursor.bytes)?;
        let bucket = cursor.take(length)?;
        buckets.push((key, RoaringBitmap::deserialize_from(bucket).map_err(|_| BitmapFault::Container)?));
    }
    if !cursor.bytes.is_empty() {
        return Err(BitmapFault::Trailing);
    }
    Ok(RoaringTreemap::from_bitmaps(buckets))
}

/// Appends the bitmap, runs and all, to `out`.
pub(super) fn encode(positions: &RoaringTreemap, out: &mut Vec<u8>) {
    let mut positions = positions.clone();
    positions.optimize();
    out.reserve(positions.serialized_size());
    // Writing to memory cannot fail.
    let written = positions.serialize_into(out);
    debug_assert!(written.is_ok());
}

/// The length of the 32-bit bitmap that `bytes` starts with, its structure checked.
fn measure(bytes: &[u8]) -> Result<usize, BitmapFault> {
    let mut cursor = Cursor { bytes };
    let cookie = u32::from_le_bytes(cursor.array()?);
    let (containers, run_flags) = if cookie == COOKIE_PLAIN {
        (u32::from_le_bytes(cursor.array()?) as usize, None)
    } else if cookie & 0xffff == u32::from(COOKIE_RUNS) {
        let containers = (cookie >> 16) as usize + 1;
        (containers, Some(cursor.take(containers.div_ceil(8))?))
    } else {
        return Err(BitmapFault::Cookie);
    };
    if containers > 1 << 16 {
        return Err(BitmapFault::ContainerCount);
    }
    let descriptions = cursor.take(containers * 4)?;
    let has_offsets = run_flags.is_none() || containers >= OFFSET_THRESHOLD;
    let offsets = if has_offsets { Some(cursor.take(containers * 4)?) } else { None };

    let mut last_key = None;
    for (index, description) in descriptions.chunks_exact(4).enumerate() {
        let key = u16::from_le_bytes([description[0], description[1]]);
        let cardinality = usize::from(u16::from_le_bytes([description[2], description[3]])) + 1;
        if last_key.replace(key).is_some_and(|last| last >= key) {
            return Err(BitmapFault::ContainerOrder);
        }
        if let Some(offset) = offsets.and_then(|o| o.chunks_exact(4).nth(index)) {
            let offset = u32::from_le_bytes([offset[0], offset[1], offset[2], offset[3]]) as usize;
            if offset != bytes.len() - cursor.bytes.len() {
                return Err(BitmapFault::Offsets);
            }
        }
        let is_run = run_flags.is_some_and(|flags| flags[index / 8] & (1 << (index % 8)) != 0);
        if is_run {
            let runs = usize::from(u16::from_le_bytes(cursor.array()?));
            check_runs(cursor.take(runs * 4)?, cardinality)?;
        } else if cardinality <= ARRAY_LIMIT {
            cursor.take(cardinality * 2)?;
        } else {
            cursor.take(BITMAP_BYTES)?;
        }
    }
    Ok(bytes.len() - cursor.bytes.len())
}

/// Runs are (first, length - 1) pairs that ascend without touching.
fn check_runs(runs: &[u8], cardinality: usize) -> Result<(), BitmapFault> {
    let mut covered = 0;
    let mut last_end: Option<u32> = None;
    for run in runs.chunks_exact(4) {
        let first = u32::from(u16::from_le_bytes([run[0], run[1]]));
        let end = first + u32::from(u16::from_le_bytes([run[2], run[3]]));
        if end > u32::from(u16::MAX) || last_end.replace(end).is_some_and(|last| first <= last + 1) {
            return Err(BitmapFault::Runs);
        }
        covered += (end - first) as usize + 1;
    }
    if covered == cardinality { Ok(()) } else { Err(BitmapFault::Runs) }
}

struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], BitmapFault> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(BitmapFault::Truncated)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BitmapFault> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or(BitmapFault::Truncated)?;
        self.bytes = rest;
        Ok(*taken)
    }
}
