//! Schema evolution: seven operations on a [`TableDefinition`], each a pure rule in a file of its own.
//!
//! [`apply`] works on a copy and gives it back only when every operation passed, so a request is atomic by
//! construction. What is written to the database is the difference between the two definitions: a column that is added
//! and renamed in one request appears once, one that is added and dropped not at all. Ids come from allocators that
//! only grow.

mod add_column;
mod drop_column;
mod promote_column;
mod rename_column;
mod rename_table;
mod set_partition_spec;
mod set_sort_order;

use crate::definition::{Column, ColumnDef, PartitionFieldDef, SortFieldDef, TableDefinition};
use crate::{ErrorCode, FieldId, Refusal};
use serde::{Deserialize, Deserializer};
use std::collections::HashSet;

/// Body of an alter request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlterRequest {
    /// At least one, applied in order.
    #[serde(deserialize_with = "at_least_one")]
    pub ops: Vec<AlterOp>,
}

/// One operation, its operands present but not yet checked against a table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "AlterOpBody")]
pub enum AlterOp {
    /// Adds a column after the others.
    AddColumn(ColumnDef),
    /// Drops a column.
    DropColumn {
        /// Which.
        name: String,
    },
    /// Gives a column another name.
    RenameColumn {
        /// The name it has.
        from: String,
        /// The name it gets.
        to: String,
    },
    /// Widens the type of a column.
    PromoteColumn {
        /// Which.
        name: String,
        /// Literal of the new type.
        to: String,
    },
    /// Gives the table another name.
    RenameTable {
        /// The name it gets.
        new_name: String,
    },
    /// Sets how new files are partitioned.
    SetPartitionSpec {
        /// Empty: not at all.
        fields: Vec<PartitionFieldDef>,
    },
    /// Sets how files should be sorted.
    SetSortOrder {
        /// Empty: not at all.
        fields: Vec<SortFieldDef>,
    },
}

impl AlterOp {
    /// The literal of the contract.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::AddColumn(_) => "add_column",
            Self::DropColumn { .. } => "drop_column",
            Self::RenameColumn { .. } => "rename_column",
            Self::PromoteColumn { .. } => "promote_column",
            Self::RenameTable { .. } => "rename_table",
            Self::SetPartitionSpec { .. } => "set_partition_spec",
            Self::SetSortOrder { .. } => "set_sort_order",
        }
    }
}

/// What the rules must know beyond the definition, read under the commit lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Live data files whose footers carry no field ids: they bind columns by name.
    pub idless_files: i64,
    /// Live data files whose footers nobody has read yet: they may be such.
    pub pending_files: i64,
    /// Names that columns of this table had once and have no longer.
    pub former_columns: HashSet<String>,
    /// Names of the other live tables in the namespace, as far as the request wants them.
    pub taken_tables: HashSet<String>,
}

/// Applies `ops` in order, each to what those before it left. `table` itself is not changed.
///
/// # Errors
/// The first operation that breaks its rule, named with its place.
pub fn apply(
    table: &TableDefinition,
    ops: &[AlterOp],
    surroundings: &Surroundings,
) -> Result<TableDefinition, Refusal> {
    let mut evolved = table.clone();
    let mut surroundings = surroundings.clone();
    for (index, op) in ops.iter().enumerate() {
        apply_one(&mut evolved, op, &mut surroundings)
            .map_err(|r| Refusal::new(r.code, format!("ops[{index}] {}: {}", op.name(), r.detail)))?;
    }
    Ok(evolved)
}

/// What of a table's columns changes between two definitions, version by version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnDifference<'t> {
    /// Columns whose version ends: dropped, or changed.
    pub ended: Vec<FieldId>,
    /// Columns whose version begins: added, or changed.
    pub begun: Vec<&'t Column>,
}

impl<'t> ColumnDifference<'t> {
    /// The difference from `before` to `after`. What came and went in between does not appear.
    pub fn between(before: &TableDefinition, after: &'t TableDefinition) -> Self {
        let ended = before.columns.iter().filter(|column| after.column_by_id(column.field_id) != Some(column));
        let begun = after.columns.iter().filter(|column| before.column_by_id(column.field_id) != Some(column));
        Self { ended: ended.map(|column| column.field_id).collect(), begun: begun.collect() }
    }
}

fn apply_one(table: &mut TableDefinition, op: &AlterOp, surroundings: &mut Surroundings) -> Result<(), Refusal> {
    match op {
        AlterOp::AddColumn(column) => add_column::apply(table, column, surroundings),
        AlterOp::DropColumn { name } => drop_column::apply(table, name, surroundings),
        AlterOp::RenameColumn { from, to } => rename_column::apply(table, from, to, surroundings),
        AlterOp::PromoteColumn { name, to } => promote_column::apply(table, name, to),
        AlterOp::RenameTable { new_name } => rename_table::apply(table, new_name, surroundings),
        AlterOp::SetPartitionSpec { fields } => set_partition_spec::apply(table, fields),
        AlterOp::SetSortOrder { fields } => set_sort_order::apply(table, fields),
    }
}

/// 422 for a column that the operation needs and the table does not have.
fn unknown_column(name: &str) -> Refusal {
    Refusal::validation(format!("column {} does not exist", crate::name::quoted(name)))
}

/// 422 for a column name that is taken.
fn column_exists(name: &str) -> Refusal {
    Refusal::validation(format!("column {} already exists; choose another name", crate::name::quoted(name)))
}

/// 409 for a change of names that files without field ids would misread.
fn idless_files_present(what: &str, surroundings: &Surroundings) -> Refusal {
    Refusal::new(
        ErrorCode::IdlessFilesPresent,
        format!(
            "{what} while live data files may bind columns by name: {} without field ids, {} with their footer not read \
             yet. Compact or retire the files without ids, let pending statistics settle, then repeat the request",
            surroundings.idless_files, surroundings.pending_files
        ),
    )
}

/// `AlterOp` of the contract: the operands of all operations side by side. Those of other operations are ignored.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AlterOpBody {
    op: String,
    column: Option<ColumnDef>,
    name: Option<String>,
    from: Option<String>,
    to: Option<String>,
    new_name: Option<String>,
    fields: Option<Vec<PartitionFieldDef>>,
    sort_fields: Option<Vec<SortFieldDef>>,
}

impl TryFrom<AlterOpBody> for AlterOp {
    type Error = String;

    fn try_from(body: AlterOpBody) -> Result<Self, String> {
        fn operand<T>(op: &str, name: &str, value: Option<T>) -> Result<T, String> {
            value.ok_or_else(|| format!("op `{op}` needs the field `{name}`"))
        }
        let op = body.op.as_str();
        Ok(match op {
            "add_column" => Self::AddColumn(operand(op, "column", body.column)?),
            "drop_column" => Self::DropColumn { name: operand(op, "name", body.name)? },
            "rename_column" => {
                Self::RenameColumn { from: operand(op, "from", body.from)?, to: operand(op, "to", body.to)? }
            }
            "promote_column" => {
                Self::PromoteColumn { name: operand(op, "name", body.name)?, to: operand(op, "to", body.to)? }
            }
            "rename_table" => Self::RenameTable { new_name: operand(op, "new_name", body.new_name)? },
            "set_partition_spec" => Self::SetPartitionSpec { fields: operand(op, "fields", body.fields)? },
            "set_sort_order" => Self::SetSortOrder { fields: operand(op, "sort_fields", body.sort_fields)? },
            other => {
                return Err(format!(
                    "op {} does not exist; use add_column, drop_column, rename_column, promote_column, rename_table, \
                     set_partition_spec or set_sort_order",
                    crate::name::quoted(other)
                ));
            }
        })
    }
}

fn at_least_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<AlterOp>, D::Error> {
    let ops = Vec::deserialize(deserializer)?;
    if ops.is_empty() { Err(serde::de::Error::custom("ops must hold at least one operation")) } else { Ok(ops) }
}

#[cfg(test)]
mod tests;
