//! Which rows went: the ids behind the positions that a vector has and the one before it had not.

use crate::deletion_vector::DeletionVector;
use crate::parquet::rewrite::rows::Rows;
use crate::parquet::rewrite::{RewriteError, RowIds};
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use roaring::RoaringTreemap;

/// Row ids, ascending, in little memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowIdSet(RoaringTreemap);

impl RowIdSet {
    /// Adds the ids of rows whose file numbers them from `first`.
    pub fn add_positional(&mut self, first: i64, positions: &DeletionVector) {
        let first = first.unsigned_abs();
        self.0.extend(positions.iter().map(|position| first.saturating_add(position)));
    }

    /// Adds the ids of rows at `positions` of a file that carries them in a column. `rows` is that file, opened without
    /// columns and without deletions. Decodes where it is called.
    ///
    /// # Errors
    /// [`RewriteError`].
    pub fn add_explicit(&mut self, rows: &Rows, positions: &DeletionVector) -> Result<(), RewriteError> {
        let mut begin = 0_u64;
        for batch in rows.batches()? {
            let batch = batch?;
            let end = begin + batch.num_rows() as u64;
            if let Some(ids) = batch.columns().last().and_then(|ids| ids.as_primitive_opt::<Int64Type>()) {
                let ids = positions.range(begin, end).map(|position| ids.value((position - begin) as usize));
                self.0.extend(ids.map(i64::unsigned_abs));
            }
            begin = end;
        }
        Ok(())
    }

    /// The ids, ascending.
    pub fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        self.0.iter().map(|id| i64::try_from(id).unwrap_or(i64::MAX))
    }
}

/// Whether the rows of a file are numbered, for [`Rows::open`].
pub fn row_ids(explicit: bool, first: i64) -> RowIds {
    if explicit { RowIds::Explicit } else { RowIds::Positional(first) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_positions_and_ascend() {
        let mut ids = RowIdSet::default();
        ids.add_positional(100, &DeletionVector::from_positions([3, 0]));
        ids.add_positional(10, &DeletionVector::from_positions([7]));
        assert_eq!(ids.iter().collect::<Vec<_>>(), [17, 100, 103]);
    }

    #[test]
    fn what_a_vector_adds_is_the_difference() {
        let before = DeletionVector::from_positions([1, 2]);
        let after = DeletionVector::from_positions([1, 2, 9]);
        assert_eq!(after.difference(&before), DeletionVector::from_positions([9]));
    }
}
