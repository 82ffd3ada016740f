//! Where a publication's records go, and how they are encoded.

use crate::{Error, Result};
use hoglake_model::Refusal;
use hoglake_model::name::quoted;
use serde::{Deserialize, Serialize};

/// Longest list of servers, in bytes.
const MAX_SERVERS_LEN: usize = 4_096;
/// Longest topic name that Kafka allows.
const MAX_TOPIC_LEN: usize = 249;

/// Topics of the brokers' own. Writing to them as a user breaks the cluster.
const INTERNAL_TOPICS: [&str; 3] = ["__consumer_offsets", "__transaction_state", "__cluster_metadata"];
/// Names in the envelope of a JSON record, which a column may not have.
const ENVELOPE: [&str; 3] = ["op", "snapshot_id", "row_id"];

/// `KafkaSink` of the contract, as a client sent it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SinkRequest {
    /// `kafka`.
    #[serde(rename = "type")]
    pub sink_type: String,
    /// Comma-separated `host:port`.
    pub bootstrap_servers: String,
    /// The topic.
    pub topic: String,
    /// Absent: `arrow_ipc`.
    pub format: Option<String>,
    /// Absent: false.
    pub tombstones: Option<bool>,
}

/// `KafkaSink` of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KafkaSink {
    /// `kafka`.
    #[serde(rename = "type")]
    pub sink_type: &'static str,
    /// Comma-separated `host:port`.
    pub bootstrap_servers: String,
    /// The topic.
    pub topic: String,
    /// How rows become records.
    pub format: RecordFormat,
    /// Whether a delete is followed by a record without a value.
    pub tombstones: bool,
}

/// How rows become records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordFormat {
    /// A record for each batch of rows.
    ArrowIpc,
    /// A record for each row.
    Json,
}

impl RecordFormat {
    /// The literal of the contract.
    pub const fn literal(self) -> &'static str {
        match self {
            Self::ArrowIpc => "arrow_ipc",
            Self::Json => "json",
        }
    }

    fn parse(literal: &str) -> Option<Self> {
        [Self::ArrowIpc, Self::Json].into_iter().find(|format| format.literal() == literal)
    }

    /// Checks that rows with these columns can be encoded.
    ///
    /// # Errors
    /// The column in the way, and what to do about it.
    pub fn check_columns<'a>(self, columns: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
        let taken = columns.into_iter().find(|name| self == Self::Json && ENVELOPE.contains(name));
        taken.map_or(Ok(()), |name| {
            Err(format!(
                "column {} cannot be published as json: the envelope of a record has a field of that name; rename the \
                 column, or publish as arrow_ipc",
                quoted(name)
            ))
        })
    }
}

impl SinkRequest {
    /// Reads a sink.
    ///
    /// # Errors
    /// 422 naming the field and the rule.
    pub fn check(&self) -> Result<KafkaSink, Refusal> {
        if self.sink_type != "kafka" {
            return Err(Refusal::validation(format!(
                "sink type {} does not exist; use `kafka`",
                quoted(&self.sink_type)
            )));
        }
        check_servers(&self.bootstrap_servers)?;
        check_topic(&self.topic)?;
        let format = self.format.as_deref().unwrap_or("arrow_ipc");
        let format = RecordFormat::parse(format).ok_or_else(|| {
            Refusal::validation(format!("sink format {} does not exist; use `arrow_ipc` or `json`", quoted(format)))
        })?;
        let tombstones = self.tombstones.unwrap_or(false);
        if tombstones && format != RecordFormat::Json {
            return Err(Refusal::validation(
                "tombstones need the format `json`: a record of arrow_ipc holds many rows, and none of its keys is a row's",
            ));
        }
        let (bootstrap_servers, topic) = (self.bootstrap_servers.trim().to_owned(), self.topic.clone());
        Ok(KafkaSink { sink_type: "kafka", bootstrap_servers, topic, format, tombstones })
    }
}

impl KafkaSink {
    /// The sink of a stored row.
    pub(crate) fn stored(bootstrap_servers: String, topic: String, format: &str, tombstones: bool) -> Result<Self> {
        let format = RecordFormat::parse(format).ok_or_else(|| Error::Corrupt(format!("record format {format}")))?;
        Ok(Self { sink_type: "kafka", bootstrap_servers, topic, format, tombstones })
    }
}

fn check_servers(servers: &str) -> Result<(), Refusal> {
    let refuse = |rule: &str| Err(Refusal::validation(format!("sink.bootstrap_servers {rule}")));
    if servers.trim().is_empty() {
        return refuse("must not be blank; write host:port, several separated by commas");
    }
    if servers.len() > MAX_SERVERS_LEN {
        return refuse("is longer than 4096 bytes; a few brokers are enough to find the others");
    }
    if servers.contains('@') {
        return refuse("must not carry credentials; they belong to the server's HOGLAKE_KAFKA_* variables");
    }
    for server in servers.trim().split(',').map(str::trim) {
        let (host, port) = match server.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
            _ => (server, None),
        };
        let host_is_right = !host.is_empty()
            && (host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
                || (host.starts_with('[')
                    && host.ends_with(']')
                    && host[1..host.len() - 1].parse::<std::net::Ipv6Addr>().is_ok()));
        let port_is_right = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
        if !host_is_right || !port_is_right {
            return Err(Refusal::validation(format!(
                "sink.bootstrap_servers: {} is no broker; write host:port, several separated by commas, without a scheme",
                quoted(server)
            )));
        }
    }
    Ok(())
}

fn check_topic(topic: &str) -> Result<(), Refusal> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if INTERNAL_TOPICS.contains(&topic) {
        return Err(Refusal::validation(format!(
            "sink.topic {topic} is where Kafka itself keeps its state; choose another"
        )));
    }
    if (1..=MAX_TOPIC_LEN).contains(&topic.len()) && topic.bytes().all(allowed) && topic != "." && topic != ".." {
        return Ok(());
    }
    Err(Refusal::validation(format!(
        "sink.topic {} is no topic name: Kafka allows 1 to {MAX_TOPIC_LEN} letters, digits, dots, underscores and hyphens",
        quoted(topic)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink(servers: &str, topic: &str, format: Option<&str>, tombstones: bool) -> Result<KafkaSink, Refusal> {
        SinkRequest {
            sink_type: "kafka".to_owned(),
            bootstrap_servers: servers.to_owned(),
            topic: topic.to_owned(),
            format: format.map(str::to_owned),
            tombstones: Some(tombstones),
        }
        .check()
    }

    #[test]
    fn servers_are_hosts_with_ports() {
        for good in ["a:9092", "a", "10.0.0.1:1,b.c-d_e:65535", " a:1 , b:2 ", "[::1]:9092", "[fe80::1]"] {
            assert!(sink(good, "t", None, false).is_ok(), "{good}");
        }
        for bad in
            ["", "  ", "a:0", "a:65536", "a:b", ",", "a:1,", "kafka://a:1", "u:p@a:1", "a b:1", "::1:9092", "a\0"]
        {
            assert!(sink(bad, "t", None, false).is_err(), "{bad}");
        }
        assert!(sink(&"a,".repeat(3000), "t", None, false).is_err());
        let refused = sink("user:secret@a:1", "t", None, false).unwrap_err();
        assert!(!refused.detail.contains("secret"), "{refused}");
    }

    #[test]
    fn topics_formats_and_tombstones_follow_their_rules() {
        for bad in ["", ".", "..", "a b", "ä", "a/b", &"t".repeat(250), "__consumer_offsets", "__transaction_state"] {
            assert!(sink("a:1", bad, None, false).is_err(), "{bad}");
        }
        assert_eq!(sink("a:1", &"t".repeat(249), None, false).unwrap().format, RecordFormat::ArrowIpc);
        assert!(sink("a:1", "t", Some("json"), true).unwrap().tombstones);
        assert!(sink("a:1", "t", Some("arrow_ipc"), true).is_err());
        assert!(sink("a:1", "t", Some("JSON"), false).is_err());
    }

    #[test]
    fn columns_of_the_envelope_are_in_the_way_of_json_only() {
        for name in ENVELOPE {
            assert!(RecordFormat::Json.check_columns(["a", name]).unwrap_err().contains(name));
            assert!(RecordFormat::ArrowIpc.check_columns([name]).is_ok());
        }
        assert!(RecordFormat::Json.check_columns(["Op", "rowid"]).is_ok());
    }
}
