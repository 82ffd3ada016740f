//! Keys of one column in a scan index.

use super::super::Scope;
use super::BLOCK;
use super::block::Block;
use crate::Result;
use crate::listing::copy::{Parameter, Rows};
use hoglake_model::filter::{FileKeys, Keys};
use hoglake_model::{Bounds, ColumnStats, ColumnType, FieldId};
use sqlx::PgConnection;
use std::collections::HashMap;

/// Files below which a common start of all bounds is not looked for: it would say little of those to come.
const FEW_FILES: usize = 1_000;

/// Keys of one column, block by block.
pub(in crate::scan) struct ColumnIndex {
    pub(in crate::scan) keys: Keys,
    pub(in crate::scan) blocks: Vec<KeyBlock>,
    ty: ColumnType,
    /// Files that had no statistics when they were asked for, as (block, place).
    missing: Vec<(usize, usize)>,
    /// Statistics version at which `missing` was asked for.
    version: i64,
    /// How many files there were when the common start was chosen.
    chosen_among: usize,
}

/// Keys of one column in one block.
pub(in crate::scan) struct KeyBlock {
    lower: Vec<u64>,
    upper: Vec<u64>,
    flags: Vec<u8>,
    /// The least lower, the greatest upper and all flags.
    pub(in crate::scan) zone: FileKeys,
}

impl ColumnIndex {
    pub(super) fn new(ty: ColumnType, files: usize, version: i64) -> Self {
        Self { keys: Keys::new([]), blocks: Vec::new(), ty, missing: Vec::new(), version, chosen_among: files }
    }

    /// Whether the common start was chosen among few of the files there are now.
    pub(super) fn is_outgrown(&self, files: usize) -> bool {
        self.has_prefix() && files > FEW_FILES && self.chosen_among < files / 4
    }

    fn has_prefix(&self) -> bool {
        matches!(self.ty, ColumnType::String | ColumnType::Binary)
    }

    /// Loads what is missing of the keys of `blocks`; the column has type `ty` at the snapshot that is read.
    pub(super) async fn fill(
        &mut self,
        connection: &mut PgConnection,
        scope: Scope,
        field: FieldId,
        ty: ColumnType,
        blocks: &[Block],
    ) -> Result<()> {
        if self.ty.promotes_to(ty) {
            // Keys of int and long, and of float and double, are the same.
            self.ty = ty;
        }
        if self.blocks.is_empty() && self.has_prefix() && self.chosen_among > FEW_FILES {
            let sample = sample(blocks, self.chosen_among);
            self.keys = Keys::new(common_start(&load(connection, scope, field, self.ty, &sample).await?));
        }
        for (number, block) in blocks.iter().enumerate() {
            let held = self.blocks.get(number).map_or(0, |keys| keys.lower.len());
            if held == block.len() {
                continue;
            }
            let ids: Vec<i64> = (held..block.len()).map(|place| block.id(place)).collect();
            let loaded = load(connection, scope, field, self.ty, &ids).await?;
            if self.blocks.len() <= number {
                self.blocks.push(KeyBlock::default());
            }
            for (offset, id) in ids.iter().enumerate() {
                let file = match loaded.get(id) {
                    Some(stats) => self.keys_of(stats),
                    None => {
                        self.missing.push((number, held + offset));
                        FileKeys::UNKNOWN
                    }
                };
                self.blocks[number].push(file);
            }
        }
        if self.version != scope.statistics_version {
            self.ask_again(connection, scope, field, blocks).await?;
            self.version = scope.statistics_version;
        }
        Ok(())
    }

    /// Loads the files that had no statistics.
    async fn ask_again(
        &mut self,
        connection: &mut PgConnection,
        scope: Scope,
        field: FieldId,
        blocks: &[Block],
    ) -> Result<()> {
        let missing = self.missing.clone();
        let mut still_missing = Vec::new();
        for places in missing.chunks(BLOCK) {
            let ids: Vec<i64> = places.iter().map(|(block, place)| blocks[*block].id(*place)).collect();
            let loaded = load(connection, scope, field, self.ty, &ids).await?;
            for ((block, place), id) in places.iter().zip(&ids) {
                match loaded.get(id) {
                    Some(stats) => {
                        let file = self.keys_of(stats);
                        self.blocks[*block].set(*place, file);
                    }
                    None => still_missing.push((*block, *place)),
                }
            }
        }
        self.missing = still_missing;
        Ok(())
    }

    fn keys_of(&self, stats: &ColumnStats) -> FileKeys {
        let (lower, upper) = (stats.bounds.lower(), stats.bounds.upper());
        self.keys.of_file(self.ty, stats.value_count, stats.null_count, stats.nan_count, lower, upper)
    }
}

impl Default for KeyBlock {
    fn default() -> Self {
        let zone = FileKeys { lower: u64::MAX, upper: 0, flags: 0 };
        Self { lower: Vec::new(), upper: Vec::new(), flags: Vec::new(), zone }
    }
}

impl KeyBlock {
    pub(in crate::scan) fn get(&self, place: usize) -> FileKeys {
        FileKeys { lower: self.lower[place], upper: self.upper[place], flags: self.flags[place] }
    }

    fn push(&mut self, file: FileKeys) {
        self.lower.push(file.lower);
        self.upper.push(file.upper);
        self.flags.push(file.flags);
        self.widen(file);
    }

    fn set(&mut self, place: usize, file: FileKeys) {
        self.lower[place] = file.lower;
        self.upper[place] = file.upper;
        self.flags[place] = file.flags;
        // The zone keeps what it had: too wide is sound.
        self.widen(file);
    }

    fn widen(&mut self, file: FileKeys) {
        self.zone.lower = self.zone.lower.min(file.lower);
        self.zone.upper = self.zone.upper.max(file.upper);
        self.zone.flags |= file.flags;
    }
}

/// Ids of some hundred files, spread evenly over all of them.
fn sample(blocks: &[Block], files: usize) -> Vec<i64> {
    let all = blocks.iter().flat_map(|block| (0..block.len()).map(|place| block.id(place)));
    all.step_by((files / 512).max(1)).collect()
}

/// What all bounds of the loaded files start with.
fn common_start(loaded: &HashMap<i64, ColumnStats>) -> Vec<u8> {
    let mut bounds = loaded.values().flat_map(|stats| [stats.bounds.lower(), stats.bounds.upper()]).flatten();
    let mut common = bounds.next().unwrap_or_default();
    for bound in bounds {
        let shared = common.iter().zip(bound).take_while(|(a, b)| a == b).count();
        common = &common[..shared];
    }
    common.to_vec()
}

/// Reads the statistics of one column of some files; files without statistics are absent.
pub(in crate::scan) async fn load(
    connection: &mut PgConnection,
    scope: Scope,
    field: FieldId,
    ty: ColumnType,
    ids: &[i64],
) -> Result<HashMap<i64, ColumnStats>> {
    let parameters = [Parameter::One(scope.catalog.0), Parameter::Many(ids), Parameter::One(field.0)];
    let query = include_str!("../../../sql/file_statistics/of_column.sql");
    let mut rows = Rows::of(connection, query, &parameters).await?;
    let mut loaded = HashMap::with_capacity(ids.len());
    while let Some(mut row) = rows.next().await? {
        let id = row.required_number()?;
        let (value_count, null_count, nan_count) = (row.number()?, row.number()?, row.number()?);
        let lower = row.bytes()?.map(<[u8]>::to_vec);
        let bounds = Bounds::stored(ty, lower.as_deref(), row.bytes()?);
        loaded.insert(id, ColumnStats { value_count, null_count, nan_count, bounds, ..ColumnStats::unknown(field) });
    }
    Ok(loaded)
}
