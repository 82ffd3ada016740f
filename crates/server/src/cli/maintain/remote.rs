//! The same through a server.

use super::super::failure::Failure;
use super::{EVERYTHING, Maintain, Task};
use crate::config::{ConfigError, Secret};
use reqwest::{Method, Response, StatusCode};
use serde_json::Value;
use url::Url;

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
        let url = check(address).map_err(|why| ConfigError(format!("HOGLAKE_SERVER (--server) {why}")))?;
        let client =
            reqwest::Client::builder().build().map_err(|error| Failure::at("cannot speak HTTP (--server)", error))?;
        let token = token.map(|token| token.expose().to_owned());
        let address = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { address, shown: without_login(url), client, token })
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
        let status = response.status();
        match response.json::<Value>().await.ok().and_then(|body| body["detail"].as_str().map(str::to_owned)) {
            Some(detail) => Err(Failure::at(format!("{} refused", self.shown), detail)),
            None => Err(self.stranger(status)),
        }
    }

    /// The answer of something that is no hoglake.
    fn stranger(&self, status: StatusCode) -> Failure {
        let why = "not as a hoglake server does: is that the address of one (HOGLAKE_SERVER, --server)?";
        Failure::at(format!("{} answered {status}", self.shown), why)
    }

    fn failed(&self, error: reqwest::Error) -> Failure {
        Failure::at(format!("{} does not answer (--server)", self.shown), error.without_url())
    }
}

/// The address of a server, or what is wrong with it, without repeating what may hold a password.
fn check(address: &str) -> Result<Url, String> {
    let example = "give the server's address, such as http://127.0.0.1:8080";
    let url = Url::parse(address).ok().filter(|url| url.has_host() && matches!(url.scheme(), "http" | "https"));
    let Some(url) = url else { return Err(format!("is no http:// or https:// URL: {example}")) };
    if url.query().is_some() || url.fragment().is_some() {
        return Err(format!("has a query or a fragment: {example}"));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    match path.strip_suffix("/v1") {
        Some(before) => {
            let mut right = url;
            right.set_path(before);
            Err(format!("ends in /v1, which the command adds itself: give {}", without_login(right)))
        }
        None => Ok(url),
    }
}

fn without_login(mut url: Url) -> String {
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
    let status = response.status();
    match response.json::<Value>().await {
        Ok(answer) if answer.is_object() => Ok(answer),
        Err(error) if !error.is_decode() => Err(server.failed(error)),
        _ => Err(server.stranger(status)),
    }
}

#[cfg(test)]
mod tests {
    use super::{check, without_login};

    #[test]
    fn a_login_in_the_address_is_not_shown() {
        let shown = |address: &str| without_login(check(address).unwrap());
        assert_eq!(shown("http://u:secret@127.0.0.1:1/"), "http://127.0.0.1:1");
        assert_eq!(shown("http://127.0.0.1:8080"), "http://127.0.0.1:8080");
        assert_eq!(shown("https://host/behind/a/proxy/"), "https://host/behind/a/proxy");
    }

    #[test]
    fn what_is_no_address_of_a_server_is_refused_in_words() {
        for wrong in
            ["notaurl", "", "127.0.0.1:8080", "u:secret@host", "ftp://host", "file:///tmp/x", "postgres://u:secret@h/d"]
        {
            let why = check(wrong).unwrap_err();
            assert!(
                why.contains("is no http:// or https:// URL") && why.contains("http://127.0.0.1:8080"),
                "{wrong}: {why}"
            );
            assert!(!why.contains("secret"), "{why}");
        }
        for versioned in ["http://u:secret@h/v1", "http://h/v1/"] {
            assert_eq!(check(versioned).unwrap_err(), "ends in /v1, which the command adds itself: give http://h");
        }
        assert!(check("http://h/?x=1").unwrap_err().contains("query"));
    }
}
