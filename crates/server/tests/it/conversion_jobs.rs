//! Conversions as jobs: taken over, bounded, one a table, never with a credential in the database.
//!
//! A table whose hint is a named pipe holds a conversion up for as long as a test likes.

use crate::stage::{database, folder};
use hoglake_testkit::http::Response;
use hoglake_testkit::postgres::TestDatabase;
use hoglake_testkit::server::{ServerCommand, ServerProcess};
use nix::sys::stat::Mode;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const TABLE: &str = "/v1/conversion/table";
const SECRET: &str = "s3cret-of-a-request";

/// A folder with tables, and a database.
struct Stage {
    folder: TempDir,
    database: TestDatabase,
}

impl Stage {
    async fn new() -> Self {
        Self { folder: folder(), database: database().await }
    }

    async fn server(&self, settings: &[(&str, &str)]) -> ServerProcess {
        let mut command = ServerCommand::serve()
            .database(self.database.url())
            .env("HOGLAKE_CONVERSION_ROOTS", self.folder.path().to_string_lossy())
            .env("HOGLAKE_CONVERSION_LEASE_SECONDS", "2");
        for (name, value) in settings {
            command = command.env(name, value);
        }
        tokio::task::spawn_blocking(move || command.start()).await.unwrap()
    }

    /// A copy of a Delta table that Spark wrote, of one version.
    fn table(&self, name: &str) -> Table {
        let from =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/data/corpus/delta/dat-nested_types/table");
        let path = self.folder.path().join(name);
        for folder in ["", "_delta_log"] {
            std::fs::create_dir_all(path.join(folder)).unwrap();
            for entry in std::fs::read_dir(from.join(folder)).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_file() {
                    std::fs::copy(entry.path(), path.join(folder).join(entry.file_name())).unwrap();
                }
            }
        }
        Table(path)
    }
}

struct Table(PathBuf);

impl Table {
    fn hint(&self) -> PathBuf {
        self.0.join("_delta_log/_last_checkpoint")
    }

    /// Whoever reads the table from now on waits.
    fn hold(self) -> Self {
        nix::unistd::mkfifo(&self.hint(), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        self
    }

    /// Readers to come find a table without a hint.
    fn free(&self) {
        std::fs::remove_file(self.hint()).unwrap();
    }

    /// Lets those go that wait.
    fn let_go(&self) {
        let path = self.hint();
        std::thread::spawn(move || std::fs::write(path, "{}"));
    }

    fn body(&self) -> Value {
        json!({"source-format": "DELTA", "source-table-name": "t", "source-table-path": self.0,
               "target-formats": ["ICEBERG"]})
    }
}

async fn submit(server: &ServerProcess, body: &Value) -> Response {
    server.request("POST", TABLE).header("Prefer", "respond-async").json(body).send().await
}

async fn accepted(server: &ServerProcess, body: &Value) -> String {
    let response = submit(server, body).await;
    assert_eq!(response.status, 202, "{}", response.text());
    response.header("location").unwrap().to_owned()
}

async fn over(server: &ServerProcess, location: &str) -> Response {
    let deadline = Instant::now() + Duration::from_secs(40);
    loop {
        let response = server.request("GET", location).send().await;
        if response.status != 202 {
            return response;
        }
        assert!(Instant::now() < deadline, "the conversion does not end:\n{}", server.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn model(response: &Response) -> (u16, String, String) {
    let body = response.json();
    assert_eq!(body["code"], response.status, "{body}");
    (response.status, body["type"].as_str().unwrap().to_owned(), body["message"].as_str().unwrap().to_owned())
}

async fn running(stage: &Stage) {
    let pool = stage.database.pool().await;
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let count: i64 = sqlx::query_scalar("select count(*) from hoglake.conversion where state = 'running'")
            .fetch_one(&pool)
            .await
            .unwrap();
        if count > 0 {
            return;
        }
        assert!(Instant::now() < deadline, "no conversion runs");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_job_is_taken_over_from_a_server_that_was_killed() {
    let stage = Stage::new().await;
    let table = stage.table("t").hold();
    let first = stage.server(&[]).await;
    let location = accepted(&first, &table.body()).await;
    running(&stage).await;
    let second = stage.server(&[]).await;
    assert_eq!(second.request("GET", &location).send().await.status, 202);

    // Nobody else converts the table meanwhile, at whatever server, under whatever spelling.
    let spelled = format!("file:{}//_delta_log/", table.0.display());
    let mut other = table.body();
    other["source-table-path"] = json!(spelled);
    for (server, body) in [(&first, table.body()), (&second, other)] {
        for response in [submit(server, &body).await, server.request("POST", TABLE).json(&body).send().await] {
            let (status, kind, message) = model(&response);
            assert_eq!((status, kind.as_str()), (409, "conversion_running"));
            let id = location.rsplit('/').next().unwrap();
            assert!(
                message.contains("`anonymous`") && message.contains("since 20") && message.contains(id),
                "{message}"
            );
        }
    }

    first.kill();
    table.free();
    let response = over(&second, &location).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let target = &response.json()["conversions"][0];
    assert_eq!((&target["outcome"], &target["source-version"]), (&json!("committed"), &json!("0")));
    assert!(second.request("GET", "/metrics").send().await.text().contains("hoglake_conversion_takeovers_total 1"));
    let again = second.request("POST", TABLE).json(&table.body()).send().await;
    assert_eq!(again.json()["conversions"][0]["outcome"], "no-change");
}

#[tokio::test]
async fn a_job_whose_credentials_died_with_its_server_says_so() {
    let stage = Stage::new().await;
    let table = stage.table("t").hold();
    let first = stage.server(&[]).await;
    let mut body = table.body();
    body["configurations"] = json!({"s3.access-key-id": "AKIA", "s3.secret-access-key": SECRET});
    let location = accepted(&first, &body).await;
    running(&stage).await;
    let pool = stage.database.pool().await;
    let stored: String = sqlx::query_scalar("select string_agg(to_jsonb(c)::text, '') from hoglake.conversion c")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert!(!stored.contains(SECRET) && !stored.contains("AKIA"), "{stored}");
    assert!(!first.log().contains(SECRET) && !first.printed().contains(SECRET));
    first.kill();
    table.free();
    let second = stage.server(&[]).await;
    let (status, kind, message) = model(&over(&second, &location).await);
    assert_eq!((status, kind.as_str()), (500, "conversion_interrupted"));
    assert!(message.contains("send the request again"), "{message}");
    assert_eq!(over(&second, &accepted(&second, &body).await).await.status, 200);
}

#[tokio::test]
async fn a_client_that_waited_for_a_dead_server_may_ask_another() {
    let stage = Stage::new().await;
    let table = stage.table("t").hold();
    let first = stage.server(&[]).await;
    let waiting = first.request("POST", TABLE).json(&table.body()).try_send();
    let waiting = tokio::spawn(waiting);
    running(&stage).await;
    let second = stage.server(&[]).await;
    let busy = second.request("POST", TABLE).json(&table.body()).send().await;
    assert_eq!(model(&busy).1, "conversion_running");
    first.kill();
    assert!(waiting.await.unwrap().is_err());
    table.free();
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let response = second.request("POST", TABLE).json(&table.body()).send().await;
        if response.status == 200 {
            break;
        }
        assert!(response.status == 409 && Instant::now() < deadline, "{}", response.text());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_server_that_stops_gives_its_jobs_back() {
    let stage = Stage::new().await;
    let table = stage.table("t").hold();
    let first = stage.server(&[("HOGLAKE_CONVERSION_LEASE_SECONDS", "600")]).await;
    let location = accepted(&first, &table.body()).await;
    running(&stage).await;
    let begin = Instant::now();
    assert!(tokio::task::spawn_blocking(|| first.stop()).await.unwrap().success());
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    table.free();
    let second = stage.server(&[]).await;
    assert_eq!(over(&second, &location).await.status, 200);
}

#[tokio::test]
async fn what_a_client_asked_for_is_done_before_the_server_stops() {
    let stage = Stage::new().await;
    let table = stage.table("t").hold();
    let mut server = stage.server(&[]).await;
    let request = server.request("POST", TABLE).json(&table.body());
    let waiting = tokio::spawn(request.send());
    running(&stage).await;
    server.signal(nix::sys::signal::Signal::SIGTERM);
    tokio::time::sleep(Duration::from_millis(300)).await;
    table.let_go();
    assert_eq!(waiting.await.unwrap().status, 200);
    assert!(tokio::task::spawn_blocking(move || server.wait()).await.unwrap().success());
}

#[tokio::test]
async fn jobs_are_bounded_and_their_answers_kept_for_a_time() {
    let stage = Stage::new().await;
    let (held, other) = (stage.table("held").hold(), stage.table("other"));
    let settings = [("HOGLAKE_CONVERSION_MAX_JOBS", "1"), ("HOGLAKE_CONVERSION_JOB_RETENTION_SECONDS", "1")];
    let server = stage.server(&settings).await;
    let location = accepted(&server, &held.body()).await;
    running(&stage).await;
    for response in
        [submit(&server, &other.body()).await, server.request("POST", TABLE).json(&other.body()).send().await]
    {
        assert_eq!(model(&response).1, "too_many_conversions");
        assert_eq!((response.status, response.header("retry-after")), (503, Some("5")));
    }
    held.let_go();
    assert_eq!(over(&server, &location).await.status, 200);
    assert_eq!(server.request("POST", TABLE).json(&other.body()).send().await.status, 200);
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let response = server.request("GET", &location).send().await;
        if response.status == 404 {
            assert!(model(&response).2.contains("kept for 1 seconds"));
            return;
        }
        assert!(Instant::now() < deadline, "the answer stays");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn of_many_requests_for_one_table_one_converts_at_a_time() {
    let stage = Stage::new().await;
    let table = stage.table("t");
    let servers = [stage.server(&[]).await, stage.server(&[]).await];
    let requests = (0..16).map(|n| servers[n % 2].request("POST", TABLE).json(&table.body()).send());
    let answers = futures::future::join_all(requests).await;
    let mut committed = 0;
    for answer in &answers {
        match answer.status {
            200 => committed += usize::from(answer.json()["conversions"][0]["outcome"] == "committed"),
            _ => assert_eq!(model(answer).1, "conversion_running"),
        }
    }
    assert_eq!(committed, 1);
}

#[tokio::test]
async fn a_server_without_roots_converts_nowhere() {
    let stage = Stage::new().await;
    let table = stage.table("t");
    let server = stage.server(&[("HOGLAKE_CONVERSION_ROOTS", "")]).await;
    let (status, kind, message) = model(&server.request("POST", TABLE).json(&table.body()).send().await);
    assert_eq!((status, kind.as_str()), (403, "forbidden_path"));
    assert!(message.contains("HOGLAKE_CONVERSION_ROOTS"), "{message}");
    let wrong = ServerCommand::serve().database(stage.database.url()).env("HOGLAKE_CONVERSION_ROOTS", "s3://b/../c");
    let output = tokio::task::spawn_blocking(move || wrong.output()).await.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("HOGLAKE_CONVERSION_ROOTS"));
}
