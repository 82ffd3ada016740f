//! The rows of one registered file, one batch after the other, as they were at a snapshot.

use super::super::Column;
use super::super::footer::read_metadata;
use super::input::{Input, LocalFile};
use super::schema::TargetSchema;
use super::{MakeWay, RewriteError, RewriteInput, RewriteOptions};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use hoglake_model::FieldId;
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A registered file, opened: its footer is read and mapped to the columns, its bytes are at hand.
///
/// The bytes of a file that is not local are in a temporary file without a name, so that pages are read one by one and
/// memory does not grow with row groups.
#[derive(Debug)]
pub struct Rows {
    input: Arc<Input>,
    target: Arc<TargetSchema>,
    file: LocalFile,
    schema: SchemaRef,
}

impl Rows {
    /// Opens a file with the `columns` that are wanted of it, in their order. None at all leaves the row ids.
    ///
    /// # Errors
    /// [`RewriteError`] as of a rewrite: the file is not what was registered, cannot be converted, or cannot be reached.
    pub async fn open(source: RewriteInput, columns: &[Column], temp_dir: PathBuf) -> Result<Self, RewriteError> {
        let location = source.object.location.to_string();
        let object = source.object.clone();
        let (metadata, _) = read_metadata(&object, source.file)
            .await
            .map_err(|error| RewriteError::Footer { path: location, source: Box::new(error) })?;
        let input = Arc::new(Input::new(source, metadata, columns)?);
        let target = TargetSchema::new(columns, std::slice::from_ref(&input), &[], &RewriteOptions::default())?;
        let file = LocalFile::open(&object, temp_dir).await?;
        let schema = with_field_ids(&target, columns);
        Ok(Self { input, target: Arc::new(target), file, schema })
    }

    /// The columns with their field ids, then `_hog_row_id`.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rows that no vector deletes, in file order. Never an empty batch. Decodes where it is called: not for a thread
    /// that others wait for. The batches of a file are cut the same way each time.
    ///
    /// # Errors
    /// [`RewriteError`], here and from the iterator.
    pub fn batches(&self) -> Result<impl Iterator<Item = Result<RecordBatch, RewriteError>> + use<>, RewriteError> {
        let batches = Arc::clone(&self.input).read(self.file.clone(), Arc::clone(&self.target), &MakeWay::default())?;
        let schema = Arc::clone(&self.schema);
        Ok(batches.filter_map(move |batch| match batch {
            Ok(batch) if batch.num_rows() == 0 => None,
            Ok(batch) => {
                Some(RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec()).map_err(RewriteError::from))
            }
            Err(error) => Some(Err(error)),
        }))
    }
}

fn with_field_ids(target: &TargetSchema, columns: &[Column]) -> SchemaRef {
    let ids = columns.iter().map(|column| column.field_id).chain([FieldId::ROW_ID]);
    let fields = target.arrow.fields().iter().zip(ids).map(|(field, id)| with_field_id(field.as_ref().clone(), id));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn with_field_id(field: Field, id: FieldId) -> Field {
    field.with_metadata(HashMap::from([(PARQUET_FIELD_ID_META_KEY.to_owned(), id.0.to_string())]))
}

/// The schema of row ids alone.
pub fn row_id_schema() -> SchemaRef {
    let field = Field::new(super::schema::ROW_ID_NAME, DataType::Int64, false);
    Arc::new(Schema::new(vec![with_field_id(field, FieldId::ROW_ID)]))
}
