//! HTTP as a patient client does it: one key a mutation, tried again under that key until a server answers.

use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Why the checker cannot go on.
#[derive(Debug)]
pub enum Failure {
    /// No server answered for as long as the plan allows.
    Unreachable(String),
    /// An answer that the contract does not allow.
    Contract(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(what) => write!(f, "no server answered in time: {what}"),
            Self::Contract(what) => write!(f, "an answer breaks the contract: {what}"),
        }
    }
}

impl std::error::Error for Failure {}

/// A definite answer.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Value,
    /// Tries that it took; more than one means that an earlier try may have taken effect unseen.
    pub(super) tries: usize,
}

impl Answer {
    pub(super) fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub(super) fn integer(&self, field: &str) -> Result<i64, Failure> {
        self.body[field].as_i64().ok_or_else(|| Failure::Contract(format!("no integer `{field}` in {}", self.body)))
    }
}

/// A client of all servers of a deployment.
pub(super) struct Client {
    http: reqwest::Client,
    bases: Vec<String>,
    next: AtomicUsize,
    token: Option<String>,
    patience: Duration,
}

impl Client {
    pub(super) fn new(urls: &[String], token: Option<&str>, patience: Duration) -> Result<Self, Failure> {
        // a second installation of the same provider is no error
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .timeout(Duration::from_secs(20))
            .build()
            .map_err(|e| Failure::Unreachable(e.to_string()))?;
        let bases = urls.iter().map(|u| format!("{}/v1", u.trim_end_matches('/'))).collect();
        Ok(Self { http, bases, next: AtomicUsize::new(0), token: token.map(str::to_owned), patience })
    }

    /// A mutation under a fresh Idempotency-Key; `null` sends no body.
    pub(super) async fn write(&self, path: &str, method: &str, body: &Value) -> Result<Answer, Failure> {
        let key = uuid::Uuid::new_v4().to_string();
        self.send(path, method, Some(body).filter(|b| !b.is_null()), Some(&key)).await
    }

    pub(super) async fn get(&self, path: &str) -> Result<Answer, Failure> {
        self.send(path, "GET", None, None).await
    }

    async fn send(&self, path: &str, method: &str, body: Option<&Value>, key: Option<&str>) -> Result<Answer, Failure> {
        let started = Instant::now();
        let mut tries = 0;
        loop {
            tries += 1;
            let problem = match self.attempt(path, method, body, key).await {
                Ok((status, body)) if status < 500 => return Ok(Answer { status, body, tries }),
                Ok((503, body)) => format!("503 {body}"),
                Ok((status, body)) => return Err(Failure::Contract(format!("{method} {path}: {status} {body}"))),
                Err(error) => error.to_string(),
            };
            if started.elapsed() > self.patience {
                return Err(Failure::Unreachable(format!("{method} {path}: {problem}")));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn attempt(
        &self,
        path: &str,
        method: &str,
        body: Option<&Value>,
        key: Option<&str>,
    ) -> Result<(u16, Value), reqwest::Error> {
        let base = &self.bases[self.next.fetch_add(1, Ordering::Relaxed) % self.bases.len()];
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap_or(reqwest::Method::GET);
        let mut request = self.http.request(method, format!("{base}{path}"));
        if let Some(body) = body {
            request = request.json(body);
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await?;
        let status = response.status().as_u16();
        let text = response.bytes().await?;
        Ok((status, serde_json::from_slice(&text).unwrap_or(Value::Null)))
    }
}
