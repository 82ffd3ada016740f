//! `add_column`: a new field id and the last place; a dropped name comes back as another column.

use super::{Surroundings, column_exists, idless_files_present};
use crate::definition::{ColumnDef, TableDefinition};
use crate::name::quoted;
use crate::{Identifier, Refusal};

/// # Errors
/// 422 for a bad name or type, or a live column of that name. 409 `idless_files_present` when the name belonged to
/// another column and files that are known to bind by name would give their old values to the new one.
pub(super) fn apply(
    table: &mut TableDefinition,
    column: &ColumnDef,
    surroundings: &Surroundings,
) -> Result<(), Refusal> {
    Identifier::parse_column(&column.name)?;
    if table.column(&column.name).is_some() {
        return Err(column_exists(&column.name));
    }
    if surroundings.idless_files > 0 && surroundings.former_columns.contains(&column.name) {
        let what = format!("column {}, a name that another column had before, cannot be added", quoted(&column.name));
        return Err(idless_files_present(&what, surroundings));
    }
    table.push_column(column)
}
