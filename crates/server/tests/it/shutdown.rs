//! Stopping: what was accepted is answered, for a bounded time.

use crate::stage::{server, server_with};
use nix::sys::signal::Signal;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const HEAD: &str = "POST /v1/catalogs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ";

#[tokio::test]
async fn an_accepted_request_is_answered_after_the_signal() {
    let (mut server, _database) = server().await;
    let body = json!({"name": "lake", "data_path": "s3://b/lake"}).to_string();
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(format!("{HEAD}{}\r\n\r\n{}", body.len(), &body[..10]).as_bytes()).await.unwrap();
    // The server has the head: its handler waits for the rest.
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.signal(Signal::SIGTERM);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(TcpStream::connect(server.address()).await.is_err(), "it still takes connections");
    stream.write_all(&body.as_bytes()[10..]).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert!(server.wait().success());
}

#[tokio::test]
async fn a_request_that_never_ends_is_cut_off_when_time_is_up() {
    let (mut server, _database) = server_with(|command| command.env("HOGLAKE_SHUTDOWN_TIMEOUT_MS", "500")).await;
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(format!("{HEAD}1000\r\n\r\n{{").as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begin = Instant::now();
    server.signal(Signal::SIGINT);
    assert!(server.wait().success());
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn an_idle_connection_does_not_hold_up_the_stop() {
    let (mut server, _database) = server().await;
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = [0; 512];
    assert!(stream.read(&mut answer).await.unwrap() > 0);
    let begin = Instant::now();
    server.signal(Signal::SIGTERM);
    assert!(server.wait().success());
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}
