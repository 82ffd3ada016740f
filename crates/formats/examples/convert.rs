//! Converts one local table: `convert delta|iceberg|hudi|parquet ICEBERG|DELTA|HUDI FOLDER [TARGET_FOLDER]`. For profiling
//! the engine without the server around it.

use hoglake_formats::delta::{DeltaSource, DeltaTarget, DeltaTargetOptions};
use hoglake_formats::hudi::{HudiOptions, HudiSource, HudiTarget};
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource, IcebergTarget, IcebergTargetOptions};
use hoglake_formats::parquet_directory::{ParquetDirectoryOptions, ParquetDirectorySource};
use hoglake_formats::store::{StoreConfig, Stores};
use hoglake_formats::sync::{Options, Source, TableRoot, Target, sync};
use hoglake_model::Location;
use std::sync::Arc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, folder, rest @ ..] = arguments.as_slice() else {
        return Err("usage: convert FROM TO FOLDER".into());
    };
    let stores = Arc::new(Stores::new(StoreConfig::local()));
    let root = TableRoot::open(&stores, Location::parse(folder)?)?;
    let other = TableRoot::open(&stores, Location::parse(rest.first().unwrap_or(folder))?)?;
    let source: Box<dyn Source> = match from.as_str() {
        "delta" => Box::new(DeltaSource::new(root)),
        "iceberg" => Box::new(IcebergSource::new(root, IcebergOptions::default())),
        "hudi" => Box::new(HudiSource::new(root, HudiOptions::default())),
        _ => Box::new(ParquetDirectorySource::new(root, ParquetDirectoryOptions::default())),
    };
    let mut target: Box<dyn Target> = match to.as_str() {
        "delta" => Box::new(DeltaTarget::new(other, DeltaTargetOptions::default())),
        "iceberg" => Box::new(IcebergTarget::new(other, IcebergTargetOptions::default())),
        _ => Box::new(HudiTarget::new(other)),
    };
    let begun = std::time::Instant::now();
    let report = sync(source.as_ref(), target.as_mut(), &Options::default()).await?;
    println!("{:?} {:?} {} commits", begun.elapsed(), report.plan, report.steps.len());
    Ok(())
}
