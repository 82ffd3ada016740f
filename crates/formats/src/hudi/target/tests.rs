//! Tables of ours into which Hudi has written, too.

use super::super::metadata_writer::{self, Changes};
use super::super::{HudiOptions, HudiSource};
use super::*;
use crate::parquet_directory::{ParquetDirectoryOptions, ParquetDirectorySource};
use crate::store::{StoreConfig, Stores};
use crate::sync::{Mode, Options, Source, sync};
use futures::TryStreamExt;
use hoglake_model::Location;
use std::path::Path;
use std::sync::Arc;

fn root(path: &Path) -> TableRoot {
    let config = StoreConfig { local_fsync: false, ..StoreConfig::local() };
    TableRoot::open(&Arc::new(Stores::new(config)), Location::parse(path.to_str().unwrap()).unwrap()).unwrap()
}

fn place(folder: &Path, key: &str) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/corpus/parquet/rapids-partitioned-parquet/table");
    let file = "partKey=100/part-00000-7404bd47-cd68-43cf-b78e-5f1c5fba912d.c000.snappy.parquet";
    std::fs::copy(from.join(file), folder.join(key)).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    std::fs::File::options().write(true).open(folder.join(key)).unwrap().set_modified(time).unwrap();
}

async fn follow(folder: &Path) {
    let source = ParquetDirectorySource::new(root(folder), ParquetDirectoryOptions::default());
    let options = Options { mode: Mode::Full, ..Options::default() };
    sync(&source, &mut HudiTarget::new(root(folder)), &options).await.unwrap();
}

/// The paths of the live files, each as often as the table shows it.
async fn shown(folder: &Path) -> Vec<String> {
    let source = HudiSource::new(root(folder), HudiOptions::default());
    let head = source.head().await.unwrap();
    let files: Vec<_> = source.snapshot(&head).await.unwrap().files.try_collect().await.unwrap();
    let mut paths: Vec<_> = files.into_iter().flatten().map(|file| file.path.as_str().to_owned()).collect();
    paths.sort();
    paths
}

#[tokio::test]
async fn a_full_sync_shows_each_file_once_and_nothing_of_hudis() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    // A file of a group that Hudi made, which the source has too; one of a group that nobody else knows; and a newer file
    // in the group of one of ours.
    let [both, alone, newer] =
        ["g-0_0-1-2", "h-0_0-1-2", "a.parquet_0-1-2"].map(|n| format!("{n}_20260101000000000.parquet"));
    place(path, "a.parquet");
    place(path, &both);
    follow(path).await;
    assert_eq!(shown(path).await, ["a.parquet", both.as_str()]);

    place(path, &alone);
    place(path, &newer);
    let instant = "20260101000000000";
    let names = timeline::names(&root(path), FOLDER).await.unwrap();
    let before = Timeline::new(FOLDER, names.into_iter(), Layout::One);
    let size = std::fs::metadata(path.join(&both)).unwrap().len();
    let files = [&both, &alone, &newer].map(|name| (name.clone(), Some(size)));
    let changes = Changes::from([(String::new(), files.into_iter().collect())]);
    metadata_writer::append(&root(path), &before, instant, &changes).await.unwrap();
    let commit = r#"{"partitionToWriteStats":{},"compacted":false,"extraMetadata":{},"operationType":"INSERT"}"#;
    for (end, content) in [(".requested", ""), (".inflight", ""), ("", commit)] {
        let action = if end == ".inflight" { String::new() } else { ".commit".to_owned() };
        std::fs::write(path.join(format!(".hoodie/{instant}{action}{end}")), content).unwrap();
    }
    assert_eq!(shown(path).await, [&newer, &both, &both, &alone].map(String::as_str));

    std::fs::remove_file(path.join(&alone)).unwrap();
    std::fs::remove_file(path.join(&newer)).unwrap();
    follow(path).await;
    assert_eq!(shown(path).await, ["a.parquet", both.as_str()]);
    std::fs::remove_file(path.join("a.parquet")).unwrap();
    follow(path).await;
    assert_eq!(shown(path).await, [both.as_str()]);
}
