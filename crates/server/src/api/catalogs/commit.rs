//! POST /v1/catalogs/{catalog}/commit

use crate::api::answer::audited;
use crate::api::error::ApiError;
use crate::api::extract::{Caller, IdempotencyKey, JsonBody, Path};
use crate::app::App;
use crate::audit::{Action, Outcome};
use axum::extract::State;
use axum::response::Response;
use hoglake_model::commit::CommitRequest;
use std::collections::BTreeSet;

/// Commits appends and deletes as one snapshot.
pub async fn commit(
    State(app): State<App>,
    Path(catalog): Path<String>,
    caller: Caller,
    key: IdempotencyKey,
    body: JsonBody<CommitRequest>,
) -> Result<Response, ApiError> {
    let key = key.of_body(&body.bytes)?;
    let tables = tables(&body.value);
    let result = app.catalog.commit(&catalog, body.value, key).await;
    let answer = audited(&app, &caller, Action::Commit, &catalog, Some(&tables), result);
    count(&catalog, &answer);
    answer
}

/// The tables that a commit touches, for the audit trail; the first few of many.
fn tables(request: &CommitRequest) -> String {
    const SHOWN: usize = 8;
    let appends = request.appends.iter().map(|append| (append.namespace.as_str(), append.table.as_str()));
    let deletes = request.deletes.iter().map(|deletes| (deletes.namespace.as_str(), deletes.table.as_str()));
    let tables: BTreeSet<(&str, &str)> = appends.chain(deletes).collect();
    let mut shown: Vec<String> =
        tables.iter().take(SHOWN).map(|(namespace, table)| format!("{namespace}.{table}")).collect();
    if tables.len() > SHOWN {
        shown.push(format!("and {} more", tables.len() - SHOWN));
    }
    shown.join(", ")
}

/// Counts the outcome. A catalog that does not exist gets no time series: callers could make up any number of them.
fn count(catalog: &str, answer: &Result<Response, ApiError>) {
    let outcome = answer.as_ref().map_or_else(Outcome::of, |_| Outcome::Committed);
    let catalog = if outcome == Outcome::NotFound { "" } else { catalog };
    metrics::counter!("hoglake_commits_total", "catalog" => catalog.to_owned(), "result" => outcome.as_str())
        .increment(1);
}
