//! Converts one local table to Hudi in place: `to_hudi delta|parquet FOLDER`. What `tests/spark` lets Spark judge.

use hoglake_formats::delta::DeltaSource;
use hoglake_formats::hudi::HudiTarget;
use hoglake_formats::parquet_directory::{ParquetDirectoryOptions, ParquetDirectorySource};
use hoglake_formats::store::{StoreConfig, Stores};
use hoglake_formats::sync::{Options, Source, TableRoot, sync};
use hoglake_model::Location;
use std::sync::Arc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, format, folder] = arguments.as_slice() else { return Err("usage: to_hudi delta|parquet FOLDER".into()) };
    let root = TableRoot::open(&Arc::new(Stores::new(StoreConfig::local())), Location::parse(folder)?)?;
    let source: Box<dyn Source> = match format.as_str() {
        "delta" => Box::new(DeltaSource::new(root.clone())),
        "parquet" => Box::new(ParquetDirectorySource::new(root.clone(), ParquetDirectoryOptions::default())),
        other => return Err(format!("{other} is neither delta nor parquet").into()),
    };
    let report = sync(source.as_ref(), &mut HudiTarget::new(root), &Options::default()).await?;
    println!("{report:?}");
    Ok(())
}
