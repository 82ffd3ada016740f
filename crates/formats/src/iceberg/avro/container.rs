//! The file around the records: header, blocks, codecs.

use super::{Decoder, Encoder, Fault, Node};
use std::collections::HashMap;
use std::io::{Read, Write};

const MAGIC: &[u8; 4] = b"Obj\x01";
/// A block of a manifest is some kilobytes; one that unpacks to more than this is an attack.
const MAX_BLOCK: u64 = 512 << 20;

/// How blocks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    Null,
    Deflate,
    Snappy,
    Zstandard,
}

/// A file that is read.
#[derive(Debug)]
pub struct Reader<'a> {
    pub schema: Node,
    /// The file's key-value metadata.
    pub metadata: HashMap<&'a str, &'a [u8]>,
    codec: Codec,
    sync: &'a [u8],
    rest: Decoder<'a>,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Result<Self, Fault> {
        let body = bytes.strip_prefix(MAGIC).ok_or("the file is no Avro file")?;
        let mut rest = Decoder::new(body);
        let mut metadata = HashMap::new();
        loop {
            let count = rest.long()?;
            if count == 0 {
                break;
            }
            if count < 0 {
                rest.long()?;
            }
            for _ in 0..count.unsigned_abs() {
                let key = rest.string()?;
                metadata.insert(key, rest.bytes()?);
            }
        }
        let sync = rest.take(16)?;
        let codec = match metadata.get("avro.codec").copied().unwrap_or(b"null") {
            b"null" => Codec::Null,
            b"deflate" => Codec::Deflate,
            b"snappy" => Codec::Snappy,
            b"zstandard" => Codec::Zstandard,
            other => return Err(format!("the Avro codec {} is not read", String::from_utf8_lossy(other))),
        };
        let schema = Node::parse(metadata.get("avro.schema").ok_or("the file has no Avro schema")?)?;
        Ok(Self { schema, metadata, codec, sync, rest })
    }

    /// A metadata value as text.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.metadata.get(key).and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// Visits every record; `visit` must consume each exactly. `block` is reused for what is unpacked.
    pub fn records(
        &mut self,
        mut visit: impl FnMut(&mut Decoder<'_>, &Node) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut block = Vec::new();
        while !self.rest.is_empty() {
            let count = self.rest.length()?;
            let packed = self.rest.bytes()?;
            let bytes: &[u8] = if self.codec == Codec::Null {
                packed
            } else {
                block.clear();
                unpack(self.codec, packed, &mut block)?;
                &block
            };
            if self.rest.take(16)? != self.sync {
                return Err("a block is not followed by the file's sync marker".to_owned());
            }
            let mut decoder = Decoder::new(bytes);
            for _ in 0..count {
                let before = decoder.bytes.len();
                visit(&mut decoder, &self.schema)?;
                if decoder.bytes.len() == before {
                    return Err("a block claims more records than it has bytes".to_owned());
                }
            }
            if !decoder.is_empty() {
                return Err("a block is longer than its records".to_owned());
            }
        }
        Ok(())
    }
}

fn unpack(codec: Codec, packed: &[u8], into: &mut Vec<u8>) -> Result<(), Fault> {
    let damaged = |e: &dyn std::fmt::Display| format!("a block does not unpack: {e}");
    let mut read = |reader: &mut dyn Read| -> Result<(), Fault> {
        let length = reader.take(MAX_BLOCK + 1).read_to_end(into).map_err(|e| damaged(&e))?;
        if length as u64 > MAX_BLOCK {
            return Err("a block unpacks to more than 512 MiB".to_owned());
        }
        Ok(())
    };
    match codec {
        Codec::Null => read(&mut &*packed),
        Codec::Deflate => read(&mut flate2::read::DeflateDecoder::new(packed)),
        Codec::Zstandard => read(&mut zstd::stream::read::Decoder::with_buffer(packed).map_err(|e| damaged(&e))?),
        Codec::Snappy => {
            let (data, crc) = packed.split_last_chunk::<4>().ok_or("a snappy block has no checksum")?;
            if snap::raw::decompress_len(data).map_err(|e| damaged(&e))? as u64 > MAX_BLOCK {
                return Err("a block unpacks to more than 512 MiB".to_owned());
            }
            *into = snap::raw::Decoder::new().decompress_vec(data).map_err(|e| damaged(&e))?;
            if crc32fast::hash(into) != u32::from_be_bytes(*crc) {
                return Err("a snappy block's checksum does not hold".to_owned());
            }
            Ok(())
        }
    }
}

/// A file that is written into memory.
#[derive(Debug)]
pub struct Writer {
    out: Vec<u8>,
    sync: [u8; 16],
    block: Vec<u8>,
    records: i64,
}

/// Unpacked bytes of a block.
const BLOCK_BYTES: usize = 64 << 10;

impl Writer {
    /// Starts a deflate-compressed file.
    pub fn new(schema: &str, metadata: &[(&str, &str)]) -> Self {
        let sync = *uuid::Uuid::new_v4().as_bytes();
        let mut out = MAGIC.to_vec();
        out.long(i64::try_from(metadata.len() + 2).unwrap_or(i64::MAX));
        for (key, value) in metadata.iter().chain(&[("avro.schema", schema), ("avro.codec", "deflate")]) {
            out.bytes(key.as_bytes());
            out.bytes(value.as_bytes());
        }
        out.long(0);
        out.extend_from_slice(&sync);
        Self { out, sync, block: Vec::with_capacity(BLOCK_BYTES + 4096), records: 0 }
    }

    /// The buffer for one record; [`Writer::end_record`] must follow.
    pub fn record(&mut self) -> &mut Vec<u8> {
        &mut self.block
    }

    /// Ends a record.
    pub fn end_record(&mut self) {
        self.records += 1;
        if self.block.len() >= BLOCK_BYTES {
            self.flush();
        }
    }

    /// Bytes so far, about.
    pub fn len(&self) -> usize {
        self.out.len() + self.block.len() / 4
    }

    fn flush(&mut self) {
        if self.records == 0 {
            return;
        }
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        // Writing to memory does not fail.
        let packed = encoder.write_all(&self.block).and_then(|()| encoder.finish()).unwrap_or_default();
        self.out.long(self.records);
        self.out.bytes(&packed);
        self.out.extend_from_slice(&self.sync);
        self.block.clear();
        self.records = 0;
    }

    /// The whole file.
    pub fn finish(mut self) -> Vec<u8> {
        self.flush();
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"type":"record","name":"r","fields":[
        {"name":"n","type":"long","field-id":1},
        {"name":"s","type":["null","string"],"default":null,"field-id":2},
        {"name":"m","type":["null",{"type":"array","logicalType":"map","items":{"type":"record","name":"k1_v2",
          "fields":[{"name":"key","type":"int"},{"name":"value","type":"bytes"}]}}],"field-id":3}]}"#;

    fn written() -> Vec<u8> {
        let mut writer = Writer::new(SCHEMA, &[("content", "data")]);
        for n in 0..20_000 {
            let record = writer.record();
            record.long(n);
            record.long(1);
            record.bytes(b"text");
            record.long(i64::from(n % 2 == 0));
            if n % 2 == 0 {
                record.long(1);
                record.long(7);
                record.bytes(b"v");
                record.long(0);
            }
            writer.end_record();
        }
        writer.finish()
    }

    #[test]
    fn what_is_written_reads_back() {
        let bytes = written();
        let mut reader = Reader::new(&bytes).unwrap();
        assert_eq!(reader.text("content"), Some("data"));
        let mut next = 0;
        reader
            .records(|d, node| {
                let fields = node.record().unwrap();
                assert_eq!(d.long()?, next);
                assert_eq!(d.required_string(&fields[1].node)?, "text");
                let mut items = 0;
                d.items(&fields[2].node, |d, item| {
                    items += 1;
                    d.skip(item)
                })?;
                assert_eq!(items, i64::from(next % 2 == 0));
                next += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!(next, 20_000);
        // Skipping whole records reads the same file.
        let mut skipped = 0;
        Reader::new(&bytes)
            .unwrap()
            .records(|d, node| {
                skipped += 1;
                d.skip(node)
            })
            .unwrap();
        assert_eq!(skipped, 20_000);
    }

    #[test]
    fn damaged_files_are_refused() {
        let good = written();
        for length in [0, 3, 4, 30, good.len() / 2, good.len() - 1] {
            let read = Reader::new(&good[..length]).and_then(|mut r| r.records(|d, n| d.skip(n)));
            assert!(read.is_err(), "{length}");
        }
        let mut twisted = good.clone();
        let last = twisted.len() - 1;
        twisted[last] ^= 1;
        assert!(Reader::new(&twisted).unwrap().records(|d, n| d.skip(n)).is_err());
        assert!(Node::parse(br#"{"type":"record","name":"r","fields":[{"name":"f","type":"r"}]}"#).is_err(), "cycle");
        let deep = format!("{}\"null\"{}", r#"{"type":"array","items":"#.repeat(100), "}".repeat(100));
        assert!(Node::parse(deep.as_bytes()).is_err());
    }

    #[test]
    fn bombs_are_refused() {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        let chunk = vec![0; 1 << 20];
        for _ in 0..513 {
            encoder.write_all(&chunk).unwrap();
        }
        let packed = encoder.finish().unwrap();
        assert!(unpack(Codec::Deflate, &packed, &mut Vec::new()).unwrap_err().contains("512 MiB"));
        assert!(unpack(Codec::Snappy, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0], &mut Vec::new()).is_err());
    }
}
