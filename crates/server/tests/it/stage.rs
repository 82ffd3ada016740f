//! What these tests start from.

use hoglake_catalog::{Options, migrations};
use hoglake_testkit::postgres::TestDatabase;
use hoglake_testkit::server::{ServerCommand, ServerProcess};
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

/// A migrated database.
pub async fn database() -> TestDatabase {
    TestDatabase::create("server", async |url: String| migrations::migrate(&Options::new(url)).await.map(drop)).await
}

/// A server on a database of its own.
pub async fn server() -> (ServerProcess, TestDatabase) {
    server_with(|command| command).await
}

/// A server on a database of its own, with settings.
pub async fn server_with(settings: impl FnOnce(ServerCommand) -> ServerCommand) -> (ServerProcess, TestDatabase) {
    let database = database().await;
    let command = settings(ServerCommand::serve().database(database.url()));
    let server = tokio::task::spawn_blocking(move || command.start()).await.unwrap();
    (server, database)
}

/// A folder that Postgres's user can reach.
pub fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}
