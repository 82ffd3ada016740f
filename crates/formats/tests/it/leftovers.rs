//! What runs that were killed have left in folders of this machine.

use crate::origin::Origin;
use crate::pairs::run;
use crate::watched::plain;
use hoglake_model::table::TableFormat::{Delta, Hudi, Iceberg};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A file that was last written to so long ago.
fn left(path: &Path, age: Duration) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, "half of it").unwrap();
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
}

#[tokio::test]
async fn abandoned_files_go_with_the_next_commit_and_those_of_live_writers_stay() {
    let (old, recent) = (Duration::from_secs(25 * 3600), Duration::from_secs(23 * 3600));
    for (to, folder) in [(Iceberg, "metadata"), (Hudi, ".hoodie"), (Hudi, ".hoodie/metadata/files")] {
        let temporary = tempfile::tempdir().unwrap();
        let table = temporary.path().join("table");
        let mut origin = Origin::new(&table);
        origin.step(&["a"]);
        run((Delta, to), plain(&table)).await.unwrap();
        let at = |name: &str| table.join(folder).join(name);
        let gone = [at("v9.metadata.json#1"), at("0b5c-m0.avro#12")];
        let kept = [at("v9.metadata.json#2"), at("notes#a"), at("plain"), at("#"), table.join("part-1.parquet#1")];
        gone.iter().for_each(|path| left(path, old));
        kept.iter().for_each(|path| left(path, if path == &kept[0] { recent } else { old }));
        std::fs::create_dir(at("folder#1")).unwrap();
        // A run that commits nothing leaves everything alone.
        run((Delta, to), plain(&table)).await.unwrap();
        assert!(gone.iter().all(|path| path.exists()));
        origin.step(&["b"]);
        run((Delta, to), plain(&table)).await.unwrap();
        assert!(gone.iter().all(|path| !path.exists()), "{folder}");
        assert!(kept.iter().all(|path| path.exists()) && at("folder#1").exists(), "{folder}");
    }
    // Vectors of a Delta target lie beside the data, where others write, too.
    let temporary = tempfile::tempdir().unwrap();
    let (table, log) = (temporary.path().join("table"), temporary.path().join("log"));
    let mut origin = Origin::new(&table);
    origin.step(&["a"]);
    run((Delta, Iceberg), plain(&table)).await.unwrap();
    std::fs::rename(table.join("_delta_log"), &log).unwrap();
    let vector = "deletion_vector_6b0e3d1c-0000-4000-8000-000000000001.bin#1";
    let gone = [table.join("_delta_log/00000000000000000001.json#1"), table.join(vector)];
    let kept = ["part-1.parquet#1", "deletion_vector_of.parquet#3"].map(|name| table.join(name));
    gone.iter().chain(&kept).for_each(|path| left(path, old));
    run((Iceberg, Delta), plain(&table)).await.unwrap();
    assert!(gone.iter().all(|path| !path.exists()) && kept.iter().all(|path| path.exists()));
}
