//! Field ids that the files of a source without ids have all the same.
//!
//! "Column Projection": readers look for a column by its field id in every file that has any, and by its name only in files
//! without. Tables of Delta and Hudi know columns by name, while their files may come from an engine that gives ids; a table
//! that was converted from Iceberg is made of such files. A new table takes the ids of its first file, and files that
//! contradict the ids of the table are refused: their columns would be read for each other.

use crate::footer;
use crate::sync::{Error, Files, Result, TableRoot};
use futures::{StreamExt, TryStreamExt};
use hoglake_model::FieldId;
use hoglake_model::table::{
    DataFile, Field, FileFormat, FilePath, Schema, TableFormat, Type, Unsupported, UnsupportedKind,
};
use std::collections::HashMap;

/// How many files of a comparison are opened: one a batch, because files of one age lie together.
const SAMPLES: usize = 16;

/// Files still to be opened.
#[derive(Debug)]
pub(super) struct Samples(usize);

impl Default for Samples {
    fn default() -> Self {
        Self(SAMPLES)
    }
}

/// The schema of the first file, where it has field ids. What was taken from the stream is put back.
pub(super) async fn of_first<'a>(
    root: &TableRoot,
    files: Files<'a>,
    table: &Schema,
    own: impl Fn(&FilePath) -> Result<FilePath>,
) -> Result<(Option<Schema>, Files<'a>)> {
    let Files::All(mut stream) = files else { return Ok((None, files)) };
    let Some(batch) = stream.try_next().await? else {
        return Ok((None, Files::All(futures::stream::empty().boxed())));
    };
    let schema = match batch.first() {
        Some(file) => with_ids(root, &own(&file.path)?, file, table).await,
        None => None,
    };
    let stream = futures::stream::once(std::future::ready(Ok(batch))).chain(stream).boxed();
    Ok((schema, Files::All(stream)))
}

/// The schema of a file that has field ids. One that cannot be read tells nothing, and stays for its readers to judge.
async fn with_ids(root: &TableRoot, own: &FilePath, file: &DataFile, table: &Schema) -> Option<Schema> {
    let size = file.size_bytes.filter(|_| file.format == FileFormat::Parquet)?;
    let metadata = match footer::read(root, own, size).await {
        Ok(metadata) => metadata,
        Err(error) => {
            tracing::debug!(%error, "the field ids of a file are not known");
            return None;
        }
    };
    let mut schema = footer::file_schema(metadata.file_metadata().schema_descr()).ok()?.schema;
    spell_alike(&mut schema.fields, &table.fields);
    (schema.max_id().0 > 0).then_some(schema)
}

/// Gives columns the spelling that the table has for them: Delta and Hudi take names that differ in case for the same.
fn spell_alike(fields: &mut [Field], table: &[Field]) {
    for field in fields {
        if let Some(like) = table.iter().find(|like| like.name.eq_ignore_ascii_case(&field.name)) {
            field.name.clone_from(&like.name);
            spell_nested_alike(&mut field.ty, &like.ty);
        }
    }
}

fn spell_nested_alike(ty: &mut Type, table: &Type) {
    match (ty, table) {
        (Type::Struct(fields), Type::Struct(like)) => spell_alike(fields, like),
        (Type::List(element), Type::List(like)) => spell_nested_alike(&mut element.ty, &like.ty),
        (Type::Map(entry), Type::Map(like)) => {
            spell_nested_alike(&mut entry.0.ty, &like.0.ty);
            spell_nested_alike(&mut entry.1.ty, &like.1.ty);
        }
        _ => {}
    }
}

impl Samples {
    /// Refuses a file, unless enough have been opened, whose ids contradict those of the table.
    pub async fn check(&mut self, root: &TableRoot, own: &FilePath, file: &DataFile, table: &Schema) -> Result<()> {
        let Some(left) = self.0.checked_sub(1) else { return Ok(()) };
        self.0 = left;
        let Some(schema) = with_ids(root, own, file, table).await else { return Ok(()) };
        let wrong = contradictions(table, &schema, file);
        if wrong.is_empty() { Ok(()) } else { Err(Error::Unsupported(wrong)) }
    }
}

fn contradictions(table: &Schema, file: &Schema, of: &DataFile) -> Vec<Unsupported> {
    let paths = |schema: &Schema| {
        let mut found: HashMap<Vec<String>, FieldId> = HashMap::new();
        schema.walk(&mut |path, node| {
            found.insert(path.iter().map(|step| (*step).to_owned()).collect(), node.id);
        });
        found
    };
    let wanted = paths(table);
    let taken: HashMap<FieldId, &Vec<String>> = wanted.iter().map(|(path, id)| (*id, path)).collect();
    let mut wrong = Vec::new();
    for (path, id) in paths(file) {
        let detail = match (wanted.get(&path), taken.get(&id)) {
            (Some(wanted), _) if *wanted == id => continue,
            (Some(_), _) if id.0 <= 0 => "no field id, though other columns in it have some".to_owned(),
            (Some(wanted), _) => format!("the field id {id}, and the table knows the column as {wanted}"),
            (None, Some(other)) => format!("the field id {id}, which is the table's column {}", other.join(".")),
            (None, None) => continue,
        };
        wrong.push(Unsupported {
            target: TableFormat::Iceberg,
            kind: UnsupportedKind::Feature,
            place: path.join("."),
            detail: format!(
                "the file {} gives it {detail}; readers would find other values there or none. Convert from the table that the \
                 file was written for, or write into a new table if only the target's ids are others",
                of.path.as_str()
            ),
        });
    }
    wrong.sort_by(|a, b| a.place.cmp(&b.place));
    wrong
}
