//! An Iceberg table without a catalog as a [`Target`] ("File System Tables").
//!
//! A commit writes manifests, delete files and the manifest list under names of its own, then creates
//! `v<n+1>.metadata.json` if it does not exist, then rewrites the version hint.

mod commit;
mod definition;
mod deletes;
mod expiry;
mod file_ids;
mod manifests;
mod position_file;
mod snapshot;
mod spelling;

use super::contents::Contents;
use super::locate::{self, Located};
use super::metadata::TableMetadata;
use super::source::{IcebergOptions, IcebergSource};
use crate::sync::{
    BoxFuture, Commit, Committed, Error, Loaded, Result, Source, TableRoot, Target, from_properties, is_own,
};
use definition::Definition;
use hoglake_model::Location;
use hoglake_model::table::{TableFormat, TableState, Unsupported, UnsupportedKind, Watermark, capability};

/// Tables of version 1 are brought to version 2.
const OLDEST_WRITTEN: i32 = 2;

/// How to write.
#[derive(Debug, Clone)]
pub struct IcebergTargetOptions {
    /// Snapshots older than this many milliseconds expire with the next commit.
    pub retention_ms: i64,
    /// The format version, 2 or 3. Without one it is 2, where row-level deletes are position-delete files, unless a type
    /// needs 3 or the table has it already, where they are deletion vectors. A table never goes back.
    pub format_version: Option<i32>,
}

impl Default for IcebergTargetOptions {
    /// Seven days, as Apache XTable.
    fn default() -> Self {
        Self { retention_ms: 7 * 86_400_000, format_version: None }
    }
}

/// An Iceberg table that is written.
#[derive(Debug)]
pub struct IcebergTarget {
    root: TableRoot,
    options: IcebergTargetOptions,
    current: Option<Located>,
    /// What manifests hold, as far as this run has read them.
    contents: Contents,
}

impl IcebergTarget {
    /// The table at `root`; nothing is read yet.
    pub fn new(root: TableRoot, options: IcebergTargetOptions) -> Self {
        Self { root, options, current: None, contents: Contents::default() }
    }

    /// What the next commit goes on from.
    fn metadata(&self) -> Option<&TableMetadata> {
        self.current.as_ref().map(|c| &c.metadata).filter(|metadata| !self.is_elsewhere(metadata))
    }

    /// Whether the table was written at another place, from where its folder was copied or moved: all that it names lies
    /// there, if it does, and is that table's.
    fn is_elsewhere(&self, metadata: &TableMetadata) -> bool {
        Location::parse(&metadata.location).is_ok_and(|location| location != *self.root.location())
    }

    /// The version that a commit of this definition makes the table.
    fn version(&self, definition: &Definition) -> i32 {
        let needed = if definition.needs_v3() { 3 } else { OLDEST_WRITTEN };
        let had = self.metadata().map_or(0, |m| m.format_version);
        needed.max(had).max(self.options.format_version.unwrap_or(0))
    }

    fn watermark(&self) -> Option<Watermark> {
        self.current.as_ref().and_then(|c| from_properties(|key| c.metadata.property(key)))
    }

    async fn read(&mut self) -> Result<Loaded> {
        self.contents = Contents::default();
        self.current = match locate::newest(&self.root).await {
            Ok(located) => Some(located),
            Err(Error::NotATable { .. }) => None,
            Err(other) => return Err(other),
        };
        if let Some(located) = &self.current
            && !located.hadoop
        {
            return Err(Error::Unsupported(vec![Unsupported {
                target: TableFormat::Iceberg,
                kind: UnsupportedKind::Feature,
                place: self.root.spell(&located.key),
                detail: "the table belongs to a catalog, which alone may commit to it; choose another target path"
                    .to_owned(),
            }]));
        }
        if let Some(located) = &self.current
            && located.metadata.is_exhausted()
        {
            let detail = "its numbers of columns, sequences, schemas or partition fields leave no room for another";
            return Err(Error::malformed(self.root.spell(&located.key), detail));
        }
        Ok(Loaded {
            exists: self.current.is_some(),
            watermark: self.watermark(),
            is_elsewhere: self.current.as_ref().is_some_and(|c| self.is_elsewhere(&c.metadata)),
            is_foreign: self.metadata().is_some_and(|m| is_own(|key| m.property(key)) && !snapshot::is_ours(m)),
            metadata_path: self.current.as_ref().map(|c| self.root.uri(&c.key)),
        })
    }
}

impl Target for IcebergTarget {
    fn format(&self) -> TableFormat {
        TableFormat::Iceberg
    }

    fn load(&mut self) -> BoxFuture<'_, Result<Loaded>> {
        Box::pin(self.read())
    }

    fn mend(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Some(located) = &self.current
                && located.hadoop
                && located.hint != Some(located.version)
            {
                snapshot::write_hint(&self.root, located.version).await;
            }
        })
    }

    fn tidy(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.root.tidy(&[(locate::METADATA, "")]))
    }

    fn reader(&self) -> Box<dyn Source> {
        Box::new(IcebergSource::new(self.root.clone(), IcebergOptions::default()))
    }

    fn unsupported(&self, state: &TableState) -> Vec<Unsupported> {
        let place = self.root.location().to_string();
        let Ok(definition) = Definition::new(&place, self.metadata(), state, None) else { return Vec::new() };
        let version = self.version(&definition);
        let wanted = self.options.format_version.filter(|wanted| *wanted != version || !matches!(wanted, 2 | 3));
        let wrong = wanted.map(|wanted| Unsupported {
            target: TableFormat::Iceberg,
            kind: UnsupportedKind::Feature,
            place: format!("format version {wanted}"),
            detail: match wanted {
                2 => "the table has version 3, or a column whose type or default needs it; ask for 3, or for none",
                _ => "versions 2 and 3 are written",
            }
            .to_owned(),
        });
        let twins = capability::twins(TableFormat::Iceberg, &state.schema, false);
        let without_ids = state.binding.without_ids.iter().map(|id| Unsupported {
            target: TableFormat::Iceberg,
            kind: UnsupportedKind::Feature,
            place: state.schema.path(*id).map_or_else(|| format!("field {id}"), |path| path.join(".")),
            detail: "files give field ids to columns, but none to this; readers of Iceberg find all by id there, and show null \
                     or fail. In Delta, REORG TABLE ... APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION=2)) adds them"
                .to_owned(),
        });
        definition.impossible.into_iter().chain(wrong).chain(twins).chain(without_ids).collect()
    }

    fn commit<'a>(&'a mut self, commit: Commit<'a>) -> BoxFuture<'a, Result<Option<Committed>>> {
        Box::pin(commit::run(self, commit))
    }
}
