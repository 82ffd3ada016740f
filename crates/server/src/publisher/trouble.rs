//! Why a publication does not get on: it is tried again, it halts, or it is somebody else's now.

use crate::api::error::chain;
use hoglake_formats::parquet::rewrite::RewriteError;
use hoglake_formats::store::StoreError;
use hoglake_model::SnapshotId;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Something that must not be skipped: what it is, and what to do.
    Halt(String),
    /// Something that may be over soon.
    Wait(String),
    /// The lease has passed on, or the publication is gone.
    Lost,
}

impl From<hoglake_catalog::Error> for Trouble {
    fn from(error: hoglake_catalog::Error) -> Self {
        tracing::warn!(error = chain(&error), "a publication waits for the database");
        Self::Wait("the catalog's database failed; the server's log says how".to_owned())
    }
}

impl Trouble {
    /// A task of ours that panicked.
    pub fn fault(what: &str) -> Self {
        Self::Wait(format!("a fault of the server ({what}); its log says more"))
    }

    /// A data file that gives no rows.
    pub fn unreadable(snapshot: SnapshotId, path: &str, error: &RewriteError) -> Self {
        let words = chain(error);
        if error.is_transient() {
            return Self::Wait(format!(
                "data file `{path}` of snapshot {snapshot} cannot be read at the moment, and is tried again: {words}"
            ));
        }
        Self::Halt(unreadable(snapshot, &format!("data file `{path}`"), &words))
    }

    /// An object of the store that cannot be had.
    pub fn unreachable(snapshot: SnapshotId, error: &StoreError) -> Self {
        let words = chain(error);
        if error.is_transient() {
            return Self::Wait(format!(
                "a file of snapshot {snapshot} cannot be read at the moment, and is tried again: {words}"
            ));
        }
        Self::Halt(unreadable(snapshot, "a file", &words))
    }

    /// A vector that is not what was registered.
    pub fn vector(snapshot: SnapshotId, path: &str, reason: &str) -> Self {
        Self::Halt(unreadable(snapshot, &format!("deletion vector `{path}`"), reason))
    }

    /// What Kafka said to a record.
    pub fn kafka(topic: &str, error: &KafkaError, reason: Option<&str>) -> Self {
        use RDKafkaErrorCode as Code;
        let code = error.rdkafka_error_code();
        let refused = |why: &str, remedy: &str| {
            Self::Halt(format!("topic `{topic}` refused a record: {why}. {remedy}, then resume the publication"))
        };
        match code {
            Some(Code::UnknownTopic | Code::UnknownTopicOrPartition) => {
                refused("it does not exist, and the brokers do not create it by themselves", "Create it")
            }
            Some(Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed) => refused(
                "the server's user may not write to it",
                "Allow the user of HOGLAKE_KAFKA_SASL_USERNAME to write (and, on old brokers, to write idempotently)",
            ),
            Some(Code::InvalidTopic) => refused("the brokers allow no topic of that name", "Allow it"),
            Some(Code::MessageSizeTooLarge | Code::InvalidMessageSize | Code::MessageBatchTooLarge) => refused(
                "it is larger than allowed",
                "Raise max.message.bytes of the topic and HOGLAKE_KAFKA_MESSAGE_MAX_BYTES",
            ),
            Some(Code::PolicyViolation | Code::InvalidRecord | Code::UnsupportedForMessageFormat) => {
                refused(&error.to_string(), "Change what the topic or the cluster demands of records")
            }
            Some(Code::InvalidRequiredAcks | Code::UnsupportedVersion) => {
                refused(&error.to_string(), "Use brokers that know idempotent producers (Kafka 0.11 or newer)")
            }
            _ => {
                let reason = reason.map(|reason| format!("; last seen: {reason}")).unwrap_or_default();
                Self::Wait(format!(
                    "the brokers do not acknowledge records of topic `{topic}`: {error}{reason}. They \
                     are tried again by themselves; check sink.bootstrap_servers and the server's HOGLAKE_KAFKA_* settings"
                ))
            }
        }
    }
}

fn unreadable(snapshot: SnapshotId, what: &str, why: &str) -> String {
    format!(
        "{what} of snapshot {snapshot} cannot be read: {why}. Put the object back as it was registered, then resume the \
         publication; or drop it, and create one that begins at or after snapshot {snapshot}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_topic_refuses_halts_and_says_what_to_do() {
        for (code, words) in [
            (RDKafkaErrorCode::UnknownTopicOrPartition, "Create it"),
            (RDKafkaErrorCode::TopicAuthorizationFailed, "HOGLAKE_KAFKA_SASL_USERNAME"),
            (RDKafkaErrorCode::MessageSizeTooLarge, "max.message.bytes"),
            (RDKafkaErrorCode::InvalidRecord, "demands of records"),
        ] {
            let trouble = Trouble::kafka("t", &KafkaError::MessageProduction(code), None);
            assert!(
                matches!(&trouble, Trouble::Halt(text) if text.contains(words) && text.contains("resume")),
                "{trouble:?}"
            );
        }
    }

    #[test]
    fn what_brokers_may_get_over_is_waited_for() {
        for code in [RDKafkaErrorCode::MessageTimedOut, RDKafkaErrorCode::AllBrokersDown, RDKafkaErrorCode::Fatal] {
            let trouble = Trouble::kafka("t", &KafkaError::MessageProduction(code), Some("refused"));
            assert!(
                matches!(&trouble, Trouble::Wait(text) if text.contains("last seen: refused. ") && text.contains("HOGLAKE_KAFKA_")),
                "{trouble:?}"
            );
        }
    }
}
