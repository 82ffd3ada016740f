//! Columns that partition the source by their values and not the target: their values have to be in the files.

use super::super::write::PartitionColumn;
use crate::sync::{Error, Result, TableRoot};
use hoglake_model::FieldId;
use hoglake_model::table::{DataFile, FilePath, TableFormat, TableState, Transform, Unsupported, UnsupportedKind};
use parquet::arrow::async_reader::AsyncFileReader;
use std::collections::HashMap;

/// Identity partition fields of the source's specs that are no partition columns of the log.
#[derive(Debug)]
pub(super) struct LeftOut {
    by_spec: HashMap<i32, Vec<Column>>,
}

#[derive(Debug)]
struct Column {
    /// Its place in the spec's tuple.
    place: usize,
    id: FieldId,
    name: String,
}

impl LeftOut {
    pub fn new(state: &TableState, layout: &[PartitionColumn]) -> Self {
        let mut by_spec = HashMap::new();
        for spec in &state.specs {
            let identities = spec.fields.iter().enumerate().filter(|(_, f)| f.transform == Transform::Identity);
            let columns: Vec<Column> = identities
                .filter_map(|(place, field)| {
                    let name = state.schema.path(field.source)?.join(".");
                    let laid = layout.iter().any(|c| c.places.get(&spec.id) == Some(&place));
                    (!laid).then_some(Column { place, id: field.source, name })
                })
                .collect();
            if !columns.is_empty() {
                by_spec.insert(spec.id, columns);
            }
        }
        Self { by_spec }
    }

    /// Refuses a file that does not hold such a column: its rows would be read as null. Files that were imported into an
    /// Iceberg table, and those of other formats, need not hold what their partition tuple says ("Column Projection"). The
    /// footer is read where the metadata tells no size of the column.
    pub async fn check(&self, root: &TableRoot, path: &FilePath, file: &DataFile) -> Result<()> {
        let Some(columns) = self.by_spec.get(&file.spec_id) else { return Ok(()) };
        let stored = |id: FieldId| file.columns.iter().any(|c| c.field == id && c.size_bytes.is_some_and(|n| n > 0));
        let has_value = |column: &&Column| file.partition.get(column.place).is_some_and(Option::is_some);
        let doubtful: Vec<&Column> = columns.iter().filter(has_value).filter(|c| !stored(c.id)).collect();
        if doubtful.is_empty() {
            return Ok(());
        }
        let mut reader = root.parquet(path, file.size_bytes)?;
        let footer = reader.get_metadata(None).await.map_err(|e| Error::parquet(file.path.as_str(), &e))?;
        let schema = footer.file_metadata().schema_descr();
        let holds = |column: &Column| {
            schema.columns().iter().any(|leaf| {
                let info = leaf.self_type().get_basic_info();
                let by_id = info.has_id() && i64::from(info.id()) == column.id.0;
                by_id || leaf.path().string() == column.name
            })
        };
        let missing = doubtful.iter().filter(|column| !holds(column)).map(|column| Unsupported {
            target: TableFormat::Delta,
            kind: UnsupportedKind::Transform,
            place: column.name.clone(),
            detail: format!(
                "the table is partitioned by its values, which the file {} does not hold, and the log of this table cannot be \
                 partitioned by it; rewrite such files with the column in them",
                file.path.as_str()
            ),
        });
        let missing: Vec<_> = missing.collect();
        if missing.is_empty() { Ok(()) } else { Err(Error::Unsupported(missing)) }
    }
}
