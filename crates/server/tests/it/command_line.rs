//! What every command does alike, whatever it is for.

use std::fs::OpenOptions;
use std::process::{Command, Stdio};

fn hoglake(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hoglake"));
    command.args(arguments);
    command
}

#[test]
fn an_answer_that_cannot_be_written_is_a_failure_and_no_panic() {
    for arguments in [
        &["openapi"][..],
        &["token", "new", "--name", "x", "--scope", "*:read"],
        &["token", "new", "--name", "x", "--scope", "*:read", "--json"],
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = hoglake(arguments).stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("cannot write to standard output") && !said.contains("panic"), "{arguments:?}: {said}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    for arguments in [&["openapi"][..], &["token", "new", "--name", "x", "--scope", "*:read"]] {
        let mut child = hoglake(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "{arguments:?}: {said}");
    }
}
