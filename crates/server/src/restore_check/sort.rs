//! Sorting more keys than fit in memory: sorted runs in temporary files, merged while they are read.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

const BUFFER_BYTES: usize = 64 << 10;

/// Takes keys in any order, each with `N` bytes of whatever goes with it.
pub struct Sorter<const N: usize> {
    /// Keys and payloads, back to back.
    arena: Vec<u8>,
    /// Where each key starts, and its length.
    entries: Vec<(usize, u32)>,
    budget: usize,
    folder: PathBuf,
    runs: Vec<File>,
}

impl<const N: usize> Sorter<N> {
    /// Nothing yet. Beyond `budget` bytes, runs go to unnamed files in `folder`.
    pub fn new(folder: PathBuf, budget: usize) -> Self {
        Self { arena: Vec::new(), entries: Vec::new(), budget, folder, runs: Vec::new() }
    }

    /// Takes one key.
    ///
    /// # Errors
    /// When a temporary file fails.
    pub fn push(&mut self, key: &[u8], payload: [u8; N]) -> io::Result<()> {
        let length = u32::try_from(key.len()).map_err(|_| io::Error::other("a key of more than 4 GiB"))?;
        self.entries.push((self.arena.len(), length));
        self.arena.extend_from_slice(key);
        self.arena.extend_from_slice(&payload);
        if self.arena.len() + self.entries.len() * size_of::<(usize, u32)>() >= self.budget {
            self.spill()?;
        }
        Ok(())
    }

    /// Keys in byte order; equal ones by payload.
    ///
    /// # Errors
    /// When a temporary file fails.
    pub fn finish(mut self) -> io::Result<Sorted<N>> {
        if !self.runs.is_empty() {
            self.spill()?;
        }
        self.sort();
        let mut sources = Vec::with_capacity(self.runs.len() + 1);
        for mut run in self.runs {
            run.seek(SeekFrom::Start(0))?;
            sources.push(Source::File(BufReader::with_capacity(BUFFER_BYTES, run)));
        }
        sources.push(Source::Memory { arena: self.arena, entries: self.entries.into_iter() });
        let mut sorted = Sorted { sources, next: BinaryHeap::new() };
        for source in 0..sorted.sources.len() {
            sorted.refill(source)?;
        }
        Ok(sorted)
    }

    fn sort(&mut self) {
        let arena = &self.arena;
        let parts = |(start, length): (usize, u32)| arena[start..start + length as usize + N].split_at(length as usize);
        self.entries.sort_unstable_by(|a, b| parts(*a).cmp(&parts(*b)));
    }

    fn spill(&mut self) -> io::Result<()> {
        self.sort();
        let mut writer = BufWriter::with_capacity(BUFFER_BYTES, tempfile::tempfile_in(&self.folder)?);
        for (start, length) in self.entries.drain(..) {
            writer.write_all(&length.to_le_bytes())?;
            writer.write_all(&self.arena[start..start + length as usize + N])?;
        }
        self.arena.clear();
        self.runs.push(writer.into_inner().map_err(io::IntoInnerError::into_error)?);
        Ok(())
    }
}

enum Source {
    File(BufReader<File>),
    Memory { arena: Vec<u8>, entries: std::vec::IntoIter<(usize, u32)> },
}

/// Sorted keys with their payloads.
pub struct Sorted<const N: usize> {
    sources: Vec<Source>,
    next: BinaryHeap<Reverse<(Vec<u8>, [u8; N], usize)>>,
}

impl<const N: usize> Sorted<N> {
    /// The next key.
    ///
    /// # Errors
    /// When a temporary file fails.
    pub fn pop(&mut self) -> io::Result<Option<(Vec<u8>, [u8; N])>> {
        let Some(Reverse((key, payload, source))) = self.next.pop() else { return Ok(None) };
        self.refill(source)?;
        Ok(Some((key, payload)))
    }

    /// The key that comes next, without taking it.
    pub fn peek(&self) -> Option<&[u8]> {
        self.next.peek().map(|Reverse((key, ..))| key.as_slice())
    }

    fn refill(&mut self, index: usize) -> io::Result<()> {
        let mut payload = [0; N];
        let key = match &mut self.sources[index] {
            Source::Memory { arena, entries } => {
                let Some((start, length)) = entries.next() else { return Ok(()) };
                let (key, rest) = arena[start..start + length as usize + N].split_at(length as usize);
                payload.copy_from_slice(rest);
                key.to_vec()
            }
            Source::File(reader) => {
                let mut length = [0; 4];
                match reader.read_exact(&mut length) {
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                    read => read?,
                }
                let mut key = vec![0; u32::from_le_bytes(length) as usize];
                reader.read_exact(&mut key)?;
                reader.read_exact(&mut payload)?;
                key
            }
        };
        self.next.push(Reverse((key, payload, index)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_comes_out_is_what_went_in_sorted(
            keys in prop::collection::vec(("[a-c/]{0,6}", any::<u16>()), 0..200),
            budget in 1usize..4_000,
        ) {
            let mut sorter = Sorter::<2>::new(std::env::temp_dir(), budget);
            for (key, payload) in &keys {
                sorter.push(key.as_bytes(), payload.to_be_bytes()).unwrap();
            }
            let mut sorted = sorter.finish().unwrap();
            let mut found = Vec::new();
            while let Some(peeked) = sorted.peek().map(<[u8]>::to_vec) {
                let (key, payload) = sorted.pop().unwrap().unwrap();
                prop_assert_eq!(&peeked, &key);
                found.push((String::from_utf8(key).unwrap(), u16::from_be_bytes(payload)));
            }
            prop_assert!(sorted.pop().unwrap().is_none());
            let mut wanted = keys;
            wanted.sort();
            prop_assert_eq!(found, wanted);
        }
    }
}
