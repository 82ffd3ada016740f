//! `drop_column`: not the last one, and none that the live specs stand on.

use super::{Surroundings, unknown_column};
use crate::Refusal;
use crate::definition::TableDefinition;
use crate::name::quoted;

/// # Errors
/// 422 for an unknown column, the last one, or a source of the live partition spec or sort order.
pub(super) fn apply(table: &mut TableDefinition, name: &str, surroundings: &mut Surroundings) -> Result<(), Refusal> {
    let Some(index) = table.columns.iter().position(|column| column.name == name) else {
        return Err(unknown_column(name));
    };
    if table.columns.len() == 1 {
        return Err(Refusal::validation(format!(
            "column {} is the last one, and a table needs one; drop the table instead",
            quoted(name)
        )));
    }
    let id = table.columns[index].field_id;
    let partitions = table.partition_spec.iter().flat_map(|s| &s.fields).any(|f| f.source_field_id == id);
    if partitions {
        return Err(Refusal::validation(format!(
            "the partition spec stands on column {}; set another partition spec first",
            quoted(name)
        )));
    }
    let sorts = table.sort_spec.iter().flat_map(|s| &s.fields).any(|f| f.source_field_id == id);
    if sorts {
        return Err(Refusal::validation(format!(
            "the sort order stands on column {}; set another sort order first",
            quoted(name)
        )));
    }
    let dropped = table.columns.remove(index);
    surroundings.former_columns.insert(dropped.name);
    Ok(())
}
