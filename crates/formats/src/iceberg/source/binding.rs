//! How files written under earlier schemas differ from what a schema says ("Schema Evolution", "Column Projection").

use super::super::metadata::TableMetadata;
use super::super::schema;
use hoglake_model::FieldId;
use hoglake_model::table::{Binding, Schema};
use std::collections::{BTreeSet, HashMap};

/// Visits every field of a name mapping ("Name Mapping Serialization") with the names that each step of its path may
/// have, its own last. `steps` is where the fields of `json` are.
pub(super) fn visit_mapping<'a>(
    json: Option<&'a serde_json::Value>,
    steps: &mut Vec<Vec<&'a str>>,
    visit: &mut dyn FnMut(FieldId, &[Vec<&'a str>]),
) {
    if steps.len() >= 64 {
        return;
    }
    for field in json.and_then(|j| j.as_array()).into_iter().flatten() {
        let names = field.get("names").and_then(|n| n.as_array()).into_iter().flatten();
        steps.push(names.filter_map(|n| n.as_str()).collect());
        if let Some(id) = field.get("field-id").and_then(|id| id.as_i64()) {
            visit(FieldId(id), steps);
        }
        visit_mapping(field.get("fields"), steps, visit);
        steps.pop();
    }
}

/// Compares a schema with all that the table ever had.
pub(super) fn read(place: &str, metadata: &TableMetadata, current: &Schema) -> Binding {
    let mapping = metadata.property("schema.name-mapping.default");
    let mut binding = Binding { ids_may_be_absent: mapping.is_some(), ..Binding::default() };
    let mapping: Option<serde_json::Value> = mapping.and_then(|text| serde_json::from_str(text).ok());
    let mut moved = BTreeSet::new();
    // A name of the mapping that is not the column's is the name in some file.
    visit_mapping(mapping.as_ref(), &mut Vec::new(), &mut |id, steps| {
        let column = current.node(id).and_then(|node| node.field);
        let names = || steps.last().into_iter().flatten();
        if column.is_some_and(|c| names().any(|name| c.name != *name)) {
            moved.insert(id);
        }
    });
    let mut by_id = HashMap::new();
    let mut by_path = HashMap::new();
    current.walk(&mut |path, node| {
        by_id.insert(node.id, (path.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>(), node.ty.primitive()));
        by_path.insert(spelled_alike(path), node.id);
    });
    for json in &metadata.schemas {
        let Ok(other) = schema::parse(place, json) else { continue };
        other.walk(&mut |path, node| {
            if let Some((name, now)) = by_id.get(&node.id) {
                if !name.iter().map(String::as_str).eq(path.iter().copied()) {
                    moved.insert(node.id);
                }
                // A schema that came later than this version may have the wider type.
                if let (Some(then), Some(now)) = (node.ty.primitive(), now)
                    && then != *now
                    && !schema::promotes(*now, then)
                    && !binding.older_types.contains(&(node.id, then))
                {
                    binding.older_types.push((node.id, then));
                }
            }
            if let Some(id) = by_path.get(&spelled_alike(path)).filter(|id| **id != node.id) {
                moved.insert(*id);
            }
        });
    }
    binding.by_id = moved.into_iter().collect();
    binding
}

/// A path for comparison: the engines of Delta and Hudi tables take names that differ in case for the same.
fn spelled_alike(path: &[&str]) -> Vec<String> {
    path.iter().map(|step| step.to_lowercase()).collect()
}
