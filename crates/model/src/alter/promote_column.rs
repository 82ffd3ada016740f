//! `promote_column`: `int` to `long`, `float` to `double`. Stored bounds of the narrow type are widened when read.

use super::unknown_column;
use crate::definition::TableDefinition;
use crate::name::quoted;
use crate::{ColumnType, Refusal};

/// # Errors
/// 422 for an unknown column or type, and for every other pair of types, the same one included.
///
/// A promotion never breaks the live specs: every transform that takes the narrow type takes the wide one
/// ([`Transform::accepts`](crate::definition::Transform::accepts)).
pub(super) fn apply(table: &mut TableDefinition, name: &str, to: &str) -> Result<(), Refusal> {
    let Some(column) = table.columns.iter_mut().find(|column| column.name == name) else {
        return Err(unknown_column(name));
    };
    // a decimal is no target, so parameters play no part
    let promoted = match to {
        "decimal" => None,
        literal => Some(ColumnType::parse(literal, None)?).filter(|to| column.column_type.promotes_to(*to)),
    };
    let Some(promoted) = promoted else {
        return Err(Refusal::validation(format!(
            "column {} of type {} cannot be promoted to {}; int may become long and float double, nothing else",
            quoted(name),
            column.column_type,
            quoted(to)
        )));
    };
    column.column_type = promoted;
    Ok(())
}
