//! What a reader must understand ("Table Features", "Requirements for Readers"), and the state that `protocol` and
//! `metaData` describe.

use super::action::{Metadata, Protocol};
use super::schema::{self, Mapping};
use crate::sync::{Error, Result};
use hoglake_model::table::{Binding, PartitionSpec, TableFormat, TableState, Version};

/// Reader features that need nothing of us, or that we implement.
const READER_FEATURES: [&str; 10] = [
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "variantType",
    "variantType-preview",
    "variantShredding-preview",
];

/// Refuses a table whose log cannot be read correctly without a feature that we lack.
///
/// # Errors
/// [`Error::UnsupportedSource`] naming the version or the feature.
pub(super) fn check(place: &str, protocol: &Protocol) -> Result<()> {
    let refuse = |feature: String| {
        Err(Error::UnsupportedSource {
            feature,
            place: place.to_owned(),
            detail: "hoglake does not implement it, so the table cannot be read correctly".to_owned(),
        })
    };
    if !(1..=3).contains(&protocol.min_reader_version) {
        return refuse(format!("reader version {}", protocol.min_reader_version));
    }
    let none = Vec::new();
    let features = if protocol.min_reader_version == 3 { protocol.reader_features.as_ref() } else { None };
    match features.unwrap_or(&none).iter().find(|f| !READER_FEATURES.contains(&f.as_str())) {
        Some(feature) => refuse(format!("the reader feature {feature}")),
        None => Ok(()),
    }
}

/// A property of the table, absent when null.
pub(super) fn property<'a>(metadata: &'a Metadata, key: &str) -> Option<&'a str> {
    metadata.configuration.as_ref()?.get(key)?.as_deref()
}

/// The mapping mode; honoured only when the protocol supports column mapping.
pub(super) fn mapping(place: &str, protocol: &Protocol, metadata: &Metadata) -> Result<Mapping> {
    let supported = protocol.min_reader_version == 2
        || protocol.reader_features.iter().flatten().any(|feature| feature == "columnMapping");
    Ok(match property(metadata, "delta.columnMapping.mode").filter(|_| supported) {
        None | Some("none") => Mapping::None,
        Some("name") => Mapping::Name,
        Some("id") => Mapping::Id,
        Some(other) => return Err(Error::malformed(place, format!("column mapping mode {other:?} does not exist"))),
    })
}

/// Says that a table has, or had, a change data feed: files written by updates and deletes then hold one more column.
const CHANGE_DATA_FEED: &str = "delta.enableChangeDataFeed";
const CHANGE_TYPE: &str = "_change_type";

/// The state of a version.
///
/// # Errors
/// As [`check`] and [`schema::parse`], and [`Error::Malformed`] for a partition column that the schema lacks.
pub(super) fn state(
    place: &str,
    root: String,
    version: Version,
    protocol: &Protocol,
    metadata: &Metadata,
) -> Result<(TableState, Mapping)> {
    check(place, protocol)?;
    if let Some(format) = &metadata.format
        && format.provider != "parquet"
    {
        return Err(Error::UnsupportedSource {
            feature: format!("data files in {}", format.provider),
            place: place.to_owned(),
            detail: "only Parquet tables are read".to_owned(),
        });
    }
    let mapping = mapping(place, protocol, metadata)?;
    let (schema, field_ids) = schema::parse(place, &metadata.schema_string, mapping)?;
    let older_types = schema::older_types(&metadata.schema_string, &schema);
    let mut columns = Vec::new();
    for name in metadata.partition_columns.iter().flatten() {
        let column = schema.column(name).or_else(|| schema.fields.iter().find(|f| f.name.eq_ignore_ascii_case(name)));
        let column = column
            .filter(|c| c.ty.primitive().is_some())
            .ok_or_else(|| Error::malformed(place, format!("partition column {name:?} is no column of the schema")))?;
        columns.push((column.id, column.name.as_str()));
    }
    let spec = PartitionSpec::identity(0, columns);
    let state = TableState {
        format: TableFormat::Delta,
        table_id: Some(metadata.id.clone()).filter(|id| !id.is_empty()),
        name: metadata.name.clone(),
        root,
        version,
        field_ids,
        specs: vec![spec],
        default_spec: 0,
        binding: Binding {
            without_ids: schema::without_ids(&schema),
            unlisted: property(metadata, CHANGE_DATA_FEED).map(|_| CHANGE_TYPE.to_owned()).into_iter().collect(),
            older_types,
            partition_columns_absent: true,
            ..Binding::default()
        },
        schema,
        warnings: Vec::new(),
        deletes_left_out: false,
    };
    Ok((state, mapping))
}
