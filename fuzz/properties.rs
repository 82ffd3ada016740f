//! What must hold for any bytes, shared by the fuzz targets and by the test that replays their seeds.

use hoglake_formats::parquet::Column;
use hoglake_formats::parquet::footer;
use hoglake_formats::{deletion_vector::DeletionVector, puffin as puffin_file};
use hoglake_model::{Bounds, BoundsBuilder, ColumnType, Datum, DecimalType, FieldId};
use std::cmp::Ordering;

const TYPES: [ColumnType; 13] = [
    ColumnType::Boolean,
    ColumnType::Int,
    ColumnType::Long,
    ColumnType::Float,
    ColumnType::Double,
    ColumnType::Decimal(DecimalType { precision: 20, scale: 2 }),
    ColumnType::Date,
    ColumnType::Time,
    ColumnType::Timestamp,
    ColumnType::Timestamptz,
    ColumnType::String,
    ColumnType::Uuid,
    ColumnType::Binary,
];

/// A Puffin file is refused, or holds a vector that survives being written again.
pub fn puffin(data: &[u8]) {
    if let Ok(file) = puffin_file::read(data) {
        assert_eq!(file.vector.cardinality(), file.vector.iter().count() as u64);
        let again = puffin_file::write(&file.vector, "f").map(|bytes| puffin_file::read(&bytes));
        assert!(matches!(again, Ok(Ok(again)) if again.vector == file.vector));
    }
    // Without the container, whose JSON is hard to hit.
    if let Ok(vector) = DeletionVector::decode_unframed(data) {
        assert!(matches!(DeletionVector::decode(&vector.encode()), Ok(again) if again == vector));
    }
}

/// Two claimed bounds of some type: what is kept is ordered, canonical, and encloses itself when folded.
pub fn bounds(data: &[u8]) {
    let [ty, split, rest @ ..] = data else { return };
    let ty = TYPES[usize::from(*ty) % TYPES.len()];
    let (lower, upper) = rest.split_at(usize::from(*split).min(rest.len()));
    let kept = Bounds::sanitised(ty, Some(lower), Some(upper));
    assert_eq!(Bounds::sanitised(ty, kept.lower(), kept.upper()), kept);
    let decode = |bytes| Datum::decode(ty, bytes).ok();
    if let (Some(l), Some(u)) = (kept.lower().and_then(decode), kept.upper().and_then(decode)) {
        assert_ne!(l.compare(u), Some(Ordering::Greater));
        assert!(!l.is_nan() && !u.is_nan());
    }
    let mut builder = BoundsBuilder::new();
    builder.part(ty, &kept);
    assert_eq!(builder.finish(), kept);
    let cut = kept.clone().truncated(ty, 4);
    if let (Some(short), Some(long)) = (cut.upper().and_then(decode), kept.upper().and_then(decode)) {
        assert_ne!(short.compare(long), Some(Ordering::Less));
    }
}

/// The end of a Parquet file, bound to thirteen columns of every type in turn: refused, or statistics that hold together.
pub fn footer(data: &[u8]) {
    let Ok(metadata) = footer::decode(data) else { return };
    for shift in 0..TYPES.len() {
        let columns: Vec<Column> = (0..TYPES.len())
            .map(|i| Column {
                field_id: FieldId(i as i64 + 1),
                name: format!("c{i}"),
                ty: TYPES[(i + shift) % TYPES.len()],
                nullable: true,
            })
            .collect();
        let Ok(statistics) = footer::statistics_of(&metadata, &columns) else { return };
        for (stats, column) in
            statistics.columns.iter().filter_map(|s| Some((s, columns.iter().find(|c| c.field_id == s.field_id)?)))
        {
            assert!(stats.null_count.is_some_and(|n| (0..=statistics.record_count).contains(&n)));
            assert_eq!(Bounds::sanitised(column.ty, stats.bounds.lower(), stats.bounds.upper()), stats.bounds);
        }
    }
}
