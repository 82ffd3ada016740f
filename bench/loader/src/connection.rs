//! One HTTP/1.1 connection that is kept alive.

use std::io::{Error, ErrorKind, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) struct Connection {
    stream: TcpStream,
    host: String,
    head: Vec<u8>,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, host: address.to_owned(), head: Vec::new(), buffer: Vec::with_capacity(4096) })
    }

    /// Sends `body` and returns the status and the body of the answer, which must have a Content-Length.
    pub(crate) async fn post(&mut self, path: &str, body: &[u8]) -> Result<(u16, String)> {
        self.head.clear();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.host,
            body.len()
        );
        self.head.extend_from_slice(head.as_bytes());
        self.head.extend_from_slice(body);
        self.stream.write_all(&self.head).await?;
        self.answer().await
    }

    async fn answer(&mut self) -> Result<(u16, String)> {
        self.buffer.clear();
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            self.fill().await?;
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or_else(|| malformed("status"))?;
        let length: usize = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"))
            .and_then(|value| value.trim().parse().ok())
            .ok_or_else(|| malformed("content-length"))?;
        while self.buffer.len() < end + length {
            self.fill().await?;
        }
        Ok((status, String::from_utf8_lossy(&self.buffer[end..end + length]).into_owned()))
    }

    async fn fill(&mut self) -> Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(Error::new(ErrorKind::UnexpectedEof, "the server closed the connection")),
            _ => Ok(()),
        }
    }
}

fn malformed(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("the answer has no {what}"))
}
