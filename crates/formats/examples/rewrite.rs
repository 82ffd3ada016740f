//! Rewrites the Parquet files of a directory into one, for measuring: `rewrite DIR OUT [--sort kind,id] [--memory MIB]`.

use hoglake_formats::parquet::Column;
use hoglake_formats::parquet::footer::RegisteredFile;
use hoglake_formats::parquet::rewrite::{RewriteInput, RewriteOptions, RowIds, SortField, rewrite};
use hoglake_formats::store::{StoreConfig, Stores};
use hoglake_model::{ColumnType, DecimalType, FieldId, Location};
use std::error::Error;

const COLUMNS: [(&str, ColumnType); 10] = [
    ("id", ColumnType::Long),
    ("ts", ColumnType::Timestamp),
    ("user_id", ColumnType::Long),
    ("kind", ColumnType::String),
    ("amount", ColumnType::Double),
    ("price", ColumnType::Decimal(DecimalType { precision: 18, scale: 2 })),
    ("flag", ColumnType::Boolean),
    ("name", ColumnType::String),
    ("payload", ColumnType::String),
    ("day", ColumnType::Date),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (directory, output) = (arguments.next().ok_or("DIR")?, arguments.next().ok_or("OUT")?);
    let mut options = RewriteOptions::default();
    let mut sort = Vec::new();
    while let (Some(flag), Some(value)) = (arguments.next(), arguments.next()) {
        match flag.as_str() {
            "--sort" => {
                for name in value.split(',') {
                    let index = COLUMNS.iter().position(|(n, _)| *n == name).ok_or("no such column")?;
                    let field_id = FieldId(index as i64 + 1);
                    sort.push(SortField { field_id, descending: false, nulls_first: false });
                }
            }
            "--memory" => options.memory_bytes = value.parse::<usize>()? << 20,
            "--zstd" => options.zstd_level = value.parse()?,
            other => return Err(format!("unknown flag {other}").into()),
        }
    }
    let columns: Vec<Column> = COLUMNS
        .iter()
        .zip(1..)
        .map(|((name, ty), id)| Column { field_id: FieldId(id), name: (*name).to_owned(), ty: *ty, nullable: true })
        .collect();
    let stores = Stores::new(StoreConfig { local: true, ..StoreConfig::default() });
    let mut paths: Vec<_> = std::fs::read_dir(directory)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    paths.sort();
    let mut inputs = Vec::new();
    for (index, path) in paths.iter().enumerate() {
        inputs.push(RewriteInput {
            object: stores.open(&Location::parse(path.to_str().ok_or("not UTF-8")?)?)?,
            file: RegisteredFile {
                file_size_bytes: std::fs::metadata(path)?.len(),
                footer_size: None,
                record_count: None,
                max_whole_object_bytes: 1 << 40,
            },
            row_ids: RowIds::Positional(index as i64 * 90_000),
            deletions: None,
            names: Vec::new(),
        });
    }
    let output = stores.open(&Location::parse(&output)?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let rewritten = runtime.block_on(rewrite(inputs, &columns, &sort, &output, &options))?;
    println!("{:?}", rewritten.map(|r| (r.record_count, r.file_size_bytes, r.min_row_id)));
    Ok(())
}
