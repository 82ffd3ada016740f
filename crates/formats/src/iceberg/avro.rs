//! Avro object container files, as far as Iceberg's metadata needs them ("Appendix A, Avro").
//!
//! Manifests hold hundreds of thousands of records, so that nothing is turned into a tree of values: a [`Decoder`]
//! walks the bytes along the writer's schema and borrows from them, an [`Encoder`] appends to a buffer. Everything read
//! comes from outside: lengths and counts are checked against the bytes that are there before anything is allocated.

mod container;
mod schema;

pub(super) use container::{Reader, Writer};
pub(super) use schema::Node;

/// What is wrong with the bytes.
pub(super) type Fault = String;

/// A cursor over the bytes of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decoder<'a> {
    bytes: &'a [u8],
}

/// A leaf value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scalar<'a> {
    Null,
    Boolean(bool),
    /// `int` and `long`.
    Long(i64),
    Float(f32),
    Double(f64),
    /// `bytes` and `fixed`.
    Bytes(&'a [u8]),
    String(&'a str),
}

impl<'a> Decoder<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let (head, tail) = self.bytes.split_at_checked(length).ok_or("the file ends within a value")?;
        self.bytes = tail;
        Ok(head)
    }

    /// `int` or `long`: a zigzag varint.
    pub fn long(&mut self) -> Result<i64, Fault> {
        let mut value = 0_u64;
        for (index, byte) in self.bytes.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.bytes = self.bytes.get(index + 1..).unwrap_or_default();
                return Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
            }
        }
        Err("a number does not end".to_owned())
    }

    fn length(&mut self) -> Result<usize, Fault> {
        let length = self.long()?;
        usize::try_from(length).map_err(|_| format!("a length of {length} is impossible"))
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], Fault> {
        let length = self.length()?;
        self.take(length)
    }

    pub fn string(&mut self) -> Result<&'a str, Fault> {
        std::str::from_utf8(self.bytes()?).map_err(|_| "a string is not UTF-8".to_owned())
    }

    /// The branch of a union that is present; the node itself when it is no union.
    pub fn branch<'n>(&mut self, node: &'n Node) -> Result<&'n Node, Fault> {
        let Node::Union(branches) = node else { return Ok(node) };
        let index = self.length()?;
        branches.get(index).ok_or_else(|| format!("a union has no branch {index}"))
    }

    /// A leaf value, nullable or not.
    pub fn scalar(&mut self, node: &Node) -> Result<Scalar<'a>, Fault> {
        Ok(match self.branch(node)? {
            Node::Null => Scalar::Null,
            Node::Boolean => Scalar::Boolean(self.take(1)? != [0]),
            Node::Long => Scalar::Long(self.long()?),
            Node::Float => Scalar::Float(f32::from_le_bytes(self.array()?)),
            Node::Double => Scalar::Double(f64::from_le_bytes(self.array()?)),
            Node::Bytes => Scalar::Bytes(self.bytes()?),
            Node::String => Scalar::String(self.string()?),
            Node::Fixed(length) => Scalar::Bytes(self.take(*length)?),
            other => return Err(format!("a leaf value was expected, the schema has {other:?}")),
        })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        self.take(N)?.try_into().map_err(|_| "the file ends within a value".to_owned())
    }

    /// A nullable number.
    pub fn optional_long(&mut self, node: &Node) -> Result<Option<i64>, Fault> {
        match self.scalar(node)? {
            Scalar::Null => Ok(None),
            Scalar::Long(n) => Ok(Some(n)),
            other => Err(format!("a number was expected instead of {other:?}")),
        }
    }

    /// A string that must be there.
    pub fn required_string(&mut self, node: &Node) -> Result<&'a str, Fault> {
        match self.scalar(node)? {
            Scalar::String(text) => Ok(text),
            other => Err(format!("a string was expected instead of {other:?}")),
        }
    }

    /// Visits the items of an array, or the key-value records of a map in either representation; `visit` must consume
    /// each item exactly.
    pub fn items(
        &mut self,
        node: &Node,
        mut visit: impl FnMut(&mut Self, &Node) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let item = match self.branch(node)? {
            Node::Null => return Ok(()),
            Node::Array(item) => item,
            other => return Err(format!("a list was expected, the schema has {other:?}")),
        };
        loop {
            let mut count = self.long()?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                self.long()?;
                count = count.checked_neg().ok_or("a block has too many items")?;
            }
            for _ in 0..count {
                let before = self.bytes.len();
                // DuckDB makes items nullable.
                let item = self.branch(item)?;
                visit(self, item)?;
                if self.bytes.len() == before && count > 1_000_000 {
                    return Err("a block claims more items than it has bytes".to_owned());
                }
            }
        }
    }

    /// Passes over a value.
    pub fn skip(&mut self, node: &Node) -> Result<(), Fault> {
        match self.branch(node)? {
            Node::Array(item) => self.blocks(|this| this.skip(item)),
            Node::Map(value) => {
                let value = value.as_ref();
                self.blocks(|this| {
                    this.bytes()?;
                    this.skip(value)
                })
            }
            Node::Record(fields) => fields.iter().try_for_each(|field| self.skip(&field.node)),
            Node::Enum => self.long().map(drop),
            Node::Union(_) => Err("a union within a union is no Avro".to_owned()),
            leaf => self.scalar(leaf).map(drop),
        }
    }

    fn blocks(&mut self, mut item: impl FnMut(&mut Self) -> Result<(), Fault>) -> Result<(), Fault> {
        loop {
            let count = self.long()?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                // The size in bytes follows, so that the block can be passed over at once.
                let length = self.length()?;
                self.take(length)?;
                continue;
            }
            for _ in 0..count {
                let before = self.bytes.len();
                item(self)?;
                if self.bytes.len() == before && count > 1_000_000 {
                    return Err("a block claims more items than it has bytes".to_owned());
                }
            }
        }
    }
}

/// Appends values to a buffer.
pub(super) trait Encoder {
    /// `int` or `long`.
    fn long(&mut self, value: i64);
    /// `bytes` or `string`.
    fn bytes(&mut self, value: &[u8]);
    /// A `["null", "long"]` union.
    fn optional_long(&mut self, value: Option<i64>) {
        match value {
            None => self.long(0),
            Some(value) => {
                self.long(1);
                self.long(value);
            }
        }
    }
}

impl Encoder for Vec<u8> {
    fn long(&mut self, value: i64) {
        let mut zigzag = ((value << 1) ^ (value >> 63)).cast_unsigned();
        while zigzag >= 0x80 {
            self.push((zigzag & 0x7f) as u8 | 0x80);
            zigzag >>= 7;
        }
        self.push(zigzag as u8);
    }

    fn bytes(&mut self, value: &[u8]) {
        Encoder::long(self, i64::try_from(value.len()).unwrap_or(i64::MAX));
        self.extend_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_and_unending_ones_are_refused() {
        for value in [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN] {
            let mut bytes = Vec::new();
            Encoder::long(&mut bytes, value);
            assert_eq!(Decoder::new(&bytes).long(), Ok(value));
        }
        assert!(Decoder::new(&[0x80; 11]).long().is_err());
        assert!(Decoder::new(&[]).long().is_err());
        assert!(Decoder::new(&[0x7f]).bytes().is_err(), "negative length");
        assert!(Decoder::new(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x10]).bytes().is_err(), "longer than the file");
    }
}
