//! Publications: how often they look for snapshots, and how to log in to brokers. Nothing of this is stored or logged.

use super::value::{duration_ms, optional_duration_ms};
use super::{ConfigError, Secret};
use clap::ValueEnum;
use std::path::PathBuf;
use std::time::Duration;

/// Publications and the brokers behind them.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Publications")]
pub struct KafkaConfig {
    /// How often new snapshots are looked for; 0: this server publishes nothing
    #[arg(long, env = "HOGLAKE_PUBLICATION_INTERVAL_MS", value_name = "MS", default_value = "100", value_parser = optional_duration_ms)]
    pub publication_interval_ms: Duration,
    /// How long after its last sign of life a server's publications pass to another one
    #[arg(long, env = "HOGLAKE_PUBLICATION_LEASE_MS", value_name = "MS", default_value = "30000", value_parser = duration_ms)]
    pub publication_lease_ms: Duration,
    /// How to talk to brokers
    #[arg(
        long,
        env = "HOGLAKE_KAFKA_SECURITY_PROTOCOL",
        value_name = "PROTOCOL",
        default_value = "plaintext",
        value_enum,
        ignore_case = true
    )]
    pub kafka_security_protocol: SecurityProtocol,
    /// How to log in, with a sasl protocol
    #[arg(long, env = "HOGLAKE_KAFKA_SASL_MECHANISM", value_name = "MECHANISM", value_enum, ignore_case = true)]
    pub kafka_sasl_mechanism: Option<SaslMechanism>,
    /// User to log in as
    #[arg(long, env = "HOGLAKE_KAFKA_SASL_USERNAME", value_name = "USER")]
    pub kafka_sasl_username: Option<String>,
    /// The user's password
    #[arg(long, env = "HOGLAKE_KAFKA_SASL_PASSWORD", value_name = "PASSWORD", hide_env_values = true)]
    pub kafka_sasl_password: Option<Secret>,
    /// Certificates of authorities (PEM) that brokers are checked by [default: the system's]
    #[arg(long, env = "HOGLAKE_KAFKA_SSL_CA_FILE", value_name = "FILE")]
    pub kafka_ssl_ca_file: Option<PathBuf>,
    /// Certificate (PEM) to show to brokers
    #[arg(long, env = "HOGLAKE_KAFKA_SSL_CERTIFICATE_FILE", value_name = "FILE")]
    pub kafka_ssl_certificate_file: Option<PathBuf>,
    /// Key (PEM) of that certificate
    #[arg(long, env = "HOGLAKE_KAFKA_SSL_KEY_FILE", value_name = "FILE")]
    pub kafka_ssl_key_file: Option<PathBuf>,
    /// Password of that key
    #[arg(long, env = "HOGLAKE_KAFKA_SSL_KEY_PASSWORD", value_name = "PASSWORD", hide_env_values = true)]
    pub kafka_ssl_key_password: Option<Secret>,
    /// How records are compressed
    #[arg(
        long,
        env = "HOGLAKE_KAFKA_COMPRESSION",
        value_name = "CODEC",
        default_value = "zstd",
        value_enum,
        ignore_case = true
    )]
    pub kafka_compression: Compression,
    /// Memory for records of one publication that are not acknowledged yet
    #[arg(long, env = "HOGLAKE_KAFKA_QUEUE_BYTES", value_name = "BYTES", default_value_t = 16 << 20, value_parser = clap::value_parser!(u32).range((1 << 20)..=(1 << 30)))]
    pub kafka_queue_bytes: u32,
    /// Largest record; topics must allow as much (max.message.bytes)
    #[arg(long, env = "HOGLAKE_KAFKA_MESSAGE_MAX_BYTES", value_name = "BYTES", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1_000..=1_000_000_000))]
    pub kafka_message_max_bytes: u32,
}

/// `security.protocol` of Kafka's clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SecurityProtocol {
    /// Neither encrypted nor logged in.
    Plaintext,
    /// TLS.
    Ssl,
    /// Logged in, not encrypted.
    #[value(name = "sasl_plaintext")]
    SaslPlaintext,
    /// Logged in over TLS.
    #[value(name = "sasl_ssl")]
    SaslSsl,
}

/// `sasl.mechanism` of Kafka's clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SaslMechanism {
    /// The password itself.
    #[value(name = "PLAIN")]
    Plain,
    /// A proof of it, SHA-256.
    #[value(name = "SCRAM-SHA-256")]
    ScramSha256,
    /// A proof of it, SHA-512.
    #[value(name = "SCRAM-SHA-512")]
    ScramSha512,
}

/// `compression.type` of Kafka's clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compression {
    /// Zstandard: smallest.
    Zstd,
    /// LZ4: fastest.
    Lz4,
}

impl SecurityProtocol {
    const fn has_sasl(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }
}

fn literal(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

impl KafkaConfig {
    /// The properties of a librdkafka client that log it in.
    pub fn security(&self) -> Vec<(&'static str, String)> {
        let path = |path: &PathBuf| path.to_string_lossy().into_owned();
        let secret = |secret: &Secret| secret.expose().to_owned();
        let mut properties = vec![("security.protocol", literal(self.kafka_security_protocol))];
        let optional = [
            ("sasl.mechanism", self.kafka_sasl_mechanism.map(literal)),
            ("sasl.username", self.kafka_sasl_username.clone()),
            ("sasl.password", self.kafka_sasl_password.as_ref().map(secret)),
            ("ssl.ca.location", self.kafka_ssl_ca_file.as_ref().map(path)),
            ("ssl.certificate.location", self.kafka_ssl_certificate_file.as_ref().map(path)),
            ("ssl.key.location", self.kafka_ssl_key_file.as_ref().map(path)),
            ("ssl.key.password", self.kafka_ssl_key_password.as_ref().map(secret)),
        ];
        properties.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
        properties
    }

    /// `compression.type`.
    pub fn compression(&self) -> String {
        literal(self.kafka_compression)
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let refuse = |text: &str| Err(ConfigError(text.to_owned()));
        let login = [
            self.kafka_sasl_mechanism.is_some(),
            self.kafka_sasl_username.is_some(),
            self.kafka_sasl_password.is_some(),
        ];
        match (self.kafka_security_protocol.has_sasl(), login) {
            (true, [true, true, true]) | (false, [false, false, false]) => {}
            (true, _) => {
                return refuse(
                    "HOGLAKE_KAFKA_SECURITY_PROTOCOL with sasl needs HOGLAKE_KAFKA_SASL_MECHANISM, HOGLAKE_KAFKA_SASL_USERNAME \
                     and HOGLAKE_KAFKA_SASL_PASSWORD",
                );
            }
            (false, _) => {
                return refuse(
                    "HOGLAKE_KAFKA_SASL_* change nothing unless HOGLAKE_KAFKA_SECURITY_PROTOCOL is sasl_plaintext or \
                     sasl_ssl: set it, or remove them",
                );
            }
        }
        if self.kafka_ssl_certificate_file.is_some() != self.kafka_ssl_key_file.is_some() {
            return refuse(
                "HOGLAKE_KAFKA_SSL_CERTIFICATE_FILE and HOGLAKE_KAFKA_SSL_KEY_FILE belong together: set both or neither",
            );
        }
        for (variable, file) in [
            ("HOGLAKE_KAFKA_SSL_CA_FILE", &self.kafka_ssl_ca_file),
            ("HOGLAKE_KAFKA_SSL_CERTIFICATE_FILE", &self.kafka_ssl_certificate_file),
            ("HOGLAKE_KAFKA_SSL_KEY_FILE", &self.kafka_ssl_key_file),
        ] {
            if let Some(file) = file
                && let Err(error) = std::fs::File::open(file)
            {
                return refuse(&format!("{variable} names {}, which cannot be read: {error}", file.display()));
            }
        }
        // a record that the queue can never hold would be waited for without end
        if self.kafka_message_max_bytes > self.kafka_queue_bytes / 1024 * 1024 {
            return refuse(
                "HOGLAKE_KAFKA_MESSAGE_MAX_BYTES is more than HOGLAKE_KAFKA_QUEUE_BYTES: raise the latter, or lower the former",
            );
        }
        if self.publication_lease_ms < Duration::from_secs(3) {
            return refuse("HOGLAKE_PUBLICATION_LEASE_MS (--publication-lease-ms) must be at least 3000");
        }
        Ok(())
    }
}
