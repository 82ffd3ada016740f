//! A catalog over a folder of this machine or an S3 endpoint, with a worker in this process.

use super::object_store::ObjectStore;
use crate::stage;
use arrow::array::{
    Array, ArrayRef, AsArray, Float32Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use clap::Parser;
use hoglake_catalog::catalogs::{CatalogIdentity, CreateCatalog};
use hoglake_catalog::{Catalog, Options};
use hoglake_formats::deletion_vector::DeletionVector;
use hoglake_formats::puffin;
use hoglake_formats::store::{S3Config, Secret, StoreConfig, Stores};
use hoglake_model::alter::AlterRequest;
use hoglake_model::commit::{CommitRequest, DeleteFileRegistration, FileRegistration, TableAppend, TableDeletes};
use hoglake_server::audit::Audit;
use hoglake_server::config::log::AuditPlace;
use hoglake_server::config::maintenance::MaintenanceConfig;
use hoglake_server::dev::object_store::{ACCESS_KEY, SECRET_KEY};
use hoglake_server::worker::{Parts, Trigger, Worker};
use hoglake_testkit::postgres::TestDatabase;
use hoglake_testkit::server::ServerCommand;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use sqlx::PgPool;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Row id, and the values that are not null by field id.
pub type Row = (i64, BTreeMap<i64, String>);

pub struct Lake {
    pub worker: Worker,
    pub catalog: Arc<CatalogIdentity>,
    pub pool: PgPool,
    pub folder: TempDir,
    pub database: TestDatabase,
    /// Where the objects are, unless they are files.
    pub store: Option<ObjectStore>,
    /// Columns that were added: field id, name and type as they are by now.
    pub added: Vec<(i64, String, String)>,
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
        Self::make(sorted, tempfile::tempdir().unwrap(), None).await
    }

    /// The same with its objects behind an S3 endpoint.
    pub async fn on_s3(sorted: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = ObjectStore::start(folder.path()).await;
        Self::make(sorted, folder, Some(store)).await
    }

    /// The same with its objects in `store`; `folder` is for what else there is.
    pub async fn on(store: ObjectStore, folder: TempDir) -> Self {
        Self::make(false, folder, Some(store)).await
    }

    async fn make(sorted: bool, folder: TempDir, objects: Option<ObjectStore>) -> Self {
        let database = stage::database().await;
        let mut options = Options::new(database.url());
        options.compaction_target_bytes = 1 << 20;
        let pool = PgPool::connect_lazy_with(options.connect_options().unwrap());
        let store = Catalog::open(options).unwrap();
        let data_path = match &objects {
            Some(_) => "s3://lake/demo".to_owned(),
            None => folder.path().join("lake").to_str().unwrap().to_owned(),
        };
        let create = serde_json::json!({"name": "demo", "data_path": data_path});
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
            stores: Arc::new(Stores::new(stores(objects.as_ref()))),
            audit: Audit::open(&AuditPlace::File(folder.path().join("audit.jsonl"))).unwrap(),
            settings,
            serves: true,
        });
        let catalog = store.catalog_find("demo").await.unwrap();
        Self { worker, catalog, pool, folder, database, store: objects, added: Vec::new(), written: 0 }
    }

    /// `command` on this lake's database, with what it needs to reach the objects.
    pub fn reaches_its_objects(&self, command: ServerCommand) -> ServerCommand {
        let command = command.database(self.database.url());
        match &self.store {
            Some(store) => command
                .env("HOGLAKE_S3_ENDPOINT", &store.endpoint)
                .env("HOGLAKE_S3_ACCESS_KEY", ACCESS_KEY)
                .env("HOGLAKE_S3_SECRET_KEY", SECRET_KEY),
            None => command.env("HOGLAKE_LOCAL_FILES", "true"),
        }
    }

    /// A path that is free: as the catalog knows it, and its file.
    fn next_path(&mut self, kind: &str) -> (String, PathBuf) {
        self.written += 1;
        let path = format!("{}/data/{kind}-{}", self.catalog.data_path, self.written);
        let file = self.file(&path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        (path, file)
    }

    /// The file behind a path.
    pub fn file(&self, path: &str) -> PathBuf {
        match &self.store {
            Some(store) => store.file(path),
            None => PathBuf::from(path),
        }
    }

    /// Applies an operation of an alter request, and keeps the book of added columns.
    pub async fn alter(&mut self, op: serde_json::Value) {
        self.try_alter(op).await.unwrap();
    }

    /// The same for an operation that may be refused.
    pub async fn try_alter(&mut self, op: serde_json::Value) -> Result<(), hoglake_catalog::Error> {
        let request: AlterRequest = serde_json::from_value(serde_json::json!({"ops": [op]})).unwrap();
        let (namespace, table) = ("ns".to_owned(), "t".to_owned());
        self.worker.catalog.table_alter("demo", namespace, table, request, None, None).await?;
        self.added = sqlx::query_as(
            "select field_id::bigint, name, type::text from table_column where field_id > 2 and end_snapshot is null
             order by field_id",
        )
        .fetch_all(&self.pool)
        .await
        .unwrap();
        Ok(())
    }

    /// Writes a Parquet file with these rows, and numbers made of them in the added columns; not registered yet.
    pub fn write(&mut self, rows: &[(i64, Option<&str>)]) -> FileRegistration {
        let id = |field: i32| HashMap::from([("PARQUET:field_id".to_owned(), field.to_string())]);
        let mut fields = vec![
            Field::new("id", DataType::Int64, false).with_metadata(id(1)),
            Field::new("name", DataType::Utf8, true).with_metadata(id(2)),
        ];
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.0))),
            Arc::new(StringArray::from_iter(rows.iter().map(|r| r.1))),
        ];
        for (field, name, ty) in &self.added {
            // the same text in every type that the column may be promoted to
            let small = rows.iter().map(|r| (r.0 % 3 != 0).then_some((r.0 % 1000 - field) as i32));
            let quarters = small.clone().map(|v| v.map(|v| f64::from(v) / 4.0));
            let (ty, column): (_, ArrayRef) = match ty.as_str() {
                "int" => (DataType::Int32, Arc::new(Int32Array::from_iter(small))),
                "long" => (DataType::Int64, Arc::new(Int64Array::from_iter(small.map(|v| v.map(i64::from))))),
                "float" => {
                    (DataType::Float32, Arc::new(Float32Array::from_iter(quarters.map(|v| v.map(|v| v as f32)))))
                }
                "double" => (DataType::Float64, Arc::new(Float64Array::from_iter(quarters))),
                "string" => (DataType::Utf8, Arc::new(StringArray::from_iter(small.map(|v| v.map(|v| v.to_string()))))),
                other => panic!("no values of type {other}"),
            };
            fields.push(Field::new(name, ty, true).with_metadata(id(i32::try_from(*field).unwrap())));
            columns.push(column);
        }
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        let (path, file) = self.next_path("file");
        let mut writer = ArrowWriter::try_new(std::fs::File::create(&file).unwrap(), schema, None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        FileRegistration {
            file_size_bytes: i64::try_from(std::fs::metadata(&file).unwrap().len()).unwrap(),
            path,
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
        self.register_in("t", files).await
    }

    pub async fn register_in(&self, table: &str, files: Vec<FileRegistration>) -> i64 {
        let append =
            TableAppend { namespace: "ns".to_owned(), table: table.to_owned(), expected_table_uuid: None, files };
        let request = CommitRequest { appends: vec![append], ..CommitRequest::default() };
        self.worker.catalog.commit("demo", request, None).await.unwrap().snapshot.unwrap().0
    }

    /// More tables, `t2` and so on to `t{last}`, whose column `id` has this type.
    pub async fn add_tables(&self, last: i64, id: &str) {
        let sql = format!(
            "insert into table_identity (catalog_id, table_id, table_uuid, created_snapshot, ddl_snapshot,
               last_namespace, last_name, next_field_id)
               select 1, n, gen_random_uuid(), 1, 1, 'ns', 't' || n, 3 from generate_series(2, {last}) n;
             insert into table_counter (catalog_id, table_id) select 1, n from generate_series(2, {last}) n;
             insert into table_version (catalog_id, table_id, begin_snapshot, namespace_id, name)
               select 1, n, 1, 1, 't' || n from generate_series(2, {last}) n;
             insert into table_column (catalog_id, table_id, field_id, begin_snapshot, name, type, nullable, ordinal)
               select 1, n, 1, 1, 'id', '{id}'::column_type, false, 0 from generate_series(2, {last}) n
               union all select 1, n, 2, 1, 'name', 'string', true, 1 from generate_series(2, {last}) n"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&self.pool).await.unwrap();
    }

    /// Replaces the vector of a file by one with all of `positions`.
    pub async fn delete(&mut self, data_file_id: i64, positions: &BTreeSet<u64>) -> i64 {
        let (path, file) = self.next_path("vector");
        let data_file: String = sqlx::query_scalar("select path from data_file where data_file_id = $1")
            .bind(data_file_id)
            .fetch_one(&self.pool)
            .await
            .unwrap();
        let bytes = puffin::write(&DeletionVector::from_positions(positions.iter().copied()), &data_file).unwrap();
        std::fs::write(&file, &bytes).unwrap();
        let vector = DeleteFileRegistration {
            data_file_id,
            path,
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

    /// What the table shows at a snapshot, read from the files: the columns that were live then, by field id.
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
        let live: BTreeSet<i64> = sqlx::query_scalar(
            "select field_id::bigint from table_column
             where table_id = 1 and begin_snapshot <= $1 and (end_snapshot is null or $1 < end_snapshot)",
        )
        .bind(snapshot)
        .fetch_all(&self.pool)
        .await
        .unwrap()
        .into_iter()
        .collect();
        let mut rows: Vec<Row> = files.iter().flat_map(|file| self.read_file(file, &live)).collect();
        rows.sort();
        rows
    }

    /// The row ids of a live file by position, deleted ones included.
    pub async fn row_ids_of(&self, data_file_id: i64) -> Vec<i64> {
        let file: VisibleFile = sqlx::query_as(
            "select path, row_id_start, explicit_row_ids, null::text from data_file where data_file_id = $1",
        )
        .bind(data_file_id)
        .fetch_one(&self.pool)
        .await
        .unwrap();
        self.read_file(&file, &BTreeSet::new()).into_iter().map(|(row_id, _)| row_id).collect()
    }

    /// Passes on every claim, as time would.
    pub async fn let_claims_end(&self) {
        self.execute(
            "update file_removal set claimed_until = now() - interval '1 second' where claimed_until is not null;
             update compaction_claim set claimed_until = now() - interval '1 second';
             update compaction_failure set next_attempt_at = now();
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
        let known: BTreeSet<PathBuf> = known.iter().map(|path| self.file(path)).collect();
        let root = self.store.as_ref().map_or(self.folder.path(), ObjectStore::root);
        let found = files_below(&root.join("lake")).into_iter().filter(|path| !known.contains(path));
        found.map(|path| path.to_str().unwrap().to_owned()).collect()
    }

    /// The audit trail so far.
    pub fn audit(&self) -> Vec<serde_json::Value> {
        self.worker.audit.flush();
        let text = std::fs::read_to_string(self.folder.path().join("audit.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub async fn compact(&self) -> i64 {
        self.worker.compact(&self.catalog, 10, false, Trigger::Request).await.unwrap().groups_compacted
    }
}

/// Files of this machine, and an S3: this one, or one that never answers.
fn stores(objects: Option<&ObjectStore>) -> StoreConfig {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let nobody = || S3Config {
        endpoint: Some("http://127.0.0.1:9".to_owned()),
        credentials: Some(("key".to_owned(), Secret::new("secret"))),
        ..S3Config::default()
    };
    StoreConfig { local_fsync: false, s3: objects.map_or_else(nobody, ObjectStore::config), ..StoreConfig::local() }
}

impl Lake {
    /// The rows of a file without those of its vector; row ids as the catalog defines them.
    fn read_file(&self, (path, start, explicit, vector): &VisibleFile, live: &BTreeSet<i64>) -> Vec<Row> {
        let deleted =
            vector.as_ref().map(|path| puffin::read(&std::fs::read(self.file(path)).unwrap()).unwrap().vector);
        let file = std::fs::File::open(self.file(path)).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        let mut rows = Vec::new();
        let mut position = 0_u64;
        for batch in reader {
            let batch = batch.unwrap();
            let row_ids =
                explicit.then(|| batch.column_by_name("_hog_row_id").unwrap().as_primitive::<Int64Type>().clone());
            let schema = batch.schema();
            let id = |field: &Field| field.metadata()["PARQUET:field_id"].parse::<i64>().unwrap();
            let columns = schema.fields().iter().map(|field| id(field)).zip(batch.columns());
            let columns: Vec<_> = columns
                .filter(|(field, _)| live.contains(field))
                .map(|(field, column)| (field, cast(column, &DataType::Utf8).unwrap()))
                .collect();
            for i in 0..batch.num_rows() {
                let row_id = row_ids.as_ref().map_or(start + i64::try_from(position).unwrap(), |ids| ids.value(i));
                if !deleted.as_ref().is_some_and(|d| d.contains(position)) {
                    let values = columns.iter().filter(|(_, column)| !column.is_null(i));
                    let values = values.map(|(field, column)| (*field, column.as_string::<i32>().value(i).to_owned()));
                    rows.push((row_id, values.collect()));
                }
                position += 1;
            }
        }
        rows
    }
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
        Some(path) => puffin::read(&std::fs::read(lake.file(path)).unwrap()).unwrap().vector.iter().collect(),
        None => BTreeSet::new(),
    };
    files.iter().map(|(id, rows, path)| (*id, (u64::try_from(*rows).unwrap(), deleted(path)))).collect()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files_below(&path)) } else { found.push(path) }
    }
    found
}
