//! Deletion vectors: which rows of a data file are gone.
//!
//! Iceberg and Delta share one encoding: a magic number and a 64-bit portable Roaring bitmap, framed by a big-endian
//! length and a big-endian CRC-32. Iceberg puts the frame into a Puffin blob ([`crate::puffin`]); Delta puts it into a
//! file of its own behind a version byte, or, unframed and in Z85, into the log.
//!
//! Everything decoded here comes from outside. Sizes and counts are checked against the bytes that are there before
//! anything is allocated by them.

mod bitmap;
pub mod z85;

use bitmap::BitmapFault;
use roaring::RoaringTreemap;

/// `D1 D3 39 64`, read little-endian 1681511377: what a vector starts with.
pub const MAGIC: [u8; 4] = [0xd1, 0xd3, 0x39, 0x64];

/// Length, magic and checksum around the bitmap.
const FRAME_BYTES: usize = 12;

/// 0-based positions of deleted rows in one data file, whatever the file's row ids are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeletionVector {
    positions: RoaringTreemap,
}

/// Bytes that are no deletion vector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeletionVectorError {
    /// Fewer bytes than the frame needs.
    #[error("a deletion vector has at least {FRAME_BYTES} bytes around its bitmap, this one has {length} in all")]
    Short {
        /// How many there are.
        length: usize,
    },
    /// The length field disagrees with the bytes.
    #[error("the deletion vector says that it is {declared} bytes long, there are {actual}")]
    Length {
        /// From the frame.
        declared: u32,
        /// What is there.
        actual: usize,
    },
    /// Another magic number, such as that of Delta's Java-native bitmaps.
    #[error(
        "the deletion vector starts with {found:02x?} instead of {MAGIC:02x?}; only portable bitmaps are supported"
    )]
    Magic {
        /// The four bytes.
        found: [u8; 4],
    },
    /// The checksum does not hold.
    #[error("the deletion vector's CRC-32 is {declared:08x}, its bytes have {actual:08x}; the file is damaged")]
    Checksum {
        /// From the frame.
        declared: u32,
        /// Of the bytes.
        actual: u32,
    },
    /// The bitmap breaks a rule of the Roaring format.
    #[error("the deletion vector's bitmap is malformed: {0}")]
    Bitmap(#[from] BitmapFault),
    /// Inline text that is not Z85.
    #[error("the inline deletion vector is not Z85 text")]
    Z85,
}

impl DeletionVector {
    /// The vector of these positions, in any order.
    pub fn from_positions(positions: impl IntoIterator<Item = u64>) -> Self {
        Self { positions: positions.into_iter().collect() }
    }

    /// How many rows are deleted.
    pub fn cardinality(&self) -> u64 {
        self.positions.len()
    }

    /// Whether no row is deleted.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Whether the row at `position` is deleted.
    pub fn contains(&self, position: u64) -> bool {
        self.positions.contains(position)
    }

    /// The highest deleted position.
    pub fn last(&self) -> Option<u64> {
        self.positions.max()
    }

    /// Deleted positions, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.positions.iter()
    }

    /// Deleted positions in `[begin, end)`, ascending; what lies before is skipped without being visited.
    pub fn range(&self, begin: u64, end: u64) -> impl Iterator<Item = u64> + '_ {
        let mut positions = self.positions.iter();
        positions.advance_to(begin);
        positions.take_while(move |p| *p < end)
    }

    /// Adds every position of `other`.
    pub fn extend(&mut self, other: &Self) {
        self.positions |= &other.positions;
    }

    /// The positions that are deleted here and not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        Self { positions: &self.positions - &other.positions }
    }

    /// Whether every position of `other` is deleted here, too.
    pub fn covers(&self, other: &Self) -> bool {
        other.positions.is_subset(&self.positions)
    }

    /// Decodes a framed vector that fills `bytes` exactly: length, magic, bitmap, CRC-32.
    ///
    /// # Errors
    /// [`DeletionVectorError`] for anything else, before memory is taken by any number in it.
    pub fn decode(bytes: &[u8]) -> Result<Self, DeletionVectorError> {
        let (Some((length, rest)), true) = (bytes.split_first_chunk::<4>(), bytes.len() >= FRAME_BYTES) else {
            return Err(DeletionVectorError::Short { length: bytes.len() });
        };
        let Some((vector, checksum)) = rest.split_last_chunk::<4>() else {
            return Err(DeletionVectorError::Short { length: bytes.len() });
        };
        let declared = u32::from_be_bytes(*length);
        if usize::try_from(declared) != Ok(vector.len()) {
            return Err(DeletionVectorError::Length { declared, actual: vector.len() });
        }
        let (declared, actual) = (u32::from_be_bytes(*checksum), crc32fast::hash(vector));
        if declared != actual {
            return Err(DeletionVectorError::Checksum { declared, actual });
        }
        Self::decode_unframed(vector)
    }

    /// Decodes magic and bitmap without a frame, as Delta stores small vectors inline (after [`z85::decode`]).
    ///
    /// # Errors
    /// As [`DeletionVector::decode`].
    pub fn decode_unframed(bytes: &[u8]) -> Result<Self, DeletionVectorError> {
        let Some((magic, bitmap)) = bytes.split_first_chunk::<4>() else {
            return Err(DeletionVectorError::Short { length: bytes.len() });
        };
        if *magic != MAGIC {
            return Err(DeletionVectorError::Magic { found: *magic });
        }
        Ok(Self { positions: bitmap::decode(bitmap)? })
    }

    /// The framed vector.
    pub fn encode(&self) -> Vec<u8> {
        let vector = self.encode_unframed();
        // A vector of 4 GiB would need more than 500 million scattered positions; the frame cannot hold it, and a
        // saturated length makes every reader refuse it rather than read it short.
        let length = u32::try_from(vector.len()).unwrap_or(u32::MAX);
        let mut framed = Vec::with_capacity(vector.len() + 8);
        framed.extend_from_slice(&length.to_be_bytes());
        framed.extend_from_slice(&vector);
        framed.extend_from_slice(&crc32fast::hash(&vector).to_be_bytes());
        framed
    }

    /// Magic and bitmap without a frame.
    pub fn encode_unframed(&self) -> Vec<u8> {
        let mut vector = MAGIC.to_vec();
        bitmap::encode(&self.positions, &mut vector);
        vector
    }
}
