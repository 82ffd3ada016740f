//! HFile, the sorted key-value file that Hudi keeps its metadata in: reader and writer.
//!
//! The reader takes every pair of the data blocks in order; the index is not needed to read a whole file.
//!
//! # Source
//! `hudi-io/hfile_format.md` of Apache Hudi; HBase reference guide, "HFile format", version 3.

use std::io::Read;

/// The largest block that is decompressed, in bytes.
const MAX_BLOCK: usize = 64 << 20;

/// Bytes before the data of a block.
const HEADER: usize = 33;

/// Bytes of the trailer at the end of the file.
const TRAILER: usize = 4096;

/// Everything in a file that matters here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HFile {
    /// Key and value, in the order of the file.
    pub(super) pairs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The `schema` entry of the file info: the Avro schema of the values.
    pub(super) schema: Option<String>,
}

struct Trailer {
    load_on_open: usize,
    gzip: bool,
}

impl HFile {
    /// Reads a whole file.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let trailer = trailer(bytes)?;
        let mut found = Self::default();
        let mut at = 0;
        while at < trailer.load_on_open {
            let block = Block::at(bytes, at)?;
            if block.magic == b"DATABLK*" {
                pairs(&block.data(trailer.gzip)?, &mut found.pairs)?;
            } else if block.magic == b"DATABLKE" {
                return Err("encoded data blocks are not read".to_owned());
            }
            at = block.end;
        }
        let end = bytes.len() - TRAILER;
        while at < end {
            let block = Block::at(bytes, at)?;
            if block.magic == b"FILEINF2" {
                found.schema = file_info(&block.data(trailer.gzip)?, b"schema").and_then(|s| String::from_utf8(s).ok());
            }
            at = block.end;
        }
        Ok(found)
    }
}

struct Block<'a> {
    magic: &'a [u8],
    stored: &'a [u8],
    uncompressed: usize,
    end: usize,
}

fn int(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn size(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(int(bytes, at)?).ok()
}

impl<'a> Block<'a> {
    fn at(bytes: &'a [u8], at: usize) -> Result<Self, String> {
        let read = || {
            let header = bytes.get(at..at.checked_add(HEADER)?)?;
            let (on_disk, uncompressed) = (size(header, 8)?, size(header, 12)?);
            let checksummed = size(header, 29)?;
            let end = at.checked_add(HEADER)?.checked_add(on_disk)?;
            let stored = bytes.get(at + HEADER..at.checked_add(checksummed)?.min(end))?;
            (end <= bytes.len()).then_some(Self { magic: header.get(..8)?, stored, uncompressed, end })
        };
        read().ok_or_else(|| format!("the block at {at} is cut short"))
    }

    fn data(&self, gzip: bool) -> Result<Vec<u8>, String> {
        if self.uncompressed > MAX_BLOCK {
            return Err(format!("a block of {} bytes is not read", self.uncompressed));
        }
        if !gzip {
            return Ok(self.stored.to_vec());
        }
        let mut data = Vec::new();
        // The announced size bounds what is decompressed, whatever the stream would grow to.
        let limit = u64::try_from(self.uncompressed).unwrap_or(0);
        flate2::read::MultiGzDecoder::new(self.stored)
            .take(limit)
            .read_to_end(&mut data)
            .map_err(|e| format!("a block does not decompress: {e}"))?;
        if data.len() == self.uncompressed { Ok(data) } else { Err("a block is shorter than it says".to_owned()) }
    }
}

fn trailer(bytes: &[u8]) -> Result<Trailer, String> {
    let start = bytes.len().checked_sub(TRAILER).ok_or("it is too short for an HFile")?;
    let trailer = bytes.get(start..).unwrap_or_default();
    if !trailer.starts_with(b"TRABLK\"$") {
        return Err("it does not end with an HFile trailer".to_owned());
    }
    let version = int(trailer, TRAILER - 4).unwrap_or(0) & 0x00ff_ffff;
    if version != 3 {
        return Err(format!("HFile version {version} is not read, version 3 is"));
    }
    let mut message = Proto { bytes: trailer.get(8..TRAILER - 4).unwrap_or_default() };
    let length = message.varint().and_then(|l| usize::try_from(l).ok()).ok_or("the trailer is cut short")?;
    let mut message = Proto { bytes: message.bytes.get(..length).ok_or("the trailer is cut short")? };
    let (mut load_on_open, mut codec) = (None, 2);
    while let Some((field, value)) = message.field() {
        match (field, value) {
            (2, ProtoValue::Number(n)) => load_on_open = usize::try_from(n).ok(),
            (12, ProtoValue::Number(n)) => codec = n,
            _ => {}
        }
    }
    let load_on_open = load_on_open.filter(|at| *at <= start).ok_or("the trailer points outside of the file")?;
    match codec {
        1 => Ok(Trailer { load_on_open, gzip: true }),
        2 => Ok(Trailer { load_on_open, gzip: false }),
        other => Err(format!("HFile compression {other} is not read, GZ and NONE are")),
    }
}

fn pairs(data: &[u8], found: &mut Vec<(Vec<u8>, Vec<u8>)>) -> Result<(), String> {
    let mut at = 0;
    while at < data.len() {
        let pair = || {
            let (key_length, value_length) = (size(data, at)?, size(data, at.checked_add(4)?)?);
            let key_at = at.checked_add(8)?;
            let value_at = key_at.checked_add(key_length)?;
            let key = data.get(key_at..value_at)?;
            let row = usize::from(u16::from_be_bytes(key.get(..2)?.try_into().ok()?));
            let end = value_at.checked_add(value_length)?;
            // After the value stands a counter of the writer's, a Hadoop variable-length integer.
            let more = match i32::from(data.get(end)?.cast_signed()) {
                -112.. => 0,
                first @ -120..=-113 => -112 - first,
                first => -120 - first,
            };
            let next = end.checked_add(1)?.checked_add(usize::try_from(more).ok()?)?;
            Some((key.get(2..2 + row)?.to_vec(), data.get(value_at..end)?.to_vec(), next))
        };
        let (key, value, next) = pair().ok_or("a key-value pair is cut short")?;
        found.push((key, value));
        at = next;
    }
    Ok(())
}

fn file_info(data: &[u8], wanted: &[u8]) -> Option<Vec<u8>> {
    let mut message = Proto { bytes: data.strip_prefix(b"PBUF")? };
    let length = usize::try_from(message.varint()?).ok()?;
    let mut message = Proto { bytes: message.bytes.get(..length)? };
    while let Some((_, ProtoValue::Bytes(entry))) = message.field() {
        let mut entry = Proto { bytes: entry };
        let (mut key, mut value) = (&b""[..], &b""[..]);
        while let Some((field, ProtoValue::Bytes(bytes))) = entry.field() {
            if field == 1 { key = bytes } else { value = bytes }
        }
        if key == wanted {
            return Some(value.to_vec());
        }
    }
    None
}

/// A reader of protobuf messages.
struct Proto<'a> {
    bytes: &'a [u8],
}

enum ProtoValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Proto<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn field(&mut self) -> Option<(u64, ProtoValue<'a>)> {
        if self.bytes.is_empty() {
            return None;
        }
        let tag = self.varint()?;
        let take = |this: &mut Self, length: usize| {
            let (taken, rest) = this.bytes.split_at_checked(length)?;
            this.bytes = rest;
            Some(taken)
        };
        let value = match tag & 7 {
            0 => ProtoValue::Number(self.varint()?),
            1 => ProtoValue::Bytes(take(self, 8)?),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                ProtoValue::Bytes(take(self, length)?)
            }
            5 => ProtoValue::Bytes(take(self, 4)?),
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}
