//! Maintenance commands: where they work, and what they say when they cannot.

use super::lake::Lake;
use crate::stage;
use hoglake_catalog::{Options, migrations};
use hoglake_testkit::postgres::TestDatabase;
use hoglake_testkit::server::ServerCommand;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

/// Exit status, and what is said on standard error.
fn run(command: ServerCommand) -> (Option<i32>, String) {
    let output = tokio::task::block_in_place(|| command.output());
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn verify() -> ServerCommand {
    ServerCommand::new("verify").arg("demo")
}

const NOBODY: &str = "http://127.0.0.1:9";

#[tokio::test(flavor = "multi_thread")]
async fn a_flag_beats_a_variable_and_two_flags_contradict_each_other() {
    let lake = Lake::new(false).await;
    let url = lake.database.url();
    for spelled in [vec!["--database-url".to_owned(), url.to_owned()], vec![format!("--database-url={url}")]] {
        let command = spelled.iter().fold(verify().env("HOGLAKE_SERVER", NOBODY), |command, word| command.arg(word));
        let (code, said) = run(command);
        assert_eq!(code, Some(0), "{said}");
    }
    let (code, said) = run(verify().database(url).arg("--server").arg(NOBODY));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("does not answer (--server)"), "{said}");
    // neither is a flag: the server, as the documentation says
    let (code, said) = run(verify().database(url).env("HOGLAKE_SERVER", NOBODY));
    assert!(code == Some(1) && said.contains("does not answer"), "{said}");
    let state = stage::folder();
    // the private database of that folder, not the one of the environment
    let command = verify().database(url).env("HOGLAKE_SERVER", NOBODY).env("HOGLAKE_PG_BIN", "/nowhere");
    let (code, said) = run(command.arg("--state-dir").arg(state.path().to_str().unwrap()));
    assert!(code == Some(2) && said.contains("holds no state of hoglake"), "{said}");
    for (flag, value) in [("--database-url", url), ("--state-dir", state.path().to_str().unwrap())] {
        for command in ["verify", "compact", "restore-check"] {
            let command = ServerCommand::new(command).arg("demo").arg("--server").arg(NOBODY).arg(flag).arg(value);
            let (code, said) = run(command);
            assert_eq!(code, Some(2), "{said}");
            assert!(said.contains(&format!("--server and {flag} cannot be used together")), "{said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_directory_that_is_mistyped_is_refused_and_stays_as_it_was() {
    let folder = stage::folder();
    let (missing, foreign, file) =
        (folder.path().join("stat"), folder.path().join("photos"), folder.path().join("file"));
    std::fs::create_dir(&foreign).unwrap();
    for precious in [foreign.join("holiday.jpg"), file.clone()] {
        std::fs::write(precious, "precious").unwrap();
    }
    for state in [&missing, &foreign, &file] {
        for command in ["hydrate", "expire", "clean", "compact", "verify", "restore-check"] {
            let state = state.to_str().unwrap();
            for command in [
                ServerCommand::new(command).arg("demo").arg("--state-dir").arg(state),
                ServerCommand::new(command).arg("demo").env("HOGLAKE_STATE_DIR", state),
            ] {
                let (code, said) = run(command);
                assert_eq!(code, Some(2), "{said}");
                assert!(said.contains(&format!("{state} holds no state of hoglake")), "{said}");
                assert!(said.contains("--state-dir") && said.contains("HOGLAKE_DATABASE_URL"), "{said}");
            }
        }
    }
    assert!(!missing.exists());
    let names = |folder: &Path| {
        let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(
        (names(folder.path()), names(&foreign)),
        (vec!["file".into(), "photos".into()], vec!["holiday.jpg".into()])
    );
    // one that a server has made is worked on
    let state = folder.path().join("state");
    let (code, said) = run(ServerCommand::new("migrate").state_dir(&state));
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = run(ServerCommand::new("verify").arg("demo").state_dir(&state));
    assert!(code == Some(1) && said.contains("demo"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_looks_migrates_nothing_and_names_the_remedy() {
    let database = TestDatabase::empty().await;
    let pool = database.pool().await;
    let commands = [
        verify(),
        ServerCommand::new("expire").arg("demo").arg("--dry-run"),
        ServerCommand::new("clean").arg("demo").arg("--dry-run"),
        ServerCommand::new("compact").arg("demo").arg("--dry-run"),
    ];
    let all_say = |what: &str| {
        for command in &commands {
            let (code, said) = run(command.clone().database(database.url()));
            assert_eq!(code, Some(1), "{said}");
            assert!(said.contains(what) && !said.contains("corrupt"), "{said}");
        }
    };
    all_say("no hoglake schema yet: `hoglake migrate` makes it");
    let schemas: i64 = sqlx::query_scalar("select count(*) from pg_namespace where nspname = 'hoglake'")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(schemas, 0);
    migrations::migrate(&Options::new(database.url())).await.unwrap();
    let newest = i32::try_from(migrations::MIGRATIONS.len()).unwrap();
    sqlx::query("delete from hoglake.migration where version = $1").bind(newest).execute(&pool).await.unwrap();
    all_say(&format!("version {} of the schema", newest - 1));
    let recorded: i64 = sqlx::query_scalar("select count(*) from hoglake.migration").fetch_one(&pool).await.unwrap();
    assert_eq!(recorded, i64::from(newest) - 1);
    sqlx::query("truncate hoglake.migration").execute(&pool).await.unwrap();
    sqlx::query("drop schema hoglake cascade").execute(&pool).await.unwrap();
    migrations::migrate(&Options::new(database.url())).await.unwrap();
    sqlx::query("insert into hoglake.migration (version, name, checksum) values (9999, 'from_the_future', '')")
        .execute(&pool)
        .await
        .unwrap();
    all_say("run a newer hoglake");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_there_is_told_at_once() {
    // one where nobody listens, and one that takes connections and says nothing
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for (address, what) in [(free, "Connection refused"), (silent.local_addr().unwrap(), "no answer within 0.5 s")] {
        let url = format!("postgresql://postgres@{address}/hoglake?sslmode=disable");
        for words in [
            &["hydrate"][..],
            &["expire"],
            &["clean"],
            &["compact"],
            &["compact", "--dry-run"],
            &["verify"],
            &["restore-check"],
        ] {
            let command =
                ServerCommand::new(words[0]).arg("demo").database(&url).env("HOGLAKE_DB_CONNECT_TIMEOUT_MS", "500");
            let command = words[1..].iter().fold(command, |command, word| command.arg(word));
            let began = Instant::now();
            let (code, said) = run(command);
            assert_eq!(code, Some(1), "{said}");
            assert!(began.elapsed() < Duration::from_secs(4), "{words:?} took {:?}: {said}", began.elapsed());
            assert!(
                said.contains("hoglake: the database cannot be used (HOGLAKE_DATABASE_URL, --database-url)"),
                "{said}"
            );
            assert!(said.contains(what), "{said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_none_of_a_server_is_said_so() {
    for (address, what) in [
        ("notaurl", "HOGLAKE_SERVER (--server) is no http:// or https:// URL"),
        ("postgres://u:secret@127.0.0.1/d", "HOGLAKE_SERVER (--server) is no http:// or https:// URL"),
        ("http://127.0.0.1:9/v1", "ends in /v1, which the command adds itself: give http://127.0.0.1:9"),
    ] {
        for command in ["verify", "restore-check"] {
            let (code, said) = run(ServerCommand::new(command).arg("demo").env("HOGLAKE_SERVER", address));
            assert_eq!(code, Some(2), "{said}");
            assert!(said.contains(what) && !said.contains("secret"), "{said}");
        }
    }
    for (answer, status) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello", "200 OK"),
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}", "404 Not Found"),
    ] {
        let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", stranger.local_addr().unwrap());
        let answering = std::thread::spawn(move || {
            let (mut client, _) = stranger.accept().unwrap();
            let _ = client.read(&mut [0; 4_096]).unwrap();
            client.write_all(answer.as_bytes()).unwrap();
        });
        let (code, said) = run(verify().arg("--server").arg(&address));
        answering.join().unwrap();
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(&format!("{address} answered {status}: not as a hoglake server does")), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_postgres_says_is_told_without_its_own_lines_of_code() {
    let lake = Lake::new(false).await;
    lake.execute("drop table delete_file cascade").await;
    let (code, said) = run(verify().database(lake.database.url()));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("relation \"delete_file\" does not exist (SQLSTATE 42P01)"), "{said}");
    assert!(!said.contains("at line"), "{said}");
}
