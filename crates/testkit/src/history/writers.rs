//! Clients that change things.

use super::client::{Answer, Failure};
use super::record::Commit;
use super::{Run, TABLES};
use rand::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

/// Creates table `t{index}`, unless somebody was faster.
pub(super) async fn create_table(run: &Run, index: usize) -> Result<(), Failure> {
    let body = json!({"name": format!("t{index}"), "columns": [
        {"name": "id", "type": "long"}, {"name": "name", "type": "string"}]});
    let answer = run.client.write(&tables(run), "POST", &body).await?;
    expect(&answer, &[201, 409], "create table")?;
    note_ddl(run, &answer, "table_created");
    Ok(())
}

fn tables(run: &Run) -> String {
    format!("/catalogs/{}/namespaces/ns/tables", run.catalog)
}

/// Appends and deletes until the run is over.
pub(super) async fn write(run: Arc<Run>, writer: usize) -> Result<(), Failure> {
    let mut rng = StdRng::from_rng(&mut rand::rng());
    let mut sequence = 0;
    while !run.is_over() {
        sequence += 1;
        let token = format!("w{writer}-{sequence}");
        if rng.random_bool(0.25) {
            delete(&run, &mut rng, &token).await?;
        } else {
            append(&run, &mut rng, &token).await?;
        }
    }
    Ok(())
}

async fn append(run: &Run, rng: &mut StdRng, token: &str) -> Result<(), Failure> {
    let mut files = Vec::new();
    let mut appends = Vec::new();
    for entry in 0..rng.random_range(1..=2) {
        let table = format!("t{}", rng.random_range(0..TABLES));
        let mut registrations = Vec::new();
        for file in 0..rng.random_range(1..=3) {
            let path = format!("{}/data/ns/{table}/{token}-{entry}-{file}.parquet", run.data_path);
            let rows = rng.random_range(0..50);
            let mut registration = json!({"path": path, "record_count": rows, "file_size_bytes": 1000 + rows});
            if rng.random_bool(0.5) {
                registration["column_stats"] = json!([{"field_id": 1, "value_count": rows, "null_count": 0}]);
            }
            registrations.push(registration);
            files.push((table.clone(), path, rows));
        }
        appends.push(json!({"namespace": "ns", "table": table, "files": registrations}));
    }
    let mut body = json!({"appends": appends, "author": "history-checker", "message": token});
    if rng.random_bool(0.3) {
        body["read_snapshot"] = json!(head(run).await?);
    }
    commit(run, token, &body, files).await
}

async fn delete(run: &Run, rng: &mut StdRng, token: &str) -> Result<(), Failure> {
    let table = format!("t{}", rng.random_range(0..TABLES));
    let read = head(run).await?;
    let scan = run.client.get(&format!("{}/{table}/scan?snapshot={read}", tables(run))).await?;
    if !scan.is_ok() {
        return Ok(());
    }
    let targets: Vec<(i64, i64)> = scan
        .body
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let deleted = entry["delete_file"]["delete_count"].as_i64().unwrap_or(0);
            let rows = entry["data_file"]["record_count"].as_i64()?;
            (rows > deleted).then_some((entry["data_file"]["data_file_id"].as_i64()?, deleted + 1))
        })
        .collect();
    let Some((file, count)) = targets.choose(rng) else { return Ok(()) };
    let path = format!("{}/data/ns/{table}/{token}.puffin", run.data_path);
    let body = json!({"read_snapshot": read, "author": "history-checker", "message": token, "deletes": [
        {"namespace": "ns", "table": table, "files": [
            {"data_file_id": file, "path": path, "delete_count": count, "file_size_bytes": 64}]}]});
    commit(run, token, &body, Vec::new()).await
}

async fn commit(run: &Run, token: &str, body: &Value, files: Vec<(String, String, i64)>) -> Result<(), Failure> {
    let answer = run.client.write(&format!("/catalogs/{}/commit", run.catalog), "POST", body).await?;
    expect(&answer, &[200, 409, 422], "commit")?;
    run.record.count(format!("commit {}", answer.status), answer.tries);
    if answer.is_ok() {
        let snapshot = answer.integer("snapshot_id")?;
        run.record.with(|e| e.commits.push(Commit { token: token.to_owned(), snapshot, files }));
    } else {
        run.record.with(|e| e.refused.push(token.to_owned()));
    }
    Ok(())
}

/// Creates, drops, renames and alters tables until the run is over.
pub(super) async fn change_schemas(run: Arc<Run>, client: usize) -> Result<(), Failure> {
    let mut rng = StdRng::from_rng(&mut rand::rng());
    let mut sequence = 0;
    while !run.is_over() {
        sequence += 1;
        let index = rng.random_range(0..TABLES);
        let table = format!("{}/t{index}", tables(&run));
        match rng.random_range(0..10) {
            0 => {
                let answer = run.client.write(&table, "DELETE", &Value::Null).await?;
                expect(&answer, &[200, 404], "drop table")?;
                note_ddl(&run, &answer, "table_dropped");
                create_table(&run, index).await?;
            }
            1 => {
                let aside = format!("aside{client}-{sequence}");
                if alter(&run, &table, json!([{"op": "rename_table", "new_name": aside}])).await? {
                    let moved = format!("{}/{aside}", tables(&run));
                    alter(&run, &moved, json!([{"op": "rename_table", "new_name": format!("t{index}")}])).await?;
                }
                create_table(&run, index).await?;
            }
            _ => {
                let column = format!("c{client}_{sequence}");
                let ops = json!([
                    {"op": "add_column", "column": {"name": column, "type": "int"}},
                    {"op": "promote_column", "name": column, "to": "long"}]);
                if alter(&run, &table, ops).await? {
                    alter(&run, &table, json!([{"op": "drop_column", "name": column}])).await?;
                }
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(rng.random_range(5..60))).await;
    }
    Ok(())
}

async fn alter(run: &Run, table: &str, ops: Value) -> Result<bool, Failure> {
    let answer = run.client.write(&format!("{table}/alter"), "POST", &json!({"ops": ops})).await?;
    expect(&answer, &[200, 404, 409, 422], "alter")?;
    note_ddl(run, &answer, "table_altered");
    Ok(answer.is_ok())
}

fn note_ddl(run: &Run, answer: &Answer, kind: &'static str) {
    run.record.count(format!("{kind} {}", answer.status), answer.tries);
    if answer.is_ok()
        && let Some(snapshot) = answer.body["snapshot_id"].as_i64()
    {
        run.record.with(|e| e.ddl.push((snapshot, kind)));
    }
}

pub(super) async fn head(run: &Run) -> Result<i64, Failure> {
    run.client.get(&format!("/catalogs/{}", run.catalog)).await?.integer("head_snapshot_id")
}

fn expect(answer: &Answer, statuses: &[u16], what: &str) -> Result<(), Failure> {
    if statuses.contains(&answer.status) {
        return Ok(());
    }
    Err(Failure::Contract(format!("{what}: {} {}", answer.status, answer.body)))
}
