//! A catalog over a folder of this machine, with a worker in this process.

use crate::stage;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use clap::Parser;
use hoglake_catalog::catalogs::{CatalogIdentity, CreateCatalog};
use hoglake_catalog::{Catalog, Options};
use hoglake_formats::deletion_vector::DeletionVector;
use hoglake_formats::puffin;
use hoglake_formats::store::{S3Config, Secret, StoreConfig, Stores};
use hoglake_model::commit::{CommitRequest, DeleteFileRegistration, FileRegistration, TableAppend, TableDeletes};
use hoglake_server::audit::Audit;
use hoglake_server::config::log::AuditPlace;
use hoglake_server::config::maintenance::MaintenanceConfig;
use hoglake_server::worker::{Parts, Trigger, Worker};
use hoglake_testkit::postgres::TestDatabase;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use sqlx::PgPool;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Row id, `id`, `name`.
pub type Row = (i64, i64, Option<String>);

pub struct Lake {
    pub worker: Worker,
    pub catalog: Arc<CatalogIdentity>,
    pub pool: PgPool,
    pub folder: TempDir,
    pub database: TestDatabase,
    written: usize,
}

#[derive(Parser)]
struct Settings {
    #[command(flatten)]
    maintenance: MaintenanceConfig,
}

/// A live file as of a snapshot: path, first row id, whether explicit, vector.
type VisibleFile = (String, i64, bool, Option<String>);

impl Lake {
    /// Catalog `demo` with `ns.t`: columns 1 `id` long, 2 `name` string, sorted by name when `sorted`.
    pub async fn new(sorted: bool) -> Self {
        let database = stage::database().await;
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::new(database.url());
        options.compaction_target_bytes = 1 << 20;
        let pool = PgPool::connect_lazy_with(options.connect_options().unwrap());
        let store = Catalog::open(options).unwrap();
        let create = serde_json::json!({"name": "demo", "data_path": folder.path().join("lake").to_str().unwrap()});
        let create: CreateCatalog = serde_json::from_value(create).unwrap();
        store.catalog_create(create, None).await.unwrap();
        let ddl = store.ddl(hoglake_model::CatalogId(1), None, move |ddl| {
            Box::pin(async move {
                let mut sql = vec![
                    "insert into namespace (catalog_id, namespace_id, name, begin_snapshot) values (1, 1, 'ns', 1)",
                    "insert into table_identity (catalog_id, table_id, table_uuid, created_snapshot, ddl_snapshot,
                       last_namespace, last_name, next_field_id) values (1, 1, gen_random_uuid(), 1, 1, 'ns', 't', 3)",
                    "insert into table_counter (catalog_id, table_id) values (1, 1)",
                    "insert into table_version (catalog_id, table_id, begin_snapshot, namespace_id, name)
                       values (1, 1, 1, 1, 't')",
                    "insert into table_column (catalog_id, table_id, field_id, begin_snapshot, name, type, nullable,
                       ordinal) values (1, 1, 1, 1, 'id', 'long', false, 0), (1, 1, 2, 1, 'name', 'string', true, 1)",
                ];
                if sorted {
                    sql.push(
                        "insert into sort_spec (catalog_id, table_id, sort_id, begin_snapshot) values (1, 1, 1, 1)",
                    );
                    sql.push("insert into sort_spec_field values (1, 1, 1, 0, 2, false, true)");
                }
                for sql in sql {
                    sqlx::query(sql).execute(ddl.connection()).await?;
                }
                ddl.allocate_namespace();
                ddl.allocate_table();
                ddl.change("table_created", 1);
                hoglake_catalog::ddl::answer(ddl, 200, &serde_json::json!({}))
            })
        });
        ddl.await.unwrap();
        let mut settings = Settings::parse_from(["settings"]).maintenance;
        settings.temp_dir = Some(folder.path().to_owned());
        let worker = Worker::new(Parts {
            catalog: store.clone(),
            stores: Arc::new(Stores::new(stores())),
            audit: Audit::open(&AuditPlace::Off).unwrap(),
            settings,
        });
        let catalog = store.catalog_find("demo").await.unwrap();
        Self { worker, catalog, pool, folder, database, written: 0 }
    }

    fn next_path(&mut self, kind: &str) -> PathBuf {
        self.written += 1;
        let folder = self.folder.path().join("lake/data");
        std::fs::create_dir_all(&folder).unwrap();
        folder.join(format!("{kind}-{}", self.written))
    }

    /// Writes a Parquet file with these rows; not registered yet.
    pub fn write(&mut self, rows: &[(i64, Option<&str>)]) -> FileRegistration {
        let id = |field: i32| HashMap::from([("PARQUET:field_id".to_owned(), field.to_string())]);
        let schema = Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, false).with_metadata(id(1)),
            Field::new("name", DataType::Utf8, true).with_metadata(id(2)),
        ]));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.0))),
            Arc::new(StringArray::from_iter(rows.iter().map(|r| r.1))),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        let path = self.next_path("file");
        let mut writer = ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), schema, None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        FileRegistration {
            file_size_bytes: i64::try_from(std::fs::metadata(&path).unwrap().len()).unwrap(),
            path: path.to_str().unwrap().to_owned(),
            record_count: i64::try_from(rows.len()).unwrap(),
            footer_size: None,
            column_stats: None,
            partition_values: None,
        }
    }

    pub async fn append(&mut self, rows: &[(i64, Option<&str>)]) -> i64 {
        let file = self.write(rows);
        self.register(vec![file]).await
    }

    pub async fn register(&self, files: Vec<FileRegistration>) -> i64 {
        let append =
            TableAppend { namespace: "ns".to_owned(), table: "t".to_owned(), expected_table_uuid: None, files };
        let request = CommitRequest { appends: vec![append], ..CommitRequest::default() };
        self.worker.catalog.commit("demo", request, None).await.unwrap().snapshot.unwrap().0
    }

    /// Replaces the vector of a file by one with all of `positions`.
    pub async fn delete(&mut self, data_file_id: i64, positions: &BTreeSet<u64>) -> i64 {
        let path = self.next_path("vector");
        let bytes = puffin::write(&DeletionVector::from_positions(positions.iter().copied()), "data").unwrap();
        std::fs::write(&path, &bytes).unwrap();
        let vector = DeleteFileRegistration {
            data_file_id,
            path: path.to_str().unwrap().to_owned(),
            delete_count: i64::try_from(positions.len()).unwrap(),
            file_size_bytes: i64::try_from(bytes.len()).unwrap(),
        };
        let deletes = TableDeletes {
            namespace: "ns".to_owned(),
            table: "t".to_owned(),
            expected_table_uuid: None,
            files: vec![vector],
        };
        let read_snapshot = Some(self.head().await);
        let request = CommitRequest { read_snapshot, deletes: vec![deletes], ..CommitRequest::default() };
        self.worker.catalog.commit("demo", request, None).await.unwrap().snapshot.unwrap().0
    }

    pub async fn number(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.pool).await.unwrap()
    }

    pub async fn head(&self) -> i64 {
        self.number("select head_snapshot from catalog").await
    }

    pub async fn execute(&self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(&self.pool).await.unwrap();
    }

    /// Makes all snapshots but the newest `keep` old, under a retention of a minute.
    pub async fn age(&self, keep: i64) {
        sqlx::query(
            "update snapshot set snapshot_time = now() - interval '1 hour'
             where snapshot_id <= (select head_snapshot from catalog) - $1",
        )
        .bind(keep)
        .execute(&self.pool)
        .await
        .unwrap();
        self.execute("update catalog set snapshot_retention_seconds = 60").await;
    }

    /// What the table shows at a snapshot, read from the files.
    pub async fn rows_at(&self, snapshot: i64) -> Vec<Row> {
        let files: Vec<VisibleFile> = sqlx::query_as(
            "select f.path, f.row_id_start, f.explicit_row_ids, d.path
             from data_file f left join delete_file d on d.data_file_id = f.data_file_id
               and d.begin_snapshot <= $1 and (d.end_snapshot is null or $1 < d.end_snapshot)
             where f.table_id = 1
               and f.begin_snapshot <= $1 and (f.end_snapshot is null or $1 < f.end_snapshot)",
        )
        .bind(snapshot)
        .fetch_all(&self.pool)
        .await
        .unwrap();
        let mut rows: Vec<Row> = files.iter().flat_map(read_file).collect();
        rows.sort();
        rows
    }

    /// Passes on every claim, as time would.
    pub async fn let_claims_end(&self) {
        self.execute(
            "update file_removal set claimed_until = now() - interval '1 second' where claimed_until is not null;
             update compaction_claim set claimed_until = now() - interval '1 second';
             update hydration set next_attempt_at = now() where claimed_by is not null;
             update lease set expires_at = now()",
        )
        .await;
    }

    pub async fn verified(&self) {
        let report = self.worker.verify(&self.catalog, true).await.unwrap();
        let report = serde_json::to_value(report).unwrap();
        assert_eq!(report["status"], "pass", "{report:#}");
        assert_eq!(report["checks"].as_array().unwrap().len(), 8);
    }

    /// Objects that no row refers to and no queue entry names: none, ever.
    pub async fn orphans(&self) -> Vec<String> {
        let known: Vec<String> = sqlx::query_scalar(
            "select path from data_file union select path from delete_file
             union select path from file_removal where settled_at is null",
        )
        .fetch_all(&self.pool)
        .await
        .unwrap();
        let known: BTreeSet<String> = known.into_iter().collect();
        files_below(&self.folder.path().join("lake")).into_iter().filter(|path| !known.contains(path)).collect()
    }

    pub async fn compact(&self) -> i64 {
        self.worker.compact(&self.catalog, 10, false, Trigger::Request).await.unwrap().groups_compacted
    }
}

/// Files of this machine, and an S3 that never answers.
fn stores() -> StoreConfig {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let s3 = S3Config {
        endpoint: Some("http://127.0.0.1:9".to_owned()),
        credentials: Some(("key".to_owned(), Secret::new("secret"))),
        ..S3Config::default()
    };
    StoreConfig { local_fsync: false, s3, ..StoreConfig::local() }
}

/// The rows of a file without those of its vector; row ids as the catalog defines them.
fn read_file((path, start, explicit, vector): &VisibleFile) -> Vec<Row> {
    let deleted = vector.as_ref().map(|path| puffin::read(&std::fs::read(path).unwrap()).unwrap().vector);
    let reader = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(path).unwrap()).unwrap().build().unwrap();
    let mut rows = Vec::new();
    let mut position = 0_u64;
    for batch in reader {
        let batch = batch.unwrap();
        let ids = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>().clone();
        let names = batch.column_by_name("name").unwrap().as_string::<i32>().clone();
        let row_ids =
            explicit.then(|| batch.column_by_name("_hog_row_id").unwrap().as_primitive::<Int64Type>().clone());
        for i in 0..batch.num_rows() {
            let row_id = row_ids.as_ref().map_or(start + i64::try_from(position).unwrap(), |ids| ids.value(i));
            let name = (!names.is_null(i)).then(|| names.value(i).to_owned());
            if !deleted.as_ref().is_some_and(|d| d.contains(position)) {
                rows.push((row_id, ids.value(i), name));
            }
            position += 1;
        }
    }
    rows
}

/// Live files with their record counts and deleted positions.
pub async fn live_files(lake: &Lake) -> BTreeMap<i64, (u64, BTreeSet<u64>)> {
    let files: Vec<(i64, i64, Option<String>)> = sqlx::query_as(
        "select f.data_file_id, f.record_count, d.path from data_file f
         left join delete_file d on d.data_file_id = f.data_file_id and d.end_snapshot is null
         where f.end_snapshot is null",
    )
    .fetch_all(&lake.pool)
    .await
    .unwrap();
    let deleted = |path: &Option<String>| match path {
        Some(path) => puffin::read(&std::fs::read(path).unwrap()).unwrap().vector.iter().collect(),
        None => BTreeSet::new(),
    };
    files.iter().map(|(id, rows, path)| (*id, (u64::try_from(*rows).unwrap(), deleted(path)))).collect()
}

fn files_below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files_below(&path)) } else { found.push(path.to_str().unwrap().to_owned()) }
    }
    found
}
