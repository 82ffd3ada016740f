//! A look at the shape of a footer's schema before a recursive decoder sees it.
//!
//! The schema of a Parquet file is a flat list in which every group announces how many children follow. A few hundred
//! kilobytes of groups with one child each make a tree too deep for any stack, so that the depth is counted here,
//! with a loop, before the footer is decoded.
//!
//! # Source
//! Thrift compact protocol, "Struct encoding" and "List and set"; `parquet.thrift`, `FileMetaData.schema` (field 2) and
//! `SchemaElement.num_children` (field 5).

/// The deepest nesting of groups that is read.
const MAX_DEPTH: usize = 64;

/// The most schema elements that are read.
const MAX_ELEMENTS: u64 = 200_000;

struct Reader<'a> {
    bytes: &'a [u8],
}

/// Refuses footers whose schema is nested too deeply or is too large.
pub(super) fn check(footer: &[u8]) -> Result<(), String> {
    let mut reader = Reader { bytes: footer };
    let mut field = 0i16;
    loop {
        let (kind, id) = reader.field(field).ok_or("the footer is cut short")?;
        if kind == 0 {
            return Err("the footer has no schema".to_owned());
        }
        if id == 2 && kind == 9 {
            return reader.schema();
        }
        reader.skip(kind, 0).ok_or("the footer is cut short before its schema")?;
        field = id;
    }
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }

    fn take(&mut self, length: u64) -> Option<()> {
        self.bytes = self.bytes.get(usize::try_from(length).ok()?..)?;
        Some(())
    }

    /// The type and id of the next field; type 0 at the end of the struct.
    fn field(&mut self, previous: i16) -> Option<(u8, i16)> {
        let head = self.byte()?;
        let kind = head & 0x0f;
        if kind == 0 {
            return Some((0, 0));
        }
        let delta = i16::from(head >> 4);
        let id = if delta == 0 { i16::try_from(self.zigzag()?).ok()? } else { previous.checked_add(delta)? };
        Some((kind, id))
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        if depth > 16 {
            return None;
        }
        match kind {
            1 | 2 => Some(()),
            3 => self.take(1),
            4..=6 => self.varint().map(|_| ()),
            7 => self.take(8),
            8 => {
                let length = self.varint()?;
                self.take(length)
            }
            9 | 10 => {
                let (element, count) = self.list()?;
                for _ in 0..count {
                    // A boolean is a bit of its field, but a whole byte as a list element.
                    if matches!(element, 1 | 2) { self.take(1)? } else { self.skip(element, depth + 1)? }
                }
                Some(())
            }
            12 => {
                let mut field = 0;
                loop {
                    let (kind, id) = self.field(field)?;
                    if kind == 0 {
                        return Some(());
                    }
                    self.skip(kind, depth + 1)?;
                    field = id;
                }
            }
            _ => None,
        }
    }

    fn list(&mut self) -> Option<(u8, u64)> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        Some((head & 0x0f, count))
    }

    fn schema(&mut self) -> Result<(), String> {
        const CUT: &str = "the footer's schema is cut short";
        let (kind, count) = self.list().ok_or(CUT)?;
        if kind != 12 || count == 0 {
            return Err("the footer's schema is not a list of elements".to_owned());
        }
        if count > MAX_ELEMENTS {
            return Err(format!("a schema of {count} elements is not read, at most {MAX_ELEMENTS} are"));
        }
        // How many children each open group still waits for.
        let mut open: Vec<i64> = Vec::new();
        for number in 1..=count {
            let children = self.element().ok_or(CUT)?;
            // The decoder makes room for as many as are announced.
            if u64::try_from(children).map_or(true, |children| children > count - number) {
                return Err(format!(
                    "a group of its schema announces {children} children, {} elements follow",
                    count - number
                ));
            }
            if children > 0 {
                open.push(children);
                if open.len() > MAX_DEPTH {
                    return Err(format!("its schema nests more than {MAX_DEPTH} groups"));
                }
            } else {
                while let Some(last) = open.last_mut() {
                    *last -= 1;
                    if *last > 0 {
                        break;
                    }
                    open.pop();
                }
            }
        }
        Ok(())
    }

    /// Reads one element and returns how many children it announces.
    fn element(&mut self) -> Option<i64> {
        let (mut field, mut children) = (0, 0);
        loop {
            let (kind, id) = self.field(field)?;
            match (kind, id) {
                (0, _) => return Some(children),
                (5, 5) => children = self.zigzag()?,
                _ => self.skip(kind, 0)?,
            }
            field = id;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{StoreConfig, Stores};
    use hoglake_model::table::FilePath;
    use parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;
    use std::sync::Arc;

    /// A footer with `depth` groups of one child each, closed by a leaf when `leaf` says so.
    fn nested(depth: usize, leaf: bool) -> Vec<u8> {
        let count = depth + usize::from(leaf);
        // version (field 1, i32), then the schema (field 2, list of structs with a long count).
        let mut bytes = vec![0x15, 0x02, 0x19, 0xfc];
        let mut rest = count;
        loop {
            let low = u8::try_from(rest & 0x7f).unwrap();
            rest >>= 7;
            bytes.push(if rest > 0 { low | 0x80 } else { low });
            if rest == 0 {
                break;
            }
        }
        for _ in 0..depth {
            // name (field 4, binary), num_children (field 5, i32) = 1.
            bytes.extend([0x48, 1, b'g', 0x15, 2, 0]);
        }
        if leaf {
            bytes.extend([0x15, 2, 0x38, 1, b'x', 0]);
        }
        bytes
    }

    #[test]
    fn shallow_schemas_pass_and_deep_ones_do_not() {
        assert_eq!(check(&nested(MAX_DEPTH, true)), Ok(()));
        assert!(check(&nested(MAX_DEPTH + 1, true)).unwrap_err().contains("nests"));
        assert!(check(&nested(150_000, true)).unwrap_err().contains("nests"));
    }

    /// Every way to a footer: the catalog's hydration and compaction, conversion's directories, checkpoints and deletes.
    #[tokio::test]
    async fn no_reader_follows_a_schema_that_is_too_deep() {
        let footer = nested(150_000, true);
        let mut file = b"PAR1".to_vec();
        file.extend(&footer);
        file.extend(u32::try_from(footer.len()).unwrap().to_le_bytes());
        file.extend(b"PAR1");
        let refused = crate::parquet::footer::decode(&file[4..]).unwrap_err().to_string();
        assert!(refused.contains("nests"), "{refused}");

        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("deep.parquet"), &file).unwrap();
        let stores = Arc::new(Stores::new(StoreConfig::local()));
        let location = hoglake_model::Location::parse(&format!("file://{}", folder.path().display())).unwrap();
        let root = crate::sync::TableRoot::open(&stores, location).unwrap();
        for size in [None, Some(file.len() as u64)] {
            let object = root.parquet(&FilePath::Under("deep.parquet".into()), size).unwrap();
            let refused = ParquetRecordBatchStreamBuilder::new(object).await.err().unwrap();
            assert!(refused.to_string().contains("nests"), "{refused}");
        }
    }

    #[test]
    fn absurd_counts_and_cut_footers_are_refused() {
        let mut bytes = vec![0x15, 0x02, 0x19, 0xfc];
        bytes.extend([0xff, 0xff, 0xff, 0xff, 0x0f]);
        assert!(check(&bytes).unwrap_err().contains("elements"));
        for children in [5, u64::from(u32::MAX), 3] {
            let mut bytes = vec![0x15, 0x02, 0x19, 0x2c, 0x48, 1, b'g', 0x15];
            // Zigzag: the last one is negative.
            let mut announced = if children == 3 { 3 } else { children << 1 };
            while announced >= 0x80 {
                bytes.push(u8::try_from(announced & 0x7f).unwrap() | 0x80);
                announced >>= 7;
            }
            bytes.extend([u8::try_from(announced).unwrap(), 0, 0x15, 2, 0x38, 1, b'x', 0]);
            assert!(check(&bytes).unwrap_err().contains("children"), "{children}");
        }
        let whole = nested(3, true);
        for cut in 0..whole.len() {
            assert!(check(&whole[..cut]).is_err(), "{cut}");
        }
    }
}
