//! Targets that follow a source commit by commit: incrementally, after losing races, after crashes between any two
//! writes, and within bounded numbers of requests.

use crate::judges::see;
use crate::to_iceberg::copy;
use bytes::Bytes;
use futures::stream::BoxStream;
use hoglake_formats::delta::{DeltaSource, DeltaTarget, DeltaTargetOptions};
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource, IcebergTarget, IcebergTargetOptions};
use hoglake_formats::sync::{Mode, Options, Plan, Report, Result, TableRoot, Target, sync};
use hoglake_model::Location;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A local store that counts requests and fails every write after the first `writes_left`.
#[derive(Debug)]
struct Watched {
    inner: LocalFileSystem,
    requests: AtomicUsize,
    writes_left: AtomicUsize,
}

impl Watched {
    fn new(writes_left: usize) -> Arc<Self> {
        Arc::new(Self {
            inner: LocalFileSystem::new(),
            requests: AtomicUsize::new(0),
            writes_left: AtomicUsize::new(writes_left),
        })
    }

    fn taken(&self) -> usize {
        self.requests.swap(0, Ordering::SeqCst)
    }

    fn write(&self) -> object_store::Result<()> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.writes_left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
            .map(drop)
            .map_err(|_| object_store::Error::Generic { store: "watched", source: "the machine stopped".into() })
    }
}

impl std::fmt::Display for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("watched")
    }
}

#[async_trait::async_trait]
impl ObjectStore for Watched {
    async fn put_opts(&self, at: &ObjectPath, payload: PutPayload, o: PutOptions) -> object_store::Result<PutResult> {
        self.write()?;
        self.inner.put_opts(at, payload, o).await
    }
    async fn put_multipart_opts(
        &self,
        at: &ObjectPath,
        o: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.write()?;
        self.inner.put_multipart_opts(at, o).await
    }
    async fn get_opts(&self, at: &ObjectPath, o: GetOptions) -> object_store::Result<GetResult> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.inner.get_opts(at, o).await
    }
    async fn get_ranges(&self, at: &ObjectPath, r: &[std::ops::Range<u64>]) -> object_store::Result<Vec<Bytes>> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.inner.get_ranges(at, r).await
    }
    fn delete_stream(
        &self,
        at: BoxStream<'static, object_store::Result<ObjectPath>>,
    ) -> BoxStream<'static, object_store::Result<ObjectPath>> {
        self.inner.delete_stream(at)
    }
    fn list(&self, prefix: Option<&ObjectPath>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.inner.list(prefix)
    }
    fn list_with_offset(
        &self,
        prefix: Option<&ObjectPath>,
        offset: &ObjectPath,
    ) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.inner.list_with_offset(prefix, offset)
    }
    async fn list_with_delimiter(&self, prefix: Option<&ObjectPath>) -> object_store::Result<ListResult> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.inner.list_with_delimiter(prefix).await
    }
    async fn copy_opts(&self, from: &ObjectPath, to: &ObjectPath, o: CopyOptions) -> object_store::Result<()> {
        self.write()?;
        self.inner.copy_opts(from, to, o).await
    }
}

fn watched(store: &Arc<Watched>, table: &Path) -> TableRoot {
    TableRoot::with_store(Arc::clone(store) as Arc<dyn ObjectStore>, Location::parse(table.to_str().unwrap()).unwrap())
}

fn plain(table: &Path) -> TableRoot {
    watched(&Watched::new(usize::MAX), table)
}

async fn to_iceberg(root: TableRoot, mode: Mode) -> Result<Report> {
    let source = DeltaSource::new(root.clone());
    let mut target = IcebergTarget::new(root, IcebergTargetOptions::default());
    sync(&source, &mut target, &Options { mode, dry_run: false }).await
}

/// A Delta log in the making; its data files are named, not there.
struct Log<'a> {
    table: &'a Path,
    version: u64,
}

impl<'a> Log<'a> {
    fn new(table: &'a Path) -> Self {
        std::fs::create_dir_all(table.join("_delta_log")).unwrap();
        let mut log = Self { table, version: 0 };
        let schema = r#"{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}}]}"#;
        log.commit(&[
            r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}"#.to_owned(),
            format!(r#"{{"metaData":{{"id":"5f0a3b1e-0000-4000-8000-000000000001","format":{{"provider":"parquet","options":{{}}}},"schemaString":"{schema}","partitionColumns":[],"configuration":{{}}}}}}"#),
        ]);
        log
    }

    fn commit(&mut self, lines: &[String]) {
        let path = self.table.join(format!("_delta_log/{:020}.json", self.version));
        std::fs::write(path, lines.join("\n")).unwrap();
        self.version += 1;
    }

    fn add(name: &str) -> String {
        format!(
            r#"{{"add":{{"path":"{name}.parquet","partitionValues":{{}},"size":10,"modificationTime":1,"dataChange":true,"stats":"{{\"numRecords\":5,\"minValues\":{{\"id\":1}},\"maxValues\":{{\"id\":9}},\"nullCount\":{{\"id\":0}}}}"}}}}"#
        )
    }

    fn remove(name: &str) -> String {
        format!(r#"{{"remove":{{"path":"{name}.parquet","deletionTimestamp":1,"dataChange":true}}}}"#)
    }
}

/// The live files that the Iceberg table has, by name.
async fn live(table: &Path) -> Vec<String> {
    let source = IcebergSource::new(plain(table), IcebergOptions::default());
    let (_, files) = crate::corpus::live(&source).await.unwrap();
    files.keys().map(|path| path.as_str().trim_end_matches(".parquet").to_owned()).collect()
}

#[tokio::test]
async fn every_commit_of_the_source_becomes_one_of_the_target() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let mut log = Log::new(table);
    log.commit(&[Log::add("a"), Log::add("b")]);
    let first = to_iceberg(plain(table), Mode::Incremental).await.unwrap();
    assert!(matches!(first.plan, Plan::Full { .. }));
    log.commit(&[Log::add("c"), Log::remove("a")]);
    log.commit(&[Log::add("d")]);
    log.commit(&[Log::remove("d"), Log::remove("b")]);
    let second = to_iceberg(plain(table), Mode::Incremental).await.unwrap();
    assert_eq!(second.plan, Plan::Incremental);
    let counts: Vec<_> = second.steps.iter().map(|s| (s.committed.added, s.committed.removed)).collect();
    assert_eq!(counts, [(1, 1), (1, 0), (0, 2)]);
    assert_eq!(live(table).await, ["c"]);
    // A full comparison of the same version finds nothing to do and commits nothing.
    let third = to_iceberg(plain(table), Mode::Full).await.unwrap();
    assert_eq!(third.metadata_path, second.metadata_path);
    assert_eq!(to_iceberg(plain(table), Mode::Incremental).await.unwrap().plan, Plan::NoChange);
}

#[tokio::test]
async fn lost_history_falls_back_to_a_comparison_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let mut log = Log::new(table);
    log.commit(&[Log::add("a"), Log::add("b")]);
    to_iceberg(plain(table), Mode::Incremental).await.unwrap();
    log.commit(&[Log::add("c"), Log::remove("a")]);
    log.commit(&[Log::add("d")]);
    // A log that begins anew with the head as its first version: commits 2 and 3 cannot be replayed.
    let lines: Vec<_> = ["b", "c", "d"].map(Log::add).to_vec();
    let head = std::fs::read_to_string(table.join("_delta_log/00000000000000000000.json")).unwrap();
    std::fs::remove_dir_all(table.join("_delta_log")).unwrap();
    std::fs::create_dir_all(table.join("_delta_log")).unwrap();
    std::fs::write(table.join("_delta_log/00000000000000000000.json"), format!("{head}\n{}", lines.join("\n")))
        .unwrap();
    let report = to_iceberg(plain(table), Mode::Incremental).await.unwrap();
    let Plan::Full { reason } = &report.plan else { panic!("{report:?}") };
    assert!(reason.contains("version 1"), "{reason}");
    assert_eq!(live(table).await, ["b", "c", "d"]);
}

#[tokio::test]
async fn a_crash_between_any_two_writes_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for writes in 0..30 {
        let table = folder.path().join(format!("crash-{writes}"));
        let mut log = Log::new(&table);
        log.commit(&[Log::add("a"), Log::add("b")]);
        to_iceberg(plain(&table), Mode::Incremental).await.unwrap();
        log.commit(&[Log::add("c"), Log::remove("a")]);
        log.commit(&[Log::add("d")]);
        let outcome = to_iceberg(watched(&Watched::new(writes), &table), Mode::Incremental).await;
        // Readers see a commit or none, never a half.
        let between = live(&table).await.concat();
        assert!(["ab", "bc", "bcd"].contains(&between.as_str()), "{between} after {writes} writes");
        to_iceberg(plain(&table), Mode::Incremental).await.unwrap();
        assert_eq!(live(&table).await.concat(), "bcd", "after {writes} writes");
        // The last writes are hints, whose failure is none.
        if outcome.is_ok() {
            assert!(writes >= 7, "{writes} writes cannot be enough");
            return;
        }
    }
    panic!("the run never came through");
}

#[tokio::test]
async fn a_table_that_nobody_converted_is_not_replaced_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let mut log = Log::new(table);
    log.commit(&[Log::add("a")]);
    to_iceberg(plain(table), Mode::Incremental).await.unwrap();
    let metadata = table.join("metadata/v1.metadata.json");
    let own = std::fs::read_to_string(&metadata).unwrap();
    let foreign = own.replace("XTABLE_METADATA", "note").replace("hoglake.watermark", "note2");
    std::fs::write(&metadata, &foreign).unwrap();
    let refused = to_iceberg(plain(table), Mode::Incremental).await.unwrap_err();
    assert!(refused.to_string().contains("no conversion has written"), "{refused}");
    assert_eq!(std::fs::read_to_string(&metadata).unwrap(), foreign);
    assert!(!table.join("metadata/v2.metadata.json").exists());
    assert!(matches!(to_iceberg(plain(table), Mode::Full).await.unwrap().plan, Plan::Full { .. }));
}

#[tokio::test]
async fn of_two_converters_one_wins_and_the_other_plans_again() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let mut log = Log::new(table);
    log.commit(&[Log::add("a")]);
    to_iceberg(plain(table), Mode::Incremental).await.unwrap();
    for n in 0..6 {
        log.commit(&[Log::add(&format!("f{n}"))]);
    }
    let (one, two) =
        tokio::join!(to_iceberg(plain(table), Mode::Incremental), to_iceberg(plain(table), Mode::Incremental));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.steps.len() + two.steps.len(), 6, "every commit was made exactly once");
    assert_eq!(live(table).await.len(), 7);
}

#[tokio::test]
async fn requests_do_not_grow_with_the_table() {
    let mut incremental = Vec::new();
    for files in [10, 2_000] {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path();
        let mut log = Log::new(table);
        log.commit(&(0..files).map(|n| Log::add(&format!("f{n:06}"))).collect::<Vec<_>>());
        to_iceberg(plain(table), Mode::Incremental).await.unwrap();

        let store = Watched::new(usize::MAX);
        let mut target = IcebergTarget::new(watched(&store, table), IcebergTargetOptions::default());
        target.load().await.unwrap();
        assert!(store.taken() <= 3, "a target that is up to date");

        log.commit(&[Log::add("new")]);
        let report = to_iceberg(watched(&store, table), Mode::Incremental).await.unwrap();
        assert_eq!(report.steps.len(), 1);
        incremental.push(store.taken());
    }
    assert_eq!(incremental[0], incremental[1]);
    assert!(incremental[0] <= 16, "{incremental:?}");
}

#[tokio::test]
async fn requests_grow_with_the_commits_only() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let mut log = Log::new(table);
    log.commit(&[Log::add("a")]);
    to_iceberg(plain(table), Mode::Incremental).await.unwrap();
    for n in 0..50 {
        log.commit(&[Log::add(&format!("f{n}"))]);
    }
    let store = Watched::new(usize::MAX);
    let report = to_iceberg(watched(&store, table), Mode::Incremental).await.unwrap();
    assert_eq!(report.steps.len(), 50);
    // Per commit: its file (read while planning, too), a manifest, a list, the metadata and the hint.
    let requests = store.taken();
    assert!(requests <= 50 * 8 + 30, "{requests}");
}

#[tokio::test]
async fn there_and_back_again_the_rows_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let mut tables = Vec::new();
    for name in ["dat-nested_types", "dat-all_primitive_types", "kernel-basic-dv-with-checkpoint"] {
        let case = crate::corpus::case("delta", name);
        let table = folder.path().join(name);
        copy(&case.root, &table);
        to_iceberg(plain(&table), Mode::Incremental).await.unwrap();
        std::fs::remove_dir_all(table.join("_delta_log")).unwrap();
        let source = IcebergSource::new(plain(&table), IcebergOptions::default());
        let mut target = DeltaTarget::new(plain(&table), DeltaTargetOptions::default());
        let report = sync(&source, &mut target, &Options::default()).await.unwrap();
        assert!(report.steps[0].committed.added > 0);
        tables.push(("delta", case.root.to_str().unwrap().to_owned()));
        tables.push(("delta", table.to_str().unwrap().to_owned()));
    }
    for (pair, seen) in tables.chunks(2).zip(see(folder.path(), &tables).chunks(2)) {
        assert!(seen[0]["delta-rs"].is_array(), "{} {}", pair[0].1, seen[0]["error"]);
        for reader in ["delta-rs", "duckdb"] {
            assert_eq!(seen[0][reader], seen[1][reader], "{} {}", pair[1].1, seen[1]["error"]);
        }
        assert_eq!(seen[1]["problems"], serde_json::json!([]), "{}", pair[1].1);
    }
}

#[tokio::test]
async fn columns_with_other_names_in_the_files_are_not_taken_for_null() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    copy(&crate::corpus::case("delta", "golden-dv-with-columnmapping").root, table);
    to_iceberg(plain(table), Mode::Incremental).await.unwrap();
    std::fs::remove_dir_all(table.join("_delta_log")).unwrap();
    let source = IcebergSource::new(plain(table), IcebergOptions::default());
    let mut target = DeltaTarget::new(plain(table), DeltaTargetOptions::default());
    let refused = sync(&source, &mut target, &Options::default()).await.unwrap_err();
    assert!(refused.to_string().contains("name mapping"), "{refused}");
    assert!(!table.join("_delta_log").exists());
}

#[tokio::test]
async fn a_delta_target_follows_with_checkpoints_and_deletes() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("source");
    let mut log = Log::new(&table);
    log.commit(&[Log::add("a"), Log::add("b")]);
    to_iceberg(plain(&table), Mode::Incremental).await.unwrap();
    let copy_of = folder.path().join("target");
    let follow = async || {
        let source = IcebergSource::new(plain(&table), IcebergOptions::default());
        let mut target =
            DeltaTarget::new(plain(&copy_of), DeltaTargetOptions { checkpoint_interval: 3, ..Default::default() });
        sync(&source, &mut target, &Options::default()).await.unwrap()
    };
    assert!(matches!(follow().await.plan, Plan::Full { .. }));
    for n in 0..7 {
        log.commit(&[
            Log::add(&format!("f{n}")),
            Log::remove(if n == 0 { "a".to_owned() } else { format!("f{}", n - 1) }.as_str()),
        ]);
    }
    to_iceberg(plain(&table), Mode::Incremental).await.unwrap();
    let report = follow().await;
    assert_eq!((report.plan, report.steps.len()), (Plan::Incremental, 7));
    assert!(copy_of.join("_delta_log/00000000000000000006.checkpoint.parquet").exists());
    assert_eq!(follow().await.plan, Plan::NoChange);
    let (_, files) = crate::corpus::live(&DeltaSource::new(plain(&copy_of))).await.unwrap();
    let names: Vec<_> = files.keys().map(|p| p.as_str().rsplit('/').next().unwrap().to_owned()).collect();
    assert_eq!(names, ["b.parquet", "f6.parquet"]);
}
