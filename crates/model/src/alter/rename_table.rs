//! `rename_table`: within the namespace; files of any kind do not mind.

use super::Surroundings;
use crate::definition::TableDefinition;
use crate::{Identifier, Refusal};

/// # Errors
/// 422 for a bad name, 409 `already_exists` when another live table has it. The table's own name is no change.
pub(super) fn apply(table: &mut TableDefinition, new_name: &str, surroundings: &Surroundings) -> Result<(), Refusal> {
    Identifier::parse("table", new_name)?;
    if surroundings.taken_tables.contains(new_name) {
        return Err(Refusal::already_exists("table", new_name));
    }
    new_name.clone_into(&mut table.name);
    Ok(())
}
