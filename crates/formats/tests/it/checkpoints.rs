//! Checkpoints that a Delta target writes after those of others.

use crate::corpus::case;
use crate::judges::see;
use crate::to_iceberg::copy;
use crate::watched::plain;
use hoglake_formats::delta::{DeltaSource, DeltaTarget, DeltaTargetOptions};
use hoglake_formats::iceberg::{IcebergOptions, IcebergSource, IcebergTarget, IcebergTargetOptions};
use hoglake_formats::sync::{Mode, Options, sync};

#[tokio::test]
async fn a_checkpoint_after_one_with_sidecars_holds_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let case = case("delta", "checkpoint-v2-table");
    let table = folder.path().join("table");
    copy(&case.root, &table);
    let mut iceberg = IcebergTarget::new(plain(&table), IcebergTargetOptions::default());
    sync(&DeltaSource::new(plain(&table)), &mut iceberg, &Options::default()).await.unwrap();
    // Its last checkpoint is that of version 8, JSON with a sidecar; version 10 gets the next one.
    let source = IcebergSource::new(plain(&table), IcebergOptions::default());
    let mut delta = DeltaTarget::new(plain(&table), DeltaTargetOptions::default());
    let full = Options { mode: Mode::Full, ..Options::default() };
    let report = sync(&source, &mut delta, &full).await.unwrap();
    let committed = &report.steps[0].committed;
    assert_eq!((committed.version.as_str(), committed.added, committed.removed), ("10", 0, 0));
    let log = table.join("_delta_log");
    assert!(log.join("00000000000000000010.checkpoint.parquet").exists());
    // As after the log's clean-up.
    for version in 0..10 {
        std::fs::remove_file(log.join(format!("{version:020}.json"))).unwrap();
    }
    let asked = [&case.root, &table].map(|table| ("delta", table.to_str().unwrap().to_owned()));
    let seen = see(folder.path(), &asked);
    assert_eq!(seen[0]["delta-rs"].as_array().map(Vec::len), case.expected["rows"].as_u64().map(|n| n as usize));
    for reader in ["delta-rs", "duckdb"] {
        assert_eq!(seen[1][reader], seen[0][reader], "{reader} {}", seen[1]["error"]);
    }
}
