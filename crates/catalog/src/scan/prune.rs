//! Which files of a table a filter keeps.

mod partitions;

use super::Scope;
use super::index::{TableIndex, load};
use crate::listing::copy::{Parameter, Rows};
use crate::{Catalog, Result};
use hoglake_model::filter::{KeyTest, Predicate};
use hoglake_model::{ColumnStats, ColumnType, FieldId};
use partitions::Partitions;
use sqlx::PgConnection;
use std::collections::HashMap;

/// Files whose bounds are compared again after their keys have passed, at most, unless keys are lacking.
const RECHECKED: usize = 2_000;
/// Files whose bounds are read at once.
const PAGE: usize = 8_192;

/// What a filter keeps.
pub(super) struct Pruned {
    /// Files visible at the snapshot.
    pub(super) considered: i64,
    /// Ids of the files that are kept, in no particular order.
    pub(super) kept: Vec<i64>,
}

/// Asks the index of the table, bringing it up to date first.
///
/// # Locks
/// The table's index in this process, while it is brought up to date and asked.
pub(super) async fn prune(
    catalog: &Catalog,
    connection: &mut PgConnection,
    scope: Scope,
    predicate: &Predicate,
) -> Result<Pruned> {
    let cache = &catalog.inner.scan_cache;
    let budget = catalog.options().scan_cache_bytes;
    let shared = cache.table(scope.catalog, scope.table);
    let mut index = shared.lock().await;
    index.sync(connection, scope, budget).await?;
    let types: HashMap<FieldId, ColumnType> = predicate.leaves().iter().map(|l| (l.field_id, l.ty)).collect();
    for field in predicate.field_ids() {
        let Some(ty) = types.get(&field) else { continue };
        if index.column(field).is_none() && index.bytes() + index.column_bytes() > budget {
            index.retain_columns(&predicate.field_ids());
        }
        if index.column(field).is_some() || index.bytes() + index.column_bytes() <= budget {
            index.fill_column(connection, scope, field, *ty).await?;
        }
    }
    let mut partitions = Partitions::load(connection, scope, &index).await?;
    let tests: Vec<Option<KeyTest>> = predicate
        .leaves()
        .iter()
        .map(|leaf| index.column(leaf.field_id).map(|column| column.keys.test(leaf)))
        .collect();
    let snapshot = scope.snapshot.id.0;
    let mut kept = candidates(&index, snapshot, predicate, &tests, &mut partitions);
    let mut considered = index.visible_at(snapshot);
    let horizon = index.horizon();
    cache.settle(scope.catalog, scope.table, index.bytes(), budget);
    drop(index);

    if snapshot < horizon {
        let parameters = [scope.catalog.0, scope.table.0, snapshot, horizon].map(Parameter::One);
        let query = include_str!("../../sql/data_file/visible_and_ended_by.sql");
        let mut rows = Rows::of(connection, query, &parameters).await?;
        while let Some(mut row) = rows.next().await? {
            kept.push(row.required_number()?);
            considered += 1;
        }
    }
    let lacking = tests.iter().any(Option::is_none);
    let coarse = snapshot < horizon || tests.iter().flatten().any(|test| !test.is_exact());
    if lacking || (coarse && kept.len() <= RECHECKED) {
        kept = recheck(connection, scope, predicate, &types, &kept).await?;
    }
    Ok(Pruned { considered, kept })
}

/// The files of the index that were visible at `snapshot` and that keys and partition values do not rule out.
fn candidates(
    index: &TableIndex,
    snapshot: i64,
    predicate: &Predicate,
    tests: &[Option<KeyTest>],
    partitions: &mut Partitions,
) -> Vec<i64> {
    let mut kept = Vec::new();
    let columns: Vec<_> = predicate.leaves().iter().map(|leaf| index.column(leaf.field_id)).collect();
    for (number, block) in index.blocks.iter().enumerate() {
        let visible = block.begun_by(snapshot);
        if visible == 0 {
            break;
        }
        let keyed: Vec<_> = tests
            .iter()
            .zip(&columns)
            .map(|(test, column)| Some((test.as_ref()?, column.as_ref()?.blocks.get(number)?)))
            .collect();
        if !predicate.may_match(|leaf| keyed[leaf].is_none_or(|(test, keys)| test.may_match(keys.zone))) {
            continue;
        }
        for place in 0..visible {
            let ruled_out = partitions.ruled_out(index, block.tuple(place), predicate);
            let may_match = predicate.may_match(|leaf| {
                let by_partition = leaf >= Partitions::LEAVES || ruled_out & (1 << leaf) == 0;
                by_partition && keyed[leaf].is_none_or(|(test, keys)| test.may_match(keys.get(place)))
            });
            if may_match {
                let id = block.id(place);
                if index.ended.is_empty() || index.ended.get(&id).is_none_or(|end| *end > snapshot) {
                    kept.push(id);
                }
            }
        }
    }
    kept
}

/// Compares files with their bounds, page by page.
async fn recheck(
    connection: &mut PgConnection,
    scope: Scope,
    predicate: &Predicate,
    types: &HashMap<FieldId, ColumnType>,
    candidates: &[i64],
) -> Result<Vec<i64>> {
    let mut kept = Vec::new();
    for page in candidates.chunks(PAGE) {
        let mut columns: HashMap<FieldId, HashMap<i64, ColumnStats>> = HashMap::new();
        for (field, ty) in types {
            columns.insert(*field, load(connection, scope, *field, *ty, page).await?);
        }
        kept.extend(page.iter().copied().filter(|id| {
            predicate.may_match(|leaf| {
                let leaf = &predicate.leaves()[leaf];
                columns.get(&leaf.field_id).and_then(|files| files.get(id)).is_none_or(|stats| leaf.may_match(stats))
            })
        }));
    }
    Ok(kept)
}
