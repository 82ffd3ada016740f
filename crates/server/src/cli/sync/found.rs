//! Which of the formats found at a place is the source, where nobody says.

use crate::conversion::{self, TargetOptions};
use hoglake_formats::store::Stores;
use hoglake_formats::sync::TableRoot;
use hoglake_model::Location;
use hoglake_model::table::TableFormat;
use std::sync::Arc;

/// The format of the table at `place`. After the first run the targets lie there, too: their watermarks say which format they
/// follow. What the wanted targets follow already is the source; for targets that are new it is what all that is there
/// comes from in the end, bare Parquet files among it.
pub(super) async fn source(
    stores: &Arc<Stores>,
    place: &Location,
    written: &Location,
    targets: &[TableFormat],
) -> Result<TableFormat, String> {
    let root = TableRoot::open(stores, place.clone()).map_err(|e| e.to_string())?;
    let found = conversion::detect(&root).await.map_err(|e| e.to_string())?;
    let mut marks = Vec::new();
    for format in found.iter().filter(|format| **format != TableFormat::Parquet) {
        marks.push((*format, follows(stores, place, *format).await));
    }
    let followed_by =
        |format: TableFormat| marks.iter().find(|(found, _)| *found == format).and_then(|(_, mark)| *mark);
    let is_there = |format: &TableFormat| *format == TableFormat::Parquet || found.contains(format);

    let mut candidates = Vec::new();
    for target in targets {
        candidates.extend(follows(stores, written, *target).await.filter(is_there));
    }
    if candidates.is_empty() {
        candidates = found.iter().filter_map(|format| origin(*format, &followed_by)).filter(is_there).collect();
    }
    candidates.sort();
    candidates.dedup();
    match candidates.as_slice() {
        [one] if followed_by(*one).is_none_or(|format| !targets.contains(&format)) => Ok(*one),
        _ => {
            let names: Vec<_> = found.iter().map(|f| f.as_str()).collect();
            Err(format!(
                "{place} is a table of {}, and no watermark tells which of them the targets follow; say it with --source",
                names.join(" and ")
            ))
        }
    }
}

/// What `format` comes from in the end. Tables that follow each other come from none.
fn origin(format: TableFormat, followed_by: &impl Fn(TableFormat) -> Option<TableFormat>) -> Option<TableFormat> {
    let mut passed = vec![format];
    let mut last = format;
    while let Some(next) = followed_by(last) {
        if passed.contains(&next) {
            return None;
        }
        passed.push(next);
        last = next;
    }
    Some(last)
}

/// The format that a target follows. What cannot be read as a target of ours is none.
async fn follows(stores: &Arc<Stores>, place: &Location, target: TableFormat) -> Option<TableFormat> {
    let mut target = conversion::open_target(target, stores, place, &TargetOptions::default()).ok()?;
    target.load().await.ok()?.watermark.map(|mark| mark.format)
}
