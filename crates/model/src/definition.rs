//! What DDL says about a table of the catalog: its name, columns, partition spec and sort order, and the allocators of
//! their ids. Files and rows are elsewhere.

mod column;
mod partition;
mod sort;

pub use column::{Column, ColumnDef, TypeParams};
pub use partition::{PartitionField, PartitionFieldDef, PartitionSpec, Transform};
pub use sort::{Direction, NullOrder, SortField, SortFieldDef, SortSpec};

use crate::name::quoted;
use crate::{FieldId, Identifier, Refusal};
use std::collections::HashSet;

/// A table as DDL sees it.
///
/// # Ordering
/// `columns` by ordinal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDefinition {
    /// The name in its namespace.
    pub name: String,
    /// Live columns, at least one.
    pub columns: Vec<Column>,
    /// The live spec; an empty one means "unpartitioned from here on".
    pub partition_spec: Option<PartitionSpec>,
    /// The live order; an empty one means "unsorted from here on".
    pub sort_spec: Option<SortSpec>,
    /// Allocator of field ids: past every id ever given, dropped columns included.
    pub next_field_id: i64,
    /// Allocator of partition spec ids.
    pub next_spec_id: i64,
    /// Allocator of sort order ids.
    pub next_sort_id: i64,
}

impl TableDefinition {
    /// The definition of a new table: field ids from 1 and ordinals from 0 in the order of `columns`.
    ///
    /// # Errors
    /// 422 for a bad table name, no columns, a bad column name, a bad type, or two columns of one name: in that order.
    pub fn create(name: &str, columns: &[ColumnDef]) -> Result<Self, Refusal> {
        Identifier::parse("table", name)?;
        if columns.is_empty() {
            return Err(Refusal::validation(format!("table {} needs at least one column", quoted(name))));
        }
        if columns.len() > Self::MAX_COLUMNS {
            return Err(Self::too_many_columns(columns.len()));
        }
        for column in columns {
            Identifier::parse_column(&column.name)?;
        }
        for column in columns {
            column.column_type()?;
        }
        let mut names = HashSet::new();
        if let Some(twice) = columns.iter().find(|column| !names.insert(column.name.as_str())) {
            return Err(Refusal::validation(format!(
                "column {} is listed twice; the names of a table's columns must differ",
                quoted(&twice.name)
            )));
        }
        let mut definition = Self {
            name: name.to_owned(),
            columns: Vec::with_capacity(columns.len()),
            partition_spec: None,
            sort_spec: None,
            next_field_id: 1,
            next_spec_id: 1,
            next_sort_id: 1,
        };
        for column in columns {
            definition.push_column(column)?;
        }
        Ok(definition)
    }

    /// The column called `name`.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The column with this id.
    pub fn column_by_id(&self, id: FieldId) -> Option<&Column> {
        self.columns.iter().find(|column| column.field_id == id)
    }

    /// Most live columns of a table. Wider ones exist nowhere; a request with a million would keep a core busy.
    pub const MAX_COLUMNS: usize = 10_000;

    fn too_many_columns(count: usize) -> Refusal {
        Refusal::validation(format!(
            "{count} columns are more than the {} that a table may have; split the table",
            Self::MAX_COLUMNS
        ))
    }

    /// Takes a field id.
    pub(crate) fn push_column(&mut self, column: &ColumnDef) -> Result<(), Refusal> {
        if self.columns.len() >= Self::MAX_COLUMNS {
            return Err(Self::too_many_columns(self.columns.len() + 1));
        }
        let field_id = FieldId(self.next_field_id);
        if field_id > FieldId::LAST_COLUMN {
            return Err(Refusal::validation("the table has used up its field ids; create a new table"));
        }
        let ordinal = self.columns.iter().map(|c| c.ordinal + 1).max().unwrap_or(0);
        self.columns.push(Column {
            name: column.name.clone(),
            column_type: column.column_type()?,
            type_params: column.type_params.clone(),
            nullable: column.nullable.unwrap_or(true),
            field_id,
            ordinal,
        });
        self.next_field_id += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_widest_width() {
        let column = |i: usize| -> ColumnDef {
            serde_json::from_value(serde_json::json!({"name": format!("c{i}"), "type": "int"})).unwrap()
        };
        let columns: Vec<ColumnDef> = (0..=TableDefinition::MAX_COLUMNS).map(column).collect();
        let mut widest = TableDefinition::create("t", &columns[1..]).unwrap();
        assert!(TableDefinition::create("t", &columns).is_err());
        assert!(widest.push_column(&columns[0]).is_err());
    }
}
