//! Metadata made to break its reader: `tests/judges/hostile.py` makes the tables. Each is read in a process of its own
//! with little memory; it must end in a typed error, or in a table, and soon.

use crate::corpus::{case, live, root, rows};
use crate::deletes::to_iceberg;
use crate::judges::judge;
use crate::to_iceberg::copy;
use hoglake_formats::delta::{DeltaSource, DeltaTarget, DeltaTargetOptions};
use hoglake_formats::hudi::{HudiOptions, HudiSource};
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource, IcebergTarget, IcebergTargetOptions};
use hoglake_formats::parquet_directory::{ParquetDirectoryOptions, ParquetDirectorySource};
use hoglake_formats::sync::{Mode, Options, Result, Source, Target, sync};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Address space of a reader, which holds its stacks and all that it reads.
const KIBIBYTES: u64 = 2 << 20;
const SOON: Duration = Duration::from_secs(60);
const CASE: &str = "HOGLAKE_HOSTILE_CASE";

/// Reads everything that a conversion reads, and converts into the formats that take made-up files.
async fn read(format: &str, table: &Path) -> Result<()> {
    let source: Box<dyn Source> = match format {
        "DELTA" => Box::new(DeltaSource::new(root(table))),
        "ICEBERG" => Box::new(IcebergSource::new(root(table), IcebergOptions::default())),
        "PARQUET" => Box::new(ParquetDirectorySource::new(root(table), ParquetDirectoryOptions::default())),
        _ => Box::new(HudiSource::new(root(table), HudiOptions::default())),
    };
    let (_, files) = live(source.as_ref()).await?;
    rows(source.as_ref(), &files).await?;
    // Not below a directory of Parquet files, which would find them.
    let (iceberg, delta) = (table.with_extension("to-iceberg"), table.with_extension("to-delta"));
    let targets: [Box<dyn Target>; 2] = [
        Box::new(IcebergTarget::new(root(&iceberg), IcebergTargetOptions::default())),
        Box::new(DeltaTarget::new(root(&delta), DeltaTargetOptions::default())),
    ];
    for mut target in targets.into_iter().filter(|t| t.format().as_str() != format) {
        sync(source.as_ref(), target.as_mut(), &Options::default()).await?;
    }
    Ok(())
}

/// Tables of version 3 whose Puffin vectors have been replaced behind the manifest's back.
async fn with_hostile_vectors(folder: &Path) -> Vec<Value> {
    let mut made = Vec::new();
    let damages: [(&str, fn(&mut Vec<u8>)); 4] = [
        ("truncated-puffin", |bytes| bytes.truncate(8)),
        ("puffin-of-absurd-length", |bytes| bytes[4..8].fill(0xff)),
        // Behind length and magic stands the number of bitmaps; the checksum is made to fit.
        ("puffin-of-absurd-buckets", |bytes| {
            bytes[12..20].fill(0x7f);
            let length = u32::from_be_bytes(bytes[4..8].try_into().unwrap()) as usize;
            let sum = crc32fast::hash(&bytes[8..8 + length]);
            bytes[8 + length..12 + length].copy_from_slice(&sum.to_be_bytes());
        }),
        ("puffin-of-another-checksum", |bytes| bytes[14] ^= 1),
    ];
    for (name, damage) in damages {
        let table = folder.join(name);
        copy(&case("delta", "table-with-dv-small").root, &table);
        to_iceberg(&table, Some(3), Mode::Full).await.unwrap();
        std::fs::remove_dir_all(table.join("_delta_log")).unwrap();
        let mut replaced = 0;
        for entry in std::fs::read_dir(table.join("metadata")).unwrap().map(|e| e.unwrap().path()) {
            if entry.to_str().unwrap().ends_with(".puffin") {
                let mut bytes = std::fs::read(&entry).unwrap();
                damage(&mut bytes);
                std::fs::write(&entry, bytes).unwrap();
                replaced += 1;
            }
        }
        assert_eq!(replaced, 1, "{name}");
        made.push(json!({"name": name, "format": "ICEBERG", "path": table.to_str().unwrap(), "refused": true}));
    }
    made
}

#[test]
fn hostile_metadata_ends_in_typed_errors_within_bounded_memory() {
    if let Ok(case) = std::env::var(CASE) {
        let (format, table) = case.split_once(' ').unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        match runtime.block_on(read(format, Path::new(table))) {
            Ok(()) => println!("\nREAD"),
            Err(error) => println!("\nREFUSED {error}"),
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut failures = Vec::new();
    let cases = judge("hostile.py", &[folder.path().to_str().unwrap()]);
    let mut cases = cases.as_array().unwrap().clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    cases.extend(runtime.block_on(with_hostile_vectors(folder.path())));
    assert!(cases.len() >= 45);
    for case in &cases {
        let text = |key: &str| case[key].as_str().unwrap();
        let test = "hostile::hostile_metadata_ends_in_typed_errors_within_bounded_memory";
        let begun = Instant::now();
        let output = Command::new("sh")
            .args(["-c", &format!("ulimit -v {KIBIBYTES}; exec \"$0\" --exact {test} --nocapture --test-threads 1")])
            .arg(std::env::current_exe().unwrap())
            .env(CASE, format!("{} {}", text("format"), text("path")))
            .env("MALLOC_ARENA_MAX", "2")
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        let verdict = printed.lines().find(|l| l.starts_with("READ") || l.starts_with("REFUSED")).unwrap_or("nothing");
        let ended = if verdict.starts_with("REFUSED") { true } else { verdict == "READ" && case["refused"] == false };
        if !output.status.success() || !ended || verdict.len() > 4096 || begun.elapsed() > SOON {
            let errors = String::from_utf8_lossy(&output.stderr);
            let place = errors.lines().find(|l| l.contains("panicked") || l.contains("memory")).unwrap_or_default();
            failures.push(format!("{} after {:?}: {verdict:.300} {place}", text("name"), begun.elapsed()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
