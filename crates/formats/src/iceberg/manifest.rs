//! Manifests ("Manifests", "Data File Fields"): what the two halves share.

mod read;
#[cfg(test)]
mod tests;
mod write;

pub(super) use read::{Entry, ManifestReader, Status, live_paths};
pub(super) use write::{DeleteContent, DeleteEntry, EntryKind, FileEntry, ManifestWriter};

use super::schema::stored;
use hoglake_model::table::{PartitionSpec, Primitive, Schema, Transform};

/// Reserved field id of `file_path` in position-delete files.
pub(super) const DELETE_FILE_PATH: i64 = 2_147_483_546;
/// Reserved field id of `pos` there.
pub(super) const DELETE_POSITION: i64 = 2_147_483_545;

/// The type of a partition value ("Partition Transforms").
pub(super) fn result_type(transform: Transform, source: Primitive) -> Primitive {
    match transform {
        Transform::Identity | Transform::Truncate(_) | Transform::Void => stored(source),
        Transform::Year | Transform::Month | Transform::Hour | Transform::Bucket(_) => Primitive::Int,
        Transform::Day => Primitive::Date,
    }
}

/// The types of a spec's values; `None` where the source column no longer exists.
pub(super) fn tuple_types(spec: &PartitionSpec, schema: &Schema) -> Vec<Option<Primitive>> {
    let ty = |source| schema.primitive(source);
    spec.fields
        .iter()
        .map(|field| match field.transform {
            Transform::Identity | Transform::Truncate(_) | Transform::Void => {
                ty(field.source).map(|source| result_type(field.transform, source))
            }
            transform => Some(result_type(transform, Primitive::Int)),
        })
        .collect()
}
