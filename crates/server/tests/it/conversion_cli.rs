//! `hoglake sync` and `hoglake inspect`, as a process, without Postgres.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn hoglake(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hoglake"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HOGLAKE_")) {
        command.env_remove(name);
    }
    command.args(arguments).output().unwrap()
}

fn json(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A copy of a Delta table that Spark wrote.
fn table(into: &Path) {
    copy("dat-nested_types", into);
}

/// A copy of a Delta table of the corpus.
fn copy(case: &str, into: &Path) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/data/corpus/delta");
    let from = corpus.join(case).join("table");
    for folder in ["", "_delta_log"] {
        std::fs::create_dir_all(into.join(folder)).unwrap();
        for entry in std::fs::read_dir(from.join(folder)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                std::fs::copy(entry.path(), into.join(folder).join(entry.file_name())).unwrap();
            }
        }
    }
}

#[test]
fn a_table_is_converted_once_and_found_up_to_date_after() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path());
    let path = folder.path().to_str().unwrap();
    let dry = hoglake(&["sync", "--path", path, "--target", "iceberg", "--dry-run", "--json"]);
    assert_eq!(json(&dry)[0]["status"], "dry-run");
    assert!(!folder.path().join("metadata").exists());

    let first = hoglake(&["sync", "--path", path, "--target", "ICEBERG", "--json"]);
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    let report = &json(&first)[0];
    assert_eq!((&report["status"], &report["plan"]), (&Value::from("committed"), &Value::from("full")));
    let metadata = report["metadata-path"].as_str().unwrap().strip_prefix("file://").unwrap();
    assert!(Path::new(metadata).exists());

    // The log's folder names the table, too.
    let log = format!("{path}/_delta_log");
    let second = hoglake(&["sync", "--source", "delta", "--path", &log, "--target", "ICEBERG"]);
    assert!(String::from_utf8_lossy(&second.stdout).contains("up to date"));
}

#[test]
fn the_watermark_tells_the_source_where_nobody_says() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path());
    let path = folder.path().to_str().unwrap();
    let sync = |targets: &str| hoglake(&["sync", "--path", path, "--target", targets, "--json"]);
    for _ in 0..3 {
        let reports = json(&sync("ICEBERG,HUDI"));
        assert_eq!(reports.len(), 2);
        for report in reports {
            assert_ne!(report["status"], "failed", "{report}");
        }
    }
    // A new target, and one whose format is not there.
    assert_eq!(json(&sync("ICEBERG"))[0]["status"], "no-change");
    std::fs::remove_dir_all(folder.path().join(".hoodie")).unwrap();
    assert_eq!(json(&sync("HUDI"))[0]["status"], "committed");

    // Two tables of which neither follows the other.
    let metadata = folder.path().join("metadata/v1.metadata.json");
    let text = std::fs::read_to_string(&metadata).unwrap();
    std::fs::write(&metadata, text.replace("XTABLE_METADATA", "note").replace("hoglake.watermark", "note2")).unwrap();
    std::fs::remove_dir_all(folder.path().join(".hoodie")).unwrap();
    let output = sync("HUDI");
    assert_eq!(output.status.code(), Some(1));
    let error = json(&output)[0]["error"].as_str().unwrap().to_owned();
    assert!(error.contains("DELTA and ICEBERG") && error.contains("--source"), "{error}");
    assert!(!folder.path().join(".hoodie").exists());
}

#[test]
fn bare_files_stay_the_source_of_what_was_made_of_them() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path());
    std::fs::remove_dir_all(folder.path().join("_delta_log")).unwrap();
    let path = folder.path().to_str().unwrap();
    let sync = |targets: &str| hoglake(&["sync", "--path", path, "--target", targets, "--json"]);
    let added = |report: &Value| report["commits"][0]["added"].as_u64();
    let first = json(&sync("ICEBERG")).remove(0);
    let files = added(&first).unwrap();
    assert!(files > 0, "{first}");
    let file = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|path| path.extension().is_some_and(|end| end == "parquet")).unwrap();
    std::fs::copy(&file, folder.path().join("one-more.parquet")).unwrap();
    let second = json(&sync("ICEBERG")).remove(0);
    assert_eq!(added(&second), Some(1), "{second}");
    for (targets, count) in [("DELTA", 1), ("ICEBERG,DELTA", 2)] {
        let reports = json(&sync(targets));
        assert_eq!(reports.len(), count);
        assert!(reports.iter().all(|report| report["status"] != "failed"), "{reports:?}");
    }
    let source = json(&hoglake(&["sync", "--source", "PARQUET", "--path", path, "--target", "DELTA", "--json"]));
    assert_eq!(source[0]["status"], "no-change", "{source:?}");
}

#[test]
fn a_table_is_no_target_of_its_own_nor_of_its_target() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path());
    let path = folder.path().to_str().unwrap();
    let error = |arguments: &[&str]| {
        let output = hoglake(&[&["sync", "--path", path, "--json"], arguments].concat());
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        json(&output)[0]["error"].as_str().unwrap().to_owned()
    };
    let own = error(&["--target", "DELTA"]);
    assert!(own.contains("the format of the source itself") && own.contains("--source"), "{own}");
    // Iceberg from Delta, and Delta as if from Iceberg: which of them goes on is not for us to guess.
    for (source, target) in [("DELTA", "ICEBERG"), ("ICEBERG", "DELTA")] {
        let output = hoglake(&["sync", "--path", path, "--source", source, "--target", target, "--full", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
    for target in ["DELTA", "ICEBERG", "HUDI"] {
        assert!(error(&["--target", target]).contains("say it with --source"), "{target}");
    }
}

#[test]
fn a_full_sync_of_what_is_up_to_date_says_so() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path());
    let path = folder.path().to_str().unwrap();
    for target in ["ICEBERG", "HUDI"] {
        let sync = || hoglake(&["sync", "--source", "DELTA", "--path", path, "--target", target, "--full", "--json"]);
        let (first, second) = (json(&sync()).remove(0), json(&sync()).remove(0));
        assert_eq!((&first["status"], &first["reason"]), (&"committed".into(), &"asked for".into()), "{first}");
        assert_eq!((&second["status"], &second["plan"]), (&"no-change".into(), &"no-change".into()), "{second}");
        assert_eq!(second["commits"], Value::Array(Vec::new()), "{second}");
        assert_eq!(second["metadata-path"], first["metadata-path"]);
    }
}

#[test]
fn the_dataset_file_of_xtable_is_taken_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path());
    let file = folder.path().join("datasets.yaml");
    let text = format!(
        "sourceFormat: DELTA\ntargetFormats:\n  - ICEBERG\n  - HUDI\ndatasets:\n  - tableBasePath: {0}\n    tableName: nested\n  - tableBasePath: {0}/missing\n",
        folder.path().display()
    );
    std::fs::write(&file, text).unwrap();
    let output = hoglake(&["sync", "--config", file.to_str().unwrap(), "--json"]);
    assert_eq!(output.status.code(), Some(1), "one table is missing");
    let lines = json(&output);
    let statuses: Vec<_> =
        lines.iter().map(|l| (l["target"].as_str().unwrap(), l["status"].as_str().unwrap())).collect();
    assert_eq!(statuses, [("ICEBERG", "committed"), ("HUDI", "committed"), ("ICEBERG", "failed"), ("HUDI", "failed")]);
    assert!(lines[2]["error"].as_str().unwrap().contains("no DELTA table"), "{}", lines[2]);
}

#[test]
fn keys_of_a_dataset_file_that_are_not_known_are_named() {
    let folder = tempfile::tempdir().unwrap();
    table(&folder.path().join("t"));
    let lines = [format!("tableBasePath: {}", folder.path().join("t").display()), "tableNames: nested".to_owned()];
    let file = dataset(folder.path(), "HUDI", &lines);
    let output = hoglake(&["sync", "--config", file.to_str().unwrap(), "--json"]);
    assert!(output.status.success());
    let said = "the key tableNames of the dataset is not known here, and ignored";
    assert_eq!(String::from_utf8_lossy(&output.stderr), format!("hoglake: {said}\n"));
    assert_eq!(json(&output)[0]["warnings"][0], said);
}

#[test]
fn every_target_spells_what_engines_register_alike() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path());
    let path = folder.path().to_str().unwrap();
    let first = hoglake(&["sync", "--path", path, "--target", "ICEBERG,HUDI", "--json"]);
    let back = folder.path().join("back");
    let back = back.to_str().unwrap();
    let arguments =
        ["sync", "--source", "ICEBERG", "--path", path, "--target", "DELTA", "--target-path", back, "--json"];
    let second = hoglake(&arguments);
    let again = hoglake(&arguments);
    let paths = [&first, &second, &again].map(json).concat();
    let paths: Vec<_> = paths.iter().map(|line| line["metadata-path"].as_str().unwrap().to_owned()).collect();
    let expected = ["metadata/v1.metadata.json", ".hoodie", "back/_delta_log", "back/_delta_log"]
        .map(|p| format!("file://{path}/{p}"));
    assert_eq!(paths, expected);
}

#[test]
fn inspect_says_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path());
    let output = hoglake(&["inspect", folder.path().to_str().unwrap(), "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let table = &json(&output)[0]["tables"][0];
    assert_eq!((&table["format"], &table["files"]["records"]), (&Value::from("DELTA"), &Value::from(5)));
    assert_eq!(table["cannot-express"]["ICEBERG"], serde_json::json!([]));
    let text = hoglake(&["inspect", folder.path().to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&text.stdout).starts_with("DELTA table, version 0"));
}

#[test]
fn inspect_says_which_versions_are_kept_and_what_statistics_tell() {
    let folder = tempfile::tempdir().unwrap();
    copy("table-with-dv-small", folder.path());
    let path = folder.path().to_str().unwrap();
    let first = hoglake(&["sync", "--path", path, "--target", "ICEBERG,HUDI", "--on-unsupported-deletes", "ignore"]);
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stdout));
    let output = hoglake(&["inspect", path, "--json"]);
    let tables = json(&output)[0]["tables"].clone();
    let of = |format: &str| tables.as_array().unwrap().iter().find(|t| t["format"] == format).unwrap().clone();
    let delta = of("DELTA");
    assert_eq!(delta["versions"]["count"], 2);
    assert_eq!(
        (&delta["versions"]["oldest"]["version"], &delta["versions"]["newest"]["version"]),
        (&"0".into(), &"1".into())
    );
    assert!(delta["versions"]["oldest"]["committed-at-ms"].as_i64().unwrap() > 1_600_000_000_000);
    assert_eq!(of("ICEBERG")["versions"]["count"], 1);
    assert_eq!(of("HUDI")["versions"]["count"], 1);
    for format in ["DELTA", "ICEBERG", "HUDI"] {
        let statistics = of(format)["statistics"].clone();
        assert_eq!((&statistics["records"], &statistics["size-bytes"]), (&10.into(), &635.into()), "{format}");
        let column = serde_json::json!({"column": "value", "files-with-bounds": 1, "files-with-null-counts": 1});
        assert_eq!(statistics["columns"], serde_json::json!([column]), "{format}");
    }
    let text = hoglake(&["inspect", path, "--source", "DELTA"]);
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(text.contains("versions kept: 2, from 0 (20") && text.contains(") to 1 (20"), "{text}");
    assert!(text.contains("statistics of value: bounds in 1 of 1 files, null counts in 1"), "{text}");
}

#[test]
fn inspect_says_what_each_target_could_not_express() {
    let expressed = |case: &str| {
        let folder = tempfile::tempdir().unwrap();
        copy(case, folder.path());
        let output = hoglake(&["inspect", folder.path().to_str().unwrap(), "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let table = json(&output)[0]["tables"][0]["cannot-express"].clone();
        ["ICEBERG", "DELTA", "HUDI"].map(|target| table.get(target).map(|items| items.to_string()))
    };
    let [iceberg, delta, hudi] = expressed("table-with-dv-small");
    assert_eq!((iceberg.as_deref(), delta), (Some("[]"), None));
    let hudi = hudi.unwrap();
    assert!(hudi.contains("deletion_vector_61d16c75") && hudi.contains("have no deletion vectors"), "{hudi}");
    let [.., hudi] = expressed("golden-type-widening");
    assert!(hudi.unwrap().contains("long_decimal"));
}

/// `sourceFormat: DELTA` and one dataset with these lines.
fn dataset(folder: &Path, targets: &str, lines: &[String]) -> std::path::PathBuf {
    let file = folder.join("datasets.yaml");
    let text = format!("sourceFormat: DELTA\ntargetFormats: [{targets}]\ndatasets:\n  - {}\n", lines.join("\n    "));
    std::fs::write(&file, text).unwrap();
    file
}

#[test]
fn every_field_of_a_dataset_means_what_it_does_in_xtable() {
    let folder = tempfile::tempdir().unwrap();
    let (base, data) = (folder.path().join("t"), folder.path().join("t/data"));
    table(&base);
    let lines = [
        format!("tableBasePath: {}", base.display()),
        format!("tableDataPath: {}", data.display()),
        "tableName: nested".to_owned(),
        "namespace: a.b".to_owned(),
        "partitionSpec: level:VALUE".to_owned(),
    ];
    let file = dataset(folder.path(), "ICEBERG", &lines);
    let output = hoglake(&["sync", "--config", file.to_str().unwrap(), "--json"]);
    let report = &json(&output)[0];
    assert_eq!((&report["table"], &report["status"]), (&Value::from("a.b.nested"), &Value::from("committed")));
    let metadata = data.join("metadata/v1.metadata.json");
    assert_eq!(report["metadata-path"], format!("file://{}", metadata.display()));
    // Back under the name of the file, which the Delta log keeps.
    let back = folder.path().join("back");
    let output = hoglake(&[
        "sync",
        "--path",
        metadata.to_str().unwrap(),
        "--source",
        "ICEBERG",
        "--target",
        "DELTA",
        "--table-name",
        "renamed",
        "--target-path",
        back.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let log = std::fs::read_to_string(back.join("_delta_log/00000000000000000000.json")).unwrap();
    assert!(log.contains("\"name\":\"renamed\""), "{log}");
}

#[test]
fn a_partition_spec_says_how_the_paths_of_a_hudi_table_are_read() {
    let hudi = |spec: &str| {
        hoglake(&["sync", "--path", "/nowhere", "--source", "HUDI", "--target", "DELTA", "--partition-spec", spec])
    };
    let wrong = String::from_utf8_lossy(&hudi("level").stdout).into_owned();
    assert!(wrong.contains("column:VALUE"), "{wrong}");
    let right = String::from_utf8_lossy(&hudi("level:VALUE").stdout).into_owned();
    assert!(right.contains("no HUDI table"), "{right}");
}

#[test]
fn a_dataset_file_that_is_wrong_is_a_wrong_setting() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none.yaml");
    let wrong = folder.path().join("wrong.yaml");
    std::fs::write(&wrong, "sourceFormat: ORC\ntargetFormats: []\ndatasets: []\n").unwrap();
    for file in [missing, wrong] {
        let output = hoglake(&["sync", "--config", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(file.to_str().unwrap()));
    }
}

#[test]
fn a_dry_run_tells_what_would_be_done_and_does_nothing() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path());
    let path = folder.path().to_str().unwrap();
    let dry = |flags: &[&str]| {
        let output = hoglake(
            &[&["sync", "--source", "DELTA", "--path", path, "--target", "ICEBERG", "--dry-run"], flags].concat(),
        );
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        output
    };
    let text = String::from_utf8_lossy(&dry(&[]).stdout).into_owned();
    assert!(text.contains("would be: all files compared (the target does not exist yet); 1 files added"), "{text}");
    assert!(!folder.path().join("metadata").exists());
    hoglake(&["sync", "--source", "DELTA", "--path", path, "--target", "ICEBERG"]);
    std::fs::write(
        folder.path().join("_delta_log/00000000000000000001.json"),
        "{\"commitInfo\":{\"timestamp\":1767225600000,\"operation\":\"WRITE\"}}\n\
         {\"add\":{\"path\":\"x.parquet\",\"size\":9,\"partitionValues\":{},\"modificationTime\":0,\"dataChange\":true,\
         \"stats\":\"{\\\"numRecords\\\":3}\"}}\n",
    )
    .unwrap();
    let report = json(&dry(&["--json"])).remove(0);
    assert_eq!((&report["status"], &report["plan"]), (&Value::from("dry-run"), &Value::from("incremental")));
    assert_eq!(
        (&report["commits"][0]["source-version"], &report["commits"][0]["added"]),
        (&Value::from("1"), &Value::from(1))
    );
    assert!(report["metadata-path"].as_str().unwrap().ends_with("v1.metadata.json"));
    assert!(!folder.path().join("metadata/v2.metadata.json").exists());
    // In full, it is the target that all files are compared with.
    let report = json(&dry(&["--full", "--json"])).remove(0);
    assert_eq!((&report["status"], &report["plan"]), (&Value::from("dry-run"), &Value::from("full")));
    assert_eq!(counts(&report), [1, 0, 0]);
    hoglake(&["sync", "--source", "DELTA", "--path", path, "--target", "ICEBERG"]);
    assert_eq!(counts(&json(&dry(&["--full", "--json"])).remove(0)), [0, 0, 0]);
    std::fs::write(
        folder.path().join("_delta_log/00000000000000000002.json"),
        "{\"remove\":{\"path\":\"x.parquet\",\"deletionTimestamp\":1,\"dataChange\":true}}\n",
    )
    .unwrap();
    let text = String::from_utf8_lossy(&dry(&["--full"]).stdout).into_owned();
    assert!(
        text.contains("would be: all files compared (asked for); 0 files added, 1 removed, 0 with other deletes"),
        "{text}"
    );
    assert!(!folder.path().join("metadata/v3.metadata.json").exists());
}

#[test]
fn a_dry_run_in_full_compares_row_level_deletes_too() {
    let folder = tempfile::tempdir().unwrap();
    copy("table-with-dv-small", folder.path());
    let path = folder.path().to_str().unwrap();
    let log = folder.path().join("_delta_log/00000000000000000001.json");
    let deleting = std::fs::read(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    let sync = |flags: &[&str]| {
        let output =
            hoglake(&[&["sync", "--source", "DELTA", "--path", path, "--target", "ICEBERG", "--json"], flags].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        json(&output).remove(0)
    };
    sync(&[]);
    std::fs::write(&log, deleting).unwrap();
    assert_eq!(counts(&sync(&["--dry-run", "--full"])), [0, 0, 1]);
    assert_eq!(counts(&sync(&[])), [0, 0, 1]);
    assert_eq!(counts(&sync(&["--dry-run", "--full"])), [0, 0, 0]);
}

/// Files added, removed, and given other deletes by the only commit of a report.
fn counts(report: &Value) -> [u64; 3] {
    assert_eq!(report["commits"].as_array().map(Vec::len), Some(1), "{report}");
    ["added", "removed", "redeleted"].map(|key| report["commits"][0][key].as_u64().unwrap())
}

#[test]
fn progress_goes_to_standard_error_when_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path());
    let path = folder.path().to_str().unwrap();
    let quiet = hoglake(&["sync", "--path", path, "--target", "HUDI"]);
    assert!(quiet.status.success() && quiet.stderr.is_empty());
    let told = hoglake(&["sync", "--source", "DELTA", "--path", path, "--target", "ICEBERG", "--progress", "--json"]);
    let words = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(words.contains(&format!("{path} -> ICEBERG: 1 files, 0 commits")), "{words}");
    assert_eq!(json(&told)[0]["status"], "committed");
}

#[test]
fn continuous_follows_the_table_and_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("t");
    table(&base);
    let file = dataset(folder.path(), "ICEBERG", &[format!("tableBasePath: {}", base.display())]);
    let mut running = Command::new(env!("CARGO_BIN_EXE_hoglake"))
        .args(["sync", "--config", file.to_str().unwrap(), "--continuous", "1", "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(running.stdout.take().unwrap()));
    let mut next = |wanted: &str| {
        for line in lines.by_ref().take(50) {
            let report: Value = serde_json::from_str(&line.unwrap()).unwrap();
            if report["status"] == wanted {
                return report;
            }
        }
        panic!("never {wanted}");
    };
    assert_eq!(next("committed")["source-version"], "0");
    next("no-change");
    // A file that is being written is no reason to end, and a new commit is followed.
    std::fs::write(&file, "sourceFormat: ").unwrap();
    std::fs::write(
        base.join("_delta_log/00000000000000000001.json"),
        "{\"commitInfo\":{\"timestamp\":1767225600000,\"operation\":\"WRITE\"}}\n",
    )
    .unwrap();
    let followed = next("committed");
    assert_eq!((&followed["plan"], &followed["source-version"]), (&Value::from("incremental"), &Value::from("1")));
    dataset(folder.path(), "ICEBERG, HUDI", &[format!("tableBasePath: {}", base.display())]);
    loop {
        if next("committed")["target"] == "HUDI" {
            break;
        }
    }
    running.kill().unwrap();
    running.wait().unwrap();
}
