//! Log files of the metadata table and of the archived timeline.
//!
//! # Source
//! Hudi specification, "Log format": a block is `#HUDI#`, its length, a version, a type, a header, content, a footer and
//! the length again, all numbers big-endian.

const MAGIC: &[u8] = b"#HUDI#";

/// A block that matters to a reader of the metadata table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block<'a> {
    /// The instant that wrote it.
    pub(super) instant: String,
    pub(super) content: Content<'a>,
}

/// What a block holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content<'a> {
    /// An HFile of records, and their schema when the header has it.
    HFile(&'a [u8], Option<String>),
    /// Avro records, and their schema.
    Avro(Vec<&'a [u8]>, String),
    /// Takes back what this instant wrote before.
    Rollback(String),
    /// Deletes that delete nothing: the mark that a new log file begins.
    Nothing,
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(usize::try_from(length).ok()?)?;
        self.bytes = rest;
        Some(taken)
    }

    fn int(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn long(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }

    fn header(&mut self) -> Option<Vec<(u32, &'a [u8])>> {
        let count = self.int()?;
        let mut entries = Vec::new();
        for _ in 0..count {
            let key = self.int()?;
            let length = self.int()?;
            entries.push((key, self.take(u64::from(length))?));
        }
        Some(entries)
    }
}

/// Reads the blocks of a log file.
///
/// # Errors
/// A sentence that says what is wrong; data blocks of other kinds than the metadata table's are refused.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<Block<'_>>, String> {
    let mut reader = Reader { bytes };
    let mut blocks = Vec::new();
    while !reader.bytes.is_empty() {
        let at = bytes.len() - reader.bytes.len();
        if reader.take(6) != Some(MAGIC) {
            return Err(format!("no log block begins at byte {at}"));
        }
        let length = reader.long();
        let body = length.and_then(|l| reader.take(l)).ok_or_else(|| format!("the log block at {at} is cut short"))?;
        let block = block(Reader { bytes: body }).ok_or_else(|| format!("the log block at {at} is damaged"))?;
        blocks.push(block.map_err(|why| format!("the log block at {at}: {why}"))?);
    }
    Ok(blocks)
}

fn block(mut body: Reader<'_>) -> Option<Result<Block<'_>, String>> {
    if body.int()? != 1 {
        return Some(Err("its version is not 1".to_owned()));
    }
    let kind = body.int()?;
    let header = body.header()?;
    let length = body.long()?;
    let content = body.take(length)?;
    // Header keys: 0 instant, 1 target instant, 2 schema, 3 command.
    let text = |key: u32| {
        let entry = header.iter().find(|(k, _)| *k == key)?;
        String::from_utf8(entry.1.to_vec()).ok()
    };
    let content = match kind {
        0 => Content::Rollback(text(1)?),
        1 => Content::Nothing,
        3 => Content::Avro(records(Reader { bytes: content })?, text(2)?),
        4 => Content::HFile(content, text(2)),
        other => return Some(Err(format!("block type {other} does not belong into the metadata table"))),
    };
    Some(Ok(Block { instant: text(0).unwrap_or_default(), content }))
}

fn records(mut content: Reader<'_>) -> Option<Vec<&[u8]>> {
    let _version = content.int()?;
    let count = content.int()?;
    let mut records = Vec::new();
    for _ in 0..count {
        let length = content.int()?;
        records.push(content.take(u64::from(length))?);
    }
    Some(records)
}

/// A block of Avro records.
pub(super) fn avro_block(schema: &str, records: &[Vec<u8>]) -> Vec<u8> {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_be_bytes();
    let mut content = Vec::new();
    content.extend(3u32.to_be_bytes());
    content.extend(number(records.len()));
    for record in records {
        content.extend(number(record.len()));
        content.extend(record);
    }
    write(3, &[(2, schema)], &content)
}

/// A block with an HFile that `instant` wrote.
pub(super) fn hfile_block(instant: &str, schema: &str, hfile: &[u8]) -> Vec<u8> {
    write(4, &[(0, instant), (2, schema)], hfile)
}

fn write(kind: u32, header: &[(u32, &str)], content: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(1u32.to_be_bytes());
    body.extend(kind.to_be_bytes());
    body.extend(u32::try_from(header.len()).unwrap_or_default().to_be_bytes());
    for (key, text) in header {
        body.extend(key.to_be_bytes());
        body.extend(u32::try_from(text.len()).unwrap_or_default().to_be_bytes());
        body.extend(text.as_bytes());
    }
    body.extend(u64::try_from(content.len()).unwrap_or_default().to_be_bytes());
    body.extend(content);
    body.extend(0u32.to_be_bytes());
    let whole = u64::try_from(body.len() + 8).unwrap_or_default();
    let mut out = MAGIC.to_vec();
    out.extend(whole.to_be_bytes());
    out.extend(body);
    // Readers that go backwards find the start of the block from here.
    out.extend((whole + 6).to_be_bytes());
    out
}
