//! XTable's dataset file.

use crate::cli::failure::Failure;
use crate::config::ConfigError;
use hoglake_model::table::TableFormat;
use serde::Deserialize;
use std::path::Path;

/// `sourceFormat`, `targetFormats` and the tables.
#[derive(Debug, Clone)]
pub(super) struct Datasets {
    /// Absent: what is found at each table.
    pub source_format: Option<TableFormat>,
    pub target_formats: Vec<TableFormat>,
    pub datasets: Vec<Dataset>,
}

/// One table.
#[derive(Debug, Clone, Deserialize)]
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
}

impl Dataset {
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
}

impl Datasets {
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
        assert!(Datasets::parse("sourceFormat: ORC\ntargetFormats: []\ndatasets: []").is_err());
    }
}
