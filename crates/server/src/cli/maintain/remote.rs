//! The same through a server.

use super::super::failure::Failure;
use super::{EVERYTHING, Maintain, Task};
use crate::config::Secret;
use reqwest::{Method, Response};
use serde_json::Value;

/// A server to ask.
pub(in super::super) struct Server {
    address: String,
    /// The address for people: without the name and password that it may carry.
    shown: String,
    client: reqwest::Client,
    token: Option<String>,
}

impl Server {
    /// The server at `address`, with a token if it wants one.
    pub(in super::super) fn new(address: &str, token: Option<&Secret>) -> Result<Self, Failure> {
        let client =
            reqwest::Client::builder().build().map_err(|error| Failure::at("cannot speak HTTP (--server)", error))?;
        let token = token.map(|token| token.expose().to_owned());
        Ok(Self { address: address.trim_end_matches('/').to_owned(), shown: without_login(address), client, token })
    }

    /// Asks for what is at `path` below `/v1`, whose segments are encoded here.
    pub(in super::super) async fn get(&self, path: &[&str], query: &str) -> Result<Response, Failure> {
        self.ask(Method::GET, path, query).await
    }

    async fn ask(&self, method: Method, path: &[&str], query: &str) -> Result<Response, Failure> {
        let mut url = format!("{}/v1", self.address);
        for segment in path {
            let segment = percent_encoding::utf8_percent_encode(segment, percent_encoding::NON_ALPHANUMERIC);
            url = format!("{url}/{segment}");
        }
        let mut request = self.client.request(method, format!("{url}{query}"));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.map_err(|error| self.failed(error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let body: Value = response.json().await.map_err(|error| self.failed(error))?;
        let detail = body["detail"].as_str().unwrap_or("the server gave no reason").to_owned();
        Err(Failure::at(format!("{} refused", self.shown), detail))
    }

    fn failed(&self, error: reqwest::Error) -> Failure {
        Failure::at(format!("{} does not answer (--server)", self.shown), error.without_url())
    }
}

fn without_login(address: &str) -> String {
    let Some(mut url) = url::Url::parse(address).ok().filter(url::Url::has_host) else {
        return "the address".to_owned();
    };
    // an address that cannot have a login has none to take away
    let _ = url.set_password(None).and_then(|()| url.set_username(""));
    url.as_str().trim_end_matches('/').to_owned()
}

/// Asks `server` for one bite of `task`, and gives its answer.
pub(super) async fn run(server: &Server, asked: &Maintain, task: Task) -> Result<Value, Failure> {
    let operation = match task {
        Task::Hydrate => "hydrate",
        Task::Expire => "expire",
        Task::Clean => "cleanup",
        Task::Compact => "compact",
        Task::Verify => "verify",
    };
    let mut query = Vec::new();
    // a preview has no second bite: it is of everything
    if let Some(batch) = asked.batch.or(asked.dry_run.then_some(EVERYTHING)) {
        query.push(format!("batch={batch}"));
    }
    if asked.dry_run {
        query.push("dry_run=true".to_owned());
    }
    if asked.deep {
        query.push("deep=true".to_owned());
    }
    let query = format!("?{}", query.join("&"));
    let response = server.ask(Method::POST, &["catalogs", &asked.catalog, "maintenance", operation], &query).await?;
    response.json().await.map_err(|error| server.failed(error))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_login_in_the_address_is_not_shown() {
        assert_eq!(super::without_login("http://u:secret@127.0.0.1:1/"), "http://127.0.0.1:1");
        assert_eq!(super::without_login("http://127.0.0.1:8080"), "http://127.0.0.1:8080");
        assert_eq!(super::without_login("u:secret@host"), "the address");
    }
}
