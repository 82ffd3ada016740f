//! Wrong settings stop the start with an error that names the variable; secrets are not shown.

use crate::stage::{database, server_with};
use hoglake_testkit::server::ServerCommand;

/// The error of a server that must not start.
fn refusal(command: ServerCommand) -> String {
    let output = command.output();
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_wrong_setting_is_named_by_its_variable() {
    for (variable, value) in [
        ("HOGLAKE_PORT", "http"),
        ("HOGLAKE_PORT", "65536"),
        ("HOGLAKE_LISTEN", "here"),
        ("HOGLAKE_BODY_LIMIT_BYTES", "0"),
        ("HOGLAKE_BODY_LIMIT_BYTES", "-1"),
        ("HOGLAKE_BODY_BUDGET_BYTES", "1000"),
        ("HOGLAKE_HEADER_TIMEOUT_MS", "0"),
        ("HOGLAKE_DB_POOL_SIZE", "0"),
        ("HOGLAKE_DB_POOL_SIZE", "many"),
        ("HOGLAKE_DATABASE_URL", "jdbc:postgresql://localhost/hoglake"),
        ("HOGLAKE_DATABASE_URL", "mysql://localhost/hoglake"),
        ("HOGLAKE_JDBC_URL", "jdbc:postgresql://localhost:5432/hoglake"),
        ("HOGLAKE_DB_PASSWORD", "alone"),
        ("HOGLAKE_COMMIT_LOCK_TIMEOUT_MS", "-5"),
        ("HOGLAKE_S3_ENDPOINT", "localhost:9000"),
        ("HOGLAKE_GCS_ENDPOINT", "localhost"),
        ("HOGLAKE_AZURE_ENDPOINT", "devstoreaccount1"),
        ("HOGLAKE_S3_ACCESS_KEY", "alone"),
        ("HOGLAKE_S3_PATH_STYLE", "maybe"),
        ("HOGLAKE_ALLOW_ANONYMOUS", "maybe"),
        ("HOGLAKE_TOKENS_FILE", "/nowhere/tokens"),
        ("HOGLAKE_KAFKA_SSL_CA_FILE", "/nowhere/ca.pem"),
        ("HOGLAKE_KAFKA_MESSAGE_MAX_BYTES", "20000000"),
        ("HOGLAKE_LOG", "hoglake=loud"),
        ("HOGLAKE_LOG_FORMAT", "xml"),
        ("HOGLAKE_AUDIT_LOG", "/nowhere/audit"),
    ] {
        // A database that nobody would connect to: the settings are judged first.
        let mut command = ServerCommand::serve().env("HOGLAKE_PORT", "0");
        if !variable.contains("DATABASE") && variable != "HOGLAKE_DB_PASSWORD" {
            command = command.database("postgresql://localhost:1/nothing");
        }
        let message = refusal(command.env(variable, value));
        assert!(message.contains(variable), "{variable}={value}: {message}");
    }
}

#[test]
fn a_password_in_a_wrong_url_is_not_repeated() {
    let message = refusal(ServerCommand::serve().env("HOGLAKE_DATABASE_URL", "postgres//hog:s3cret@db/lake"));
    assert!(message.contains("HOGLAKE_DATABASE_URL") && !message.contains("s3cret"), "{message}");
}

#[tokio::test]
async fn blank_variables_count_as_unset() {
    let blank = [
        "HOGLAKE_LISTEN",
        "HOGLAKE_DB_POOL_SIZE",
        "HOGLAKE_S3_ENDPOINT",
        "HOGLAKE_ALLOW_ANONYMOUS",
        "HOGLAKE_TOKENS_FILE",
    ];
    let (server, _database) = server_with(|command| {
        blank
            .iter()
            .fold(command.env("HOGLAKE_PORT", "0").env("HOGLAKE_INSTANCE_NAME", " "), |c, name| c.env(name, "  "))
    })
    .await;
    assert_eq!(server.request("GET", "/v1/info").send().await.text(), "{}");
}

#[tokio::test]
async fn a_variable_that_no_setting_reads_is_pointed_out() {
    let (server, _database) = server_with(|command| command.env("HOGLAKE_DB_POOLSIZE", "20")).await;
    let log = server.log();
    assert!(log.contains("\"variable\":\"HOGLAKE_DB_POOLSIZE\""), "{log}");
    assert_eq!(log.matches("no setting has that name").count(), 1, "{log}");
}

#[tokio::test]
async fn the_instance_has_the_name_it_was_given() {
    let (server, _database) = server_with(|command| command.env("HOGLAKE_INSTANCE_NAME", "barn")).await;
    assert_eq!(server.request("GET", "/v1/info").send().await.text(), r#"{"name":"barn"}"#);
}

#[tokio::test]
async fn credentials_stay_out_of_logs_and_help() {
    let database = database().await;
    let url = database.url().replace("postgres@", "postgres:s3cret@");
    let command = ServerCommand::serve()
        .database(&url)
        .env("HOGLAKE_S3_ACCESS_KEY", "s3cret")
        .env("HOGLAKE_S3_SECRET_KEY", "s3cret")
        .env("HOGLAKE_LOG", "debug");
    let server = tokio::task::spawn_blocking(move || command.start()).await.unwrap();
    assert_eq!(server.request("GET", "/healthz").send().await.status, 200);
    let log = server.log();
    assert!(log.contains("postgres:***@") && !log.contains("s3cret"), "{log}");
    let help = ServerCommand::serve().arg("--help").database(&url).env("HOGLAKE_DB_PASSWORD", "s3cret").output();
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(help.contains("HOGLAKE_DATABASE_URL") && !help.contains("s3cret"), "{help}");
}

#[test]
fn help_documents_every_setting_with_its_variable() {
    let help = ServerCommand::serve().arg("--help").output();
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let flags = help.lines().filter(|line| line.starts_with("      --")).count();
    let variables = help.matches("[env: HOGLAKE_").count();
    assert!(flags > 20, "{help}");
    assert_eq!(flags, variables, "a setting without a variable:\n{help}");
    let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/OPERATIONS.md")).unwrap();
    for variable in help.split("[env: ").skip(1).filter_map(|rest| rest.split(['=', ']']).next()) {
        assert!(guide.contains(variable), "{variable} is not in docs/OPERATIONS.md");
    }
}
