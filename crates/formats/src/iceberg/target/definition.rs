//! Schema, specs and ids of a commit: what the table had before, extended by what the source has now.

use super::super::metadata::{TableMetadata, schema_id};
use super::super::schema;
use crate::sync::{Error, Result};
use hoglake_model::FieldId;
use hoglake_model::table::{
    Field, FieldIds, PartitionField, PartitionSpec, Primitive, Schema, TableFormat, TableState, Transform, Type,
    Unsupported, UnsupportedKind,
};
use serde_json::Value as Json;
use std::collections::HashMap;

/// The first partition field id is 1000.
const LAST_PARTITION_ID: i32 = 999;

/// What the new metadata will say about columns and partitions.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    pub schema: Schema,
    pub schema_id: i32,
    pub schema_json: Json,
    /// From the source's field ids to the table's, where they differ.
    pub ids: Option<HashMap<FieldId, FieldId>>,
    pub last_column_id: i64,
    /// All specs of the table, the new ones included.
    pub specs: Vec<PartitionSpec>,
    /// From the source's spec ids to the table's.
    pub spec_ids: HashMap<i32, i32>,
    pub default_spec_id: i32,
    pub last_partition_id: i32,
    /// Whether something here differs from the table's metadata.
    pub changed: bool,
    /// Columns whose type changed in a way that readers do not promote.
    pub impossible: Vec<Unsupported>,
    /// Columns that files may hold beside those of the schema.
    pub unlisted: Vec<String>,
}

impl Definition {
    /// Refuses types of columns in older files that readers do not promote.
    ///
    /// # Errors
    /// [`Error::Unsupported`] naming the columns.
    pub fn promote(&self, older_types: &[(Vec<String>, Primitive)]) -> Result<()> {
        let mut found = Vec::new();
        self.schema.walk(&mut |path, node| {
            let Some(now) = node.ty.primitive().map(schema::stored) else { return };
            for (_, then) in older_types.iter().filter(|(p, _)| p.iter().map(String::as_str).eq(path.iter().copied())) {
                refuse(&mut found, path, schema::stored(*then), now, Held::InFiles);
            }
        });
        if found.is_empty() { Ok(()) } else { Err(Error::Unsupported(found)) }
    }

    /// `first_file` has the ids of a new table's first file, for sources that know columns by name.
    pub fn new(
        place: &str,
        previous: Option<&TableMetadata>,
        state: &TableState,
        first_file: Option<&Schema>,
    ) -> Result<Self> {
        let old = previous.map(|m| m.schema(place, m.current_schema_id)).transpose()?;
        let last = FieldId(previous.map_or(0, |m| m.last_column_id));
        let (mut schema, ids, last_column_id) = match state.field_ids {
            FieldIds::Assigned => (state.schema.clone(), None, last.0.max(state.schema.max_id().0)),
            FieldIds::Positional => {
                let last = FieldId(last.0.max(first_file.map_or(0, |schema| schema.max_id().0)));
                let renumbered = state.schema.renumbered(old.as_ref().or(first_file), last);
                (renumbered.schema, Some(renumbered.ids), renumbered.last_id.0)
            }
        };
        let mut impossible = Vec::new();
        for (source, then) in &state.binding.older_types {
            let id = ids.as_ref().map_or(Some(*source), |ids| ids.get(source).copied()).unwrap_or(*source);
            let (then, now) = (schema::stored(*then), schema.primitive(id).map(schema::stored));
            if let (Some(path), Some(now)) = (schema.path(id), now) {
                refuse(&mut impossible, &path, then, now, Held::InFiles);
            }
        }
        if let Some(old) = &old {
            let mut before = HashMap::new();
            old.walk(&mut |_, node| {
                let required = node.field.is_none_or(|f| f.required);
                before.insert(node.id, (required, node.ty.primitive()));
            });
            relax(&mut schema.fields, &before);
            schema.walk(&mut |path, node| {
                let now = node.ty.primitive().map(schema::stored);
                if let (Some((_, Some(then))), Some(now)) = (before.get(&node.id), now) {
                    refuse(&mut impossible, path, *then, now, Held::InTarget);
                }
            });
        }
        if state.binding.partition_columns_absent {
            // Readers look for a required column in the file before they look at the partition tuple.
            let columns = state.specs.iter().flat_map(|s| &s.fields).map(|f| f.source);
            let columns: Vec<_> =
                columns.map(|id| ids.as_ref().and_then(|ids| ids.get(&id).copied()).unwrap_or(id)).collect();
            schema.fields.iter_mut().filter(|f| columns.contains(&f.id)).for_each(|f| f.required = false);
        }
        let id_of = |json: &Json| schema_id(json);
        let existing = previous.and_then(|m| {
            m.schemas
                .iter()
                .find(|json| schema::format(&schema, id_of(json)) == **json)
                .map(|json| (id_of(json), json.clone()))
        });
        let next = previous.map_or(0, |m| m.schemas.iter().map(schema_id).max().map_or(0, |id| id + 1));
        let schema_is_new = existing.is_none();
        let (schema_id, schema_json) = existing.unwrap_or_else(|| (next, schema::format(&schema, next)));
        let mut specs = previous.map(|m| m.specs(place)).transpose()?.unwrap_or_default();
        let mut last_partition_id =
            previous.and_then(|m| m.last_partition_id).unwrap_or(LAST_PARTITION_ID).max(LAST_PARTITION_ID);
        for field in specs.iter().flat_map(|s| &s.fields) {
            last_partition_id = last_partition_id.max(field.field_id);
        }
        let before = specs.len();
        let mut spec_ids = HashMap::new();
        let wanted = state.specs.iter().filter(|s| s.id != state.default_spec).chain(state.spec(state.default_spec));
        for spec in wanted {
            let map = |id: FieldId| ids.as_ref().map_or(Some(id), |ids| ids.get(&id).copied()).unwrap_or(id);
            let key: Vec<_> = spec.fields.iter().map(|f| (map(f.source), f.transform)).collect();
            let same = specs.iter().find(|s| s.fields.iter().map(|f| (f.source, f.transform)).eq(key.iter().copied()));
            let id = match same {
                Some(same) => same.id,
                None => {
                    let id = specs.iter().map(|s| s.id).max().map_or(0, |id| id + 1);
                    let fields = new_fields(spec, &key, &specs, &schema, &mut last_partition_id);
                    specs.push(PartitionSpec { id, fields });
                    id
                }
            };
            spec_ids.insert(spec.id, id);
        }
        let default_spec_id = spec_ids.get(&state.default_spec).copied().unwrap_or(0);
        let changed = schema_is_new
            || specs.len() != before
            || previous.is_none_or(|m| m.current_schema_id != schema_id || m.default_spec_id != default_spec_id);
        Ok(Self {
            schema,
            schema_id,
            schema_json,
            ids,
            last_column_id,
            specs,
            spec_ids,
            default_spec_id,
            last_partition_id,
            changed,
            impossible,
            unlisted: state.binding.unlisted.clone(),
        })
    }

    /// The table's spec with this id.
    pub fn spec(&self, id: i32) -> PartitionSpec {
        self.specs.iter().find(|s| s.id == id).cloned().unwrap_or_default()
    }

    /// Whether the schema needs version 3.
    pub fn needs_v3(&self) -> bool {
        let mut needs = false;
        self.schema.walk(&mut |_, node| {
            let ty = matches!(
                node.ty,
                Type::Primitive(
                    Primitive::TimestampNs | Primitive::TimestamptzNs | Primitive::Variant | Primitive::Unknown
                )
            );
            needs |= ty || node.field.is_some_and(|f| f.initial_default.is_some());
        });
        needs
    }
}

/// A column that was not there, or that was optional, stays optional: files without it, or with nulls, may exist.
fn relax(fields: &mut [Field], before: &HashMap<FieldId, (bool, Option<Primitive>)>) {
    fn children(ty: &mut Type, before: &HashMap<FieldId, (bool, Option<Primitive>)>) {
        match ty {
            Type::Primitive(_) => {}
            Type::Struct(fields) => relax(fields, before),
            Type::List(element) => children(&mut element.ty, before),
            Type::Map(entry) => {
                children(&mut entry.0.ty, before);
                children(&mut entry.1.ty, before);
            }
        }
    }
    for field in fields {
        field.required &= before.get(&field.id).is_some_and(|(required, _)| *required);
        children(&mut field.ty, before);
    }
}

fn new_fields(
    spec: &PartitionSpec,
    key: &[(FieldId, Transform)],
    specs: &[PartitionSpec],
    schema: &Schema,
    last_partition_id: &mut i32,
) -> Vec<PartitionField> {
    let mut fields: Vec<PartitionField> = Vec::new();
    for (field, (source, transform)) in spec.fields.iter().zip(key) {
        let known = specs.iter().flat_map(|s| &s.fields).find(|f| f.source == *source && f.transform == *transform);
        let field_id = known.map_or_else(
            || {
                *last_partition_id += 1;
                *last_partition_id
            },
            |f| f.field_id,
        );
        let mut name = known.map_or_else(|| field.name.clone(), |f| f.name.clone());
        // A partition field may share the name of a column only if it is that column.
        let clashes = |name: &str, fields: &[PartitionField]| {
            let column = schema.column(name).is_some_and(|c| c.id != *source || *transform != Transform::Identity);
            column || fields.iter().any(|f| f.name == name)
        };
        while clashes(&name, &fields) {
            name.push_str("_part");
        }
        fields.push(PartitionField { source: *source, field_id, name, transform: *transform });
    }
    fields
}

/// Adds the refusal of a column whose values in older files readers do not find; once, however many tell of them.
/// Where the older type of a column still is.
#[derive(Clone, Copy)]
enum Held {
    InFiles,
    InTarget,
}

fn refuse(found: &mut Vec<Unsupported>, column: &[&str], from: Primitive, to: Primitive, held: Held) {
    let why = match (from, to) {
        // "Schema Evolution": from version 3 on, and not for what a partition field is made of. Readers lag behind: PyIceberg
        // 0.12 takes the days of a partition for microseconds, without a word, and fails at those of files.
        (Primitive::Date, Primitive::Timestamp | Primitive::TimestampNs) => {
            "which Iceberg promotes from version 3 on and not for partitions, and which its readers do not follow yet"
        }
        (from, to) if schema::promotes(from, to) => return,
        _ => "which Iceberg has no promotion for",
    };
    let remedy = match held {
        // A target that a former version has widened all the same goes on after that.
        Held::InFiles => {
            "rewrite the files that hold the older type (in Delta, ALTER TABLE ... DROP FEATURE typeWidening does) and ask for a \
             full sync, or add a column of the new type"
        }
        Held::InTarget => {
            "the table at the target keeps the older type: remove its `metadata` folder, or choose another target path, and \
             convert anew"
        }
    };
    let refusal = Unsupported {
        target: TableFormat::Iceberg,
        kind: UnsupportedKind::Type,
        place: column.join("."),
        detail: format!("the column changed from {from} to {to}, {why}; {remedy}"),
    };
    if !found.iter().any(|known| known.place == refusal.place) {
        found.push(refusal);
    }
}
