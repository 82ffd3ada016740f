//! HTTP manners: every failure is JSON, ids travel, slow clients and big bodies are bounded.

use crate::stage::{server, server_with};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn unknown_routes_and_wrong_methods_are_json() {
    let (server, _database) = server().await;
    for target in ["/", "/v1", "/v1/", "/v1/nope", "/v1/info/", "//v1/info", "/v1/catalogs/", "/livez/x"] {
        let response = server.request("GET", target).send().await;
        assert_eq!(response.failure(), (404, "not_found".to_owned()), "{target}");
        assert_eq!(response.header("content-type"), Some("application/json"), "{target}");
    }
    for (method, target, allow) in [
        ("POST", "/v1/info", "GET,HEAD"),
        ("PUT", "/v1/catalogs", "GET,HEAD,POST"),
        ("TRACE", "/v1/info", "GET,HEAD"),
        ("GET", "/v1/catalogs/c/commit", "POST"),
        ("BREW", "/livez", "GET,HEAD"),
    ] {
        let response = server.request(method, target).send().await;
        assert_eq!(response.failure(), (405, "method_not_allowed".to_owned()), "{method} {target}");
        let mut allowed: Vec<&str> = response.header("allow").unwrap().split(',').collect();
        allowed.sort_unstable();
        assert_eq!(allowed.join(","), allow, "{method} {target}");
    }
}

#[tokio::test]
async fn a_request_id_travels_or_is_made() {
    let (server, _database) = server().await;
    let sent = server.request("GET", "/v1/nope").header("X-Request-Id", "trace-1.a_B").send().await;
    assert_eq!(sent.header("x-request-id"), Some("trace-1.a_B"));
    let replaced = server.request("GET", "/v1/info").header("X-Request-Id", "two words").send().await;
    assert!(uuid::Uuid::parse_str(replaced.header("x-request-id").unwrap()).is_ok());
}

#[tokio::test]
async fn undecodable_bodies_are_400_and_change_nothing() {
    let (server, _database) = server().await;
    let valid = json!({"name": "lake", "data_path": "s3://b/lake"}).to_string();
    let utf16: Vec<u8> = valid.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let utf32: Vec<u8> = valid.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect();
    let bodies: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"null".to_vec(),
        b"{".to_vec(),
        b"[]".to_vec(),
        b"\"text\"".to_vec(),
        b"\xff\xfe".to_vec(),
        b"{\"name\": \"\xc3\x28\"}".to_vec(),
        format!("{valid} x").into_bytes(),
        format!("\u{feff}{valid}").into_bytes(),
        utf16,
        utf32,
        vec![b'['; 200_000],
    ];
    for body in bodies {
        let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
        let request = server.request("POST", "/v1/catalogs").header("Content-Type", "application/json").body(body);
        assert_eq!(request.send().await.failure(), (400, "bad_request".to_owned()), "{shown}");
    }
    for content_type in
        ["text/plain", "application/xml", "application/json; charset=utf-16", "application/x-www-form-urlencoded"]
    {
        let request = server.request("POST", "/v1/catalogs").header("Content-Type", content_type).body(valid.clone());
        assert_eq!(request.send().await.failure(), (400, "bad_request".to_owned()), "{content_type}");
    }
    let untyped = server.request("POST", "/v1/catalogs").body(valid.clone()).send().await;
    assert_eq!(untyped.failure(), (400, "bad_request".to_owned()));
    assert_eq!(server.request("GET", "/v1/catalogs").send().await.json(), json!([]));
    let typed = server.request("POST", "/v1/catalogs").header("Content-Type", "Application/JSON; charset=UTF-8");
    assert_eq!(typed.body(valid).send().await.status, 201);
}

#[tokio::test]
async fn a_body_above_the_limit_is_413_however_it_is_sent() {
    let (server, _database) = server_with(|command| command.env("HOGLAKE_BODY_LIMIT_BYTES", "1000")).await;
    let big = format!("{{\"name\": \"{}\"}}", "x".repeat(3_000_000));
    let announced = server.request("POST", "/v1/catalogs").header("Content-Type", "application/json").body(big.clone());
    assert_eq!(announced.send().await.failure(), (413, "payload_too_large".to_owned()));

    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let head = "POST /v1/catalogs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    for part in big.as_bytes().chunks(50_000) {
        stream.write_all(format!("{:x}\r\n", part.len()).as_bytes()).await.unwrap();
        stream.write_all(part).await.unwrap();
        stream.write_all(b"\r\n").await.unwrap();
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("payload_too_large"), "{answer}");
}

#[tokio::test]
async fn slow_clients_are_given_up() {
    let (server, _database) =
        server_with(|command| command.env("HOGLAKE_HEADER_TIMEOUT_MS", "300").env("HOGLAKE_BODY_TIMEOUT_MS", "300"))
            .await;
    let begin = Instant::now();
    let mut silent = TcpStream::connect(server.address()).await.unwrap();
    let mut dribbling = TcpStream::connect(server.address()).await.unwrap();
    dribbling.write_all(b"GET /v1/in").await.unwrap();
    let mut stalled = TcpStream::connect(server.address()).await.unwrap();
    let head =
        b"POST /v1/catalogs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"na";
    stalled.write_all(head).await.unwrap();
    let mut answers = Vec::new();
    for stream in [&mut silent, &mut dribbling, &mut stalled] {
        let mut answer = Vec::new();
        let _ =
            tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await.expect("it is closed");
        answers.push(String::from_utf8_lossy(&answer).into_owned());
    }
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert!(answers[0].is_empty(), "{}", answers[0]);
    assert!(answers[2].starts_with("HTTP/1.1 408") && answers[2].contains("bad_request"), "{}", answers[2]);
}

#[tokio::test]
async fn a_client_that_takes_no_answers_is_cut_off() {
    let (server, _database) = server_with(|command| command.env("HOGLAKE_WRITE_TIMEOUT_MS", "300")).await;
    let whole = server.request("GET", "/openapi.yaml").send().await.body.len();
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    // More than any pair of socket buffers holds.
    let wanted = 64 * 1024 * 1024 / whole;
    let (mut reading, mut writing) = stream.split();
    let requests = "GET /openapi.yaml HTTP/1.1\r\nHost: x\r\n\r\n".repeat(wanted);
    let _ = tokio::time::timeout(Duration::from_secs(2), writing.write_all(requests.as_bytes())).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut received = 0;
    let mut buffer = vec![0; 1 << 20];
    let end = async {
        while let Ok(length) = reading.read(&mut buffer).await {
            if length == 0 {
                break;
            }
            received += length;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), end).await.expect("the connection is closed");
    assert!(received < wanted * whole, "all {received} bytes came");
}

#[tokio::test]
async fn answers_are_compressed_when_asked_and_large_enough() {
    let (server, _database) = server().await;
    let plain = server.request("GET", "/openapi.yaml").send().await;
    assert!(plain.header("content-encoding").is_none() && plain.body.starts_with(b"openapi:"));
    for (encoding, magic) in [("gzip", &[0x1f, 0x8b][..]), ("zstd", &[0x28, 0xb5, 0x2f, 0xfd][..])] {
        let response = server.request("GET", "/openapi.yaml").header("Accept-Encoding", encoding).send().await;
        assert_eq!(response.header("content-encoding"), Some(encoding));
        assert!(response.body.starts_with(magic) && response.body.len() < plain.body.len() / 2, "{encoding}");
    }
    let tiny = server.request("GET", "/v1/info").header("Accept-Encoding", "gzip, zstd").send().await;
    assert_eq!((tiny.header("content-encoding"), tiny.text().as_str()), (None, "{}"));
}

#[tokio::test]
async fn path_segments_are_decoded_once() {
    let (server, _database) = server().await;
    for (segment, named) in [("a%2Fb", "`a/b`"), ("a%252Fb", "`a%2Fb`"), ("o%27brien", "brien`"), ("%00", "")] {
        let response = server.request("GET", &format!("/v1/catalogs/{segment}")).send().await;
        assert_eq!(response.failure(), (404, "not_found".to_owned()), "{segment}");
        assert!(response.text().contains(named), "{}", response.text());
    }
    let response = server.request("GET", "/v1/catalogs/%ff").send().await;
    assert_eq!(response.failure(), (400, "bad_request".to_owned()));
}

/// The answer to `request` as it comes over the wire, and its body.
async fn raw(address: std::net::SocketAddr, request: &[u8]) -> (String, serde_json::Value) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (mut reading, mut writing) = stream.split();
    // The server may close before it has read all.
    let _ = writing.write_all(request).await;
    let mut answer = Vec::new();
    let _ =
        tokio::time::timeout(Duration::from_secs(20), reading.read_to_end(&mut answer)).await.expect("it is closed");
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    let body = serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"));
    (head.to_ascii_lowercase(), body)
}

#[tokio::test]
async fn what_cannot_be_parsed_is_refused_in_json() {
    let (server, _database) = server().await;
    let long = format!("GET /v1/{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(70_000));
    let large = format!("GET /v1/info HTTP/1.1\r\nHost: x\r\nX-Large: {}\r\n\r\n", "x".repeat(600_000));
    let many = format!("GET /v1/info HTTP/1.1\r\nHost: x\r\n{}\r\n", "X-Many: x\r\n".repeat(200));
    for (request, status) in [
        ("\x16\x03\x01\x02 not http at all\r\n\r\n".to_owned(), "400"),
        ("GET\r\n\r\n".to_owned(), "400"),
        ("GET /v1/info HTTP/1.1\r\nbad header\r\n\r\n".to_owned(), "400"),
        ("GET /v1/in fo HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), "400"),
        (long, "414"),
        (large, "431"),
        (many, "431"),
    ] {
        let shown = request.chars().take(40).collect::<String>();
        let (head, body) = raw(server.address(), request.as_bytes()).await;
        assert!(head.starts_with(&format!("http/1.1 {status} ")), "{shown}: {head}");
        assert!(head.contains("content-type: application/json") && head.contains("x-request-id: "), "{head}");
        assert_eq!(body["error"], "bad_request", "{shown}");
        assert!(body["detail"].as_str().is_some_and(|detail| detail.len() > 20));
    }
}

/// Large bodies share a budget: those beyond it are told to come back, and small requests are served all the while.
#[tokio::test]
async fn large_bodies_are_bounded_together() {
    let settings = [("HOGLAKE_BODY_LIMIT_BYTES", "1000000"), ("HOGLAKE_BODY_BUDGET_BYTES", "1500000")];
    let (server, _database) =
        server_with(|command| settings.iter().fold(command, |command, (name, value)| command.env(name, value))).await;
    let body = format!("{{\"name\": \"{}\"}}", "x".repeat(899_988));
    // All but the last byte: it stays in memory.
    let stall = async || {
        let head =
            "POST /v1/catalogs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 900000\r\n\r\n";
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&body.as_bytes()[..899_999]).await.unwrap();
        stream
    };
    let ask = || server.request("POST", "/v1/catalogs").header("Content-Type", "application/json").body(body.clone());
    let held = async || {
        let metrics = server.request("GET", "/metrics").send().await.text();
        metrics.lines().find_map(|line| line.strip_prefix("hoglake_request_body_bytes ").map(str::to_owned))
    };
    let mut waiting = stall().await;
    // Two that are read at the same time could both find no room: the next one is sent when this one has its place.
    let deadline = Instant::now() + Duration::from_secs(30);
    while held().await.as_deref() != Some("900096") {
        assert!(Instant::now() < deadline, "in whole KiB: {:?}", held().await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let refused = ask().send().await;
    assert_eq!(refused.failure(), (503, "unavailable".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("1"));
    let small =
        server.request("POST", "/v1/catalogs").json(&json!({"name": "a", "data_path": "s3://b/a"})).send().await;
    assert_eq!(small.status, 201);
    let metrics = server.request("GET", "/metrics").send().await.text();
    assert!(metrics.contains("hoglake_requests_shed_total{reason=\"body_budget\"}"));

    waiting.write_all(b"}").await.unwrap();
    let mut answer = [0; 12];
    waiting.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 400", "it has no data path");
    assert_eq!(ask().send().await.status, 400, "its memory is free again");
    assert_eq!(held().await.as_deref(), Some("0"));
}
