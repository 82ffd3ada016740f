//! Which of the formats found at a place is the source, where nobody says.

use crate::conversion::{self, TargetOptions};
use hoglake_formats::store::Stores;
use hoglake_formats::sync::TableRoot;
use hoglake_model::Location;
use hoglake_model::table::TableFormat;
use std::sync::Arc;

/// The format of the table at `place`. After the first run the targets lie there, too: their watermarks say which format they
/// follow, those of the wanted targets first, and what follows nothing is no target.
pub(super) async fn source(
    stores: &Arc<Stores>,
    place: &Location,
    written: &Location,
    targets: &[TableFormat],
) -> Result<TableFormat, String> {
    let root = TableRoot::open(stores, place.clone()).map_err(|e| e.to_string())?;
    let found = conversion::detect(&root).await.map_err(|e| e.to_string())?;
    if let [one] = found.as_slice() {
        return Ok(*one);
    }
    let mut followed = Vec::new();
    for target in targets {
        followed.extend(follows(stores, written, *target).await.filter(|format| found.contains(format)));
    }
    followed.dedup();
    if let [one] = followed.as_slice() {
        return Ok(*one);
    }
    let mut own = Vec::new();
    for format in &found {
        if follows(stores, place, *format).await.is_none() {
            own.push(*format);
        }
    }
    match own.as_slice() {
        [one] if followed.is_empty() => Ok(*one),
        _ => {
            let names: Vec<_> = found.iter().map(|f| f.as_str()).collect();
            Err(format!(
                "{place} is a table of {}, and no watermark tells which of them the targets follow; say it with --source",
                names.join(" and ")
            ))
        }
    }
}

/// The format that a target follows. What cannot be read as a target of ours is none.
async fn follows(stores: &Arc<Stores>, place: &Location, target: TableFormat) -> Option<TableFormat> {
    let mut target = conversion::open_target(target, stores, place, &TargetOptions::default()).ok()?;
    target.load().await.ok()?.watermark.map(|mark| mark.format)
}
