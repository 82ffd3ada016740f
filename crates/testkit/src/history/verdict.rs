//! The judgement. Each check works on the API's answers alone:
//!
//! - **dense**: snapshot ids run from 0 to head without a gap.
//! - **monotone**: a later snapshot is never earlier in time, and schema versions never fall.
//! - **no lost commit**: every acknowledged commit's snapshot exists and carries its message.
//! - **no double commit**: no message appears on two snapshots; no refused commit appears on any.
//! - **ddl**: every acknowledged schema change made its own snapshot, with its change kind.
//! - **tiled**: the row ids of each table incarnation run from 0 without gap or overlap, in file order.
//! - **registered**: each acknowledged commit's files appear once in the files begun by its snapshot, with their rows.
//! - **repeatable**: a read pinned to a snapshot answers the same at the end as it did then.

use super::client::Failure;
use super::record::{Commit, Entries};
use super::{Run, TABLES, writers};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The outcome of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The checker's catalog, left for inspection.
    pub catalog: String,
    /// Head at the end.
    pub head_snapshot_id: i64,
    /// Acknowledged commits.
    pub commits: usize,
    /// Acknowledged schema changes.
    pub ddl: usize,
    /// Reads.
    pub reads: usize,
    /// Mutations that were answered at a second try or later.
    pub retried: usize,
    /// Requests by kind and status.
    pub outcomes: BTreeMap<String, usize>,
    /// What the history breaks; empty when it holds.
    pub breaches: Vec<String>,
}

impl Report {
    /// Whether the history holds.
    pub fn passed(&self) -> bool {
        self.breaches.is_empty()
    }
}

pub(super) async fn judge(run: &Run) -> Result<Report, Failure> {
    let head = writers::head(run).await?;
    let snapshots = all_snapshots(run).await?;
    let entries = run.record.with(std::mem::take);
    let mut breaches = entries.breaches.clone();
    check_order(&snapshots, head, &mut breaches);
    check_commits(&snapshots, &entries, &mut breaches);
    check_ddl(&snapshots, &entries, &mut breaches);
    check_files(run, &snapshots, &entries.commits, &mut breaches).await?;
    for read in &entries.pinned {
        let again = run.client.get(&read.path).await?;
        if settled(again.body) != settled(read.answer.clone()) {
            breaches.push(format!("not repeatable: {}", read.path));
        }
    }
    Ok(Report {
        catalog: run.catalog.clone(),
        head_snapshot_id: head,
        commits: entries.commits.len(),
        ddl: entries.ddl.len(),
        reads: entries.reads,
        retried: entries.retried,
        outcomes: entries.outcomes,
        breaches,
    })
}

/// An answer without what background work may add to it later: whether a file's statistics have been read.
fn settled(mut answer: Value) -> Value {
    match &mut answer {
        Value::Array(entries) => entries.iter_mut().for_each(|e| *e = settled(e.take())),
        Value::Object(fields) => {
            fields.remove("stats_state");
            fields.values_mut().for_each(|v| *v = settled(v.take()));
        }
        _ => {}
    }
    answer
}

async fn all_snapshots(run: &Run) -> Result<Vec<Value>, Failure> {
    let mut snapshots = Vec::new();
    let mut after = -1;
    loop {
        let page = run.client.get(&format!("/catalogs/{}/snapshots?after={after}&limit=1000", run.catalog)).await?;
        let Some(rows) = page.body["snapshots"].as_array() else {
            return Err(Failure::Contract(format!("a page of snapshots is {}", page.body)));
        };
        snapshots.extend(rows.iter().cloned());
        if page.body["has_more"] != true {
            return Ok(snapshots);
        }
        after = rows.last().and_then(|s| s["snapshot_id"].as_i64()).unwrap_or(i64::MAX);
    }
}

fn check_order(snapshots: &[Value], head: i64, breaches: &mut Vec<String>) {
    let ids: Vec<i64> = snapshots.iter().filter_map(|s| s["snapshot_id"].as_i64()).collect();
    if ids != (0..=head).collect::<Vec<_>>() {
        breaches.push(format!("not dense: {} snapshots for head {head}", ids.len()));
    }
    for pair in snapshots.windows(2) {
        // equal widths and Z: text order is time order
        let time = |s: &Value| s["snapshot_time"].as_str().unwrap_or_default().trim_end_matches('Z').to_owned();
        if padded(&time(&pair[0])) > padded(&time(&pair[1])) {
            breaches.push(format!("time runs backwards at snapshot {}", pair[1]["snapshot_id"]));
        }
        if pair[0]["schema_version"].as_i64() > pair[1]["schema_version"].as_i64() {
            breaches.push(format!("schema_version falls at snapshot {}", pair[1]["snapshot_id"]));
        }
    }
}

/// A timestamp with exactly six fractional digits.
fn padded(time: &str) -> String {
    let (seconds, fraction) = time.split_once('.').unwrap_or((time, ""));
    format!("{seconds}.{fraction:0<6}")
}

fn check_commits(snapshots: &[Value], entries: &Entries, breaches: &mut Vec<String>) {
    let mut by_message: HashMap<&str, Vec<i64>> = HashMap::new();
    for snapshot in snapshots {
        if let (Some(message), Some(id)) = (snapshot["message"].as_str(), snapshot["snapshot_id"].as_i64()) {
            by_message.entry(message).or_default().push(id);
        }
    }
    for commit in &entries.commits {
        match by_message.get(commit.token.as_str()).map(Vec::as_slice) {
            Some([snapshot]) if *snapshot == commit.snapshot => {}
            None => breaches.push(format!("lost commit: {} was told snapshot {}", commit.token, commit.snapshot)),
            Some(found) => breaches.push(format!(
                "commit {} was told snapshot {}, its message is on {found:?}",
                commit.token, commit.snapshot
            )),
        }
    }
    let acknowledged: HashSet<&str> = entries.commits.iter().map(|c| c.token.as_str()).collect();
    for (message, found) in &by_message {
        if found.len() > 1 {
            breaches.push(format!("double commit: {message} is on snapshots {found:?}"));
        }
        if !acknowledged.contains(message) {
            breaches.push(format!("commit {message} is in the history, but was never acknowledged"));
        }
    }
    for token in &entries.refused {
        if by_message.contains_key(token.as_str()) {
            breaches.push(format!("commit {token} was refused and is in the history"));
        }
    }
}

fn check_ddl(snapshots: &[Value], entries: &Entries, breaches: &mut Vec<String>) {
    let mut told = HashSet::new();
    for (snapshot, kind) in &entries.ddl {
        if !told.insert(*snapshot) {
            breaches.push(format!("two schema changes were told snapshot {snapshot}"));
        }
        let changes = usize::try_from(*snapshot).ok().and_then(|i| snapshots.get(i)).map(|s| &s["changes"]);
        let named = changes.and_then(Value::as_array).into_iter().flatten().any(|c| c["kind"] == *kind);
        if !named {
            breaches.push(format!("snapshot {snapshot} was told as {kind}, its changes are {changes:?}"));
        }
    }
}

/// Reads the files of every incarnation just before it ends, and at head.
async fn check_files(
    run: &Run,
    snapshots: &[Value],
    commits: &[Commit],
    breaches: &mut Vec<String>,
) -> Result<(), Failure> {
    let ends = snapshots.iter().filter(|s| {
        s["changes"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|c| c["kind"] == "table_dropped" || c["kind"] == "table_altered")
    });
    let moments: Vec<i64> = ends
        .filter_map(|s| s["snapshot_id"].as_i64())
        .map(|id| id - 1)
        .chain(snapshots.last().and_then(|s| s["snapshot_id"].as_i64()))
        .collect();
    // the fullest listing of each incarnation
    let mut incarnations: HashMap<String, (i64, Vec<Value>)> = HashMap::new();
    for moment in moments {
        for index in 0..TABLES {
            let table = format!("/catalogs/{}/namespaces/ns/tables/t{index}", run.catalog);
            let answer = run.client.get(&format!("{table}?snapshot={moment}")).await?;
            let Some(uuid) = answer.body["table_uuid"].as_str() else { continue };
            let count = answer.body["file_count"].as_i64().unwrap_or(0);
            if incarnations.get(uuid).is_some_and(|(known, _)| *known >= count) {
                continue;
            }
            let files = run.client.get(&format!("{table}/files?snapshot={moment}")).await?;
            let files = files.body.as_array().cloned().unwrap_or_default();
            if files.len() as i64 != count {
                breaches.push(format!("{table} has {count} files at {moment}, the listing has {}", files.len()));
            }
            incarnations.insert(uuid.to_owned(), (count, files));
        }
    }
    let mut registered: HashMap<&str, Vec<(i64, i64)>> = HashMap::new();
    for (uuid, (_, files)) in &incarnations {
        check_tiling(uuid, files, breaches);
        for file in files {
            let place = (file["begin_snapshot"].as_i64().unwrap_or(-1), file["record_count"].as_i64().unwrap_or(-1));
            registered.entry(file["path"].as_str().unwrap_or_default()).or_default().push(place);
        }
    }
    for commit in commits {
        for (table, path, rows) in &commit.files {
            if registered.get(path.as_str()).map(Vec::as_slice) != Some(&[(commit.snapshot, *rows)]) {
                breaches.push(format!(
                    "{path} of {table} was committed once in snapshot {} with {rows} rows; found {:?}",
                    commit.snapshot,
                    registered.get(path.as_str())
                ));
            }
        }
    }
    Ok(())
}

fn check_tiling(uuid: &str, files: &[Value], breaches: &mut Vec<String>) {
    let mut ranges: Vec<(i64, i64, i64)> = files
        .iter()
        .filter_map(|f| Some((f["data_file_id"].as_i64()?, f["row_id_start"].as_i64()?, f["record_count"].as_i64()?)))
        .collect();
    ranges.sort_unstable();
    let mut next = 0;
    for (file, start, rows) in ranges {
        if start != next {
            breaches.push(format!("row ids of table {uuid}: file {file} starts at {start}, not at {next}"));
        }
        next = start + rows;
    }
}
