//! What files written under earlier schemas hold that readers of a Hudi table would show wrongly, or not at all.
//!
//! # Source
//! Hudi documentation, "Schema Evolution": columns are found by name; the promotions of the evolution on write.

use hoglake_model::FieldId;
use hoglake_model::table::{Primitive, TableFormat, TableState, Unsupported, UnsupportedKind};

/// Columns that only field ids find in all files, and columns that were widened further than Hudi's readers follow.
pub(super) fn unsupported(state: &TableState) -> Vec<Unsupported> {
    let schema = &state.schema;
    let refusal = |id: FieldId, kind, detail: String| {
        let place = schema.path(id).map_or_else(|| format!("field {id}"), |path| path.join("."));
        Unsupported { target: TableFormat::Hudi, kind, place, detail }
    };
    let mut found = Vec::new();
    for id in &state.binding.by_id {
        found.push(refusal(
            *id,
            UnsupportedKind::Name,
            "the column was renamed, or has the name of a column that was dropped; Hudi binds columns by name and would \
             read older files wrongly: rewrite the table into a new one first"
                .to_owned(),
        ));
    }
    for (id, then) in &state.binding.older_types {
        if let Some(now) = schema.primitive(*id)
            && !reads_as(*then, now)
        {
            found.push(refusal(
                *id,
                UnsupportedKind::Type,
                format!(
                    "the column was {then} and is {now} now; Hudi's readers do not promote older files so: rewrite the \
                     table into a new one first"
                ),
            ));
        }
    }
    found
}

/// Whether Hudi's readers find the values of a column of type `now` in files that store it as `then`, without loss.
fn reads_as(then: Primitive, now: Primitive) -> bool {
    use Primitive::{Byte, Double, Float, Int, Long, Short, Unknown};
    match (then, now) {
        // Not stored in any file.
        (Unknown, _) | (Float, Double) => true,
        (Byte | Short | Int, Byte | Short | Int | Long | Double) => true,
        (then, now) => then == now,
    }
}
