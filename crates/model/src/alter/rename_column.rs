//! `rename_column`: the field id stays; files that bind by name stand in the way.

use super::{Surroundings, column_exists, idless_files_present, unknown_column};
use crate::definition::TableDefinition;
use crate::name::quoted;
use crate::{Identifier, Refusal};

/// # Errors
/// 422 for a bad new name, an unknown column, or a new name that is taken (by the column itself too); then 409
/// `idless_files_present` while a live file binds columns by name, or may.
pub(super) fn apply(
    table: &mut TableDefinition,
    from: &str,
    to: &str,
    surroundings: &mut Surroundings,
) -> Result<(), Refusal> {
    Identifier::parse_column(to)?;
    let Some(index) = table.columns.iter().position(|column| column.name == from) else {
        return Err(unknown_column(from));
    };
    if table.column(to).is_some() {
        return Err(column_exists(to));
    }
    if surroundings.idless_files > 0 || surroundings.pending_files > 0 {
        let what = format!("column {} cannot be renamed", quoted(from));
        return Err(idless_files_present(&what, surroundings));
    }
    to.clone_into(&mut table.columns[index].name);
    surroundings.former_columns.insert(from.to_owned());
    Ok(())
}
