//! Who may do what: tokens, scopes, and the addresses that need them.

use crate::stage::{database, folder, server_with};
use hoglake_server::auth::Requirement;
use hoglake_server::router::operations;
use hoglake_testkit::server::{ServerCommand, ServerProcess};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// Makes a token with the command line; adds its line to the file.
fn token(file: &Path, name: &str, scopes: &[&str]) -> String {
    let mut command = ServerCommand::new("token").arg("new").arg("--json").arg("--name").arg(name);
    for scope in scopes {
        command = command.arg("--scope").arg(scope);
    }
    let output = command.output();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut lines = std::fs::read_to_string(file).unwrap_or_default();
    lines.push_str(made["line"].as_str().unwrap());
    lines.push('\n');
    std::fs::write(file, lines).unwrap();
    made["token"].as_str().unwrap().to_owned()
}

async fn status(server: &ServerProcess, method: &str, target: &str, token: &str) -> u16 {
    server.request(method, target).bearer(token).send().await.status
}

#[tokio::test]
async fn tokens_open_what_their_scopes_say() {
    let folder = folder();
    let file = folder.path().join("tokens");
    let admin = token(&file, "ops", &["*:admin"]);
    let writer = token(&file, "ingest", &["lake:write"]);
    let reader = token(&file, "bi", &["lake:read"]);
    let (server, _database) = server_with(|command| command.env("HOGLAKE_TOKENS_FILE", file.to_string_lossy())).await;

    for name in ["lake", "other"] {
        let body = json!({"name": name, "data_path": format!("s3://b/{name}")});
        let made = server.request("POST", "/v1/catalogs").bearer(&admin).json(&body).send().await;
        assert_eq!(made.status, 201, "{}", made.text());
        let refused = server.request("POST", "/v1/catalogs").bearer(&writer).json(&body).send().await;
        assert_eq!(refused.failure(), (403, "forbidden".to_owned()));
        assert!(refused.text().contains("*:admin"), "{}", refused.text());
    }
    assert_eq!(status(&server, "GET", "/v1/catalogs/lake", &reader).await, 200);
    assert_eq!(status(&server, "GET", "/v1/catalogs/other", &reader).await, 403);
    assert_eq!(status(&server, "GET", "/v1/catalogs/%6Cake", &reader).await, 200);
    assert_eq!(status(&server, "GET", "/v1/info", &reader).await, 200);
    assert_eq!(status(&server, "GET", "/metrics", &reader).await, 403);
    assert_eq!(status(&server, "GET", "/metrics", &admin).await, 200);

    let namespace = json!({"name": "ns"});
    let create =
        |token: &str| server.request("POST", "/v1/catalogs/lake/namespaces").bearer(token).json(&namespace).send();
    assert_eq!(create(&reader).await.status, 403);
    assert_eq!(create(&writer).await.status, 201);
    let snapshots = server.request("GET", "/v1/catalogs/lake/snapshots").bearer(&reader).send().await.json();
    assert_eq!(snapshots["snapshots"][0]["author"], "ingest", "the author of DDL is the token's name");
    let listed = server.request("GET", "/v1/catalogs").bearer(&reader).send().await.json();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "a listing leaves out what the caller may not read");
    assert_eq!(status(&server, "POST", "/v1/catalogs/lake/maintenance/expire", &writer).await, 403);
}

#[tokio::test]
async fn without_a_valid_token_there_is_only_health_and_the_contract() {
    let folder = folder();
    let file = folder.path().join("tokens");
    let known = token(&file, "ops", &["*:admin"]);
    let (server, _database) = server_with(|command| command.env("HOGLAKE_TOKENS_FILE", file.to_string_lossy())).await;
    for target in ["/livez", "/healthz", "/openapi.yaml", "/docs"] {
        assert_eq!(server.request("GET", target).send().await.status, 200, "{target}");
    }
    for operation in operations() {
        let target = operation.path.replace(['{', '}'], "");
        let response = server.request(operation.method.as_str(), &target).send().await;
        assert_eq!(response.failure(), (401, "unauthenticated".to_owned()), "{}", operation.id);
        assert!(response.header("www-authenticate").is_some_and(|value| value.starts_with("Bearer")));
    }
    for header in ["Basic b3BzOm9wcw==", "Bearer", "Bearer ", "Bearer hog_nobody", &format!("Bearer {known}x")] {
        let response = server.request("GET", "/v1/info").header("Authorization", header).send().await;
        assert_eq!(response.failure(), (401, "unauthenticated".to_owned()), "{header}");
    }
    assert_eq!(
        server.request("GET", "/v1/info").header("authorization", &format!("bearer {known}")).send().await.status,
        200
    );
    assert!(!server.log().contains(&known));
}

#[tokio::test]
async fn a_changed_tokens_file_is_read_again_and_a_wrong_one_ignored() {
    let folder = folder();
    let file = folder.path().join("tokens");
    let first = token(&file, "first", &["*:read"]);
    let (server, _database) = server_with(|command| command.env("HOGLAKE_TOKENS_FILE", file.to_string_lossy())).await;
    let second = token(&file, "second", &["*:read"]);
    server.signal(nix::sys::signal::Signal::SIGHUP);
    let mut accepted = false;
    for _ in 0..100 {
        accepted = status(&server, "GET", "/v1/info", &second).await == 200;
        if accepted {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(accepted, "{}", server.log());
    std::fs::write(&file, "not a token\n").unwrap();
    for _ in 0..100 {
        if server.log().contains("tokens file not usable") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(server.log().contains("tokens file not usable"), "{}", server.log());
    assert_eq!(status(&server, "GET", "/v1/info", &first).await, 200);
}

#[tokio::test]
async fn an_open_address_needs_tokens_or_the_word_anonymous() {
    let database = database().await;
    let open = ServerCommand::serve().database(database.url()).env("HOGLAKE_LISTEN", "0.0.0.0:0");
    let refused = open.clone().output();
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2));
    assert!(message.contains("HOGLAKE_TOKENS_FILE") && message.contains("HOGLAKE_ALLOW_ANONYMOUS"), "{message}");

    let open = open.env("HOGLAKE_ALLOW_ANONYMOUS", "true");
    let server = tokio::task::spawn_blocking(move || open.start()).await.unwrap();
    assert!(server.stop().success());
}

#[test]
fn every_operation_is_in_the_table_of_requirements() {
    for operation in operations() {
        assert!(Requirement::of(operation.id).is_some(), "{}", operation.id);
    }
}

#[tokio::test]
async fn a_tokens_file_that_everybody_can_read_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let file = folder.path().join("tokens");
    token(&file, "ops", &["*:admin"]);
    for (mode, warned) in [(0o644, true), (0o640, false)] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let (server, _database) =
            server_with(|command| command.env("HOGLAKE_TOKENS_FILE", file.to_string_lossy())).await;
        assert_eq!(server.log().contains("everybody on this machine can read the tokens file"), warned, "{mode:o}");
    }
}

#[tokio::test]
async fn a_tokens_file_of_a_foreign_editor_says_what_is_wrong() {
    let folder = folder();
    let file = folder.path().join("tokens");
    token(&file, "ops", &["*:admin"]);
    let good = std::fs::read_to_string(&file).unwrap();
    let utf16: Vec<u8> = good.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for bad in [format!("\u{feff}{good}").into_bytes(), [&[0xff, 0xfe][..], &utf16].concat()] {
        std::fs::write(&file, bad).unwrap();
        let command = ServerCommand::serve().database("postgresql://localhost:1/nothing");
        let output = command.env("HOGLAKE_TOKENS_FILE", file.to_string_lossy()).output();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("byte-order mark") && message.contains("HOGLAKE_TOKENS_FILE"), "{message}");
    }
}
