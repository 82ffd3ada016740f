//! `hoglake restore-check`: every kind of finding, on a real folder of real files, from the database and over a server.

use crate::maintenance::lake::Lake;
use crate::stage;
use bytes::Bytes;
use futures::stream;
use hoglake_formats::store::{StoreConfig, Stores};
use hoglake_server::restore_check::{self, CheckError, Kind, Report, Status, Workplace};
use hoglake_server::worker::Trigger;
use hoglake_testkit::server::{ServerCommand, ServerProcess};
use indicatif::ProgressBar;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Runs the command; its exit status, its standard output and its standard error.
async fn run(command: ServerCommand) -> (i32, String, String) {
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn command(lake: &Lake) -> ServerCommand {
    ServerCommand::new("restore-check").database(lake.database.url()).arg("demo")
}

async fn check(lake: &Lake) -> (i32, Value) {
    let (status, stdout, stderr) = run(command(lake).arg("--json")).await;
    (status, serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}{stderr}")))
}

fn objects(report: &Value, kind: &str) -> u64 {
    let found = if report[kind].is_object() { &report[kind] } else { &report["unlisted"][kind] };
    found["objects"].as_u64().unwrap_or_else(|| panic!("no {kind}: {report}"))
}

/// `(listed, retained, queued, staged, orphans)`.
fn counts(report: &Value) -> [u64; 5] {
    ["listed", "retained", "queued", "staged", "orphans"].map(|kind| objects(report, kind))
}

async fn path_of(lake: &Lake, id: i64) -> PathBuf {
    let path: String = sqlx::query_scalar(
        "select path from data_file where data_file_id = $1 union all select path from delete_file where delete_file_id = $1",
    )
    .bind(id)
    .fetch_one(&lake.pool)
    .await
    .unwrap();
    path.into()
}

/// Five files, of which four were compacted into one; a vector; nothing expired.
async fn compacted() -> Lake {
    let mut lake = Lake::new(false).await;
    for i in 0..4 {
        lake.append(&[(i, Some("a")), (i + 100, None)]).await;
    }
    assert_eq!(lake.compact().await, 1);
    lake.append(&[(7, Some("x")), (8, Some("y"))]).await;
    let id = lake.number("select max(data_file_id) from data_file").await;
    lake.delete(id, &BTreeSet::from([1])).await;
    lake
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_catalog_is_whole_and_what_is_unlisted_is_told_apart() {
    let mut lake = compacted().await;
    let (status, report) = check(&lake).await;
    assert_eq!((status, &report["status"]), (0, &"whole".into()), "{report}");
    assert_eq!(counts(&report), [3, 4, 0, 0, 0]);
    assert_eq!((&report["head_moved_to"], report["tables"].as_u64()), (&Value::Null, Some(1)));

    // The inputs expire: they wait for removal. One of them goes too early, which does no harm.
    lake.age(1).await;
    while lake.worker.expire(&lake.catalog, 100, false, Trigger::Request).await.unwrap().snapshots_expired > 0 {}
    let (status, report) = check(&lake).await;
    assert_eq!((status, counts(&report)), (0, [3, 0, 4, 0, 0]), "{report}");
    std::fs::remove_file(path_of_queued(&lake).await).unwrap();
    // An output that a compaction left behind, and a file that was written and never committed.
    let staged = lake.write(&[(1, None)]).path;
    sqlx::query(
        "insert into file_removal (catalog_id, path, kind, reason) values (1, $1, 'data', 'compaction_staging')",
    )
    .bind(&staged)
    .execute(&lake.pool)
    .await
    .unwrap();
    let lost = lake.write(&[(1, None)]).path;
    let old = lake.write(&[(1, None)]).path;
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(86_400);
    std::fs::File::options().write(true).open(&old).unwrap().set_modified(long_ago).unwrap();
    let (status, report) = check(&lake).await;
    assert_eq!((status, &report["status"], counts(&report)), (4, &"orphans".into(), [3, 0, 3, 1, 2]), "{report}");
    assert_eq!(report["already_removed"], 1);
    assert_eq!(report["unlisted"]["orphans_after_head"]["objects"], 1, "the other one is older than head");
    let samples = report["unlisted"]["orphans"]["samples"].as_array().unwrap();
    assert_eq!(
        BTreeSet::from_iter(samples.iter().map(|s| s["path"].as_str().unwrap())),
        BTreeSet::from([&*lost, &*old])
    );

    // It deleted nothing.
    for path in [staged, lost, old] {
        assert!(std::fs::exists(path).unwrap());
    }
    lake.verified().await;
}

async fn path_of_queued(lake: &Lake) -> String {
    sqlx::query_scalar("select path from file_removal where settled_at is null limit 1")
        .fetch_one(&lake.pool)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_named_and_told_from_lost_history() {
    let lake = compacted().await;
    let live = lake.number("select max(data_file_id) from data_file where end_snapshot is null").await;
    let vector = lake.number("select delete_file_id from delete_file").await;
    let (data, vector_path) = (path_of(&lake, live).await, path_of(&lake, vector).await);
    std::fs::remove_file(&data).unwrap();
    std::fs::write(&vector_path, b"short").unwrap();
    std::fs::remove_file(path_of(&lake, 1).await).unwrap();
    std::fs::write(path_of(&lake, 2).await, b"x").unwrap();
    let (status, report) = check(&lake).await;
    assert_eq!((status, &report["status"]), (3, &"damaged".into()));
    let kinds = ["missing", "size_mismatch", "history_missing", "history_size_mismatch"];
    assert_eq!(kinds.map(|kind| objects(&report, kind)), [1, 1, 1, 1], "{report}");
    assert_eq!(counts(&report), [1, 2, 0, 0, 0]);
    let missing = &report["missing"]["samples"][0];
    assert_eq!(
        (&missing["path"], &missing["table"], &missing["kind"], missing["id"].as_i64()),
        (&data.to_str().unwrap().into(), &"ns.t".into(), &"data".into(), Some(live))
    );
    let mismatch = &report["size_mismatch"]["samples"][0];
    assert_eq!((&mismatch["kind"], &mismatch["stored_bytes"]), (&"delete".into(), &5.into()));

    // The text names the same, with what to do; the file of findings has every object that is not listed.
    let findings = lake.folder.path().join("findings.jsonl");
    let (status, stdout, stderr) =
        run(command(&lake).arg("--samples").arg("1").arg("--findings").arg(findings.to_str().unwrap())).await;
    assert_eq!(status, 3, "{stderr}");
    assert!(stderr.contains("lacks what the catalog needs"), "{stderr}");
    for part in ["missing", "of ns.t", "data loss", "(51 bytes", "5 stored", "retained history"] {
        let wanted = if part == "(51 bytes" { "bytes registered" } else { part };
        assert!(stdout.contains(wanted), "{wanted}: {stdout}");
    }
    let lines = std::fs::read_to_string(&findings).unwrap();
    let found: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(found.len(), 6);
    assert_eq!(found.iter().filter(|f| f["finding"] == "retained").count(), 2);
}

async fn server(lake: &Lake) -> ServerProcess {
    let command = ServerCommand::serve().database(lake.database.url());
    tokio::task::spawn_blocking(move || command.start()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_gives_the_same_answer() {
    let lake = compacted().await;
    std::fs::remove_file(path_of(&lake, 1).await).unwrap();
    let server = server(&lake).await;
    let remote = |catalog: &str| {
        let url = format!("http://{}", server.address());
        ServerCommand::new("restore-check").arg(catalog).arg("--json").arg("--server").arg(url)
    };
    let (status, stdout, _) = run(remote("demo")).await;
    assert_eq!((status, serde_json::from_str::<Value>(&stdout).unwrap()), check(&lake).await);
    let (status, stdout, stderr) = run(remote("absent")).await;
    assert_eq!((status, stdout.as_str()), (1, ""));
    assert!(stderr.contains("absent"), "{stderr}");
    let (status, _, stderr) = run(command(&lake).arg("--findings").arg("/nowhere/findings")).await;
    assert_eq!(status, 1);
    assert!(stderr.contains("--findings"), "{stderr}");
}

/// Compares a manifest of this text with the files below `folder`, in little memory.
async fn compare(text: String, folder: &std::path::Path) -> Result<Report, CheckError> {
    let workplace = Workplace { temp_dir: folder.to_owned(), sort_bytes: 256, progress: ProgressBar::hidden() };
    let pieces: Vec<Result<Bytes, String>> =
        text.as_bytes().chunks(7).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let manifest = restore_check::read(stream::iter(pieces), workplace.clone()).await?;
    let stores = Stores::new(StoreConfig::local());
    let listing = restore_check::list(&stores, &manifest.data_path, workplace).await?;
    restore_check::compare(manifest, listing, 3, None)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_in_memory_is_compared_all_the_same() {
    let folder = stage::folder();
    let lake = folder.path().join("lake");
    std::fs::create_dir_all(lake.join("a b/ü%20")).unwrap();
    let path = |n: usize| lake.join(format!("a b/ü%20/{}", n * 7919 % 1_000)).to_str().unwrap().to_owned();
    let mut files = Vec::new();
    for n in 0..500 {
        if n % 100 != 3 {
            std::fs::write(path(n), vec![0; n]).unwrap();
        }
        if n % 50 != 4 {
            let size = if n % 250 == 5 { n + 1 } else { n };
            files.push(serde_json::json!({"data_file_id": n, "path": path(n), "file_size_bytes": size}));
        }
    }
    let files = serde_json::json!(files);
    let manifest = |unlisted: &str| {
        let lake = lake.display();
        format!(
            r#"{{"catalog": "c", "data_path": "{lake}", "head_snapshot_id": 1, "earliest_snapshot_id": 0, "tables": [
                {{"namespace": "n", "table": "t", "files": {files}, "delete_files": []}}],
                "consumer_offsets": [{{}}, {{}}]{unlisted}}}"#
        )
    };
    // A path of both states counts as what is needed most; one outside the data path is not looked for.
    let unlisted = serde_json::json!([
        {"state": "queued", "kind": "data", "path": path(4)},
        {"state": "retained", "kind": "data", "path": path(4), "file_size_bytes": 4},
        {"state": "staged", "kind": "data", "path": path(54)},
        {"state": "queued", "kind": "data", "path": path(7)},
        {"state": "queued", "kind": "data", "path": "/elsewhere/x"},
    ]);
    let report = compare(manifest(&format!(r#", "unlisted": {unlisted}"#)), folder.path()).await.unwrap();
    let count = |kind| report.found(kind).count.objects;
    let kinds = [Kind::Missing, Kind::SizeMismatch, Kind::Retained, Kind::Queued, Kind::Staged, Kind::Orphan];
    assert_eq!(kinds.map(count), [5, 2, 1, 0, 1, 8]);
    assert_eq!((report.listed.objects, report.outside_data_path, report.consumer_offsets), (483, 1, 2));
    assert_eq!(report.status, Status::Damaged);
    assert_eq!(report.found(Kind::Missing).samples.len(), 3);

    let whole = manifest(r#", "unlisted": []"#);
    for cut in [0, 1, whole.len() / 2, whole.len() - 1] {
        let refused = compare(whole[..cut].to_owned(), folder.path()).await;
        assert!(matches!(refused, Err(CheckError::Manifest(_))), "{:?}", refused.map(|r| r.status));
    }
    assert!(matches!(compare(manifest(""), folder.path()).await, Err(CheckError::Incomplete)));
    let foreign = whole.replace(lake.to_str().unwrap(), "memory://x");
    assert!(matches!(compare(foreign, folder.path()).await, Err(CheckError::DataPath(_))));
}
