//! `set_partition_spec`: a new spec id each time; files keep the spec that they were written under.

use crate::definition::{PartitionField, PartitionFieldDef, PartitionSpec, TableDefinition};
use crate::{Refusal, SpecId};

/// # Errors
/// 422 as [`PartitionFieldDef::check`], and when the same column is listed twice with the same transform.
pub(super) fn apply(table: &mut TableDefinition, fields: &[PartitionFieldDef]) -> Result<(), Refusal> {
    let mut checked: Vec<PartitionField> = Vec::with_capacity(fields.len());
    for field in fields {
        let field = field.check(table)?;
        if checked.contains(&field) {
            return Err(Refusal::validation(format!(
                "field id {} is listed twice with transform `{}`; list it once",
                field.source_field_id,
                field.transform.name()
            )));
        }
        checked.push(field);
    }
    table.partition_spec = Some(PartitionSpec { spec_id: SpecId(table.next_spec_id), fields: checked });
    table.next_spec_id += 1;
    Ok(())
}
