//! A new table: its properties, and the metadata table.

use super::super::FOLDER;
use super::super::metadata_writer;
use super::super::properties;
use super::{CREATED, HudiTarget};
use crate::sync::Result;
use hoglake_model::table::TableState;

impl HudiTarget {
    /// Writes the table's properties and an empty metadata table.
    pub(super) async fn create(&mut self, state: &TableState, stored: bool) -> Result<()> {
        let folder = self.root.location().file_name().to_owned();
        let name = state.name.clone().filter(|n| !n.is_empty()).unwrap_or(folder);
        let name = name.rsplit('/').next().unwrap_or_default().to_owned();
        let columns: Vec<&str> = state
            .spec(state.default_spec)
            .map(|spec| spec.fields.iter().map(|f| f.name.as_str()).collect())
            .unwrap_or_default();
        metadata_writer::create(&self.root, &name, !columns.is_empty()).await?;
        let keys: Vec<&str> =
            state.schema.identifier_fields.iter().filter_map(|id| state.schema.path(*id)?.last().copied()).collect();
        let generator = match (columns.len(), keys.len()) {
            (0, _) => "NonpartitionedKeyGenerator",
            (1, 0 | 1) => "SimpleKeyGenerator",
            _ => "ComplexKeyGenerator",
        };
        let (columns, keys) = (columns.join(","), keys.join(","));
        let generator = format!("org.apache.hudi.keygen.{generator}");
        let mut pairs = vec![
            ("hoodie.archivelog.folder", "archived"),
            ("hoodie.compaction.payload.class", "org.apache.hudi.common.model.HoodieAvroPayload"),
            ("hoodie.datasource.write.drop.partition.columns", if stored { "false" } else { "true" }),
            ("hoodie.datasource.write.hive_style_partitioning", "true"),
            ("hoodie.datasource.write.partitionpath.urlencode", "true"),
            ("hoodie.partition.metafile.use.base.format", "false"),
            ("hoodie.populate.meta.fields", "false"),
            ("hoodie.table.base.file.format", "PARQUET"),
            ("hoodie.table.cdc.enabled", "false"),
            ("hoodie.table.keygenerator.class", generator.as_str()),
            ("hoodie.table.metadata.partitions", "files"),
            ("hoodie.table.metadata.partitions.inflight", ""),
            ("hoodie.table.name", name.as_str()),
            ("hoodie.table.partition.fields", columns.as_str()),
            ("hoodie.table.timeline.timezone", "UTC"),
            ("hoodie.table.type", "COPY_ON_WRITE"),
            ("hoodie.table.version", "6"),
            ("hoodie.timeline.layout.version", "1"),
            (CREATED, "true"),
        ];
        if !keys.is_empty() {
            pairs.push(("hoodie.table.recordkey.fields", keys.as_str()));
        }
        // No database: a catalog that registers the table wants its own, or none.
        let text = properties::write(pairs.into_iter(), &format!(".{name}"));
        self.root.put_if_absent(&format!("{FOLDER}/hoodie.properties"), text).await?;
        self.open().await?;
        Ok(())
    }
}
