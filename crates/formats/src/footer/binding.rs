//! Which column of a table a leaf of a file is.

use super::FileSchema;
use hoglake_model::FieldId;
use hoglake_model::table::{Element, Field, Primitive, Schema, Type};
use std::collections::HashMap;

/// The column of the table that a leaf of a file belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// Its id in the table.
    pub field: FieldId,
    /// Its type in the table.
    pub table_type: Primitive,
    /// Its type as the file has it.
    pub file_type: Primitive,
}

/// Finds the table's column for every leaf of a file, in the order of the column chunks: by field id where the file has
/// ids and `by_id` says that the table's are the same, otherwise by name. Leaves that the table does not have, or has
/// with another shape, are `None`.
pub fn bind(file: &FileSchema, table: &Schema, by_id: bool) -> Vec<Option<Bound>> {
    let mut found = HashMap::new();
    fields(&file.schema.fields, &table.fields, by_id, &mut found);
    file.leaves.iter().map(|leaf| leaf.and_then(|id| found.get(&id).copied())).collect()
}

impl Bound {
    /// Whether the table's column was widened after the file was written.
    pub fn is_widened(&self) -> bool {
        use Primitive::{Byte, Date, Decimal, Double, Float, Int, Long, Short, Timestamp, Timestamptz};
        match (self.file_type, self.table_type) {
            (Byte | Short | Int, Long | Double) | (Float, Double) | (Date, Timestamp | Timestamptz) => true,
            (Decimal(file), Decimal(table)) => file != table,
            _ => false,
        }
    }

    /// Whether readers find values of the table's type in a column of the file's: the same, or one that was promoted to
    /// it, or one that older writers stored without its annotation.
    pub fn is_readable(&self) -> bool {
        use Primitive::{
            Binary, Byte, Date, Decimal, Double, Fixed, Float, Int, Long, Short, String, Timestamp, TimestampNs,
            Timestamptz, TimestamptzNs, Unknown, Uuid,
        };
        match (self.file_type, self.table_type) {
            (file, table) if file == table => true,
            (Unknown, _) | (Byte | Short | Int, Byte | Short | Int | Long | Double) | (Float, Double) => true,
            (Decimal(file), Decimal(table)) => file.scale == table.scale,
            (Date, Timestamp | Timestamptz) => true,
            (Timestamp | Timestamptz | TimestampNs | TimestamptzNs, table) => {
                matches!(table, Timestamp | Timestamptz | TimestampNs | TimestamptzNs)
            }
            // Hudi before 1.0 stores local timestamps as plain numbers.
            (Long, Timestamp) => true,
            (Binary | String, Binary | String) => true,
            (Fixed(_) | Binary | Uuid, Fixed(_) | Binary | Uuid | Decimal(_)) => true,
            _ => false,
        }
    }
}

fn fields(file: &[Field], table: &[Field], by_id: bool, found: &mut HashMap<FieldId, Bound>) {
    let by_name: HashMap<&str, &Field> = table.iter().map(|f| (f.stored_name(), f)).collect();
    let ids: HashMap<FieldId, &Field> = if by_id { table.iter().map(|f| (f.id, f)).collect() } else { HashMap::new() };
    for field in file {
        let column = if by_id && field.id.0 > 0 { ids.get(&field.id) } else { by_name.get(field.name.as_str()) };
        if let Some(column) = column {
            node((field.id, &field.ty), (column.id, &column.ty), by_id, found);
        }
    }
}

fn element(file: &Element, table: &Element, by_id: bool, found: &mut HashMap<FieldId, Bound>) {
    node((file.id, &file.ty), (table.id, &table.ty), by_id, found);
}

fn node(file: (FieldId, &Type), table: (FieldId, &Type), by_id: bool, found: &mut HashMap<FieldId, Bound>) {
    match (file.1, table.1) {
        (Type::Primitive(file_type), Type::Primitive(table_type)) => {
            found.insert(file.0, Bound { field: table.0, table_type: *table_type, file_type: *file_type });
        }
        (Type::Struct(file), Type::Struct(table)) => fields(file, table, by_id, found),
        (Type::List(file), Type::List(table)) => element(file, table, by_id, found),
        (Type::Map(file), Type::Map(table)) => {
            element(&file.0, &table.0, by_id, found);
            element(&file.1, &table.1, by_id, found);
        }
        _ => {}
    }
}
