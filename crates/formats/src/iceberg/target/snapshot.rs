//! The end of a commit: manifest list, snapshot, metadata file, pointer.

use super::super::locate::{HINT, Located, hadoop_key};
use super::super::manifest_list::{self, ManifestFile};
use super::super::metadata::{Snapshot, TableMetadata, schema_id, spec_fields};
use super::super::schema;
use super::commit::Writing;
use super::{IcebergTargetOptions, expiry};
use crate::sync::{Committed, Error, Result, TableRoot, to_properties};
use hoglake_model::table::{Operation, TableState};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// The property that names the snapshot that hoglake has left the table with.
const SNAPSHOT_KEY: &str = "hoglake.snapshot";

fn current(metadata: &TableMetadata) -> String {
    metadata.current_snapshot_id.map_or_else(|| "none".to_owned(), |id| id.to_string())
}

/// Whether nobody has changed since which snapshot is the current one, as far as the table tells.
pub(super) fn is_ours(metadata: &TableMetadata) -> bool {
    metadata.property(SNAPSHOT_KEY).is_none_or(|id| id == current(metadata))
}

/// Makes the hint name this version. Best effort.
pub(super) async fn write_hint(root: &TableRoot, version: i64) {
    if let Err(error) = root.put(HINT, version.to_string()).await {
        tracing::warn!(
            %error,
            version,
            "the version hint was not written; readers that open the folder by it alone, as DuckDB does, see an older \
             version until the next run writes it"
        );
    }
}

impl Writing<'_> {
    /// Makes the commit visible, as the version after `last`; writes nothing, and returns `None`, when it says nothing new
    /// beside `current`.
    ///
    /// # Errors
    /// [`Error::Lost`] when somebody else has committed.
    pub(super) async fn finish(
        &mut self,
        last: i64,
        current: Option<&Located>,
        state: &TableState,
        operation: Operation,
        options: &IcebergTargetOptions,
    ) -> Result<Option<(Located, Committed)>> {
        for (_, writer) in std::mem::take(&mut self.open) {
            self.store(writer).await?;
        }
        let files_changed = !self.finished.is_empty() || self.deletes.changed();
        let previous = current.map(|c| &c.metadata);
        let now = chrono::Utc::now().timestamp_millis().max(previous.map_or(0, |m| m.last_updated_ms));
        let mut metadata = self.new_metadata(previous, now);
        for (key, value) in to_properties(&state.watermark()) {
            metadata.properties.insert(key.to_owned(), json!(value));
        }
        if let Some(previous) = previous
            && !files_changed
            && !self.definition.changed
            && previous.format_version == metadata.format_version
            && previous.properties == metadata.properties
            && is_ours(previous)
        {
            return Ok(None);
        }
        if let Some(located) = current {
            metadata.metadata_log.push(
                json!({"metadata-file": self.root.uri(&located.key), "timestamp-ms": located.metadata.last_updated_ms}),
            );
        }
        if files_changed || metadata.current_snapshot_id.is_none() {
            self.merge().await?;
            self.snapshot(&mut metadata, state, operation, now).await?;
        }
        let left = self::current(&metadata);
        metadata.properties.insert(SNAPSHOT_KEY.to_owned(), json!(left));
        self.settle().await?;
        let expired = expiry::expire(&mut metadata, now - options.retention_ms);
        let number = last + 1;
        let key = hadoop_key(number);
        let bytes = serde_json::to_vec(&metadata).map_err(|e| Error::malformed(&key, e.to_string()))?;
        match self.root.claim(&key, bytes).await {
            Ok(true) => {}
            Ok(false) => return Err(Error::Lost { place: self.root.spell(&key) }),
            Err(error) => {
                // It may be visible all the same: what it refers to stays.
                self.written.clear();
                self.deletes.written.clear();
                return Err(error);
            }
        }
        // Visible from here on; what follows are hints and tidying.
        write_hint(&self.root, number).await;
        expiry::clean(&self.root, &metadata, &expired).await;
        let located =
            Located { key, version: number, hadoop: true, hint: Some(number), metadata, warnings: Vec::new() };
        let committed = self.committed(&located);
        Ok(Some((located, committed)))
    }

    fn committed(&self, located: &Located) -> Committed {
        Committed {
            metadata_path: self.root.uri(&located.key),
            version: located.version.to_string(),
            added: self.counts.added,
            removed: self.counts.removed,
            redeleted: self.counts.redeleted,
            warnings: Vec::new(),
        }
    }

    fn new_metadata(&self, previous: Option<&TableMetadata>, now: i64) -> TableMetadata {
        let d = self.definition;
        let mut metadata = previous.cloned().unwrap_or_else(|| TableMetadata {
            format_version: self.version,
            table_uuid: Some(uuid::Uuid::new_v4().to_string()),
            location: self.spelling.location().to_owned(),
            last_sequence_number: 0,
            last_updated_ms: now,
            last_column_id: 0,
            schema: None,
            schemas: Vec::new(),
            current_schema_id: 0,
            partition_spec: None,
            partition_specs: Vec::new(),
            default_spec_id: 0,
            last_partition_id: None,
            properties: BTreeMap::new(),
            current_snapshot_id: None,
            snapshots: Vec::new(),
            snapshot_log: Vec::new(),
            metadata_log: Vec::new(),
            sort_orders: Vec::new(),
            default_sort_order_id: 0,
            refs: Map::new(),
            next_row_id: None,
            other: Map::new(),
        });
        metadata.format_version = self.version;
        // Version 1 kept copies of the current schema and spec beside the lists.
        (metadata.schema, metadata.partition_spec) = (None, None);
        metadata.last_updated_ms = now;
        metadata.last_column_id = metadata.last_column_id.max(d.last_column_id);
        if !metadata.schemas.iter().any(|s| schema_id(s) == d.schema_id) {
            metadata.schemas.push(d.schema_json.clone());
        }
        metadata.current_schema_id = d.schema_id;
        metadata.partition_specs = d.specs.iter().map(|s| json!({"spec-id": s.id, "fields": spec_fields(s)})).collect();
        metadata.default_spec_id = d.default_spec_id;
        metadata.last_partition_id = Some(d.last_partition_id);
        if metadata.sort_orders.is_empty() {
            metadata.sort_orders.push(json!({"order-id": 0, "fields": []}));
        }
        if self.version >= 3 {
            metadata.next_row_id.get_or_insert(0);
        }
        let mapping = schema::name_mapping(&d.schema, &d.unlisted).to_string();
        metadata.properties.insert("schema.name-mapping.default".to_owned(), json!(mapping));
        metadata
    }

    /// Writes the manifest list and adds the snapshot.
    async fn snapshot(
        &mut self,
        metadata: &mut TableMetadata,
        state: &TableState,
        operation: Operation,
        now: i64,
    ) -> Result<()> {
        let (kept_deletes, writers) = self.deletes.manifests(&self.base, &self.spelling, |spec| self.start(spec, true));
        for writer in writers {
            self.store(writer).await?;
        }
        let mut manifests = std::mem::take(&mut self.finished);
        let base = std::mem::take(&mut self.base);
        let carried =
            base.into_iter().enumerate().filter(|(i, m)| !m.deletes && !self.replaced.contains(i) && m.may_be_live());
        manifests.extend(carried.map(|(_, m)| m));
        manifests.extend(kept_deletes);
        manifests.sort_by_key(|m| m.deletes);
        let mut snapshot = Snapshot {
            snapshot_id: self.snapshot_id,
            parent_snapshot_id: metadata.current_snapshot_id,
            sequence_number: self.sequence,
            timestamp_ms: now,
            manifest_list: None,
            manifests: None,
            summary: self.summary(state, operation, &manifests),
            schema_id: Some(self.definition.schema_id),
            first_row_id: None,
            added_rows: None,
            other: Map::new(),
        };
        if self.version >= 3 {
            // "First Row ID Assignment": every data manifest without one gets the next range.
            let first = metadata.next_row_id.unwrap_or(0);
            let mut next = first;
            for manifest in manifests.iter_mut().filter(|m| !m.deletes && m.first_row_id.is_none()) {
                manifest.first_row_id = Some(next);
                let rows = manifest.added_rows.unwrap_or(0).saturating_add(manifest.existing_rows.unwrap_or(0));
                next = next.saturating_add(rows);
            }
            (snapshot.first_row_id, snapshot.added_rows) = (Some(first), Some(next.saturating_sub(first)));
            metadata.next_row_id = Some(next);
        }
        let key = format!("metadata/snap-{}-1-{}.avro", self.snapshot_id, uuid::Uuid::new_v4());
        let bytes = manifest_list::write(
            self.version,
            self.snapshot_id,
            metadata.current_snapshot_id,
            self.sequence,
            &manifests,
        );
        snapshot.manifest_list = Some(self.root.uri(&key));
        self.put(key, bytes).await?;
        metadata.last_sequence_number = self.sequence;
        metadata.current_snapshot_id = Some(self.snapshot_id);
        metadata.snapshots.push(snapshot);
        metadata.snapshot_log.push(json!({"snapshot-id": self.snapshot_id, "timestamp-ms": now}));
        metadata.refs.insert("main".to_owned(), json!({"snapshot-id": self.snapshot_id, "type": "branch"}));
        Ok(())
    }

    fn summary(&self, state: &TableState, operation: Operation, manifests: &[ManifestFile]) -> BTreeMap<String, Json> {
        let c = &self.counts;
        let changed = c.removed > 0 || c.redeleted > 0 || self.deletes.changed();
        // A reader may skip what an append or a replace cannot have changed, so that these must be true.
        let operation = match (operation, c.added > 0, changed) {
            (Operation::Replace, _, _) if c.redeleted == 0 && !self.deletes.drops_foreign() => "replace",
            (_, _, false) => "append",
            (_, false, true) => "delete",
            _ => "overwrite",
        };
        let live = |deletes: bool| manifests.iter().filter(move |m| m.deletes == deletes);
        let sum = |deletes, of: fn(&ManifestFile) -> [Option<i64>; 2]| {
            live(deletes).flat_map(of).flatten().fold(0_i64, i64::saturating_add)
        };
        let files = |deletes| sum(deletes, |m| [m.added_files, m.existing_files]);
        let rows = |deletes| sum(deletes, |m| [m.added_rows, m.existing_rows]);
        let mut summary: BTreeMap<String, Json> = BTreeMap::from([
            ("operation".to_owned(), json!(operation)),
            ("total-data-files".to_owned(), json!(files(false).to_string())),
            ("total-records".to_owned(), json!(rows(false).to_string())),
            ("total-delete-files".to_owned(), json!(files(true).to_string())),
            ("total-position-deletes".to_owned(), json!(rows(true).to_string())),
            ("total-equality-deletes".to_owned(), json!("0")),
            ("source-version".to_owned(), json!(state.version.id.0)),
        ]);
        for (key, count) in [
            ("added-data-files", c.added),
            ("added-records", c.added_records),
            ("added-files-size", c.added_bytes),
            ("deleted-data-files", c.removed),
            ("deleted-records", c.removed_records),
        ] {
            if count > 0 {
                summary.insert(key.to_owned(), json!(count.to_string()));
            }
        }
        for (key, value) in to_properties(&state.watermark()) {
            summary.insert(key.to_owned(), json!(value));
        }
        summary
    }
}
