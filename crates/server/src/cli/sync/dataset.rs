//! XTable's dataset file.

use crate::cli::failure::Failure;
use hoglake_model::table::TableFormat;
use serde::Deserialize;
use std::path::Path;

/// `sourceFormat`, `targetFormats` and the tables.
#[derive(Debug)]
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
    #[expect(dead_code, reason = "accepted as XTable does; files are found from the metadata")]
    pub table_data_path: Option<String>,
    pub table_name: Option<String>,
    #[expect(dead_code, reason = "accepted as XTable does; formats without catalog have no namespaces")]
    pub namespace: Option<String>,
    #[expect(dead_code, reason = "accepted as XTable does; sources find their partitioning themselves")]
    pub partition_spec: Option<String>,
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
        let what = || format!("cannot use {}", path.display());
        let text = std::fs::read_to_string(path).map_err(|e| Failure::at(what(), e))?;
        Self::parse(&text).map_err(|e| Failure::at(what(), e))
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
        assert!(Datasets::parse("sourceFormat: ORC\ntargetFormats: []\ndatasets: []").is_err());
    }
}
