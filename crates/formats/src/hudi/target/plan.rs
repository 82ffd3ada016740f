//! What a commit does, in Hudi's terms: where files lie, and whether their folders say what their values are.

use super::super::partitioning::Partitioning;
use super::super::properties::Properties;
use super::HudiTarget;
use crate::sync::{Error, Result, Source, record_counts};
use hoglake_model::Location;
use hoglake_model::table::{DataFile, FileFormat, FilePath, TableFormat, TableState, Unsupported, UnsupportedKind};
use std::collections::{BTreeMap, BTreeSet};

/// A file as Hudi addresses it: partition path and name.
pub(super) type Place = (String, String);

fn key((partition, name): &Place) -> String {
    if partition.is_empty() { name.clone() } else { format!("{partition}/{name}") }
}

/// What a commit does, in Hudi's terms.
#[derive(Default)]
pub(super) struct Plan {
    pub added: BTreeMap<Place, Added>,
    /// File groups by partition and id, which is the file's name unless Hudi made the group.
    pub removed: BTreeSet<(String, String)>,
}

impl Plan {
    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}

pub(super) struct Added {
    pub size: u64,
    pub rows: u64,
}

impl HudiTarget {
    /// Where a file of the source lies below this table.
    pub(super) fn place(&self, state: &TableState, path: &FilePath) -> Result<Place> {
        let location = match path {
            FilePath::Under(relative) => Location::parse(&state.root)?.join(relative)?,
            FilePath::Outside(absolute) => Location::parse(absolute)?,
        };
        let refuse = |detail: String| {
            Error::Unsupported(vec![Unsupported {
                target: TableFormat::Hudi,
                kind: UnsupportedKind::Location,
                place: path.as_str().to_owned(),
                detail,
            }])
        };
        let Some(relative) = location.relative_to(self.root.location()).filter(|r| !r.is_empty()) else {
            return Err(refuse(format!(
                "the file lies outside of {}; Hudi files lie below their table",
                self.root.location()
            )));
        };
        if relative.contains(':') {
            return Err(refuse("a colon in a relative path is no path to Hadoop, by which Hudi reads".to_owned()));
        }
        let (partition, name) = relative.rsplit_once('/').unwrap_or(("", relative));
        if !name.ends_with(".parquet") {
            return Err(refuse(
                "its name does not end in .parquet, by which Hudi tells base files from others".to_owned(),
            ));
        }
        Ok((partition.to_owned(), name.to_owned()))
    }

    /// Checks that a file lies where its partition values say, which is all that readers of Hudi know of them.
    pub(super) fn check(
        &self,
        state: &TableState,
        partitioning: &Partitioning,
        file: &DataFile,
        place: &Place,
    ) -> Result<()> {
        let refuse = |kind, detail: String| {
            let place = file.path.as_str().to_owned();
            Err(Error::Unsupported(vec![Unsupported { target: TableFormat::Hudi, kind, place, detail }]))
        };
        if file.format != FileFormat::Parquet {
            return refuse(UnsupportedKind::FileFormat, "only Parquet files are registered in Hudi tables".to_owned());
        }
        if file.spec_id != state.default_spec && !file.partition.is_empty() {
            return refuse(UnsupportedKind::Feature, "the file follows an older partition spec".to_owned());
        }
        if partitioning.spec.fields.is_empty() {
            if place.0.is_empty() {
                return Ok(());
            }
            let detail =
                format!("the files of an unpartitioned Hudi table lie in its folder itself; convert into {}", place.0);
            return refuse(UnsupportedKind::Location, detail);
        }
        match partitioning.tuple(&place.0) {
            Ok(tuple) if tuple == file.partition => Ok(()),
            _ => refuse(
                UnsupportedKind::Location,
                format!(
                    "the folder `{}` does not spell the file's partition values, which readers of Hudi take from it",
                    place.0
                ),
            ),
        }
    }

    /// Adds files at their places to a plan.
    pub(super) async fn add(
        &self,
        source: &dyn Source,
        files: &[DataFile],
        places: Vec<Place>,
        plan: &mut Plan,
    ) -> Result<()> {
        let counts = record_counts(source, files).await?;
        for ((file, place), rows) in files.iter().zip(places).zip(counts) {
            let size = match file.size_bytes {
                Some(size) => size,
                None => self.root.size(&FilePath::Under(key(&place).into())).await?,
            };
            plan.added.insert(place, Added { size, rows });
        }
        Ok(())
    }

    pub(super) fn partitioning(&self, state: &TableState) -> Partitioning {
        let columns: Vec<&str> = state
            .spec(state.default_spec)
            .map(|spec| spec.fields.iter().map(|f| f.name.as_str()).collect())
            .unwrap_or_default();
        let mut properties = Properties::default();
        properties.0.insert("hoodie.table.partition.fields".to_owned(), columns.join(","));
        properties.0.insert("hoodie.datasource.write.partitionpath.urlencode".to_owned(), "true".to_owned());
        Partitioning::infer(&properties, &mut state.schema.clone()).0
    }
}

/// Whether the file itself has its partition columns, as far as its statistics tell.
pub(super) fn stores_partitions(partitioning: &Partitioning, file: &DataFile, format: TableFormat) -> bool {
    format == TableFormat::Iceberg || partitioning.identities().all(|(_, field, _)| file.column(field).is_some())
}
