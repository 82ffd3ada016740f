//! Stores, footers and rewrites over a real S3 endpoint, which can be told to fail.

use crate::corpus::{case, live};
use crate::judges::{judge, see};
use crate::to_iceberg::copy;
use arrow::array::{ArrayRef, FixedSizeBinaryBuilder, RecordBatch};
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hoglake_formats::delta::{DeltaSource, DeltaTarget, DeltaTargetOptions};
use hoglake_formats::hudi::{HudiOptions, HudiSource, HudiTarget};
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource, IcebergTarget, IcebergTargetOptions};
use hoglake_formats::parquet::Column;
use hoglake_formats::parquet::footer::{RegisteredFile, footer_statistics};
use hoglake_formats::parquet::rewrite::{RewriteError, RewriteInput, RewriteOptions, RowIds, rewrite};
use hoglake_formats::store::{Object, S3Config, Secret, StoreConfig, StoreError, Stores};
use hoglake_formats::sync::{Options, Outcome, Plan, Source, TableRoot, Target, sync};
use hoglake_model::{ColumnType, FieldId, Location};
use object_store::ObjectStoreExt;
use parquet::arrow::ArrowWriter;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tower::ServiceExt;

const SECRET: &str = "not-to-be-printed";

const FILES: i64 = 16;
const ROWS: i64 = 80_000;

/// A file with a column of random UUIDs.
fn incompressible(random: &mut u64) -> Vec<u8> {
    let mut values = FixedSizeBinaryBuilder::new(16);
    for _ in 0..ROWS {
        let mut uuid = [0; 16];
        for half in uuid.chunks_mut(8) {
            *random ^= *random << 13;
            *random ^= *random >> 7;
            *random ^= *random << 17;
            half.copy_from_slice(&random.to_le_bytes());
        }
        values.append_value(uuid).unwrap();
    }
    let batch = RecordBatch::try_from_iter([("u", Arc::new(values.finish()) as ArrayRef)]).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

/// An S3 endpoint over a temporary folder.
struct Endpoint {
    folder: tempfile::TempDir,
    /// Host and port.
    address: String,
    stores: Arc<Stores>,
    /// Every request so far: method and URI.
    requests: Arc<Mutex<Vec<String>>>,
    /// Requests that contain this are denied.
    denied: Arc<Mutex<Option<&'static str>>>,
}

impl Endpoint {
    async fn start() -> Self {
        crate::install_crypto_provider();
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("lake")).unwrap();
        let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(folder.path()).unwrap());
        builder.set_auth(SimpleAuth::from_single("key", SECRET));
        let service = builder.build();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let denied: Arc<Mutex<Option<&'static str>>> = Arc::default();
        let (log, faults) = (Arc::clone(&requests), Arc::clone(&denied));
        let router = axum::Router::new().fallback(move |request: Request| {
            let line = format!("{} {}", request.method(), request.uri());
            let fails = faults.lock().unwrap().is_some_and(|part| line.contains(part));
            log.lock().unwrap().push(line);
            let service = service.clone();
            async move {
                if fails {
                    return StatusCode::FORBIDDEN.into_response();
                }
                let response: Response = service.oneshot(request).await.unwrap().map(Body::new).into_response();
                response
            }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let endpoint = format!("http://{address}");
        tokio::spawn(async move { axum::serve(listener, router).await });
        let s3 = S3Config {
            endpoint: Some(endpoint),
            credentials: Some(("key".to_owned(), Secret::new(SECRET))),
            ..S3Config::default()
        };
        let stores = Arc::new(Stores::new(StoreConfig { s3, ..StoreConfig::default() }));
        Self { folder, address, stores, requests, denied }
    }

    /// The folder `key` of the bucket as a table.
    fn table(&self, key: &str) -> TableRoot {
        TableRoot::open(&self.stores, Location::parse(&format!("s3://lake/{key}")).unwrap()).unwrap()
    }

    /// What DuckDB reads from the endpoint.
    fn duckdb(&self, scans: &[String]) -> serde_json::Value {
        let mut arguments = vec![self.address.as_str(), "key", SECRET];
        arguments.extend(scans.iter().map(String::as_str));
        judge("s3.py", &arguments)
    }

    fn object(&self, key: &str) -> Object {
        self.stores.open(&Location::parse(&format!("s3a://lake/{key}")).unwrap()).unwrap()
    }

    fn requested(&self, part: &str) -> usize {
        self.requests.lock().unwrap().iter().filter(|line| line.contains(part)).count()
    }

    /// Input files in the bucket, together large enough for an output of several parts.
    async fn inputs(&self) -> Vec<RewriteInput> {
        let mut random: u64 = 1;
        let mut inputs = Vec::new();
        for index in 0..FILES {
            let bytes = incompressible(&mut random);
            let object = self.object(&format!("in/{index}.parquet"));
            inputs.push(RewriteInput {
                object: object.clone(),
                file: RegisteredFile {
                    file_size_bytes: bytes.len() as u64,
                    footer_size: None,
                    record_count: Some(ROWS),
                    max_whole_object_bytes: 8 << 20,
                },
                row_ids: RowIds::Positional(index * ROWS),
                deletions: None,
                names: Vec::new(),
            });
            object.store.put(&object.path, bytes.into()).await.unwrap();
        }
        inputs
    }

    fn exists(&self, key: &str) -> bool {
        self.folder.path().join("lake").join(key).exists()
    }

    /// Waits until a multipart upload was aborted.
    async fn aborted(&self) {
        let begun = Instant::now();
        while self.requested("DELETE /lake/out/o.parquet?uploadId=") == 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "the upload was not aborted");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn columns() -> Vec<Column> {
    let column = |id, name: &str, ty| Column { field_id: FieldId(id), name: name.to_owned(), ty, nullable: true };
    vec![
        column(1, "k", ColumnType::String),
        column(2, "n", ColumnType::Long),
        column(3, "x", ColumnType::Double),
        column(9, "u", ColumnType::Uuid),
        column(10, "bin", ColumnType::Binary),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_arrive_as_they_are_spelled() {
    let endpoint = Endpoint::start().await;
    for key in ["a b", "a%20b", "100%", "p=é/x#1", "a+b", "日本/q?x=1", "a&b;c,d", "it's (1)"] {
        let object = endpoint.object(key);
        object.store.put(&object.path, key.to_owned().into()).await.unwrap();
        let on_disk = std::fs::read(endpoint.folder.path().join("lake").join(key)).unwrap();
        assert_eq!(on_disk, key.as_bytes());
        let read = object.store.get(&object.path).await.unwrap().bytes().await.unwrap();
        assert_eq!(read, key.as_bytes());
    }
    let missing = endpoint.object("nothing");
    let error = missing.error(missing.store.get(&missing.path).await.unwrap_err());
    assert!(matches!(error, StoreError::NotFound { .. }) && !error.is_transient());
    assert!(!format!("{:?}", endpoint.stores).contains(SECRET));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_footer_takes_one_request() {
    let endpoint = Endpoint::start().await;
    let dir = tempfile::tempdir().unwrap();
    judge("rewrite.py", &["make", dir.path().to_str().unwrap()]);
    let bytes = std::fs::read(dir.path().join("plain.parquet")).unwrap();
    let object = endpoint.object("f.parquet");
    object.store.put(&object.path, bytes.clone().into()).await.unwrap();
    let trailer: [u8; 4] = bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap();
    let file = RegisteredFile {
        file_size_bytes: bytes.len() as u64,
        footer_size: Some(u64::from(u32::from_le_bytes(trailer))),
        record_count: Some(5000),
        max_whole_object_bytes: 1 << 20,
    };
    let before = endpoint.requested("");
    footer_statistics(&object, file, &columns()).await.unwrap();
    assert_eq!(endpoint.requested("") - before, 1);
    *endpoint.denied.lock().unwrap() = Some("GET");
    assert!(footer_statistics(&object, file, &columns()).await.unwrap_err().is_transient());
    *endpoint.denied.lock().unwrap() = None;
    let larger = RegisteredFile { file_size_bytes: file.file_size_bytes + 9000, ..file };
    assert!(!footer_statistics(&object, larger, &columns()).await.unwrap_err().is_transient());
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_are_uploaded_in_parts_and_failed_ones_aborted() {
    let endpoint = Endpoint::start().await;
    let inputs = endpoint.inputs().await;
    let output = endpoint.object("out/o.parquet");
    let rows = FILES * ROWS;
    let options = RewriteOptions { memory_bytes: 32 << 20, row_group_rows: 40_000, ..RewriteOptions::default() };

    *endpoint.denied.lock().unwrap() = Some("partNumber=2");
    let error = rewrite(inputs.clone(), &columns(), &[], &output, &options).await.unwrap_err();
    assert!(!matches!(error, RewriteError::Unconvertible { .. }), "{error}");
    endpoint.aborted().await;
    assert!(!endpoint.exists("out/o.parquet"));

    // Dropped in mid-upload: the threads stop, and the upload is aborted although nobody waits for it.
    endpoint.requests.lock().unwrap().clear();
    *endpoint.denied.lock().unwrap() = None;
    {
        let columns = columns();
        let mut running = std::pin::pin!(rewrite(inputs.clone(), &columns, &[], &output, &options));
        while endpoint.requested("partNumber=1") == 0 {
            let finished = tokio::time::timeout(Duration::from_millis(5), running.as_mut()).await;
            assert!(finished.is_err(), "it ended before its first part");
        }
    }
    endpoint.aborted().await;
    assert!(!endpoint.exists("out/o.parquet"));

    let rewritten = rewrite(inputs, &columns(), &[], &output, &options).await.unwrap().unwrap();
    assert_eq!(rewritten.record_count, rows);
    let size = std::fs::metadata(endpoint.folder.path().join("lake/out/o.parquet")).unwrap().len();
    assert_eq!(size, rewritten.file_size_bytes);
    let file = RegisteredFile {
        file_size_bytes: size,
        footer_size: Some(rewritten.footer_size),
        record_count: Some(rows),
        max_whole_object_bytes: 1 << 20,
    };
    let footer = footer_statistics(&output, file, &columns()[3..4]).await.unwrap();
    assert_eq!(footer.columns[0].bounds, rewritten.statistics[3].bounds);
}

/// Partition values with spaces, per cent signs, slashes and letters beyond ASCII: the same files and rows through S3 as in
/// a local folder, in every format.
#[tokio::test(flavor = "multi_thread")]
async fn tables_with_odd_partition_values_convert_on_s3() {
    let endpoint = Endpoint::start().await;
    let local = tempfile::tempdir().unwrap();
    let mut sources = Vec::new();
    let mut scans = Vec::new();
    for name in ["delta-0.8.0-special-partition", "golden-hive_deltatbl-special-chars-in-partition-column", "odd"] {
        let origin = local.path().join(name);
        if name == "odd" {
            judge("partitions.py", &[origin.to_str().unwrap()]);
        } else {
            copy(&case("delta", name).root, &origin);
        }
        copy(&origin, &endpoint.folder.path().join("lake").join(name));
        let table = endpoint.table(name);
        let source = DeltaSource::new(table.clone());
        let mut iceberg = IcebergTarget::new(table.clone(), IcebergTargetOptions::default());
        let report = sync(&source, &mut iceberg, &Options::default()).await.unwrap();
        assert_eq!(report.outcome, Outcome::Committed);
        let again = sync(&source, &mut iceberg, &Options::default()).await.unwrap();
        assert_eq!(again.plan, Plan::NoChange);
        scans.push(format!("iceberg_scan('{}')", report.metadata_path.unwrap()));
        let converted = IcebergSource::new(table.clone(), IcebergOptions::default());
        let (_, files) = live(&converted).await.unwrap();
        let (_, expected) = live(&source).await.unwrap();
        assert_eq!(files.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{name}");
        for file in files.values() {
            let count = converted.record_count(file).await.unwrap();
            assert_eq!(Some(count), file.record_count, "{}", file.path.as_str());
        }
        // And back, once the log is gone.
        std::fs::remove_dir_all(endpoint.folder.path().join("lake").join(name).join("_delta_log")).unwrap();
        let mut delta = DeltaTarget::new(table.clone(), DeltaTargetOptions::default());
        sync(&converted, &mut delta, &Options::default()).await.unwrap();
        scans.push(format!("delta_scan('s3://lake/{name}')"));
        let (_, back) = live(&DeltaSource::new(table.clone())).await.unwrap();
        assert_eq!(back.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{name}");
        if name == "odd" {
            let hudi: &mut dyn Target = &mut HudiTarget::new(table.clone());
            sync(&converted, hudi, &Options::default()).await.unwrap();
            let (_, files) = live(&HudiSource::new(table, HudiOptions::default())).await.unwrap();
            let partitions = |files: &std::collections::BTreeMap<_, hoglake_model::table::DataFile>| {
                files.values().map(|f| f.partition.clone()).collect::<Vec<_>>()
            };
            assert_eq!(partitions(&files), partitions(&expected));
        }
        sources.push(("delta", origin.to_str().unwrap().to_owned()));
    }
    let seen = see(local.path(), &sources);
    let read = endpoint.duckdb(&scans);
    for ((source, seen), read) in sources.iter().zip(&seen).zip(read.as_array().unwrap().chunks(2)) {
        assert!(seen["duckdb"].is_array(), "{} {}", source.1, seen["error"]);
        assert_eq!(read, [seen["duckdb"].clone(), seen["duckdb"].clone()], "{}", source.1);
    }
}
