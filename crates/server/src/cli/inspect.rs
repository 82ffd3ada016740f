//! `hoglake inspect`

use super::failure::Failure;
use super::serve::runtime;
use super::stdout::say;
use super::sync::absolute;
use crate::config::stores::StoresConfig;
use crate::conversion::{self, Place, SourceOptions, TargetOptions};
use chrono::SecondsFormat;
use futures::TryStreamExt;
use hoglake_formats::sync::{self, TableRoot, Versions};
use hoglake_model::FieldId;
use hoglake_model::table::{ColumnStats, RowDeletes, TableFormat, TableState, Unsupported, Version};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Settings of `inspect`.
#[derive(Debug, clap::Args)]
pub(super) struct Inspect {
    /// The table: its root, its metadata folder, or one Iceberg metadata file
    path: String,
    /// Look at the table of this format only
    #[arg(long, value_name = "FORMAT")]
    source: Option<String>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    stores: StoresConfig,
}

impl Inspect {
    pub(super) fn run(self) -> Result<(), Failure> {
        let stores = self.stores.open()?;
        runtime(0)?.block_on(async {
            let what = || format!("inspect {}", self.path);
            let place = Place::parse(&absolute(&self.path)).map_err(|e| Failure::at(what(), e))?;
            let formats = match &self.source {
                Some(name) => {
                    let format = TableFormat::parse(name);
                    vec![format.ok_or_else(|| Failure::at(what(), format!("{name} is no table format")))?]
                }
                None => {
                    let root = TableRoot::open(&stores, place.root.clone()).map_err(|e| Failure::at(what(), e))?;
                    conversion::detect(&root).await.map_err(|e| Failure::at(what(), e))?
                }
            };
            let mut tables = Vec::new();
            for format in formats {
                let source = conversion::open_source(
                    format,
                    &stores,
                    &place,
                    &SourceOptions { read_optimised: true, ..SourceOptions::default() },
                );
                let source = source.map_err(|e| Failure::at(what(), e))?;
                let (mut table, deletes) = describe(source.as_ref()).await.map_err(|e| Failure::at(what(), e))?;
                let head = source.head().await.map_err(|e| Failure::at(what(), e))?;
                let mut losses = serde_json::Map::new();
                for target in TARGETS.into_iter().filter(|t| *t != format) {
                    let options = TargetOptions::default();
                    let target_table = conversion::open_target(target, &stores, &place.root, &options);
                    let target_table = target_table.map_err(|e| Failure::at(what(), e))?;
                    let mut items: Vec<_> = target_table.unsupported(&head).iter().map(ToString::to_string).collect();
                    items.extend(deletes.iter().filter_map(|found| found.unsupported(target)));
                    losses.insert(target.as_str().to_owned(), json!(items));
                }
                table["cannot-express"] = Value::Object(losses);
                tables.push(table);
            }
            if self.json {
                say!("{}", json!({ "path": place.root.to_string(), "tables": tables }));
            } else {
                tables.iter().for_each(print);
            }
            Ok(())
        })
    }
}

/// The formats that tables are converted to.
const TARGETS: [TableFormat; 3] = [TableFormat::Iceberg, TableFormat::Delta, TableFormat::Hudi];

/// Row-level deletes of one kind.
#[derive(Default)]
struct Deletes {
    count: u64,
    first: Option<RowDeletes>,
}

impl Deletes {
    /// What a target says of them.
    fn unsupported(&self, target: TableFormat) -> Option<String> {
        let found = Unsupported::deletes(target, self.first.as_ref()?)?;
        let more = self.count - 1;
        Some(if more == 0 { found.to_string() } else { format!("{found}; so are {more} more deletes of this kind") })
    }
}

/// What is there, and its deletes: vectors, position files, equality files and log files.
async fn describe(source: &dyn sync::Source) -> sync::Result<(Value, [Deletes; 4])> {
    let head = source.head().await?;
    let (mut files, mut bytes, mut records, mut unknown) = (0_u64, 0_u64, 0_u64, 0_u64);
    let (mut kinds, mut with_stats): ([Deletes; 4], u64) = Default::default();
    let mut known = BTreeMap::new();
    let mut stream = source.snapshot(&head).await?.files;
    while let Some(batch) = stream.try_next().await? {
        for file in batch {
            files += 1;
            bytes += file.size_bytes.unwrap_or(0);
            match file.record_count {
                Some(count) => records += count,
                None => unknown += 1,
            }
            with_stats += u64::from(file.columns.iter().any(has_bounds));
            file.columns.iter().for_each(|column| note(&mut known, column));
            let [vectors, positions, equality, logs] = &mut kinds;
            for deletes in &file.deletes {
                let kind = match deletes {
                    RowDeletes::Vector(_) => &mut *vectors,
                    RowDeletes::Positions(_) => &mut *positions,
                    RowDeletes::Equality(_) => &mut *equality,
                    RowDeletes::Log(_) => &mut *logs,
                };
                kind.count += 1;
                kind.first.get_or_insert_with(|| deletes.clone());
            }
        }
    }
    let [vectors, positions, equality, logs] = kinds.each_ref().map(|kind| kind.count);
    let table = json!({
        "format": head.format.as_str(),
        "table-id": head.table_id,
        "version": head.version.id.0,
        "committed-at-ms": head.version.timestamp_ms,
        "schema": columns(&head),
        "partitioning": partitioning(&head),
        "versions": retained(&source.versions().await?),
        "statistics": {"records": records, "size-bytes": bytes, "columns": told(&head, &known)},
        "files": {"count": files, "size-bytes": bytes, "records": records, "without-record-count": unknown,
                  "with-bounds": with_stats},
        "deletes": {"vectors": vectors, "position-files": positions, "equality-files": equality, "log-files": logs},
        "warnings": head.warnings,
    });
    Ok((table, kinds))
}

fn has_bounds(column: &ColumnStats) -> bool {
    column.lower.is_some() || column.upper.is_some()
}

/// Counts a file for what it tells of a column: bounds, and how many nulls there are.
fn note(known: &mut BTreeMap<FieldId, [u64; 2]>, column: &ColumnStats) {
    let [bounds, nulls] = known.entry(column.field).or_default();
    *bounds += u64::from(has_bounds(column));
    *nulls += u64::from(column.null_count.is_some());
}

/// In how many files which columns have statistics.
fn told(head: &TableState, known: &BTreeMap<FieldId, [u64; 2]>) -> Vec<Value> {
    let column = |(id, [bounds, nulls]): (&FieldId, &[u64; 2])| {
        let path = head.schema.path(*id)?.join(".");
        Some(json!({"column": path, "files-with-bounds": bounds, "files-with-null-counts": nulls}))
    };
    known.iter().filter_map(column).collect()
}

fn retained(versions: &Versions) -> Value {
    let one = |version: &Version| json!({"version": version.id.0, "committed-at-ms": version.timestamp_ms});
    json!({"count": versions.count, "oldest": one(&versions.oldest), "newest": one(&versions.newest)})
}

fn columns(head: &TableState) -> Vec<Value> {
    head.schema
        .fields
        .iter()
        .map(|f| json!({"id": f.id.0, "name": f.name, "type": f.ty.to_string(), "required": f.required, "comment": f.doc}))
        .collect()
}

fn partitioning(head: &TableState) -> Vec<String> {
    let Some(spec) = head.spec(head.default_spec) else { return Vec::new() };
    let field = |f: &hoglake_model::table::PartitionField| {
        let column = head.schema.path(f.source).map_or_else(|| format!("field {}", f.source), |p| p.join("."));
        format!("{}({column})", f.transform)
    };
    spec.fields.iter().map(field).collect()
}

fn print(table: &Value) {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    say!("{} table, version {}", text(&table["format"]), text(&table["version"]));
    say!("columns:");
    for column in table["schema"].as_array().into_iter().flatten() {
        let required = if column["required"] == json!(true) { " not null" } else { "" };
        say!("  {:>5} {}: {}{required}", column["id"], text(&column["name"]), text(&column["type"]));
    }
    let fields: Vec<_> = table["partitioning"].as_array().into_iter().flatten().map(text).collect();
    say!("partitioned by: {}", if fields.is_empty() { "nothing".to_owned() } else { fields.join(", ") });
    let versions = &table["versions"];
    let [oldest, newest] = ["oldest", "newest"].map(|which| {
        let millis = versions[which]["committed-at-ms"].as_i64().and_then(chrono::DateTime::from_timestamp_millis);
        let time =
            millis.map_or_else(|| "at an unknown time".to_owned(), |t| t.to_rfc3339_opts(SecondsFormat::Millis, true));
        format!("{} ({time})", text(&versions[which]["version"]))
    });
    match versions["count"].as_u64() {
        Some(1) => say!("versions kept: {newest}"),
        _ => say!("versions kept: {}, from {oldest} to {newest}", versions["count"]),
    }
    let files = &table["files"];
    say!(
        "files: {}, {} bytes, {} records ({} files do not say), {} with bounds",
        files["count"],
        files["size-bytes"],
        files["records"],
        files["without-record-count"],
        files["with-bounds"]
    );
    for column in table["statistics"]["columns"].as_array().into_iter().flatten() {
        say!(
            "statistics of {}: bounds in {} of {} files, null counts in {}",
            text(&column["column"]),
            column["files-with-bounds"],
            files["count"],
            column["files-with-null-counts"]
        );
    }
    let deletes = &table["deletes"];
    say!(
        "files with deletes: {} vectors, {} position deletes, {} equality deletes, {} log files",
        deletes["vectors"],
        deletes["position-files"],
        deletes["equality-files"],
        deletes["log-files"]
    );
    for (target, items) in table["cannot-express"].as_object().into_iter().flatten() {
        for item in items.as_array().into_iter().flatten() {
            say!("{target}: {}", text(item));
        }
    }
    for warning in table["warnings"].as_array().into_iter().flatten() {
        say!("warning: {}", text(warning));
    }
}
