//! The same through a server.

use super::super::failure::Failure;
use super::{Maintain, Task};
use crate::config::Secret;
use serde_json::Value;

/// Asks `server` to do `task`, and gives its answer.
pub(super) async fn run(server: &str, token: Option<&Secret>, asked: &Maintain, task: Task) -> Result<Value, Failure> {
    // the server hydrates by itself; what can be asked for is another try of what failed
    let operation = match task {
        Task::Hydrate => "rehydrate",
        Task::Expire => "expire",
        Task::Clean => "cleanup",
        Task::Compact => "compact",
        Task::Verify => "verify",
    };
    let mut query = Vec::new();
    if let Some(batch) = asked.batch {
        query.push(format!("batch={batch}"));
    }
    if asked.dry_run {
        query.push("dry_run=true".to_owned());
    }
    if asked.deep {
        query.push("deep=true".to_owned());
    }
    let catalog = percent_encoding::utf8_percent_encode(&asked.catalog, percent_encoding::NON_ALPHANUMERIC);
    let url =
        format!("{}/v1/catalogs/{catalog}/maintenance/{operation}?{}", server.trim_end_matches('/'), query.join("&"));
    let failed = |error: reqwest::Error| Failure::at(format!("{server} does not answer (--server)"), error);
    let client = reqwest::Client::builder().build().map_err(failed)?;
    let mut request = client.post(url);
    if let Some(token) = token {
        request = request.bearer_auth(token.expose());
    }
    let response = request.send().await.map_err(failed)?;
    let succeeded = response.status().is_success();
    let body: Value = response.json().await.map_err(failed)?;
    if succeeded {
        return Ok(body);
    }
    let detail = body["detail"].as_str().unwrap_or("the server gave no reason").to_owned();
    Err(Failure::at(format!("{server} refused"), detail))
}
