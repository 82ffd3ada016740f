//! Conversion between table formats, as the command line and the API ask for it: places, formats, options.

pub mod failure;
pub mod preference;
pub mod request;
pub mod run;
pub mod service;
pub mod settings;

use failure::Failure;
use hoglake_formats::delta::{DeltaSource, DeltaTarget, DeltaTargetOptions};
use hoglake_formats::hudi::{HudiOptions, HudiSource, HudiTarget, PartitionPathSpec};
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource, IcebergTarget, IcebergTargetOptions};
use hoglake_formats::parquet_directory::{ParquetDirectoryOptions, ParquetDirectorySource};
use hoglake_formats::store::Stores;
use hoglake_formats::sync::{Error, Result, Source, TableRoot, Target};
use hoglake_model::table::{TableFormat, Unsupported, UnsupportedKind};
use hoglake_model::{Location, Refusal};
use std::sync::Arc;

/// Where a table is, and which of its metadata files is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The table's root.
    pub root: Location,
    /// One Iceberg metadata file, as a key under the root, when the user named it.
    pub metadata_file: Option<String>,
}

impl Place {
    /// Reads what a user names: a table's root, its metadata folder (`_delta_log`, `.hoodie`, `metadata`), or one
    /// Iceberg metadata file.
    ///
    /// # Errors
    /// [`ErrorCode::Validation`](hoglake_model::ErrorCode::Validation) for text that is no location.
    pub fn parse(text: &str) -> std::result::Result<Self, Refusal> {
        let location = Location::parse(text)?;
        let name = location.file_name().to_owned();
        let up = |location: &Location| location.parent().unwrap_or_else(|| location.clone());
        if matches!(name.as_str(), "_delta_log" | ".hoodie" | "metadata") {
            return Ok(Self { root: up(&location), metadata_file: None });
        }
        if name.ends_with(".metadata.json") || name.ends_with(".metadata.json.gz") {
            let folder = up(&location);
            if folder.file_name() == "metadata" {
                return Ok(Self { root: up(&folder), metadata_file: Some(format!("metadata/{name}")) });
            }
            return Ok(Self { root: folder, metadata_file: Some(name) });
        }
        Ok(Self { root: location, metadata_file: None })
    }
}

/// How to read a source.
#[derive(Debug, Clone, Default)]
pub struct SourceOptions {
    /// Read merge-on-read Hudi tables without their log files.
    pub read_optimised: bool,
    /// How partition paths of Hudi tables become partition columns, in place of what their properties say.
    pub partition_spec: Option<PartitionPathSpec>,
}

/// How to write targets.
#[derive(Debug, Clone, Default)]
pub struct TargetOptions {
    /// How long snapshots are kept, in milliseconds; the formats' own defaults when absent.
    pub retention_ms: Option<i64>,
    /// After how many commits a Delta target gets a checkpoint; its own default when absent.
    pub checkpoint_interval: Option<i64>,
    /// The format version of Iceberg targets; the lowest that serves when absent.
    pub iceberg_format_version: Option<i32>,
    /// See [`DeltaTargetOptions::type_widening`]; its own default when absent.
    pub type_widening: Option<bool>,
}

/// `SubmittedConversionResponse` of the contract.
pub(crate) fn submitted(id: uuid::Uuid) -> serde_json::Value {
    serde_json::json!({"conversion-id": id})
}

/// What becomes of a job whose server ended, and the credentials of its request with it.
fn lost_credentials() -> Failure {
    Failure::new(
        500,
        "conversion_interrupted",
        "the server that did this conversion ended, and the credentials of the request, which were in its memory only, \
         went with it; send the request again",
    )
}

/// The table formats that have metadata at `root`, a directory of Parquet files only if nothing else is there.
///
/// # Errors
/// As the store.
pub async fn detect(root: &TableRoot) -> Result<Vec<TableFormat>> {
    let mut found = Vec::new();
    for (folder, format) in
        [("_delta_log", TableFormat::Delta), ("metadata", TableFormat::Iceberg), (".hoodie", TableFormat::Hudi)]
    {
        let objects = root.list(folder, None).await?;
        let fits = |key: &str| match format {
            TableFormat::Iceberg => key.ends_with(".metadata.json") || key.ends_with(".metadata.json.gz"),
            TableFormat::Hudi => key.ends_with("hoodie.properties"),
            _ => key.ends_with(".json") || key.ends_with(".parquet"),
        };
        if objects.iter().any(|o| fits(&o.key)) {
            found.push(format);
        }
    }
    if found.is_empty() {
        found.push(TableFormat::Parquet);
    }
    Ok(found)
}

/// Opens a source; nothing is read yet.
///
/// # Errors
/// [`Error::Access`] when the location is not allowed, [`Error::NotATable`] for a format that is no file format.
pub fn open_source(
    format: TableFormat,
    stores: &Arc<Stores>,
    place: &Place,
    options: &SourceOptions,
) -> Result<Box<dyn Source>> {
    let root = TableRoot::open(stores, place.root.clone())?;
    Ok(match format {
        TableFormat::Delta => Box::new(DeltaSource::new(root)),
        TableFormat::Iceberg => {
            let metadata_file = place.metadata_file.clone();
            Box::new(IcebergSource::new(root, IcebergOptions { metadata_file, ..IcebergOptions::default() }))
        }
        TableFormat::Hudi => {
            let read_optimised = options.read_optimised;
            Box::new(HudiSource::new(
                root,
                HudiOptions {
                    read_optimised,
                    partition_spec: options.partition_spec.clone(),
                    ..HudiOptions::default()
                },
            ))
        }
        TableFormat::Parquet => Box::new(ParquetDirectorySource::new(root, ParquetDirectoryOptions::default())),
        TableFormat::Hoglake => {
            return Err(Error::NotATable {
                format,
                place: place.root.to_string(),
                detail: "tables of a catalog are exported by the server that keeps it".to_owned(),
            });
        }
    })
}

/// Opens a target; nothing is read yet.
///
/// # Errors
/// [`Error::Access`] when the location is not allowed, [`Error::Unsupported`] for a format that is not written.
pub fn open_target(
    format: TableFormat,
    stores: &Arc<Stores>,
    root: &Location,
    options: &TargetOptions,
) -> Result<Box<dyn Target>> {
    let table = TableRoot::open(stores, root.clone())?;
    Ok(match format {
        TableFormat::Iceberg => {
            let mut own = IcebergTargetOptions::default();
            own.retention_ms = options.retention_ms.unwrap_or(own.retention_ms);
            own.format_version = options.iceberg_format_version;
            Box::new(IcebergTarget::new(table, own))
        }
        TableFormat::Delta => {
            let mut own = DeltaTargetOptions::default();
            own.checkpoint_interval = options.checkpoint_interval.unwrap_or(own.checkpoint_interval);
            own.log_retention_ms = options.retention_ms.unwrap_or(own.log_retention_ms);
            own.type_widening = options.type_widening.unwrap_or(own.type_widening);
            Box::new(DeltaTarget::new(table, own))
        }
        TableFormat::Hudi => Box::new(HudiTarget::new(table).retaining(options.retention_ms)),
        TableFormat::Parquet | TableFormat::Hoglake => {
            return Err(Error::Unsupported(vec![Unsupported {
                target: format,
                kind: UnsupportedKind::Feature,
                place: root.to_string(),
                detail: "this format cannot be a target; use ICEBERG, DELTA or HUDI".to_owned(),
            }]));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_found_by_whatever_part_of_it_is_named() {
        let root = Location::parse("s3://b/t").unwrap();
        for text in ["s3://b/t", "s3://b/t/_delta_log", "s3a://b/t/.hoodie/", "s3://b/t/metadata"] {
            assert_eq!(Place::parse(text).unwrap(), Place { root: root.clone(), metadata_file: None }, "{text}");
        }
        let file = Place::parse("s3://b/t/metadata/v3.metadata.json").unwrap();
        assert_eq!(file, Place { root: root.clone(), metadata_file: Some("metadata/v3.metadata.json".to_owned()) });
        assert_eq!(
            Place::parse("s3://b/t/v3.metadata.json").unwrap().metadata_file.as_deref(),
            Some("v3.metadata.json")
        );
        assert!(Place::parse("t").is_err());
    }
}
