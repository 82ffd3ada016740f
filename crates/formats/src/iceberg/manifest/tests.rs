//! What is written reads back; what is damaged is refused, never taken for something else by a panic.

use super::super::manifest_list::ManifestFile;
use super::super::schema;
use super::*;
use hoglake_model::FieldId;
use hoglake_model::table::{ColumnStats, DataFile, Field, FilePath, PartitionField, Value};
use hoglake_model::{DecimalType, table::FileFormat};
use proptest::prelude::*;
use std::collections::HashMap;

const DECIMAL: Primitive = Primitive::Decimal(DecimalType { precision: 9, scale: 2 });

fn table() -> (Schema, PartitionSpec) {
    let columns = [
        Primitive::Long,
        Primitive::String,
        DECIMAL,
        Primitive::Date,
        Primitive::Timestamptz,
        Primitive::Uuid,
        Primitive::Binary,
        Primitive::Boolean,
        Primitive::Double,
        Primitive::Fixed(3),
    ];
    let fields = columns.iter().zip(1..).map(|(ty, id)| Field::optional(id, format!("c {id}"), (*ty).into())).collect();
    let field = |source: i64, transform| PartitionField {
        source: FieldId(source),
        field_id: 1000 + i32::try_from(source).unwrap(),
        name: format!("p {source}"),
        transform,
    };
    let mut partition: Vec<_> = (1..=10).map(|id| field(id, Transform::Identity)).collect();
    partition[4].transform = Transform::Day;
    partition[0].transform = Transform::Bucket(4);
    (Schema { fields, identifier_fields: Vec::new() }, PartitionSpec { id: 7, fields: partition })
}

fn file() -> DataFile {
    let mut file = DataFile::new(FilePath::Under("a b/é.parquet".into()));
    file.size_bytes = Some(100);
    file.record_count = Some(9);
    file.spec_id = 7;
    file.format = FileFormat::Parquet;
    file.split_offsets = vec![4, 50];
    file.partition = vec![
        Some(Value::Int(3)),
        Some(Value::String("".into())),
        Some(Value::Decimal { unscaled: -150, scale: 2 }),
        Some(Value::Date(-1)),
        Some(Value::Date(20_000)),
        Some(Value::Uuid(5)),
        Some(Value::Binary([0, 255].into())),
        Some(Value::Boolean(true)),
        Some(Value::Double(-0.5)),
        None,
    ];
    file.columns = vec![
        ColumnStats {
            size_bytes: Some(10),
            value_count: Some(9),
            null_count: Some(1),
            lower: Some(Value::Long(1)),
            upper: Some(Value::Long(2)),
            ..ColumnStats::unknown(FieldId(1))
        },
        ColumnStats { nan_count: Some(2), ..ColumnStats::unknown(FieldId(9)) },
    ];
    file
}

fn written(version: i32, kind: EntryKind) -> (Vec<u8>, ManifestFile) {
    let (schema, spec) = table();
    let json = schema::format(&schema, 0).to_string();
    let mut writer = ManifestWriter::new(version, 42, false, &spec, &schema, (0, &json));
    writer.data(&FileEntry { kind, file: &file(), path: "s3://b/t/a b/é.parquet", record_count: 9 }, None);
    writer.finish("s3://b/t/metadata/m.avro".to_owned(), 5)
}

fn read(bytes: &[u8], manifest: &ManifestFile) -> crate::sync::Result<Vec<Entry>> {
    let (schema, spec) = table();
    let types: HashMap<_, _> = schema.fields.iter().map(|f| (f.id.0, f.ty.primitive().unwrap())).collect();
    let tuple = spec.fields.iter().map(|f| f.field_id).zip(tuple_types(&spec, &schema)).collect();
    let specs = HashMap::from([(7, tuple)]);
    let path = |text: &str| Ok(FilePath::Under(text.trim_start_matches("s3://b/t/").into()));
    let reader = ManifestReader { types: &types, specs: &specs, path: &path, spelled: false };
    let mut entries = Vec::new();
    reader.read("m", manifest, bytes, |entry| {
        entries.push(entry);
        Ok(())
    })?;
    Ok(entries)
}

#[test]
fn entries_survive_the_round_trip() {
    for version in [2, 3] {
        let (bytes, manifest) = written(version, EntryKind::Added);
        let entries = read(&bytes, &manifest).unwrap();
        assert_eq!(
            (entries.len(), entries[0].status, entries[0].sequence, entries[0].snapshot_id),
            (1, Status::Added, 5, 42)
        );
        assert_eq!(entries[0].file, file());
        assert_eq!((manifest.added_files, manifest.added_rows, manifest.min_sequence_number), (Some(1), Some(9), 5));
        let partitions = manifest.partitions.unwrap();
        assert_eq!((partitions[0].lower.clone(), partitions[9].contains_null), (Some(vec![3, 0, 0, 0]), true));
    }
    let existing = EntryKind::Existing { snapshot_id: 40, sequence: 2, file_sequence: 3 };
    let (bytes, manifest) = written(3, existing);
    let entry = &read(&bytes, &manifest).unwrap()[0];
    assert_eq!((entry.status, entry.snapshot_id, entry.sequence, entry.file_sequence), (Status::Existing, 40, 2, 3));
    assert_eq!(manifest.min_sequence_number, 2);
}

#[test]
fn row_ids_are_inherited_in_the_order_of_the_files() {
    let (bytes, mut manifest) = written(3, EntryKind::Added);
    manifest.first_row_id = Some(1000);
    assert_eq!(read(&bytes, &manifest).unwrap()[0].file.first_row_id, Some(1000));
}

#[test]
fn a_manifest_of_an_unknown_spec_is_refused() {
    let (bytes, mut manifest) = written(2, EntryKind::Added);
    manifest.spec_id = 8;
    assert!(read(&bytes, &manifest).is_err());
}

proptest! {
    #[test]
    fn damaged_manifests_never_panic(at in 0_usize..4000, to in any::<u8>(), length in 0_usize..4000) {
        let (mut bytes, manifest) = written(3, EntryKind::Added);
        let at = at % bytes.len();
        bytes[at] = to;
        let _ = read(&bytes, &manifest);
        bytes.truncate(length);
        let _ = read(&bytes, &manifest);
    }
}
