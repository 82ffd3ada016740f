//! What pruning needs to know of a table's files, in memory: when they began and ended, their partition values, and for
//! each filtered column eight bytes a bound.
//!
//! A file takes 8 bytes, 4 for its partition where there is one, and 17 a column. Files are held in the order of
//! (begin snapshot, first row id, id): a snapshot reads a prefix, and what commits add comes after. Statistics of a file
//! never change once they are there; files without any are asked for again when the table's statistics version moves.

mod block;
mod column;

pub(super) use column::{ColumnIndex, load};

use super::Scope;
use crate::Result;
use crate::listing::copy::{Parameter, Rows};
use block::Block;
use hoglake_model::{ColumnType, FieldId};
use indexmap::IndexSet;
use sqlx::PgConnection;
use std::collections::HashMap;

/// Files a block.
const BLOCK: usize = 8_192;
/// Number of a partition tuple that the dictionary had no room for.
pub(super) const UNKNOWN_TUPLE: u32 = u32::MAX;

/// A spec and the values under it; spec 0 for none.
pub(super) type Tuple = (i64, Box<[Option<Box<str>>]>);

/// The index of one table.
#[derive(Default)]
pub(super) struct TableIndex {
    pub(super) blocks: Vec<Block>,
    columns: HashMap<i64, ColumnIndex>,
    /// Partition tuples; the first one stands for unpartitioned.
    pub(super) tuples: IndexSet<Tuple>,
    tuple_bytes: usize,
    /// Begin, first row id and id of the last file.
    last: Option<(i64, i64, i64)>,
    /// Files that had ended at this snapshot or before are not in the index.
    horizon: i64,
    /// Begins and ends are known up to this snapshot.
    synced: Option<i64>,
    /// End snapshots of files in the index.
    pub(super) ended: HashMap<i64, i64>,
}

impl TableIndex {
    /// Files in the index.
    pub(super) fn len(&self) -> usize {
        self.blocks.iter().map(Block::len).sum()
    }

    /// Bytes that the index takes, about.
    pub(super) fn bytes(&self) -> usize {
        let files: usize = self.blocks.iter().map(Block::bytes).sum();
        files + self.tuple_bytes + self.ended.len() * 32 + self.columns.len() * self.column_bytes()
    }

    /// Bytes that one more column takes.
    pub(super) fn column_bytes(&self) -> usize {
        self.len() * 17
    }

    /// The keys of a column, if they are held.
    pub(super) fn column(&self, field: FieldId) -> Option<&ColumnIndex> {
        self.columns.get(&field.0)
    }

    /// Drops the columns that are not in `needed`.
    pub(super) fn retain_columns(&mut self, needed: &[FieldId]) {
        self.columns.retain(|field, _| needed.contains(&FieldId(*field)));
    }

    /// Files that are visible at a snapshot before this one are missing if they had ended by it.
    pub(super) fn horizon(&self) -> i64 {
        self.horizon
    }

    /// How many files of the index are visible at `snapshot`.
    pub(super) fn visible_at(&self, snapshot: i64) -> i64 {
        let begun: usize = self.blocks.iter().map(|block| block.begun_by(snapshot)).sum();
        let ended = self.ended.values().filter(|end| **end <= snapshot).count();
        begun as i64 - ended as i64
    }

    /// Brings begins and ends up to the head of the transaction, unless the snapshot that is read is covered already.
    pub(super) async fn sync(&mut self, connection: &mut PgConnection, scope: Scope, budget: usize) -> Result<()> {
        if self.synced.is_some_and(|synced| synced >= scope.snapshot.id.0) {
            return Ok(());
        }
        let mostly_history = self.ended.len() > self.len() / 2 && self.ended.len() > BLOCK;
        // What had ended by the floor may be gone, and would seem to live for ever.
        let overtaken = self.synced.is_some_and(|synced| synced < scope.snapshot.earliest.0);
        if mostly_history || overtaken {
            *self = Self::default();
        }
        let head = scope.snapshot.head.0;
        if self.last.is_none() {
            self.horizon = head;
        }
        self.take_new_files(connection, scope, budget).await?;
        let since = self.synced.unwrap_or(self.horizon).max(self.horizon);
        let parameters = [scope.catalog.0, scope.table.0, since].map(Parameter::One);
        let query = include_str!("../../sql/data_file/ended_after.sql");
        let mut rows = Rows::of(connection, query, &parameters).await?;
        while let Some(mut row) = rows.next().await? {
            let (id, end) = (row.required_number()?, row.required_number()?);
            self.ended.insert(id, end);
        }
        self.synced = Some(head);
        Ok(())
    }

    async fn take_new_files(&mut self, connection: &mut PgConnection, scope: Scope, budget: usize) -> Result<()> {
        if self.tuples.is_empty() {
            self.tuples.insert((0, Box::default()));
        }
        let (begin, row_id_start, id) = self.last.unwrap_or((-1, -1, -1));
        let parameters = [scope.catalog.0, scope.table.0, begin, row_id_start, id, self.horizon].map(Parameter::One);
        let query = include_str!("../../sql/data_file/index_after.sql");
        let mut rows = Rows::of(connection, query, &parameters).await?;
        while let Some(mut row) = rows.next().await? {
            let (id, begin, row_id_start) = (row.required_number()?, row.required_number()?, row.required_number()?);
            let tuple = match row.number()? {
                None => 0,
                Some(spec) => {
                    let text = |value: Option<&[u8]>| value.map(|v| String::from_utf8_lossy(v).into());
                    let values = row.array()?.map(|values| values.map(text).collect()).unwrap_or_default();
                    self.tuple((spec, values), budget)
                }
            };
            if self.blocks.last().is_none_or(|block| !block.takes(id, begin)) {
                self.blocks.push(Block::default());
            }
            if let Some(block) = self.blocks.last_mut() {
                block.push(id, begin, tuple);
            }
            self.last = Some((begin, row_id_start, id));
        }
        Ok(())
    }

    /// The number of a tuple. The dictionary takes at most a quarter of the budget.
    fn tuple(&mut self, tuple: Tuple, budget: usize) -> u32 {
        if let Some(found) = self.tuples.get_index_of(&tuple) {
            return u32::try_from(found).unwrap_or(UNKNOWN_TUPLE);
        }
        let bytes = 64 + tuple.1.iter().map(|value| 24 + value.as_ref().map_or(0, |v| v.len())).sum::<usize>();
        if self.tuple_bytes + bytes > budget / 4 {
            return UNKNOWN_TUPLE;
        }
        self.tuple_bytes += bytes;
        u32::try_from(self.tuples.insert_full(tuple).0).unwrap_or(UNKNOWN_TUPLE)
    }

    /// Loads what is missing of a column's keys.
    pub(super) async fn fill_column(
        &mut self,
        connection: &mut PgConnection,
        scope: Scope,
        field: FieldId,
        ty: ColumnType,
    ) -> Result<()> {
        let files = self.len();
        let mut column = match self.columns.remove(&field.0) {
            Some(column) if !column.is_outgrown(files) => column,
            _ => ColumnIndex::new(ty, files, scope.statistics_version),
        };
        let filled = column.fill(connection, scope, field, ty, &self.blocks).await;
        // What was loaded before an error is as good as ever.
        self.columns.insert(field.0, column);
        filled
    }
}
