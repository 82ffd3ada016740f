//! What only looks needs no right to write: previews and verify as a role that may only read, and on a database that takes
//! no writes, as a hot standby does.

use super::lake::Lake;
use hoglake_catalog::verify::Status;
use hoglake_testkit::server::ServerCommand;
use serde_json::Value;
use sqlx::AssertSqlSafe;

/// What every command says that only looks, at the database at `url`; and whether somebody was told on standard error that
/// the ledger does not tell of it.
fn look(url: &str) -> (Vec<Value>, bool) {
    let mut warned = true;
    let commands: [&[&str]; 5] = [
        &["verify"],
        &["verify", "--deep"],
        &["expire", "--dry-run"],
        &["clean", "--dry-run"],
        &["compact", "--dry-run"],
    ];
    let said = commands.map(|words| {
        let command = ServerCommand::new(words[0]).database(url).env("HOGLAKE_LOCAL_FILES", "true");
        let command = command.env("HOGLAKE_COMPACTION_TARGET_BYTES", "1048576").arg("demo").arg("--json");
        let command = words[1..].iter().fold(command, |command, word| command.arg(word));
        let output = tokio::task::block_in_place(|| command.output());
        assert!(output.status.success(), "{words:?}: {output:?}");
        if words[0] == "verify" {
            warned &= String::from_utf8_lossy(&output.stderr).contains("the run is not entered in the ledger");
        }
        serde_json::from_slice(&output.stdout).unwrap()
    });
    (said.into(), warned)
}

/// Takes away why reports are not in the ledger.
fn unrecorded(said: &mut [Value]) -> Vec<String> {
    let reports = said.iter_mut().filter_map(|report| report.as_object_mut()?.remove("unrecorded"));
    reports.map(|why| why.as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_read_may_look() {
    let mut lake = Lake::new(false).await;
    for i in 0..5 {
        lake.append(&[(i, Some("x")), (i + 100, None)]).await;
    }
    lake.age(1).await;
    lake.execute(
        "insert into file_removal (catalog_id, path, kind, reason) values (1, '/nowhere/x', 'data', 'snapshot_expiry')",
    )
    .await;
    let (seen, warned) = look(lake.database.url());
    assert!(!warned);
    assert_eq!((&seen[0]["status"], &seen[1]["status"]), (&"pass".into(), &"pass".into()), "{seen:#?}");
    assert_eq!((&seen[3]["missing"], &seen[4]["files_in"]), (&1.into(), &5.into()), "{seen:#?}");
    assert!(seen[2]["snapshots_expired"].as_i64().unwrap() > 0, "{seen:#?}");
    let runs = "select count(*) from maintenance_run where task = 'verify'";
    assert_eq!(lake.number(runs).await, 2);

    let (mut said, warned) = look(&lake.database.reader("hoglake").await);
    assert!(warned);
    let why = unrecorded(&mut said);
    assert!(
        why.len() == 2 && why.iter().all(|why| why.contains("permission denied for table maintenance_run")),
        "{why:?}"
    );
    assert_eq!(said, seen);

    let read_only = format!("alter database \"{}\" set default_transaction_read_only = on", lake.database.name());
    sqlx::query(AssertSqlSafe(read_only)).execute(&lake.pool).await.unwrap();
    let (mut said, warned) = look(lake.database.url());
    assert!(warned);
    let why = unrecorded(&mut said);
    assert!(why.len() == 2 && why.iter().all(|why| why.contains("read-only transaction")), "{why:?}");
    assert_eq!(said, seen);
    assert_eq!(lake.number(runs).await, 2);
    // what is there to change something says that it cannot
    let output =
        tokio::task::block_in_place(|| ServerCommand::new("expire").database(lake.database.url()).arg("demo").output());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("read-only transaction"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_outlives_a_ledger_that_stops_taking_entries() {
    let lake = Lake::new(false).await;
    lake.execute(
        "create function refuse() returns trigger language plpgsql as 'begin raise exception ''it is full''; end';
         create trigger refuse before update on maintenance_run for each row execute function refuse()",
    )
    .await;
    let report = lake.worker.verify(&lake.catalog, false).await.unwrap();
    assert_eq!(report.status, Status::Pass);
    // the others notice that nobody speaks for it
    assert_eq!(lake.number("select count(*) from maintenance_run where finished_at is null").await, 1);
}
