//! An Iceberg table as a [`Source`]: the main branch of the newest metadata file.

mod binding;
mod equality;
mod positions;
mod replay;

use super::deletes::DeleteIndex;
use super::locate::{self, Located};
use super::manifest::{Entry, ManifestReader, Status, tuple_types};
use super::manifest_list::{self, ManifestFile};
use super::metadata::{Snapshot as IcebergSnapshot, TableMetadata};
use crate::deletion_vector::DeletionVector;
use crate::sync::{BoxFuture, Changes, Error, Result, Snapshot, Source, TableRoot, Versions};
use futures::StreamExt;
use hoglake_model::table::{
    DataFile, FieldIds, FilePath, Primitive, RowDeletes, TableFormat, TableState, Type, Version, VersionId, Watermark,
};
use hoglake_model::{Location, Root};
use positions::PositionCache;
pub(super) use positions::{read as read_positions, vector_at};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{OnceCell, mpsc};

/// Files handed on together.
const BATCH_FILES: usize = 2048;

/// The name of the version of a table without any snapshot.
const EMPTY: &str = "0";

/// How to read.
#[derive(Debug, Clone, Default)]
pub struct IcebergOptions {
    /// One metadata file to read instead of the newest, as a key under the root.
    pub metadata_file: Option<String>,
    /// The table was copied from the location that its metadata names: paths below that location, or failing that from
    /// their last `metadata` or `data` folder on, are looked for below the root.
    pub relocated: bool,
}

/// An Iceberg table that is read.
///
/// # Memory
/// Two manifests at a time as they lie in storage, some thousand of their files, and all live delete files.
#[derive(Debug)]
pub struct IcebergSource {
    root: TableRoot,
    options: IcebergOptions,
    head: OnceCell<Arc<Head>>,
    positions: PositionCache,
    keys: equality::KeyCache,
}

/// The current schema in one metadata file of the table at `root`, as JSON text.
///
/// # Errors
/// [`Error::Malformed`] for a file without its current schema; as the store.
pub async fn schema_text(root: &TableRoot, metadata_path: &str) -> Result<String> {
    let location = Location::parse(metadata_path)?;
    let bytes = root.read(&root.file_path(&location), None).await?;
    let metadata = TableMetadata::parse(metadata_path, &bytes)?;
    let current =
        metadata.schemas.iter().find(|schema| super::metadata::schema_id(schema) == metadata.current_schema_id);
    let current = current.ok_or_else(|| Error::malformed(metadata_path, "it does not hold its current schema"))?;
    Ok(current.to_string())
}

#[derive(Debug)]
struct Head {
    root: TableRoot,
    located: Located,
    place: String,
    paths: Paths,
    state: Arc<TableState>,
}

/// From paths as the metadata writes them to the model's.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    root: TableRoot,
    /// Prefixes, with their closing slash, that mean the root.
    prefixes: Vec<String>,
    /// The declared location without scheme and authority, with slashes around, for a table that was copied.
    moved_from: Option<String>,
}

impl Paths {
    pub fn new(root: &TableRoot, declared: &str, relocated: bool) -> Self {
        let declared = declared.trim_end_matches('/');
        let own = root.location().to_string();
        let mut prefixes = vec![format!("{}/", own.trim_end_matches('/'))];
        if Location::parse(declared).is_ok_and(|location| location == *root.location()) {
            prefixes.push(format!("{declared}/"));
        }
        // As Hadoop spells it, and so most tables on disk.
        if *root.location().root() == Root::Local {
            prefixes.push(format!("file:/{}/", root.location().key()));
        }
        let path = declared.split_once("://").map_or(declared, |(_, rest)| rest.find('/').map_or("", |at| &rest[at..]));
        let moved_from = relocated.then(|| format!("{}/", path.trim_start_matches("./")));
        Self { root: root.clone(), prefixes, moved_from }
    }

    pub fn map(&self, text: &str) -> Result<FilePath> {
        let usable = |rest: &str| !rest.split('/').any(|s| matches!(s, "" | "." | ".."));
        for prefix in &self.prefixes {
            if let Some(rest) = text.strip_prefix(prefix.as_str())
                && usable(rest)
            {
                return Ok(FilePath::Under(rest.into()));
            }
        }
        if let Some(from) = &self.moved_from {
            let declared = text.find(from.as_str()).map(|at| at + from.len());
            let folder = || ["/metadata/", "/data/"].iter().filter_map(|f| text.rfind(f)).max().map(|at| at + 1);
            if let Some(rest) = declared.or_else(folder).and_then(|at| text.get(at..)).filter(|rest| usable(rest)) {
                return Ok(FilePath::Under(rest.into()));
            }
        }
        let location = Location::parse(text)?;
        Ok(self.root.file_path(&location))
    }
}

impl IcebergSource {
    /// The table at `root`; nothing is read yet.
    pub fn new(root: TableRoot, options: IcebergOptions) -> Self {
        Self { root, options, head: OnceCell::new(), positions: PositionCache::default(), keys: Default::default() }
    }

    async fn loaded(&self) -> Result<&Arc<Head>> {
        self.head.get_or_try_init(|| async { Ok(Arc::new(self.read_head().await?)) }).await
    }

    async fn read_head(&self) -> Result<Head> {
        let located = match &self.options.metadata_file {
            Some(key) => locate::read(&self.root, key.clone(), &self.root.get(key).await?)?,
            None => locate::newest(&self.root).await?,
        };
        let place = self.root.spell(&located.key);
        let metadata = &located.metadata;
        let paths = Paths::new(&self.root, &metadata.location, self.options.relocated);
        let current = metadata.current();
        if metadata.current_snapshot_id.is_some() && current.is_none() {
            return Err(Error::malformed(&place, "the current snapshot is not among the snapshots"));
        }
        let version = Version {
            id: VersionId(current.map_or_else(|| EMPTY.to_owned(), |s| s.snapshot_id.to_string())),
            revision: Some(metadata.revision()),
            timestamp_ms: current.map_or(metadata.last_updated_ms, |s| s.timestamp_ms),
        };
        let mut state = state(&self.root, &place, metadata, metadata.current_schema_id, version)?;
        state.warnings.clone_from(&located.warnings);
        if metadata.is_sorted() {
            state
                .warnings
                .push("the sort order of the table is not converted; files stay sorted as they are".to_owned());
        }
        Ok(Head { root: self.root.clone(), place, paths, state: Arc::new(state), located })
    }
}

/// The state of a version with one of the table's schemas.
fn state(root: &TableRoot, place: &str, metadata: &TableMetadata, schema: i32, version: Version) -> Result<TableState> {
    let current = metadata.schema(place, schema)?;
    let binding = binding::read(place, metadata, &current);
    Ok(TableState {
        format: TableFormat::Iceberg,
        table_id: metadata.table_uuid.clone(),
        name: None,
        root: root.location().to_string(),
        version,
        schema: current,
        field_ids: FieldIds::Assigned,
        specs: metadata.specs(place)?,
        default_spec: metadata.default_spec_id,
        binding,
        warnings: Vec::new(),
        deletes_left_out: false,
    })
}

/// The live entries of delete manifests, by their paths, as they read with the types of one schema.
type DeleteManifests = HashMap<String, Vec<Entry>>;

/// Types of the leaves and of the partition tuples, for reading manifests.
#[derive(Debug, PartialEq)]
struct Types {
    leaves: HashMap<i64, Primitive>,
    specs: HashMap<i32, Vec<(i32, Option<Primitive>)>>,
}

impl Head {
    fn metadata(&self) -> &TableMetadata {
        &self.located.metadata
    }

    /// Types by every schema that the table ever had, newest last, so that columns dropped since still read.
    fn types(&self, state: &TableState) -> Result<Types> {
        let mut leaves = HashMap::new();
        let mut note = |schema: &hoglake_model::table::Schema| {
            schema.walk(&mut |_, node| {
                if let Type::Primitive(primitive) = node.ty {
                    leaves.insert(node.id.0, *primitive);
                }
            });
        };
        note(&state.schema);
        let mut specs = HashMap::new();
        let all = self.metadata();
        let mut historic: Option<Vec<_>> = None;
        for spec in &state.specs {
            let mut types = tuple_types(spec, &state.schema);
            for (ty, field) in types.iter_mut().zip(&spec.fields).filter(|(ty, _)| ty.is_none()) {
                let schemas = historic.get_or_insert_with(|| {
                    all.schemas.iter().rev().filter_map(|json| super::schema::parse(&self.place, json).ok()).collect()
                });
                let source = schemas.iter().find_map(|schema| schema.primitive(field.source));
                *ty = source.map(|source| super::manifest::result_type(field.transform, source));
            }
            specs.insert(spec.id, spec.fields.iter().map(|f| f.field_id).zip(types).collect());
        }
        Ok(Types { leaves, specs })
    }

    /// The manifests of a snapshot.
    async fn manifests(&self, snapshot: &IcebergSnapshot) -> Result<Vec<ManifestFile>> {
        if let Some(list) = &snapshot.manifest_list {
            let bytes = self.root.read(&self.paths.map(list)?, None).await?;
            return manifest_list::read(list, &bytes);
        }
        // Version 1: the metadata lists the manifests, and each says of itself which spec it follows.
        let mut manifests = Vec::new();
        for path in snapshot.manifests.iter().flatten() {
            let bytes = self.root.read(&self.paths.map(path)?, None).await?;
            let reader = super::avro::Reader::new(&bytes).map_err(|fault| Error::malformed(path, fault))?;
            let spec_id = reader.text("partition-spec-id").and_then(|t| t.parse().ok()).unwrap_or(0);
            manifests.push(ManifestFile {
                path: path.clone(),
                spec_id,
                added_snapshot_id: snapshot.snapshot_id,
                ..ManifestFile::default()
            });
        }
        Ok(manifests)
    }

    /// Reads one manifest.
    async fn entries(
        self: &Arc<Self>,
        types: &Arc<Types>,
        manifest: ManifestFile,
        keep: impl Fn(&Entry) -> bool + Send + 'static,
    ) -> Result<Vec<Entry>> {
        let bytes = self.root.read(&self.paths.map(&manifest.path)?, None).await?;
        let (head, types) = (Arc::clone(self), Arc::clone(types));
        let work = move || {
            let mut entries = Vec::new();
            head.visit(&types, &manifest, &bytes, |entry| {
                if keep(&entry) {
                    entries.push(entry);
                }
                Ok(())
            })?;
            Ok(entries)
        };
        tokio::task::spawn_blocking(work).await.map_err(|e| Error::malformed("manifest", e.to_string()))?
    }

    /// Visits the entries of a manifest that was read.
    fn visit(
        &self,
        types: &Types,
        manifest: &ManifestFile,
        bytes: &[u8],
        mut visit: impl FnMut(Entry) -> Result<()>,
    ) -> Result<()> {
        let path = |text: &str| self.paths.map(text);
        let reader = ManifestReader { types: &types.leaves, specs: &types.specs, path: &path, spelled: false };
        reader.read(&manifest.path, manifest, bytes, |entry| {
            if entry.encrypted && entry.status != Status::Deleted {
                return Err(Error::UnsupportedSource {
                    feature: "encryption".to_owned(),
                    place: entry.file.path.as_str().to_owned(),
                    detail: "the file has key metadata; encrypted files cannot be read by other formats".to_owned(),
                });
            }
            visit(entry)
        })
    }

    /// Sends the live files of a manifest in batches. A receiver that is gone wants no more, which is no error.
    async fn send(
        self: Arc<Self>,
        (types, index): (Arc<Types>, Arc<DeleteIndex>),
        manifest: ManifestFile,
        sender: mpsc::Sender<Result<Vec<DataFile>>>,
    ) -> Result<()> {
        let bytes = self.root.read(&self.paths.map(&manifest.path)?, None).await?;
        let work = move || {
            let mut batch = Vec::with_capacity(BATCH_FILES);
            let mut wanted = true;
            self.visit(&types, &manifest, &bytes, |entry| {
                if wanted && entry.status != Status::Deleted {
                    batch.push(with_deletes(entry, &index));
                    if batch.len() == BATCH_FILES {
                        let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH_FILES));
                        wanted = sender.blocking_send(Ok(full)).is_ok();
                    }
                }
                Ok(())
            })?;
            if wanted && !batch.is_empty() {
                let _ = sender.blocking_send(Ok(batch));
            }
            Ok(())
        };
        tokio::task::spawn_blocking(work).await.map_err(|e| Error::malformed("manifest", e.to_string()))?
    }

    /// Reads the delete manifests of a snapshot that are not known yet.
    async fn read_deletes(
        self: &Arc<Self>,
        types: &Arc<Types>,
        manifests: &[ManifestFile],
        known: &mut DeleteManifests,
    ) -> Result<()> {
        let live = manifests.iter().filter(|m| m.deletes && m.may_be_live() && !known.contains_key(&m.path));
        let unknown: Vec<ManifestFile> = live.cloned().collect();
        let mut read = std::pin::pin!(
            futures::stream::iter(unknown.into_iter().map(|m| {
                let place = m.path.clone();
                async move { Ok::<_, Error>((place, self.entries(types, m, |e| e.status != Status::Deleted).await?)) }
            }))
            .buffered(4)
        );
        while let Some(entries) = read.next().await {
            known.extend([entries?]);
        }
        Ok(())
    }
}

/// The live delete files among the manifests of a snapshot, of which `entries` gives the contents.
fn delete_index(manifests: &[ManifestFile], mut entries: impl FnMut(&str) -> Vec<Entry>) -> Result<DeleteIndex> {
    let mut index = DeleteIndex::default();
    for ManifestFile { path, .. } in manifests.iter().filter(|m| m.deletes && m.may_be_live()) {
        for entry in entries(path) {
            index.add(entry).map_err(|fault| Error::malformed(path, fault))?;
        }
    }
    Ok(index)
}

impl Source for IcebergSource {
    fn format(&self) -> TableFormat {
        TableFormat::Iceberg
    }

    fn head(&self) -> BoxFuture<'_, Result<Arc<TableState>>> {
        Box::pin(async { Ok(Arc::clone(&self.loaded().await?.state)) })
    }

    /// The snapshots that led to the current one.
    fn versions(&self) -> BoxFuture<'_, Result<Versions>> {
        Box::pin(async {
            let head = self.loaded().await?;
            let mut versions = Versions::only(&head.state.version);
            let snapshot = |id| head.metadata().snapshot(id);
            let mut at = head.metadata().current();
            while let Some(parent) = at.and_then(|s| s.parent_snapshot_id).and_then(snapshot) {
                // Parents may form a cycle.
                if versions.count >= head.metadata().snapshots.len() as u64 {
                    break;
                }
                versions.count += 1;
                versions.oldest = Version {
                    id: VersionId(parent.snapshot_id.to_string()),
                    revision: None,
                    timestamp_ms: parent.timestamp_ms,
                };
                at = Some(parent);
            }
            Ok(versions)
        })
    }

    fn snapshot(&self, _: &Arc<TableState>) -> BoxFuture<'_, Result<Snapshot<'_>>> {
        Box::pin(async {
            let head = Arc::clone(self.loaded().await?);
            let Some(snapshot) = head.metadata().current().cloned() else {
                return Ok(Snapshot { delete_kinds: Vec::new(), files: futures::stream::empty().boxed() });
            };
            let types = Arc::new(head.types(&head.state)?);
            let manifests = head.manifests(&snapshot).await?;
            let mut deletes = DeleteManifests::new();
            head.read_deletes(&types, &manifests, &mut deletes).await?;
            let index = Arc::new(delete_index(&manifests, |path| deletes.remove(path).unwrap_or_default())?);
            let delete_kinds = index.kinds();
            let (sender, receiver) = mpsc::channel(2);
            // Reading and decoding run beside the target's writing; dropping the stream ends them.
            tokio::spawn(async move {
                let live = manifests.into_iter().filter(|m| !m.deletes && m.may_be_live());
                let shared = (types, index);
                let sent = live.map(|m| Arc::clone(&head).send(shared.clone(), m, sender.clone()));
                let mut sent = std::pin::pin!(futures::stream::iter(sent).buffer_unordered(2));
                while let Some(outcome) = sent.next().await {
                    if let Err(error) = outcome {
                        let _ = sender.send(Err(error)).await;
                        break;
                    }
                    if sender.is_closed() {
                        break;
                    }
                }
            });
            let files = futures::stream::unfold(receiver, |mut receiver| async {
                receiver.recv().await.map(|batch| (batch, receiver))
            });
            Ok(Snapshot { delete_kinds, files: files.boxed() })
        })
    }

    fn changes(&self, since: &Watermark, _: &Arc<TableState>) -> BoxFuture<'_, Result<Changes<'_>>> {
        let since = since.clone();
        Box::pin(async move { replay::plan(Arc::clone(self.loaded().await?), &since) })
    }

    fn deleted_rows<'a>(&'a self, file: &'a DataFile) -> BoxFuture<'a, Result<DeletionVector>> {
        Box::pin(async move {
            let head = self.loaded().await?;
            let mut rows = self.positions.of(&head.root, &|text| head.paths.map(text), file).await?;
            let equality = file.deletes.iter().filter_map(|d| match d {
                RowDeletes::Equality(deletes) => Some(deletes.as_ref()),
                _ => None,
            });
            let equality: Vec<_> = equality.collect();
            if !equality.is_empty() {
                let types = head.types(&head.state)?;
                rows.extend(&equality::rows(head, &types.leaves, &self.keys, file, &equality).await?);
            }
            Ok(rows)
        })
    }

    fn record_count<'a>(&'a self, file: &'a DataFile) -> BoxFuture<'a, Result<u64>> {
        Box::pin(crate::sync::footer_record_count(&self.root, file))
    }
}

fn with_deletes(entry: Entry, index: &DeleteIndex) -> DataFile {
    let mut file = entry.file;
    file.deletes = index.of(&file, entry.sequence);
    file
}
