//! The audit trail: one JSON line for each consequential action, written after its transaction.
//!
//! Handlers and background work call [`Audit::record`] or [`Audit::record_result`]. A line can never fail or delay the
//! action: a thread writes them, and when its destination takes none for so long that thousands wait, further lines
//! are counted instead.

use crate::api::error::ApiError;
use crate::api::extract::Caller;
use crate::config::ConfigError;
use crate::config::log::AuditPlace;
use chrono::{SecondsFormat, Utc};
use hoglake_model::ErrorCode;
use serde::Serialize;
use std::io::{BufWriter, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Lines that may wait for their destination.
const WAITING: usize = 8192;

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A catalog was made.
    CatalogCreate,
    /// The options of a catalog were changed.
    OptionsPatch,
    /// A namespace was made.
    NamespaceCreate,
    /// A table was made.
    TableCreate,
    /// A table was altered.
    TableAlter,
    /// A table was dropped.
    TableDrop,
    /// A view was made.
    ViewCreate,
    /// A view was dropped.
    ViewDrop,
    /// Files and deletes were committed.
    Commit,
    /// A consumer moved its offset.
    OffsetCommit,
    /// Snapshots were expired.
    Expiry,
    /// Files nobody needs were removed.
    Cleanup,
    /// One object was deleted.
    FileDeleted,
    /// A file in the removal queue turned out to be live, and was kept.
    CleanupViolation,
    /// Files were compacted.
    Compaction,
    /// Statistics were read on request.
    Hydration,
    /// Failed statistics were queued again.
    Rehydrate,
    /// The invariants were checked.
    Verify,
    /// A publication was made.
    PublicationCreate,
    /// A publication was dropped.
    PublicationDrop,
    /// A failed publication was started again.
    PublicationResume,
    /// A publication came to something that it must not skip.
    PublicationHalt,
    /// A table was converted into another format.
    Conversion,
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Done.
    Ok,
    /// A commit that was done.
    Committed,
    /// Refused: something changed, or the name is taken.
    Conflict,
    /// Refused: the offset would go back.
    Regression,
    /// Refused: the wait for the commit lock was too long.
    Timeout,
    /// Refused: a rule forbids it.
    Validation,
    /// Refused: no such thing.
    NotFound,
    /// A fault.
    Error,
    /// The database holds what it never should.
    InvariantViolation,
}

impl Outcome {
    /// The word of audit lines, also the `result` label of metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Committed => "committed",
            Self::Conflict => "conflict",
            Self::Regression => "regression",
            Self::Timeout => "timeout",
            Self::Validation => "validation",
            Self::NotFound => "not_found",
            Self::Error => "error",
            Self::InvariantViolation => "invariant_violation",
        }
    }

    /// What a failed request counts as.
    pub fn of(error: &ApiError) -> Self {
        match error.code() {
            ErrorCode::AlreadyExists | ErrorCode::CommitConflict | ErrorCode::IdlessFilesPresent => Self::Conflict,
            ErrorCode::OffsetRegression => Self::Regression,
            ErrorCode::CommitQueueTimeout => Self::Timeout,
            ErrorCode::NotFound => Self::NotFound,
            ErrorCode::InternalError | ErrorCode::Unavailable => Self::Error,
            _ => Self::Validation,
        }
    }
}

/// One line.
#[derive(Debug, Clone, Serialize)]
pub struct Event<'a> {
    /// What was done.
    pub action: Action,
    /// How it went.
    pub outcome: Outcome,
    /// Who did it: a token's name, `anonymous`, or `background`.
    pub actor: &'a str,
    /// In which catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog: Option<&'a str>,
    /// To what, inside the catalog: `namespace.table`, a path, a consumer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<&'a str>,
    /// In words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<&'a str>,
    /// Of the request that asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<&'a str>,
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    target: &'static str,
    #[serde(flatten)]
    event: &'a Event<'a>,
}

/// Writes audit lines. Cheap to clone.
#[derive(Clone)]
pub struct Audit(Option<SyncSender<Message>>);

enum Message {
    Line(String),
    Flush(SyncSender<()>),
}

impl Audit {
    /// Opens the trail.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(place: &AuditPlace) -> Result<Self, ConfigError> {
        let destination: Box<dyn Write + Send> = match place {
            AuditPlace::Off => return Ok(Self(None)),
            AuditPlace::Stdout => Box::new(std::io::stdout()),
            AuditPlace::File(path) => {
                let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
                Box::new(file.map_err(|error| {
                    ConfigError(format!("HOGLAKE_AUDIT_LOG (--audit-log) {}: {error}", path.display()))
                })?)
            }
        };
        let (sender, receiver) = sync_channel(WAITING);
        std::thread::Builder::new()
            .name("hoglake-audit".to_owned())
            .stack_size(128 * 1024)
            .spawn(move || write(receiver, destination))
            .map_err(|error| ConfigError(format!("cannot start the thread that writes audit lines: {error}")))?;
        Ok(Self(Some(sender)))
    }

    /// Writes `event`.
    pub fn record(&self, event: &Event<'_>) {
        let Some(sender) = &self.0 else { return };
        let time = Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true);
        let Ok(line) = serde_json::to_string(&Line { time, target: "hoglake.audit", event }) else { return };
        if sender.try_send(Message::Line(line)).is_err() {
            metrics::counter!("hoglake_audit_lines_dropped_total").increment(1);
        }
    }

    /// Writes what `caller` did to `object` and how it went: `ok` (`committed` for a commit) with `detail`, or the
    /// error's outcome and detail.
    pub fn record_result<T>(
        &self,
        caller: &Caller,
        action: Action,
        catalog: &str,
        object: Option<&str>,
        detail: Option<&str>,
        result: &Result<T, ApiError>,
    ) {
        let done = if action == Action::Commit { Outcome::Committed } else { Outcome::Ok };
        let (outcome, detail) = match result {
            Ok(_) => (done, detail),
            Err(error) => (Outcome::of(error), Some(error.detail())),
        };
        self.record(&Event {
            action,
            outcome,
            actor: &caller.identity.actor,
            catalog: Some(catalog),
            object,
            detail,
            request_id: Some(caller.request_id.as_str()),
        });
    }

    /// Waits until everything recorded so far is written, for at most two seconds.
    pub fn flush(&self) {
        let Some(sender) = &self.0 else { return };
        let (done, written) = sync_channel(1);
        if sender.try_send(Message::Flush(done)).is_ok() {
            let _ = written.recv_timeout(Duration::from_secs(2));
        }
    }
}

fn write(receiver: Receiver<Message>, destination: Box<dyn Write + Send>) {
    let mut destination = BufWriter::new(destination);
    while let Ok(first) = receiver.recv() {
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Line(line) => {
                    let _ = writeln!(destination, "{line}");
                }
                Message::Flush(done) => {
                    let _ = destination.flush();
                    let _ = done.send(());
                }
            }
            next = receiver.try_recv().ok();
        }
        let _ = destination.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Identity;
    use crate::http::RequestId;
    use axum::http::HeaderMap;
    use hoglake_model::Refusal;

    #[test]
    fn a_line_is_one_json_object_with_actor_outcome_and_request() {
        let file = std::env::temp_dir().join(format!("hoglake-audit-{}", uuid::Uuid::new_v4()));
        let audit = Audit::open(&AuditPlace::File(file.clone())).unwrap();
        let caller = Caller { identity: Identity::new("ingest", vec![]), request_id: RequestId::of(&HeaderMap::new()) };
        audit.record_result(&caller, Action::Commit, "lake", Some("a.t"), Some("snapshot 3"), &Ok(()));
        let refused: Result<(), ApiError> = Err(Refusal::conflict("line one\nline two").into());
        audit.record_result(&caller, Action::TableDrop, "lake", Some("a.t"), None, &refused);
        audit.flush();
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!((&lines[0]["action"], &lines[0]["outcome"]), (&"commit".into(), &"committed".into()));
        assert_eq!((&lines[0]["actor"], &lines[0]["detail"]), (&"ingest".into(), &"snapshot 3".into()));
        assert_eq!((&lines[1]["action"], &lines[1]["outcome"]), (&"table_drop".into(), &"conflict".into()));
        assert_eq!(lines[1]["request_id"], caller.request_id.as_str());
    }
}
