//! The private Postgres: made once, stopped with the server, recovered after kill -9, one server a directory.

use crate::stage::folder;
use hoglake_testkit::server::{ServerCommand, ServerProcess};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

async fn start(state: &Path) -> ServerProcess {
    // Variables for other Postgres clients must not reach the private one.
    let command =
        ServerCommand::serve().state_dir(state).env("PGPORT", "7777").env("PGUSER", "x").env("PGSSLMODE", "require");
    tokio::task::spawn_blocking(move || command.start()).await.unwrap()
}

/// Processes whose working directory is the cluster.
fn processes(state: &Path) -> Vec<i32> {
    let data = state.join("data").canonicalize().unwrap();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == data))
        .collect()
}

fn postmaster(state: &Path) -> i32 {
    let text = std::fs::read_to_string(state.join("data/postmaster.pid")).unwrap();
    text.lines().next().unwrap().parse().unwrap()
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(40);
    while !holds().await {
        assert!(Instant::now() < deadline, "still not: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn create_catalog(server: &ServerProcess, name: &str) {
    let body = json!({"name": name, "data_path": format!("s3://b/{name}")});
    let response = server.request("POST", "/v1/catalogs").json(&body).send().await;
    assert_eq!(response.status, 201, "{}", response.text());
}

async fn has_catalog(server: &ServerProcess, name: &str) -> bool {
    server.request("GET", &format!("/v1/catalogs/{name}")).send().await.status == 200
}

#[tokio::test]
async fn data_outlives_a_clean_stop_and_postgres_does_not() {
    let folder = folder();
    let state = folder.path().join("state");
    let server = start(&state).await;
    create_catalog(&server, "lake").await;
    assert!(server.stop().success());
    assert_eq!(processes(&state), Vec::<i32>::new());
    let log = std::fs::read_to_string(state.join("postgres.log")).unwrap();
    assert!(!log.contains("not properly shut down"), "{log}");

    let server = start(&state).await;
    assert!(has_catalog(&server, "lake").await);
}

#[tokio::test]
async fn a_killed_server_takes_its_postgres_along_and_starts_again() {
    let folder = folder();
    let state = folder.path().join("state");
    let server = start(&state).await;
    create_catalog(&server, "lake").await;
    server.kill();
    // At once, while the former Postgres may still be stopping.
    let server = start(&state).await;
    assert!(has_catalog(&server, "lake").await);
    server.kill();
    until("Postgres is gone", async || processes(&state).is_empty()).await;
}

#[tokio::test]
async fn a_postgres_that_was_left_behind_is_ended() {
    let folder = folder();
    let state = folder.path().join("state");
    let server = start(&state).await;
    create_catalog(&server, "lake").await;
    // The guard dies too: only the next start can clean up.
    let guard = children(server.pid(), "sh");
    assert_eq!(guard.len(), 1);
    let orphan = postmaster(&state);
    for pid in guard {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
    }
    server.kill();
    assert!(processes(&state).contains(&orphan));
    let server = start(&state).await;
    assert!(has_catalog(&server, "lake").await);
    assert_ne!(postmaster(&state), orphan);
}

fn children(parent: u32, name: &str) -> Vec<i32> {
    let list = std::fs::read_dir("/proc").unwrap().flatten();
    list.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let (command, rest) = stat.rsplit_once(") ").unwrap_or_default();
            command.ends_with(&format!("({name}")) && rest.split(' ').nth(1) == Some(&parent.to_string())
        })
        .collect()
}

#[tokio::test]
async fn a_postgres_that_dies_is_started_again() {
    let folder = folder();
    let state = folder.path().join("state");
    let server = start(&state).await;
    create_catalog(&server, "lake").await;
    let first = postmaster(&state);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(first), nix::sys::signal::Signal::SIGKILL).unwrap();
    until("the catalog is back", async || has_catalog(&server, "lake").await).await;
    until("health is back", async || server.request("GET", "/healthz").send().await.status == 200).await;
    assert_ne!(postmaster(&state), first);
    create_catalog(&server, "second").await;
}

#[tokio::test]
async fn a_second_server_on_the_same_state_is_refused() {
    let folder = folder();
    let state = folder.path().join("state");
    let server = start(&state).await;
    let second = ServerCommand::serve().state_dir(&state).env("HOGLAKE_PORT", "0").output();
    let message = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success());
    assert!(message.contains(&*state.to_string_lossy()) && message.contains("HOGLAKE_STATE_DIR"), "{message}");
    assert!(message.contains(&server.pid().to_string()), "{message}");
    assert_eq!(server.request("GET", "/healthz").send().await.status, 200);
}

#[tokio::test]
async fn a_half_made_cluster_is_made_again_and_a_long_path_works() {
    let folder = folder();
    let state = folder.path().join("long".repeat(30)).join("state");
    std::fs::create_dir_all(state.join("data.unfinished/base")).unwrap();
    std::fs::write(state.join("data.unfinished/PG_VERSION"), "15\n").unwrap();
    let server = start(&state).await;
    assert_eq!(server.request("GET", "/healthz").send().await.status, 200);
    assert!(!state.join("data.unfinished").exists());
    assert!(server.stop().success());
}

#[test]
fn missing_programs_and_foreign_folders_are_explained() {
    let folder = folder();
    let state = folder.path().join("state");
    let command = || ServerCommand::serve().state_dir(&state).env("HOGLAKE_PORT", "0");
    let missing = command().env("HOGLAKE_PG_BIN", "/nowhere").output();
    let message = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(
        !missing.status.success() && message.contains("HOGLAKE_PG_BIN") && message.contains("/nowhere"),
        "{message}"
    );

    std::fs::create_dir_all(state.join("data")).unwrap();
    std::fs::write(state.join("data/holiday.jpg"), "precious").unwrap();
    let foreign = command().output();
    let message = String::from_utf8_lossy(&foreign.stderr).into_owned();
    assert!(!foreign.status.success() && message.contains("data"), "{message}");
    assert_eq!(std::fs::read_to_string(state.join("data/holiday.jpg")).unwrap(), "precious");
}
