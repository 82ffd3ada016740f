//! Some thousand files of a scan index.

use super::BLOCK;

/// Up to [`BLOCK`] files.
#[derive(Default)]
pub(in crate::scan) struct Block {
    ids: Offsets,
    begins: Offsets,
    /// Partition tuples by number; empty while all are tuple 0.
    tuples: Vec<u32>,
}

impl Block {
    pub(in crate::scan) fn len(&self) -> usize {
        self.ids.offsets.len()
    }

    pub(in crate::scan) fn id(&self, place: usize) -> i64 {
        self.ids.get(place)
    }

    pub(in crate::scan) fn tuple(&self, place: usize) -> u32 {
        self.tuples.get(place).copied().unwrap_or(0)
    }

    /// How many files of the block had begun by `snapshot`.
    pub(in crate::scan) fn begun_by(&self, snapshot: i64) -> usize {
        self.begins.offsets.partition_point(|offset| self.begins.base + i64::from(*offset) <= snapshot)
    }

    pub(super) fn bytes(&self) -> usize {
        self.len() * 8 + self.tuples.len() * 4
    }

    /// Whether there is room for the file, and its numbers are near enough to the others.
    pub(super) fn takes(&self, id: i64, begin: i64) -> bool {
        self.len() < BLOCK && self.ids.takes(id) && self.begins.takes(begin)
    }

    pub(super) fn push(&mut self, id: i64, begin: i64, tuple: u32) {
        if tuple != 0 || !self.tuples.is_empty() {
            self.tuples.resize(self.len(), 0);
            self.tuples.push(tuple);
        }
        self.ids.push(id);
        self.begins.push(begin);
    }
}

/// Numbers near each other, in four bytes each.
#[derive(Default)]
struct Offsets {
    base: i64,
    offsets: Vec<u32>,
}

impl Offsets {
    fn offset(&self, number: i64) -> Option<u32> {
        number.checked_sub(self.base).and_then(|offset| u32::try_from(offset).ok())
    }

    fn push(&mut self, number: i64) {
        if self.offsets.is_empty() {
            // Later numbers are mostly larger; some are smaller.
            self.base = number.saturating_sub(1 << 30);
        }
        self.offsets.push(self.offset(number).unwrap_or_default());
    }

    fn takes(&self, number: i64) -> bool {
        self.offsets.is_empty() || self.offset(number).is_some()
    }

    fn get(&self, place: usize) -> i64 {
        self.base + i64::from(self.offsets[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_gives_back_what_it_took() {
        let mut block = Block::default();
        let files = [(5, 1, 0), (9_000_000_000, 1, 0), (6, 3, 2), (7, 3, 0), (8, 9, 1)];
        let taken: Vec<_> = files.iter().filter(|(id, begin, _)| block.takes(*id, *begin)).collect::<Vec<_>>();
        assert_eq!(taken.len(), 5, "an empty block takes any file");
        for (id, begin, tuple) in files {
            if block.takes(id, begin) {
                block.push(id, begin, tuple);
            }
        }
        let held: Vec<_> = (0..block.len()).map(|place| (block.id(place), block.tuple(place))).collect();
        assert_eq!(held, [(5, 0), (6, 2), (7, 0), (8, 1)]);
        assert_eq!([0, 1, 2, 3, 8, 9].map(|snapshot| block.begun_by(snapshot)), [0, 1, 1, 3, 3, 4]);
    }
}
