//! Reads columns and specs as of a snapshot.

use crate::{Error, Result};
use hoglake_model::definition::{
    Column, Direction, NullOrder, PartitionField, PartitionSpec, SortField, SortSpec, TableDefinition, Transform,
    TypeParams,
};
use hoglake_model::{CatalogId, ColumnType, FieldId, SnapshotId, SpecId, TableId};
use serde::Deserialize;
use sqlx::PgConnection;

#[derive(sqlx::FromRow)]
struct DefinitionRow {
    columns: Option<String>,
    partition_spec: Option<String>,
    sort_spec: Option<String>,
    next_field_id: i64,
    next_spec_id: i64,
    next_sort_id: i64,
}

#[derive(Deserialize)]
struct ColumnRow {
    field_id: FieldId,
    name: String,
    #[serde(rename = "type")]
    literal: String,
    type_params: Option<TypeParams>,
    nullable: bool,
    ordinal: i32,
}

#[derive(Deserialize)]
struct PartitionSpecRow {
    spec_id: SpecId,
    fields: Option<Vec<PartitionFieldRow>>,
}

#[derive(Deserialize)]
struct PartitionFieldRow {
    source_field_id: FieldId,
    transform: String,
    transform_param: Option<i64>,
}

#[derive(Deserialize)]
struct SortSpecRow {
    sort_id: SpecId,
    fields: Option<Vec<SortFieldRow>>,
}

#[derive(Deserialize)]
struct SortFieldRow {
    source_field_id: FieldId,
    descending: bool,
    nulls_first: bool,
}

/// The columns and specs of `table`, called `name`, at `snapshot`.
///
/// # Errors
/// Any database error; a stored row that the schema does not allow.
pub async fn definition_at(
    connection: &mut PgConnection,
    catalog: CatalogId,
    table: TableId,
    name: &str,
    snapshot: SnapshotId,
) -> Result<TableDefinition> {
    let row: DefinitionRow = sqlx::query_as(include_str!("../../sql/table/definition.sql"))
        .bind(catalog.0)
        .bind(table.0)
        .bind(snapshot.0)
        .fetch_one(connection)
        .await?;
    row.decode(name).map_err(|problem| Error::Corrupt(format!("definition of table {table}: {problem}")))
}

impl DefinitionRow {
    fn decode(self, name: &str) -> Result<TableDefinition, String> {
        let columns: Vec<ColumnRow> = document(self.columns)?.unwrap_or_default();
        let partition: Option<PartitionSpecRow> = document(self.partition_spec)?;
        let sort: Option<SortSpecRow> = document(self.sort_spec)?;
        Ok(TableDefinition {
            name: name.to_owned(),
            columns: columns.into_iter().map(ColumnRow::decode).collect::<Result<_, _>>()?,
            partition_spec: partition.map(PartitionSpecRow::decode).transpose()?,
            sort_spec: sort.map(SortSpecRow::decode),
            next_field_id: self.next_field_id,
            next_spec_id: self.next_spec_id,
            next_sort_id: self.next_sort_id,
        })
    }
}

impl ColumnRow {
    fn decode(self) -> Result<Column, String> {
        let column_type = ColumnType::parse(&self.literal, self.type_params.as_ref().map(TypeParams::map))
            .map_err(|refusal| refusal.detail)?;
        Ok(Column {
            name: self.name,
            column_type,
            type_params: self.type_params,
            nullable: self.nullable,
            field_id: self.field_id,
            ordinal: self.ordinal,
        })
    }
}

impl PartitionSpecRow {
    fn decode(self) -> Result<PartitionSpec, String> {
        let decode = |field: PartitionFieldRow| -> Result<PartitionField, String> {
            let transform = Transform::parse(&field.transform, field.transform_param).map_err(|r| r.detail)?;
            Ok(PartitionField { source_field_id: field.source_field_id, transform })
        };
        let fields = self.fields.unwrap_or_default();
        Ok(PartitionSpec { spec_id: self.spec_id, fields: fields.into_iter().map(decode).collect::<Result<_, _>>()? })
    }
}

impl SortSpecRow {
    fn decode(self) -> SortSpec {
        let decode = |field: SortFieldRow| SortField {
            source_field_id: field.source_field_id,
            direction: if field.descending { Direction::Desc } else { Direction::Asc },
            null_order: if field.nulls_first { NullOrder::NullsFirst } else { NullOrder::NullsLast },
        };
        SortSpec { sort_id: self.sort_id, fields: self.fields.unwrap_or_default().into_iter().map(decode).collect() }
    }
}

fn document<T: for<'de> Deserialize<'de>>(text: Option<String>) -> Result<Option<T>, String> {
    text.map(|text| serde_json::from_str(&text)).transpose().map_err(|e| e.to_string())
}
