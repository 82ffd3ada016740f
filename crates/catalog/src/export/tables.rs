//! Tables of an export: which of them share a statement, and their JSON.

use crate::listing::json::push_string;
use crate::{Error, Result};

/// A table with more files than this is read by itself.
const LARGE: i64 = 5_000;
/// Files and tables that one statement reads at most: what Postgres sorts for it stays small.
const BATCH_FILES: i64 = 10_000;
const BATCH_TABLES: usize = 1_000;

/// A table that is live at head.
#[derive(Debug)]
pub(super) struct LiveTable {
    pub(super) id: i64,
    pub(super) uuid: Box<str>,
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
    /// Files by the table's counter: good for planning, not for counting.
    pub(super) files: i64,
}

/// How many of `tables` the next statement reads, and the one after it, and so on.
pub(super) fn batches(tables: &[LiveTable]) -> Vec<usize> {
    let mut sizes = Vec::new();
    let (mut size, mut files) = (0, 0);
    for table in tables {
        let full = table.files > LARGE || files + table.files > BATCH_FILES || size == BATCH_TABLES;
        if size > 0 && full {
            sizes.push(std::mem::take(&mut size));
            files = 0;
        }
        size += 1;
        files += table.files;
        if table.files > LARGE {
            sizes.push(std::mem::take(&mut size));
            files = 0;
        }
    }
    if size > 0 {
        sizes.push(size);
    }
    sizes
}

/// Writes a batch of tables: their files and vectors come in order, and tables without any get empty lists.
pub(super) struct Tables<'t> {
    tables: &'t [LiveTable],
    /// Tables that have been opened; the last of them is open still.
    opened: usize,
    in_vectors: bool,
    /// Whether nothing has been written to the open list.
    empty: bool,
    /// Whether no table came before.
    first: bool,
}

impl<'t> Tables<'t> {
    pub(super) fn new(tables: &'t [LiveTable], first: bool) -> Self {
        Self { tables, opened: 0, in_vectors: false, empty: true, first }
    }

    /// Makes room for a file of the table with this ordinal, from 1.
    pub(super) fn file(&mut self, out: &mut Vec<u8>, ordinal: usize) -> Result<()> {
        if ordinal < self.opened || ordinal > self.tables.len() || (ordinal == self.opened && self.in_vectors) {
            return Err(Error::Corrupt("files of an export came out of order".to_owned()));
        }
        self.advance(out, ordinal);
        self.separate(out);
        Ok(())
    }

    /// Makes room for a vector of the table with this ordinal, from 1.
    pub(super) fn vector(&mut self, out: &mut Vec<u8>, ordinal: usize) -> Result<()> {
        if ordinal < self.opened || ordinal > self.tables.len() {
            return Err(Error::Corrupt("deletion vectors of an export came out of order".to_owned()));
        }
        self.advance(out, ordinal);
        self.turn_to_vectors(out);
        self.separate(out);
        Ok(())
    }

    /// Closes the last table, and writes those that had nothing.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        self.advance(out, self.tables.len());
        self.close(out);
    }

    fn advance(&mut self, out: &mut Vec<u8>, ordinal: usize) {
        while self.opened < ordinal {
            self.close(out);
            let table = &self.tables[self.opened];
            self.opened += 1;
            if !std::mem::take(&mut self.first) {
                out.push(b',');
            }
            out.extend_from_slice(b"{\"namespace\":");
            push_string(out, table.namespace.as_bytes());
            out.extend_from_slice(b",\"table\":");
            push_string(out, table.name.as_bytes());
            out.extend_from_slice(b",\"table_uuid\":");
            push_string(out, table.uuid.as_bytes());
            out.extend_from_slice(b",\"files\":[");
            self.in_vectors = false;
            self.empty = true;
        }
    }

    fn turn_to_vectors(&mut self, out: &mut Vec<u8>) {
        if !self.in_vectors {
            out.extend_from_slice(b"],\"delete_files\":[");
            self.in_vectors = true;
            self.empty = true;
        }
    }

    fn separate(&mut self, out: &mut Vec<u8>) {
        if !std::mem::take(&mut self.empty) {
            out.push(b',');
        }
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if self.opened > 0 {
            self.turn_to_vectors(out);
            out.extend_from_slice(b"]}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn tables(files: &[i64]) -> Vec<LiveTable> {
        files
            .iter()
            .enumerate()
            .map(|(n, files)| LiveTable {
                id: n as i64,
                uuid: "u".into(),
                namespace: "n".into(),
                name: format!("t{n}").into(),
                files: *files,
            })
            .collect()
    }

    #[test]
    fn small_tables_share_a_statement_and_large_ones_do_not() {
        assert_eq!(batches(&tables(&[])), [0; 0]);
        assert_eq!(batches(&tables(&[1, 0, 4_000, 5_000, 3_000, 2_000, 6_000, 1])), [4, 2, 1, 1]);
        assert_eq!(batches(&tables(&[9_000_000, 9_000_000])), [1, 1]);
        assert_eq!(batches(&tables(&[0; 2_001])), [1_000, 1_000, 1]);
    }

    #[test]
    fn every_table_is_written_once_with_what_it_has() {
        let tables = tables(&[0; 5]);
        let mut out = b"[".to_vec();
        for (batch, first) in [(&tables[..3], true), (&tables[3..], false)] {
            let mut written = Tables::new(batch, first);
            if first {
                for (ordinal, vector) in [(1, false), (1, false), (1, true), (3, true), (3, true)] {
                    let room = if vector { Tables::vector } else { Tables::file };
                    room(&mut written, &mut out, ordinal).unwrap();
                    out.push(b'0');
                }
                assert!(written.file(&mut Vec::new(), 2).is_err());
                assert!(written.file(&mut Vec::new(), 3).is_err());
                assert!(written.vector(&mut Vec::new(), 4).is_err());
            }
            written.finish(&mut out);
        }
        out.push(b']');
        let text: Value = serde_json::from_slice(&out).unwrap();
        let found: Vec<_> =
            text.as_array().unwrap().iter().map(|t| (&t["table"], &t["files"], &t["delete_files"])).collect();
        let names: Vec<Value> = (0..5).map(|n| json!(format!("t{n}"))).collect();
        let (none, two, one) = (json!([]), json!([0, 0]), json!([0]));
        assert_eq!(
            found,
            [
                (&names[0], &two, &one),
                (&names[1], &none, &none),
                (&names[2], &none, &two),
                (&names[3], &none, &none),
                (&names[4], &none, &none)
            ]
        );
    }
}
