//! A small HTTP/1.1 client that sends exactly what a test says, one connection a request.

use serde_json::Value;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request in the making.
pub struct Request {
    address: SocketAddr,
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Header names in lower case, with their values, in order.
    pub headers: Vec<(String, String)>,
    /// The body, freed from chunked encoding.
    pub body: Vec<u8>,
}

impl Request {
    /// `method` on `target` (path and query, as they go over the wire) at `address`.
    pub fn new(address: SocketAddr, method: &str, target: &str) -> Self {
        Self { address, method: method.to_owned(), target: target.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds `Authorization: Bearer`.
    pub fn bearer(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    /// Sets the body to these bytes.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets the body to `value`, with its content type.
    pub fn json(self, value: &Value) -> Self {
        self.header("Content-Type", "application/json").body(value.to_string())
    }

    /// Sends it and reads the whole answer.
    ///
    /// # Panics
    /// When there is no answer.
    pub async fn send(self) -> Response {
        let what = format!("{} {}", self.method, self.target);
        self.try_send().await.unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    /// Sends it and reads the whole answer, for a server that may be gone.
    ///
    /// # Errors
    /// When it is.
    pub async fn try_send(self) -> std::io::Result<Response> {
        let mut stream = TcpStream::connect(self.address).await?;
        let mut head =
            format!("{} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.method, self.target, self.address);
        if !self.body.is_empty() || !matches!(self.method.as_str(), "GET" | "HEAD" | "DELETE") {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(&self.body).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        parse(&answer, self.method == "HEAD").ok_or_else(|| {
            std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the connection closed without a whole answer")
        })
    }
}

impl Response {
    /// The first value of a header; the name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is not.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {}", String::from_utf8_lossy(&self.body)))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Status and code of a failed request: `error`, or `type` in the words of the conversion contract.
    pub fn failure(&self) -> (u16, String) {
        let body = self.json();
        let code = body["error"].as_str().or(body["type"].as_str());
        (self.status, code.unwrap_or_default().to_owned())
    }
}

fn parse(answer: &[u8], bodiless: bool) -> Option<Response> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let body = &answer[end + 4..];
    let find = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let body = if find("transfer-encoding") == Some("chunked") {
        unchunk(body)?
    } else {
        let length = find("content-length").and_then(|value| value.parse().ok());
        if !bodiless && length.is_some_and(|length: usize| length != body.len()) {
            return None;
        }
        body.to_vec()
    };
    Some(Response { status, headers, body })
}

fn unchunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).ok()?.trim(), 16).ok()?;
        rest = &rest[line + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size + 2..)?;
    }
}
