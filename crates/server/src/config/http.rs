//! What the server listens on, and how patient it is with clients.

use super::{ConfigError, duration_ms};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Listener, limits and timeouts.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Server")]
pub struct HttpConfig {
    /// Address to listen on; other than loopback it needs authentication (see --tokens-file)
    #[arg(long, env = "HOGLAKE_LISTEN", value_name = "HOST:PORT", default_value = "127.0.0.1:8080", value_parser = listen_address)]
    pub listen: SocketAddr,
    /// Port to listen on, in place of the one in --listen [default: 8080]; 0 picks a free one
    #[arg(long, env = "HOGLAKE_PORT", value_name = "PORT")]
    pub port: Option<u16>,
    /// Largest request body
    #[arg(long, env = "HOGLAKE_BODY_LIMIT_BYTES", value_name = "BYTES", default_value_t = 64 * 1024 * 1024)]
    pub body_limit_bytes: usize,
    /// Memory for the bodies of all requests together; beyond it large ones are answered 503
    #[arg(long, env = "HOGLAKE_BODY_BUDGET_BYTES", value_name = "BYTES", default_value_t = 256 * 1024 * 1024)]
    pub body_budget_bytes: usize,
    /// How long a client may take to send the head of a request, and may keep an idle connection
    #[arg(long, env = "HOGLAKE_HEADER_TIMEOUT_MS", value_name = "MS", default_value = "60000", value_parser = duration_ms)]
    pub header_timeout_ms: Duration,
    /// How long a client may pause in the middle of a request body
    #[arg(long, env = "HOGLAKE_BODY_TIMEOUT_MS", value_name = "MS", default_value = "30000", value_parser = duration_ms)]
    pub body_timeout_ms: Duration,
    /// How long a client may refuse to take more of an answer before it is cut off
    #[arg(long, env = "HOGLAKE_WRITE_TIMEOUT_MS", value_name = "MS", default_value = "60000", value_parser = duration_ms)]
    pub write_timeout_ms: Duration,
    /// How long accepted requests may go on after SIGTERM or Ctrl-C
    #[arg(long, env = "HOGLAKE_SHUTDOWN_TIMEOUT_MS", value_name = "MS", default_value = "25000", value_parser = duration_ms)]
    pub shutdown_timeout_ms: Duration,
    /// Threads that run requests; 0 is one a core, at least two
    #[arg(long, env = "HOGLAKE_WORKER_THREADS", value_name = "N", default_value_t = 0)]
    pub worker_threads: usize,
}

impl HttpConfig {
    /// The address to bind: `listen`, with `port` in place of its port when that is set.
    pub fn address(&self) -> SocketAddr {
        let mut address = self.listen;
        if let Some(port) = self.port {
            address.set_port(port);
        }
        address
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.body_limit_bytes == 0 {
            return Err(ConfigError("HOGLAKE_BODY_LIMIT_BYTES (--body-limit-bytes) must be at least 1".to_owned()));
        }
        if self.body_budget_bytes < self.body_limit_bytes {
            return Err(ConfigError(
                "HOGLAKE_BODY_BUDGET_BYTES (--body-budget-bytes) must be at least HOGLAKE_BODY_LIMIT_BYTES \
                 (--body-limit-bytes), or no body of that size could ever be taken"
                    .to_owned(),
            ));
        }
        Ok(())
    }
}

/// `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`, or `:8080` and `*:8080` for every interface.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let text = text.trim();
    let wrong = || "must be an address and a port, such as 127.0.0.1:8080 or [::1]:8080".to_owned();
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse().map_err(|_| wrong())?;
    match host {
        "localhost" => Ok((Ipv4Addr::LOCALHOST, port).into()),
        "*" | "" => Ok((Ipv6Addr::UNSPECIFIED, port).into()),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_their_usual_spellings() {
        assert_eq!(listen_address("localhost:1"), Ok("127.0.0.1:1".parse().unwrap()));
        assert_eq!(listen_address("[::1]:2"), Ok("[::1]:2".parse().unwrap()));
        assert_eq!(listen_address(":3"), Ok("[::]:3".parse().unwrap()));
        for bad in ["", "8080", "127.0.0.1", "db.example:80", "127.0.0.1:65536", "127.0.0.1:http"] {
            assert!(listen_address(bad).is_err(), "{bad}");
        }
    }
}
