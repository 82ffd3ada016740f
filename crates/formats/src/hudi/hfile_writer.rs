//! Writing an HFile: one level of index, no compression, CRC-32 of every 16 KiB.
//!
//! # Source
//! `hudi-io/hfile_format.md` of Apache Hudi. HBase's own reader, which Hudi before 1.0 uses, also wants the last key and
//! the average lengths in the file info, and a comparator that it knows by name.

/// Bytes of a data block, about.
const BLOCK: usize = 64 << 10;

/// Bytes that one checksum covers.
const CHUNK: usize = 16 << 10;

const NONE: i32 = 2;

struct Writer {
    out: Vec<u8>,
}

/// Writes `pairs`, which must ascend by key, with the Avro schema of the values.
pub(super) fn write(pairs: &[(Vec<u8>, Vec<u8>)], schema: &str) -> Vec<u8> {
    let mut writer = Writer { out: Vec::new() };
    let mut index = Vec::new();
    let (mut blocks, mut last_offset, mut previous) = (0u64, 0usize, -1i64);
    let mut rest = pairs;
    while let Some((first, _)) = rest.first() {
        let (mut data, mut taken) = (Vec::new(), 0);
        for (key, value) in rest {
            if !data.is_empty() && data.len() + key.len() + value.len() > BLOCK {
                break;
            }
            let key = full_key(key);
            int(&mut data, key.len());
            int(&mut data, value.len());
            data.extend(&key);
            data.extend(value);
            data.push(0);
            taken += 1;
        }
        rest = rest.get(taken..).unwrap_or_default();
        last_offset = writer.out.len();
        let on_disk = writer.block(b"DATABLK*", &data, previous);
        previous = i64::try_from(last_offset).unwrap_or(-1);
        index.extend(u64::try_from(last_offset).unwrap_or_default().to_be_bytes());
        int(&mut index, on_disk);
        let key = full_key(first);
        vint(&mut index, key.len());
        index.extend(key);
        blocks += 1;
    }
    let load_on_open = writer.out.len();
    writer.block(b"IDXROOT2", &index, -1);
    writer.block(b"IDXROOT2", &[], -1);
    let file_info = writer.out.len();
    writer.block(b"FILEINF2", &info(pairs, schema), -1);

    let mut trailer = Vec::new();
    let number = |value: usize| u64::try_from(value).unwrap_or_default();
    let total: usize = pairs.iter().map(|(k, v)| k.len() + v.len() + 21).sum();
    for (field, value) in [
        (1, number(file_info)),
        (2, number(load_on_open)),
        (3, number(index.len())),
        (4, number(total)),
        (5, blocks),
        (6, 0),
        (7, number(pairs.len())),
        (8, 1),
        (9, 0),
        (10, number(last_offset)),
    ] {
        varint(&mut trailer, field << 3);
        varint(&mut trailer, value);
    }
    bytes_field(&mut trailer, 11, b"org.apache.hudi.io.storage.HoodieHBaseKVComparator");
    varint(&mut trailer, 12 << 3);
    varint(&mut trailer, u64::try_from(NONE).unwrap_or_default());
    let end = writer.out.len() + 4096 - 4;
    writer.out.extend(b"TRABLK\"$");
    varint(&mut writer.out, number(trailer.len()));
    writer.out.extend(trailer);
    writer.out.resize(end, 0);
    // Minor version 3, major version 3.
    writer.out.extend([3, 0, 0, 3]);
    writer.out
}

impl Writer {
    /// Appends a block and returns its size with header and checksums.
    fn block(&mut self, magic: &[u8; 8], data: &[u8], previous: i64) -> usize {
        let start = self.out.len();
        let with_header = data.len() + 33;
        let checksums = with_header.div_ceil(CHUNK) * 4;
        self.out.extend(magic);
        int(&mut self.out, data.len() + checksums);
        int(&mut self.out, data.len());
        self.out.extend(previous.to_be_bytes());
        self.out.push(1);
        int(&mut self.out, CHUNK);
        int(&mut self.out, with_header);
        self.out.extend(data);
        let sums: Vec<u8> =
            self.out[start..].chunks(CHUNK).flat_map(|chunk| crc32fast::hash(chunk).to_be_bytes()).collect();
        self.out.extend(sums);
        with_header + checksums
    }
}

/// A key as HBase has it: length and row, no column family, the latest time, the type "put".
fn full_key(row: &[u8]) -> Vec<u8> {
    let mut key = u16::try_from(row.len()).unwrap_or(u16::MAX).to_be_bytes().to_vec();
    key.extend(row);
    key.push(0);
    key.extend(i64::MAX.to_be_bytes());
    key.push(4);
    key
}

fn info(pairs: &[(Vec<u8>, Vec<u8>)], schema: &str) -> Vec<u8> {
    let average = |length: fn(&(Vec<u8>, Vec<u8>)) -> usize| {
        let total: usize = pairs.iter().map(length).sum();
        let mut bytes = Vec::new();
        int(&mut bytes, total.checked_div(pairs.len()).unwrap_or(0));
        bytes
    };
    let (first, last) = (pairs.first(), pairs.last());
    let mut entries: Vec<(&str, Vec<u8>)> = vec![
        ("KEY_VALUE_VERSION", 1i32.to_be_bytes().to_vec()),
        ("MAX_MEMSTORE_TS_KEY", 0i64.to_be_bytes().to_vec()),
        ("hfile.AVG_KEY_LEN", average(|(key, _)| key.len() + 12)),
        ("hfile.AVG_VALUE_LEN", average(|(_, value)| value.len())),
        ("hfile.CREATE_TIME_TS", 0i64.to_be_bytes().to_vec()),
        ("maxRecordKey", last.map(|(key, _)| key.clone()).unwrap_or_default()),
        ("minRecordKey", first.map(|(key, _)| key.clone()).unwrap_or_default()),
        ("schema", schema.as_bytes().to_vec()),
    ];
    if let Some((key, _)) = last {
        entries.push(("hfile.LASTKEY", full_key(key)));
    }
    entries.sort();
    let mut message = Vec::new();
    for (key, value) in entries {
        let mut pair = Vec::new();
        bytes_field(&mut pair, 1, key.as_bytes());
        bytes_field(&mut pair, 2, &value);
        bytes_field(&mut message, 1, &pair);
    }
    let mut out = b"PBUF".to_vec();
    varint(&mut out, u64::try_from(message.len()).unwrap_or_default());
    out.extend(message);
    out
}

fn int(out: &mut Vec<u8>, value: usize) {
    out.extend(i32::try_from(value).unwrap_or(i32::MAX).to_be_bytes());
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Hadoop's variable-length integer, for values that are not negative.
fn vint(out: &mut Vec<u8>, value: usize) {
    if value <= 127 {
        out.push(value as u8);
        return;
    }
    let bytes = value.to_be_bytes();
    let used = bytes.iter().skip_while(|b| **b == 0).count();
    out.push((-112i8 - i8::try_from(used).unwrap_or(8)).cast_unsigned());
    out.extend(bytes.iter().skip(bytes.len() - used));
}

fn bytes_field(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, u64::try_from(bytes.len()).unwrap_or_default());
    out.extend(bytes);
}

#[cfg(test)]
mod tests {
    use super::super::hfile::HFile;
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for count in [0usize, 1, 3, 5000] {
            let pairs: Vec<_> = (0..count)
                .map(|i| (format!("region={i:05}/{}", "x".repeat(i % 300)).into_bytes(), vec![7; i % 90]))
                .collect();
            let bytes = write(&pairs, "{\"type\":\"record\"}");
            let back = HFile::read(&bytes).unwrap();
            assert_eq!((back.pairs, back.schema.as_deref()), (pairs, Some("{\"type\":\"record\"}")), "{count}");
        }
    }

    #[test]
    fn hadoop_integers() {
        for (value, bytes) in [(0usize, vec![0u8]), (127, vec![127]), (128, vec![0x8f, 0x80]), (300, vec![0x8e, 1, 44])]
        {
            let mut out = Vec::new();
            vint(&mut out, value);
            assert_eq!(out, bytes, "{value}");
        }
    }
}
