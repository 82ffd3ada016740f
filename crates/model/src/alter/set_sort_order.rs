//! `set_sort_order`: a new sort id each time.

use crate::definition::{SortField, SortFieldDef, SortSpec, TableDefinition};
use crate::{Refusal, SpecId};

/// # Errors
/// 422 as [`SortFieldDef::check`], and when a column is listed twice.
pub(super) fn apply(table: &mut TableDefinition, fields: &[SortFieldDef]) -> Result<(), Refusal> {
    let mut checked: Vec<SortField> = Vec::with_capacity(fields.len());
    for field in fields {
        let field = field.check(table)?;
        if checked.iter().any(|seen| seen.source_field_id == field.source_field_id) {
            return Err(Refusal::validation(format!(
                "field id {} is listed twice; sort by a column once",
                field.source_field_id
            )));
        }
        checked.push(field);
    }
    table.sort_spec = Some(SortSpec { sort_id: SpecId(table.next_sort_id), fields: checked });
    table.next_sort_id += 1;
    Ok(())
}
