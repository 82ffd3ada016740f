//! Tables of which one object is any bytes, shared by the fuzz targets and by the test that replays their seeds: reading
//! and converting them ends in an error or in a table, and no path of a table leads out of it.

use futures::{StreamExt, TryStreamExt};
use hoglake_formats::delta::{DeltaSource, DeltaTarget, DeltaTargetOptions};
use hoglake_formats::hudi::{HudiOptions, HudiSource, HudiTarget};
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource, IcebergTarget, IcebergTargetOptions};
use hoglake_formats::sync::{Changes, Mode, Options, Source, TableRoot, Target, sync};
use hoglake_model::Location;
use hoglake_model::table::{FilePath, TableFormat, VersionId, Watermark};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::sync::{Arc, OnceLock};

/// An object of a table, by the part of its key that tells what it is.
type Roles = &'static [&'static str];

const DELTA: Roles = &[
    "00000000000000000000.json",
    "00000000000000000002.json",
    "checkpoint.parquet",
    "_last_checkpoint",
    "compacted.json",
];
const ICEBERG: Roles =
    &["v3.metadata.json", "version-hint", "snap-", "-m0.avro", "-deletes.parquet", "v2.metadata.json"];
const HUDI: Roles = &[
    ".hoodie/hoodie.properties",
    ".replacecommit",
    ".hfile",
    ".log.",
    "hoglake-after",
    "metadata/.hoodie/hoodie.properties",
];

type Objects = Vec<(Path, bytes::Bytes)>;

fn block_on<T>(work: impl Future<Output = T>) -> T {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    let runtime =
        RUNTIME.get_or_init(|| tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap());
    runtime.block_on(work)
}

fn root(store: &Arc<InMemory>) -> TableRoot {
    TableRoot::with_store(Arc::clone(store) as Arc<dyn ObjectStore>, Location::parse("s3://b/t").unwrap())
}

async fn put(store: &InMemory, key: &str, text: &str) {
    store.put(&Path::from(format!("t/{key}")), text.to_owned().into()).await.unwrap();
}

fn target(format: TableFormat, root: TableRoot) -> Box<dyn Target> {
    match format {
        TableFormat::Delta => {
            Box::new(DeltaTarget::new(root, DeltaTargetOptions { checkpoint_interval: 1, ..Default::default() }))
        }
        TableFormat::Iceberg => Box::new(IcebergTarget::new(root, IcebergTargetOptions::default())),
        _ => Box::new(HudiTarget::new(root)),
    }
}

fn source(format: TableFormat, root: TableRoot) -> Box<dyn Source> {
    match format {
        TableFormat::Delta => Box::new(DeltaSource::new(root)),
        TableFormat::Iceberg => Box::new(IcebergSource::new(root, IcebergOptions::default())),
        _ => Box::new(HudiSource::new(root, HudiOptions::default())),
    }
}

/// A small table of each format, in one folder: every role has its object.
async fn made() -> Objects {
    let store = Arc::new(InMemory::new());
    let add = |name: &str, more: &str| {
        format!(
            r#"{{"add":{{"path":"{name}","partitionValues":{{}},"size":9,"modificationTime":1,"dataChange":true,"stats":"{{\"numRecords\":5,\"minValues\":{{\"id\":1}},\"maxValues\":{{\"id\":9}},\"nullCount\":{{\"id\":0}}}}"{more}}}}}"#
        )
    };
    let schema = r#"{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"t\",\"type\":\"timestamp\",\"nullable\":true,\"metadata\":{}}]}"#;
    let first = [
        r#"{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["deletionVectors"],"writerFeatures":["deletionVectors"]}}"#.to_owned(),
        format!(r#"{{"metaData":{{"id":"m","format":{{"provider":"parquet","options":{{}}}},"schemaString":"{schema}","partitionColumns":[],"configuration":{{}}}}}}"#),
        add("a.parquet", ""),
    ];
    put(&store, "_delta_log/00000000000000000000.json", &first.join("\n")).await;
    for format in [TableFormat::Iceberg, TableFormat::Hudi] {
        sync(&DeltaSource::new(root(&store)), target(format, root(&store)).as_mut(), &Options::default())
            .await
            .unwrap();
    }
    put(&store, "_delta_log/00000000000000000001.json", &add("b.parquet", "")).await;
    for format in [TableFormat::Iceberg, TableFormat::Hudi] {
        sync(&DeltaSource::new(root(&store)), target(format, root(&store)).as_mut(), &Options::default())
            .await
            .unwrap();
    }
    // A checkpoint, written by following the Iceberg table elsewhere.
    let elsewhere = Arc::new(InMemory::new());
    let mut delta = target(TableFormat::Delta, root(&elsewhere));
    for metadata in ["v1", "v2"] {
        let options =
            IcebergOptions { metadata_file: Some(format!("metadata/{metadata}.metadata.json")), relocated: false };
        for mode in [Mode::Incremental, Mode::Full] {
            let options_of_run = Options { mode, ..Options::default() };
            sync(&IcebergSource::new(root(&store), options.clone()), delta.as_mut(), &options_of_run).await.unwrap();
        }
    }
    let vector = r#","deletionVector":{"storageType":"i","pathOrInlineDv":"^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L","sizeInBytes":44,"cardinality":6}"#;
    let third = format!(
        "{}\n{}",
        r#"{"remove":{"path":"a.parquet","deletionTimestamp":1,"dataChange":true}}"#,
        add("a.parquet", vector)
    );
    put(&store, "_delta_log/00000000000000000002.json", &third).await;
    sync(&DeltaSource::new(root(&store)), target(TableFormat::Iceberg, root(&store)).as_mut(), &Options::default())
        .await
        .unwrap();
    put(&store, "_delta_log/00000000000000000001.00000000000000000002.compacted.json", &third).await;
    let mut objects = Objects::new();
    for (store, keep) in [(&store, ""), (&elsewhere, "checkpoint")] {
        let all: Vec<_> = store.list(None).try_collect().await.unwrap();
        for meta in all.into_iter().filter(|m| m.location.as_ref().contains(keep)) {
            let bytes = store.get(&meta.location).await.unwrap().bytes().await.unwrap();
            objects.push((meta.location, bytes));
        }
    }
    objects.sort();
    objects
}

fn template() -> &'static Objects {
    static MADE: OnceLock<Objects> = OnceLock::new();
    MADE.get_or_init(|| block_on(made()))
}

/// What the table itself holds in each role, as seeds: the number of the role, then the object.
pub fn seeds(format: TableFormat) -> Vec<Vec<u8>> {
    let seed = |(number, role): (usize, &&str)| {
        let bytes =
            &template().iter().find(|(key, _)| key.as_ref().contains(role)).unwrap_or_else(|| panic!("{role}")).1;
        [&[u8::try_from(number).unwrap()], bytes.as_ref()].concat()
    };
    roles(format).iter().enumerate().map(seed).collect()
}

fn roles(format: TableFormat) -> Roles {
    match format {
        TableFormat::Delta => DELTA,
        TableFormat::Iceberg => ICEBERG,
        _ => HUDI,
    }
}

/// A table of `format` in which the object that the first byte names is the other bytes.
fn table(format: TableFormat, data: &[u8]) {
    let [role, bytes @ ..] = data else { return };
    let roles = roles(format);
    let role = roles[usize::from(*role) % roles.len()];
    let objects = template();
    block_on(async {
        let store = Arc::new(InMemory::new());
        let folder = match format {
            TableFormat::Delta => "t/_delta_log/",
            TableFormat::Iceberg => "t/metadata/",
            _ => "t/.hoodie/",
        };
        for (key, whole) in objects.iter().filter(|(key, _)| key.as_ref().starts_with(folder)) {
            let checkpoint = key.as_ref().contains("checkpoint") && !role.contains("checkpoint");
            let compacted = key.as_ref().contains("compacted") && !role.contains("compacted");
            if checkpoint || compacted {
                continue;
            }
            let bytes = if key.as_ref().contains(role) { bytes::Bytes::copy_from_slice(bytes) } else { whole.clone() };
            store.put(key, bytes.into()).await.unwrap();
        }
        read(format, &store).await;
    });
}

async fn read(format: TableFormat, store: &Arc<InMemory>) {
    // As a target, too: its own metadata is as foreign when others wrote it.
    let _ = target(format, root(store)).load().await;
    let table = source(format, root(store));
    let Ok(head) = table.head().await else { return };
    if let Ok(snapshot) = table.snapshot(&head).await {
        let files: Vec<_> = snapshot.files.try_concat().await.unwrap_or_default();
        for file in files.iter().take(64) {
            if let FilePath::Under(path) = &file.path {
                assert!(!path.split('/').any(|s| matches!(s, "" | "." | "..")), "{path}");
            }
            let _ = table.deleted_rows(file).await;
        }
    }
    let since = Watermark {
        format,
        table_id: None,
        version: Some(VersionId("0".to_owned())),
        revision: None,
        timestamp_ms: 0,
        deletes_left_out: false,
    };
    if let Ok(Changes::Replay(changes)) = table.changes(&since, &head).await {
        let _ = changes.take(64).try_collect::<Vec<_>>().await;
    }
    for other in [TableFormat::Delta, TableFormat::Iceberg, TableFormat::Hudi] {
        let elsewhere = Arc::new(InMemory::new());
        let _ = sync(table.as_ref(), target(other, root(&elsewhere)).as_mut(), &Options::default()).await;
    }
}

/// Commits, checkpoints and the hint of a Delta log.
pub fn delta(data: &[u8]) {
    table(TableFormat::Delta, data);
}

/// Metadata, manifest lists, manifests and delete files of an Iceberg table.
pub fn iceberg(data: &[u8]) {
    table(TableFormat::Iceberg, data);
}

/// Properties, commits and the metadata table of a Hudi table.
pub fn hudi(data: &[u8]) {
    table(TableFormat::Hudi, data);
}
