//! XTable's dataset file.

use crate::cli::failure::Failure;
use crate::config::ConfigError;
use hoglake_model::table::TableFormat;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::path::Path;

/// `sourceFormat`, `targetFormats` and the tables.
#[derive(Debug, Clone)]
pub(super) struct Datasets {
    /// Absent: what is found at each table.
    pub source_format: Option<TableFormat>,
    pub target_formats: Vec<TableFormat>,
    pub datasets: Vec<Dataset>,
    /// Keys of the file that mean nothing here. XTable's file may hold what only XTable knows.
    unknown: Vec<String>,
}

/// One table.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Dataset {
    pub table_base_path: String,
    /// Where the data files are and the targets' metadata goes.
    pub table_data_path: Option<String>,
    /// What targets call the table when they are made.
    pub table_name: Option<String>,
    /// Of the name in a catalog; tables without one have it in reports only.
    pub namespace: Option<String>,
    /// How partition paths of a Hudi table become columns.
    pub partition_spec: Option<String>,
    /// Keys that mean nothing here.
    #[serde(flatten)]
    unknown: BTreeMap<String, IgnoredAny>,
}

impl Dataset {
    /// The table at a path.
    pub fn at(table_base_path: String, table_name: Option<String>, partition_spec: Option<String>) -> Self {
        Self { table_base_path, table_name, partition_spec, ..Self::default() }
    }

    /// What reports call the table.
    pub fn title(&self) -> String {
        match (&self.namespace, &self.table_name) {
            (Some(namespace), Some(name)) => format!("{namespace}.{name}"),
            (_, Some(name)) => name.clone(),
            (_, None) => self.table_base_path.clone(),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    source_format: String,
    target_formats: Vec<String>,
    datasets: Vec<Dataset>,
    #[serde(flatten)]
    unknown: BTreeMap<String, IgnoredAny>,
}

impl Datasets {
    /// What flags say of one table.
    pub fn one(source_format: Option<TableFormat>, target_formats: Vec<TableFormat>, dataset: Dataset) -> Self {
        Self { source_format, target_formats, datasets: vec![dataset], unknown: Vec::new() }
    }

    /// What is said about keys that are ignored when this dataset is synced.
    pub fn ignored(&self, dataset: &Dataset) -> Vec<String> {
        let of_file =
            self.unknown.iter().map(|key| format!("the key {key} of the file is not known here, and ignored"));
        let of_table = dataset.unknown.keys();
        of_file
            .chain(of_table.map(|key| format!("the key {key} of the dataset is not known here, and ignored")))
            .collect()
    }

    /// Reads the file as XTable's `RunSync` does.
    ///
    /// # Errors
    /// When it cannot be read, is no such file, or names a format that does not exist.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let wrong = |problem: String| Failure::from(ConfigError(format!("cannot use {}: {problem}", path.display())));
        let text = std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
        Self::parse(&text).map_err(wrong)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: File = serde_norway::from_str(text).map_err(|e| e.to_string())?;
        let format = |name: &String| TableFormat::parse(name).ok_or_else(|| format!("{name} is no table format"));
        Ok(Self {
            source_format: Some(format(&file.source_format)?),
            target_formats: file.target_formats.iter().map(format).collect::<Result<_, _>>()?,
            datasets: file.datasets,
            unknown: file.unknown.into_keys().collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_xtable_is_read_unchanged() {
        let text = "sourceFormat: HUDI\ntargetFormats:\n  - DELTA\n  - ICEBERG\ndatasets:\n  -\n    tableBasePath: s3://b/t\n    \
                    tableDataPath: s3://b/t/data\n    tableName: t\n    namespace: a.b\n    partitionSpec: day:VALUE\n";
        let read = Datasets::parse(text).unwrap();
        assert_eq!(read.source_format, Some(TableFormat::Hudi));
        assert_eq!(read.target_formats, [TableFormat::Delta, TableFormat::Iceberg]);
        assert_eq!(read.datasets[0].table_base_path, "s3://b/t");
        assert_eq!(read.datasets[0].table_data_path.as_deref(), Some("s3://b/t/data"));
        assert_eq!(read.datasets[0].title(), "a.b.t");
        assert_eq!(read.ignored(&read.datasets[0]), [""; 0]);
        assert!(Datasets::parse("sourceFormat: ORC\ntargetFormats: []\ndatasets: []").is_err());
    }

    #[test]
    fn keys_that_are_not_known_are_named() {
        let text = "sourceFormat: HUDI\ntargetFormats: [DELTA]\nsourceCatalog: {catalogId: c}\ndatasets:\n  - tableBasePath: a\n    \
                    tableBasepath: b\n    partitionSpecs: 7\n  - tableBasePath: c\n";
        let read = Datasets::parse(text).unwrap();
        let (first, second) = (read.ignored(&read.datasets[0]), read.ignored(&read.datasets[1]));
        let said = |key: &str, of: &str| format!("the key {key} of the {of} is not known here, and ignored");
        assert_eq!(second, [said("sourceCatalog", "file")]);
        assert_eq!(first[1..], [said("partitionSpecs", "dataset"), said("tableBasepath", "dataset")]);
        assert_eq!(first[0], second[0]);
    }
}
